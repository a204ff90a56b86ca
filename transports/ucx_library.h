// UCX, loaded when the first communicator of this process spans hosts and not before: to be loaded changes a
// program. UCX patches mmap and its like to watch memory, and takes signals for itself.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>
#include <uct/api/uct.h>

namespace rondo {

// Its functions, by their own names.
struct UcxLibrary {
  UcxLibrary();

  decltype(&::ucp_get_version) ucp_get_version;
  decltype(&::ucp_config_read) ucp_config_read;
  decltype(&::ucp_config_modify) ucp_config_modify;
  decltype(&::ucp_config_release) ucp_config_release;
  decltype(&::ucp_init_version) ucp_init_version;
  decltype(&::ucp_cleanup) ucp_cleanup;
  decltype(&::ucp_worker_create) ucp_worker_create;
  decltype(&::ucp_worker_destroy) ucp_worker_destroy;
  decltype(&::ucp_worker_get_efd) ucp_worker_get_efd;
  decltype(&::ucp_worker_set_am_recv_handler) ucp_worker_set_am_recv_handler;
  decltype(&::ucp_worker_get_address) ucp_worker_get_address;
  decltype(&::ucp_worker_release_address) ucp_worker_release_address;
  decltype(&::ucp_worker_progress) ucp_worker_progress;
  decltype(&::ucp_worker_arm) ucp_worker_arm;
  decltype(&::ucp_worker_flush_nbx) ucp_worker_flush_nbx;
  decltype(&::ucp_ep_create) ucp_ep_create;
  decltype(&::ucp_ep_close_nbx) ucp_ep_close_nbx;
  decltype(&::ucp_am_send_nbx) ucp_am_send_nbx;
  decltype(&::ucp_tag_send_nbx) ucp_tag_send_nbx;
  decltype(&::ucp_tag_recv_nbx) ucp_tag_recv_nbx;
  decltype(&::ucp_tag_probe_nb) ucp_tag_probe_nb;
  decltype(&::ucp_tag_msg_recv_nbx) ucp_tag_msg_recv_nbx;
  decltype(&::ucp_request_free) ucp_request_free;
  decltype(&::ucp_request_cancel) ucp_request_cancel;
  decltype(&::ucp_request_check_status) ucp_request_check_status;
  decltype(&::ucs_status_string) ucs_status_string;
  decltype(&::ucs_log_push_handler) ucs_log_push_handler;
  decltype(&::ucs_debug_disable_signal) ucs_debug_disable_signal;
  decltype(&::uct_query_components) uct_query_components;
  decltype(&::uct_release_component_list) uct_release_component_list;
  decltype(&::uct_component_query) uct_component_query;
  decltype(&::uct_md_config_read) uct_md_config_read;
  decltype(&::uct_config_release) uct_config_release;
  decltype(&::uct_md_open) uct_md_open;
  decltype(&::uct_md_close) uct_md_close;
  decltype(&::uct_md_query_tl_resources) uct_md_query_tl_resources;
  decltype(&::uct_release_tl_resource_list) uct_release_tl_resource_list;
};

// Throws where it cannot be loaded, or is older than the headers that Rondo was built with.
const UcxLibrary& ucx();

}  // namespace rondo
