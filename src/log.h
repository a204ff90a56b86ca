// Logging to stderr with the levels of RONDO_DEBUG: off, error, warn (default), info, debug, trace.
#pragma once

#include <spdlog/spdlog.h>

#include <string>

namespace rondo {

// The logger of the process, made on first use. Safe from any thread.
spdlog::logger& logger();

void set_log_level(const std::string& level);

}  // namespace rondo
