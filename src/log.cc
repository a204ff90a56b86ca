#include "src/log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace rondo {

spdlog::logger& logger() {
  // Not in spdlog's registry: the program that uses Rondo may use spdlog in its own way.
  // Never destroyed: the progress thread may outlive static objects.
  static spdlog::logger* const instance = [] {
    auto* made = new spdlog::logger("rondo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %P rondo %l: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

void set_log_level(const std::string& level) { logger().set_level(spdlog::level::from_str(level)); }

}  // namespace rondo
