#include "src/settings.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "src/comm_id.h"
#include "src/error.h"
#include "src/job.h"

namespace rondo {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

[[noreturn]] void bad_value(const char* name, const std::string& value, const char* expected) {
  fail(ErrorKind::invalid_argument, "{}=\"{}\": expected {}", name, value, expected);
}

// The whole text must be a number: no blanks, no sign, no suffix, whatever errno was before.
long long whole_number(const char* name, const std::string& value, long long low, long long high,
                       const char* expected) {
  long long number = 0;
  const char* end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stopped != end || number < low || number > high)
    bad_value(name, value, expected);
  return number;
}

std::size_t byte_count(const char* name, std::size_t fallback, long long unit, const char* expected,
                       long long low = 64) {
  const auto value = variable(name);
  if (!value) return fallback;
  const long long bytes = whole_number(name, *value, low, 1 << 30, expected);
  if (bytes % unit != 0) bad_value(name, *value, expected);
  return static_cast<std::size_t>(bytes);
}

std::chrono::milliseconds seconds(const char* name, std::chrono::milliseconds fallback) {
  const auto value = variable(name);
  if (!value) return fallback;
  const char* expected = "seconds, such as 600 or 0.5, at most 1000000; 0 means never";
  double number = 0;
  const char* end = value->data() + value->size();
  const auto [stopped, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stopped != end || !(number >= 0 && number <= 1e6))
    bad_value(name, *value, expected);
  return std::chrono::milliseconds(static_cast<long long>(std::ceil(number * 1000)));
}

bool flag(const char* name, bool fallback) {
  const auto value = variable(name);
  if (!value) return fallback;
  if (*value == "1") return true;
  if (*value == "0") return false;
  bad_value(name, *value, "0 or 1");
}

std::string debug_level() {
  const auto value = variable("RONDO_DEBUG");
  if (!value) return "warn";
  for (const char* level : {"off", "error", "warn", "info", "debug", "trace"})
    if (*value == level) return *value;
  bad_value("RONDO_DEBUG", *value, "off, error, warn, info, debug or trace");
}

// Which of them there are is known when a communicator over several hosts is made.
std::string device_list() {
  const auto value = variable("RONDO_NET_DEVICES");
  if (value && value->empty())
    bad_value("RONDO_NET_DEVICES", *value, "names of network devices, such as eth0,eth1");
  return value.value_or("");
}

std::string needed(const char* name) {
  const auto value = variable(name);
  if (!value)
    fail(ErrorKind::invalid_argument,
         "{} is not set: start the ranks with `rondo run -n N -- PROGRAM`, torchrun, mpirun or srun, or set "
         "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
         name);
  return *value;
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::automatic:
      return "auto";
    case Algorithm::ring:
      return "ring";
    case Algorithm::direct:
      return "direct";
    case Algorithm::windows:
      return "windows";
    case Algorithm::slots:
      return "slots";
    case Algorithm::staged:
      return "staged";
    case Algorithm::hierarchy:
      return "hierarchy";
  }
  return "?";
}

Algorithm parse_algorithm(const std::string& source, const std::string& value) {
  for (Algorithm algorithm : {Algorithm::automatic, Algorithm::ring, Algorithm::direct})
    if (value == name_of(algorithm)) return algorithm;
  bad_value(source.c_str(), value, "auto, ring or direct");
}

Settings Settings::from_environment() {
  Settings settings;
  if (const auto value = variable("RONDO_ALGO")) settings.algorithm = parse_algorithm("RONDO_ALGO", *value);
  settings.buffer_bytes = byte_count("RONDO_BUFFER_BYTES", settings.buffer_bytes, 1,
                                     "a whole number of bytes from 64 to 1073741824");
  // A slice holds whole elements of every type.
  settings.slice_bytes = byte_count("RONDO_SLICE_BYTES", settings.slice_bytes, 8,
                                    "a multiple of 8 from 64 to 1073741824 (bytes)");
  settings.staging_bytes = byte_count("RONDO_STAGING_BYTES", settings.staging_bytes, 1,
                                      "a whole number of bytes from 0 to 1073741824", 0);
  settings.timeout = seconds("RONDO_TIMEOUT", settings.timeout);
  settings.strict = flag("RONDO_STRICT", settings.strict);
  settings.check = flag("RONDO_CHECK", settings.check);
  settings.net_devices = device_list();
  settings.debug = debug_level();
  return settings;
}

bool LaunchEnvironment::is_there() {
  return (variable("RANK") && variable("WORLD_SIZE")) || job_of_launcher();
}

LaunchEnvironment LaunchEnvironment::read() {
  LaunchEnvironment launch;
  const int most = std::numeric_limits<int>::max();
  const bool has_own = variable("RANK") || variable("WORLD_SIZE");
  const std::optional<Job> job = has_own ? std::nullopt : job_of_launcher();
  if (job) {
    launch.rank = job->rank;
    launch.size = job->size;
    launch.secret = variable("RONDO_SECRET").value_or("");
    if (!variable("MASTER_ADDR") && !job->one_host)
      fail(
          ErrorKind::invalid_argument,
          "rank {} of {}, started by {} on several hosts: expected MASTER_ADDR and MASTER_PORT, where rank 0 "
          "can be reached",
          job->rank, job->size, job->launcher);
    if (!variable("MASTER_ADDR")) {
      launch.job = job->id;
      return launch;
    }
  } else {
    launch.size =
        static_cast<int>(whole_number("WORLD_SIZE", needed("WORLD_SIZE"), 1, most, "the number of ranks"));
    launch.rank = static_cast<int>(
        whole_number("RANK", needed("RANK"), 0, launch.size - 1, "a rank from 0 to WORLD_SIZE - 1"));
  }
  launch.master_address = needed("MASTER_ADDR");
  if (const auto value = variable("RONDO_MASTER_PORT")) {
    launch.master_port =
        static_cast<int>(whole_number("RONDO_MASTER_PORT", *value, 1, 65535, "a port, 1 to 65535"));
  } else {
    // One below the last port, since ours is the next one.
    launch.master_port = 1 + static_cast<int>(whole_number("MASTER_PORT", needed("MASTER_PORT"), 1, 65534,
                                                           "a port, 1 to 65534 (ours is the next one)"));
  }
  launch.secret = variable("RONDO_SECRET").value_or("");
  if (const auto value = variable("RONDO_LISTEN_FD"))
    launch.listen_fd =
        static_cast<int>(whole_number("RONDO_LISTEN_FD", *value, 3, most, "an open descriptor"));
  return launch;
}

std::optional<Endpoint> comm_id_endpoint() {
  const auto value = variable("RONDO_COMM_ID");
  if (!value) return std::nullopt;
  const char* expected = "host:port of at most 39 bytes, such as 10.0.0.1:29400: where rank 0 is to listen";
  const auto colon = value->rfind(':');
  if (colon == std::string::npos || colon == 0 || value->size() > 39)
    bad_value("RONDO_COMM_ID", *value, expected);
  const auto port = whole_number("RONDO_COMM_ID", value->substr(colon + 1), 1, 65535, expected);
  return Endpoint{.unix_name = {}, .host = value->substr(0, colon), .port = static_cast<int>(port)};
}

}  // namespace rondo
