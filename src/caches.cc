#include "src/caches.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>

namespace rondo {
namespace {

// As the kernel tells it of the CPU that we run on: the C library's answer may be that of all CPUs of the
// machine that lends us some.
std::size_t cache_bytes(int level, std::size_t otherwise) {
  const std::string folder =
      fmt::format("/sys/devices/system/cpu/cpu{}/cache/", std::max(0, ::sched_getcpu()));
  for (int index = 0;; ++index) {
    const std::string cache = fmt::format("{}index{}/", folder, index);
    std::ifstream level_file(cache + "level"), type_file(cache + "type"), size_file(cache + "size");
    int found = 0;
    std::string type;
    std::size_t kib = 0;
    if (!(level_file >> found)) return otherwise;
    if (found == level && type_file >> type && type != "Instruction" && size_file >> kib && kib > 0)
      return kib * 1024;
  }
}

}  // namespace

std::size_t shared_cache_bytes() {
  static const std::size_t bytes = cache_bytes(3, 32 << 20);
  return bytes;
}

Stores output_stores(CallKind kind, std::size_t all_bytes, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t touched = kind == CallKind::all_reduce ? 2 * ranks * all_bytes : (ranks + 1) * all_bytes;
  return touched > shared_cache_bytes() / 2 ? Stores::streaming : Stores::ordinary;
}

}  // namespace rondo
