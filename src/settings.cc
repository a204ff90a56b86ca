#include "src/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "src/comm_id.h"
#include "src/environment.h"
#include "src/error.h"
#include "src/job.h"
#include "src/tune_file.h"

namespace rondo {
namespace {

struct ByteRange {
  long long least, most, unit;
  const char* expected;
};

template <std::size_t Settings::*field>
std::string number_text(const Settings& settings) {
  return std::to_string(settings.*field);
}

constexpr ByteRange stream_range{64, 1 << 30, 1, "a whole number of bytes from 64 to 1073741824"};
// A slice holds whole elements of every type.
constexpr ByteRange slice_range{64, 1 << 30, 8, "a multiple of 8 from 64 to 1073741824 (bytes)"};
constexpr ByteRange staging_range{0, 1 << 30, 1, "a whole number of bytes from 0 to 1073741824"};
constexpr ByteRange threshold_range{0, 1LL << 50, 1, "a whole number of bytes from 0 to 1125899906842624"};

template <std::size_t Settings::*field, const ByteRange& range>
void take_bytes(Settings& settings, const char* name, const std::string& value) {
  const long long bytes = whole_number(name, value, range.least, range.most, range.expected);
  if (bytes % range.unit != 0) bad_value(name, value, range.expected);
  settings.*field = static_cast<std::size_t>(bytes);
}

std::chrono::milliseconds seconds(const char* name, const std::string& value) {
  const char* expected = "seconds, such as 600 or 0.5, at most 1000000; 0 means never";
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [stopped, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stopped != end || !(number >= 0 && number <= 1e6))
    bad_value(name, value, expected);
  return std::chrono::milliseconds(static_cast<long long>(std::ceil(number * 1000)));
}

std::string seconds_text(const Settings& settings) {
  if (settings.timeout.count() == 0) return "0 (never)";
  return fmt::format("{} s", static_cast<double>(settings.timeout.count()) / 1000);
}

bool flag(const char* name, const std::string& value) {
  if (value == "1") return true;
  if (value == "0") return false;
  bad_value(name, value, "0 or 1");
}

std::string debug_level(const char* name, const std::string& value) {
  for (const char* level : {"off", "error", "warn", "info", "debug", "trace"})
    if (value == level) return value;
  bad_value(name, value, "off, error, warn, info, debug or trace");
}

// Which of them there are is known when a communicator over several hosts is made.
std::string device_list(const char* name, const std::string& value) {
  if (value.empty()) bad_value(name, value, "names of network devices, such as eth0,eth1");
  return value;
}

constexpr Variable all_variables[] = {
    {"RONDO_ALGO", forcible_names,
     [](Settings& s, const char* name, const std::string& value) {
       s.algorithm = parse_algorithm(name, value);
     },
     [](const Settings& s) { return std::string(name_of(s.algorithm)); }, nullptr},
    {"RONDO_BUFFER_BYTES", "stream between two ranks", take_bytes<&Settings::buffer_bytes, stream_range>,
     number_text<&Settings::buffer_bytes>, nullptr},
    {"RONDO_SLICE_BYTES", "unit of pipelining", take_bytes<&Settings::slice_bytes, slice_range>,
     number_text<&Settings::slice_bytes>, nullptr},
    {"RONDO_STAGING_BYTES", "each rank's staging area", take_bytes<&Settings::staging_bytes, staging_range>,
     number_text<&Settings::staging_bytes>, &Settings::staging_bytes},
    {"RONDO_STAGED_GATHER_ABOVE", "smaller all-gathers go over streams",
     take_bytes<&Settings::staged_gather_above, threshold_range>, number_text<&Settings::staged_gather_above>,
     &Settings::staged_gather_above},
    {"RONDO_STAGED_REDUCE_ABOVE", "smaller reductions go over streams",
     take_bytes<&Settings::staged_reduce_above, threshold_range>, number_text<&Settings::staged_reduce_above>,
     &Settings::staged_reduce_above},
    {"RONDO_WINDOWS_STREAMING_ABOVE", "larger calls on windows store past the caches",
     take_bytes<&Settings::windows_streaming_above, threshold_range>,
     number_text<&Settings::windows_streaming_above>, &Settings::windows_streaming_above},
    {"RONDO_STAGED_STREAMING_ABOVE", "larger staged calls store past the caches",
     take_bytes<&Settings::staged_streaming_above, threshold_range>,
     number_text<&Settings::staged_streaming_above>, &Settings::staged_streaming_above},
    {"RONDO_TIMEOUT", "deadline of a call and of the start",
     [](Settings& s, const char* name, const std::string& value) { s.timeout = seconds(name, value); },
     seconds_text, nullptr},
    {"RONDO_STRICT", "a byte off the formula fails the call",
     [](Settings& s, const char* name, const std::string& value) { s.strict = flag(name, value); },
     [](const Settings& s) { return std::string(s.strict ? "1" : "0"); }, nullptr},
    {"RONDO_CHECK", "ranks of several hosts compare their calls",
     [](Settings& s, const char* name, const std::string& value) { s.check = flag(name, value); },
     [](const Settings& s) { return std::string(s.check ? "1" : "0"); }, nullptr},
    {"RONDO_DEVICE_STAGING", "calls on device memory go by the host",
     [](Settings& s, const char* name, const std::string& value) { s.device_staging = flag(name, value); },
     [](const Settings& s) { return std::string(s.device_staging ? "1" : "0"); }, nullptr},
    {"RONDO_NET_DEVICES", "UCX's network devices",
     [](Settings& s, const char* name, const std::string& value) {
       s.net_devices = device_list(name, value);
     },
     [](const Settings& s) { return s.net_devices.empty() ? std::string("all") : s.net_devices; }, nullptr},
    {"RONDO_DEBUG", "what is logged to stderr",
     [](Settings& s, const char* name, const std::string& value) { s.debug = debug_level(name, value); },
     [](const Settings& s) { return s.debug; }, nullptr}};

static_assert(std::count_if(std::begin(all_variables), std::end(all_variables),
                            [](const Variable& one) { return one.tuned != nullptr; }) == tuned_count);

void take_environment(Settings& settings) {
  for (const Variable& variable : all_variables)
    if (const auto value = value_of(variable.name)) {
      variable.take(settings, variable.name, *value);
      settings.origins[variable.name] = Origin::environment;
    }
}

void take_tune_file(Settings& settings) {
  const auto path = tune_file_to_read();
  if (!path) return;
  const TuneFile file = read_tune_file(*path);
  settings.tune_file = path->string();
  settings.tune_file_ignored = why_foreign(file);
  if (!settings.tune_file_ignored.empty()) return;
  file.give(settings);
}

std::string needed(const char* name) {
  const auto value = value_of(name);
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
    case Algorithm::one_shot:
      return "one-shot";
    case Algorithm::doubling:
      return "doubling";
    case Algorithm::tree:
      return "tree";
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
  for (const Algorithm algorithm : forcible)
    if (value == name_of(algorithm)) return algorithm;
  bad_value(source.c_str(), value, forcible_names);
}

const char* name_of(Origin origin) {
  switch (origin) {
    case Origin::standard:
      return "default";
    case Origin::tune_file:
      return "tune file";
    case Origin::environment:
      return "environment";
  }
  return "?";
}

std::span<const Variable> variables() { return all_variables; }

Origin Settings::origin_of(const std::string& variable) const {
  const auto found = origins.find(variable);
  return found == origins.end() ? Origin::standard : found->second;
}

Settings Settings::from_environment() {
  Settings settings;
  take_tune_file(settings);
  take_environment(settings);
  return settings;
}

Settings Settings::from_environment_alone() {
  Settings settings;
  take_environment(settings);
  return settings;
}

bool LaunchEnvironment::is_there() {
  return (value_of("RANK") && value_of("WORLD_SIZE")) || job_of_launcher();
}

LaunchEnvironment LaunchEnvironment::read() {
  LaunchEnvironment launch;
  const int most = std::numeric_limits<int>::max();
  const bool has_own = value_of("RANK") || value_of("WORLD_SIZE");
  const std::optional<Job> job = has_own ? std::nullopt : job_of_launcher();
  if (job) {
    launch.rank = job->rank;
    launch.size = job->size;
    launch.secret = value_of("RONDO_SECRET").value_or("");
    if (!value_of("MASTER_ADDR") && !job->one_host)
      fail(
          ErrorKind::invalid_argument,
          "rank {} of {}, started by {} on several hosts: expected MASTER_ADDR and MASTER_PORT, where rank 0 "
          "can be reached",
          job->rank, job->size, job->launcher);
    if (!value_of("MASTER_ADDR")) {
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
  if (const auto value = value_of("RONDO_MASTER_PORT")) {
    launch.master_port =
        static_cast<int>(whole_number("RONDO_MASTER_PORT", *value, 1, 65535, "a port, 1 to 65535"));
  } else {
    // One below the last port, since ours is the next one.
    launch.master_port = 1 + static_cast<int>(whole_number("MASTER_PORT", needed("MASTER_PORT"), 1, 65534,
                                                           "a port, 1 to 65534 (ours is the next one)"));
  }
  launch.secret = value_of("RONDO_SECRET").value_or("");
  if (const auto value = value_of("RONDO_LISTEN_FD"))
    launch.listen_fd =
        static_cast<int>(whole_number("RONDO_LISTEN_FD", *value, 3, most, "an open descriptor"));
  return launch;
}

std::optional<Endpoint> comm_id_endpoint() {
  const auto value = value_of("RONDO_COMM_ID");
  if (!value) return std::nullopt;
  const char* expected = "host:port of at most 39 bytes, such as 10.0.0.1:29400: where rank 0 is to listen";
  const auto colon = value->rfind(':');
  if (colon == std::string::npos || colon == 0 || value->size() > 39)
    bad_value("RONDO_COMM_ID", *value, expected);
  const auto port = whole_number("RONDO_COMM_ID", value->substr(colon + 1), 1, 65535, expected);
  return Endpoint{.unix_name = {}, .host = value->substr(0, colon), .port = static_cast<int>(port)};
}

}  // namespace rondo
