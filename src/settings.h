// Every environment variable of Rondo, read in this one place (docs/tuning.md lists them). A bad value is an
// Error that names the variable, the value and what was expected.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "src/machine.h"

namespace rondo {

// A setting forces one of the first, for the kinds of calls that have it. Direct calls are carried out in one
// of four ways, with the same bits: beside the descriptors where they are small (slots), on memory that peers
// can map (windows), through memory set aside for this (staged), or over streams (direct). Between hosts
// there is a hierarchy of both besides.
enum class Algorithm { automatic, ring, direct, one_shot, doubling, tree, slots, windows, staged, hierarchy };
inline constexpr Algorithm forcible[] = {Algorithm::automatic, Algorithm::ring,     Algorithm::direct,
                                         Algorithm::one_shot,  Algorithm::doubling, Algorithm::tree};
inline constexpr const char* forcible_names = "auto, ring, direct, one-shot, doubling or tree";
const char* name_of(Algorithm algorithm);
Algorithm parse_algorithm(const std::string& source, const std::string& value);

// Where a setting's value comes from.
enum class Origin { standard, tune_file, environment };
const char* name_of(Origin origin);  // "default", "tune file" or "environment"

struct Settings {
  Algorithm algorithm = Algorithm::automatic;  // RONDO_ALGO
  std::size_t buffer_bytes = 128 * 1024;       // RONDO_BUFFER_BYTES: stream between two ranks
  std::size_t slice_bytes = 32 * 1024;         // RONDO_SLICE_BYTES: unit of pipelining
  // RONDO_STAGING_BYTES: each rank's staging area; 0: none. It holds two rounds, of an L2 each.
  std::size_t staging_bytes = 2 * this_machine().l2_bytes;
  std::size_t staged_gather_above = 0;  // RONDO_STAGED_GATHER_ABOVE: smaller ones go over streams
  std::size_t staged_reduce_above = 0;  // RONDO_STAGED_REDUCE_ABOVE: the same of what reduces
  // RONDO_WINDOWS_STREAMING_ABOVE, RONDO_STAGED_STREAMING_ABOVE: bytes that a call touches on all ranks
  // together, from which on outputs are stored past the caches
  std::size_t windows_streaming_above = this_machine().l3_bytes;
  std::size_t staged_streaming_above = this_machine().l3_bytes / 2;
  std::chrono::milliseconds timeout{10 * 60 * 1000};  // RONDO_TIMEOUT, in seconds; 0: never
  bool strict = false;                                // RONDO_STRICT
  bool check = false;           // RONDO_CHECK: ranks of several hosts compare their calls before a byte moves
  bool device_staging = false;  // RONDO_DEVICE_STAGING: calls on device memory go by the host
  std::string net_devices;      // RONDO_NET_DEVICES: of UCX, "a,b"; empty: all
  std::string debug = "warn";   // RONDO_DEBUG

  std::map<std::string, Origin> origins;  // by variable, of those that are not standard
  std::string tune_file;                  // that RONDO_TUNE_FILE or the user's folders name, if it is there
  std::string tune_file_ignored;          // why it is not in force; empty: it is

  Origin origin_of(const std::string& variable) const;

  // From the environment, then the tune file (src/tune_file.h), then the defaults.
  static Settings from_environment();
  // The same without a tune file.
  static Settings from_environment_alone();
};

// One row for each variable that sets a Setting.
struct Variable {
  const char* name;
  const char* meaning;
  // Throws if it is a bad value; `name` stands in the message.
  void (*take)(Settings& settings, const char* name, const std::string& value);
  std::string (*text)(const Settings& settings);
  std::size_t Settings::*tuned;  // what a tune file may set too; null: it may not
};
std::span<const Variable> variables();
inline constexpr std::size_t tuned_count = 5;

// What a launcher tells its children: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and ours beside them; or
// rank and size as mpirun or srun tell them (src/job.h).
struct LaunchEnvironment {
  int rank;
  int size;
  std::string job;             // of mpirun or srun on this host, where MASTER_ADDR is not set; else empty
  std::string master_address;  // empty: ranks meet by the job's name
  int master_port = 0;         // RONDO_MASTER_PORT, else MASTER_PORT + 1, which torchrun's store leaves free
  std::string secret;          // RONDO_SECRET, may be empty
  std::optional<int> listen_fd;  // RONDO_LISTEN_FD: rank 0's listening socket, already bound by `rondo run`

  // Whether a launcher has started this process: RANK and WORLD_SIZE are set, or those of mpirun or srun.
  static bool is_there();
  static LaunchEnvironment read();
};

}  // namespace rondo
