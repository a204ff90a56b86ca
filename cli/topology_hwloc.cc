#include <fmt/format.h>
#include <hwloc.h>

#include <memory>
#include <type_traits>

#include "cli/topology.h"

namespace rondo {
namespace {

using Handle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

Handle load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return {nullptr, hwloc_topology_destroy};
  Handle handle(topology, hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) handle.reset();
  return handle;
}

// Objects of a type, none where the machine does not tell.
std::vector<hwloc_obj_t> objects(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> all;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;)
    all.push_back(object);
  return all;
}

Core cpus_of(hwloc_obj_t object) {
  Core cpus;
  unsigned cpu = 0;
  hwloc_bitmap_foreach_begin(cpu, object->cpuset) cpus.push_back(static_cast<int>(cpu));
  hwloc_bitmap_foreach_end();
  return cpus;
}

hwloc_obj_t group_of(hwloc_topology_t topology, hwloc_obj_t core) {
  for (const auto type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_PACKAGE})
    if (const hwloc_obj_t group = hwloc_get_ancestor_obj_by_type(topology, type, core)) return group;
  return nullptr;
}

std::vector<CacheGroup> cache_groups(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> cores = objects(topology, HWLOC_OBJ_CORE);
  if (cores.empty()) cores = objects(topology, HWLOC_OBJ_PU);
  std::vector<CacheGroup> groups;
  hwloc_obj_t last = nullptr;
  for (const hwloc_obj_t core : cores) {
    const hwloc_obj_t group = group_of(topology, core);
    if (groups.empty() || group != last) groups.emplace_back();
    groups.back().push_back(cpus_of(core));
    last = group;
  }
  return groups;
}

}  // namespace

std::optional<Topology> read_topology() {
  const Handle handle = load();
  if (!handle) return std::nullopt;
  const auto count = [&](hwloc_obj_type_t type) {
    return static_cast<int>(objects(handle.get(), type).size());
  };
  Topology found;
  found.packages = count(HWLOC_OBJ_PACKAGE);
  found.cores = count(HWLOC_OBJ_CORE);
  found.threads = count(HWLOC_OBJ_PU);
  found.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  int level = 1;
  for (const auto type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    const auto caches = objects(handle.get(), type);
    if (!caches.empty())
      found.caches.push_back({level, static_cast<int>(caches.size()), caches.front()->attr->cache.size});
    ++level;
  }
  found.cache_groups = cache_groups(handle.get());
  return found;
}

std::string hwloc_version() {
  const unsigned version = hwloc_get_api_version();
  return fmt::format("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff);
}

}  // namespace rondo
