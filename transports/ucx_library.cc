#include "transports/ucx_library.h"

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "src/error.h"
#include "src/log.h"

namespace rondo {
namespace {

// What UCX has to say goes where Rondo's own messages go. Its errors are none of the user's: that a peer has
// died is told by Rondo.
ucs_log_func_rc_t take_message(const char*, unsigned, const char*, ucs_log_level_t level,
                               const ucs_log_component_config_t*, const char* format, va_list arguments) {
  std::array<char, 512> text;
  std::vsnprintf(text.data(), text.size(), format, arguments);
  if (level == UCS_LOG_LEVEL_FATAL)
    logger().error("UCX: {}", text.data());
  else if (level <= UCS_LOG_LEVEL_WARN)
    logger().info("UCX: {}", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

// UCX takes some signals when it is loaded. They are the program's.
class SignalsBefore {
 public:
  SignalsBefore() {
    for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, nullptr, &at(signal));
  }
  ~SignalsBefore() {
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction now {};
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != at(signal).sa_handler)
        ::sigaction(signal, &at(signal), nullptr);
    }
  }
  SignalsBefore(const SignalsBefore&) = delete;
  SignalsBefore& operator=(const SignalsBefore&) = delete;

 private:
  struct sigaction& at(int signal) {
    return actions_[static_cast<std::size_t>(signal)];
  }
  std::array<struct sigaction, NSIG> actions_{};
};

namespace {

// UCX keeps to what a program was built with within a major version, and only forwards: functions of an older
// library may not know all that newer headers let one ask for.
void need_version(const UcxLibrary& library) {
  unsigned major = 0, minor = 0, release = 0;
  library.ucp_get_version(&major, &minor, &release);
  if (major == UCP_API_MAJOR && minor >= UCP_API_MINOR) return;
  Dl_info from{};
  ::dladdr(reinterpret_cast<void*>(library.ucp_get_version), &from);
  fail(ErrorKind::system,
       "the ranks are on different hosts, and the UCX that joins hosts, {}, is version {}.{}.{}: Rondo was "
       "built with {}.{} and expected that or a later one of version {} (LD_LIBRARY_PATH says where it is "
       "looked for first)",
       from.dli_fname == nullptr ? "libucp.so.0" : from.dli_fname, major, minor, release, UCP_API_MAJOR,
       UCP_API_MINOR, UCP_API_MAJOR);
}

}  // namespace

UcxLibrary::UcxLibrary() {
  const SignalsBefore signals;
  void* const library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(ErrorKind::system,
         "the ranks are on different hosts, and UCX, which joins hosts, cannot be loaded: {}", ::dlerror());
  const auto find = [&](auto& function, const char* name) {
    void* const found = ::dlsym(library, name);
    if (found == nullptr) fail(ErrorKind::system, "the UCX that was loaded lacks {}", name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(ucp_get_version, "ucp_get_version");
  need_version(*this);
  find(ucp_config_read, "ucp_config_read");
  find(ucp_config_modify, "ucp_config_modify");
  find(ucp_config_release, "ucp_config_release");
  find(ucp_init_version, "ucp_init_version");
  find(ucp_cleanup, "ucp_cleanup");
  find(ucp_worker_create, "ucp_worker_create");
  find(ucp_worker_destroy, "ucp_worker_destroy");
  find(ucp_worker_get_efd, "ucp_worker_get_efd");
  find(ucp_worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  find(ucp_worker_get_address, "ucp_worker_get_address");
  find(ucp_worker_release_address, "ucp_worker_release_address");
  find(ucp_worker_progress, "ucp_worker_progress");
  find(ucp_worker_arm, "ucp_worker_arm");
  find(ucp_worker_flush_nbx, "ucp_worker_flush_nbx");
  find(ucp_ep_create, "ucp_ep_create");
  find(ucp_ep_close_nbx, "ucp_ep_close_nbx");
  find(ucp_am_send_nbx, "ucp_am_send_nbx");
  find(ucp_tag_send_nbx, "ucp_tag_send_nbx");
  find(ucp_tag_recv_nbx, "ucp_tag_recv_nbx");
  find(ucp_tag_probe_nb, "ucp_tag_probe_nb");
  find(ucp_tag_msg_recv_nbx, "ucp_tag_msg_recv_nbx");
  find(ucp_request_free, "ucp_request_free");
  find(ucp_request_cancel, "ucp_request_cancel");
  find(ucp_request_check_status, "ucp_request_check_status");
  find(ucs_status_string, "ucs_status_string");
  find(ucs_log_push_handler, "ucs_log_push_handler");
  find(ucs_debug_disable_signal, "ucs_debug_disable_signal");
  find(uct_query_components, "uct_query_components");
  find(uct_release_component_list, "uct_release_component_list");
  find(uct_component_query, "uct_component_query");
  find(uct_md_config_read, "uct_md_config_read");
  find(uct_config_release, "uct_config_release");
  find(uct_md_open, "uct_md_open");
  find(uct_md_close, "uct_md_close");
  find(uct_md_query_tl_resources, "uct_md_query_tl_resources");
  find(uct_release_tl_resource_list, "uct_release_tl_resource_list");
  if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_log_push_handler(take_message);
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
}

const UcxLibrary& ucx() {
  static const UcxLibrary library;
  return library;
}

}  // namespace rondo
