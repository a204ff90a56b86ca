#include "transports/ucx_devices.h"

#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "src/error.h"
#include "transports/ucx_library.h"

namespace rondo {
namespace {

using Names = std::set<std::string>;

std::vector<std::string> memory_domains(uct_component_h component) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (ucx().uct_component_query(component, &attributes) != UCS_OK) return {};
  std::vector<uct_md_resource_desc_t> found(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = found.data();
  if (ucx().uct_component_query(component, &attributes) != UCS_OK) return {};
  std::vector<std::string> names;
  for (const auto& domain : found) names.push_back(domain.md_name);
  return names;
}

// Devices that cannot be opened are no choice.
void add_devices(uct_component_h component, const std::string& domain, Names& names) {
  uct_md_config_t* config = nullptr;
  if (ucx().uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h opened = nullptr;
  const ucs_status_t status = ucx().uct_md_open(component, domain.c_str(), config, &opened);
  ucx().uct_config_release(config);
  if (status != UCS_OK) return;
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  if (ucx().uct_md_query_tl_resources(opened, &resources, &count) == UCS_OK) {
    for (unsigned index = 0; index < count; ++index)
      if (resources[index].dev_type == UCT_DEVICE_TYPE_NET) names.insert(resources[index].dev_name);
    ucx().uct_release_tl_resource_list(resources);
  }
  ucx().uct_md_close(opened);
}

Names network_devices() {
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (ucx().uct_query_components(&components, &count) != UCS_OK) return {};
  Names names;
  for (unsigned index = 0; index < count; ++index)
    for (const std::string& domain : memory_domains(components[index]))
      add_devices(components[index], domain, names);
  ucx().uct_release_component_list(components);
  return names;
}

}  // namespace

void need_network_devices(const std::string& list) {
  const Names names = network_devices();
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');)
    if (!names.contains(name))
      fail(ErrorKind::invalid_argument,
           "RONDO_NET_DEVICES=\"{}\": there is no network device \"{}\" here; expected some of: {}", list,
           name, fmt::join(names, ", "));
}

}  // namespace rondo
