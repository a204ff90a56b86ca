// What `rondo tune` has measured on a host: thresholds that differ from the defaults, and times. It changes
// how calls are carried out, never their bits.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/machine.h"
#include "src/settings.h"

namespace rondo {

// Medians of one collective on so many ranks, by the size of its whole buffer.
struct TunedTimes {
  std::string collective;  // as name_of(CallKind) has it
  std::string buffers;     // "malloc" or "rondo"
  int ranks;
  std::map<std::size_t, double> microseconds;
};

// Such as "0.1.0".
std::string rondo_version();

struct TuneFile {
  std::string rondo;  // the version that made it
  std::string date;
  Machine machine{};
  std::map<std::string, std::size_t> settings;  // by variable, of those that are tuned
  std::vector<TunedTimes> times;

  void give(Settings& settings) const;
  std::string text() const;
};

// Throws invalid_argument, and names the file and the place, for what is no tune file. Of a file of another
// version of Rondo only the version is read.
TuneFile parse_tune_file(const std::string& text, const std::string& name);
TuneFile read_tune_file(const std::filesystem::path& path);

// Why the file is not for this machine or this library. Empty: it is.
std::string why_foreign(const TuneFile& file);

// $XDG_CONFIG_HOME/rondo/tune.json or ~/.config/rondo/tune.json; empty where there is neither folder.
std::filesystem::path standard_tune_file();
// What RONDO_TUNE_FILE names, else the standard one if it is there. Nothing for RONDO_TUNE_FILE=none.
std::optional<std::filesystem::path> tune_file_to_read();

}  // namespace rondo
