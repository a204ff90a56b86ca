#include "src/tune_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "include/rondo/rondo.h"
#include "src/error.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

// A value of the file and where it stands there, for messages: "tune.json: machine.cores".
class Node {
 public:
  Node(const Json& value, std::string place) : value_(value), place_(std::move(place)) {}

  [[noreturn]] void refuse(const std::string& expected) const {
    fail(ErrorKind::invalid_argument, "{}: {}: expected {}", place_, value_.dump(), expected);
  }

  [[noreturn]] void fail_with(const char* why) const {
    fail(ErrorKind::invalid_argument, "{}: {}", place_, why);
  }

  void need_keys(std::initializer_list<const char*> keys) const {
    need_object();
    for (const char* key : keys)
      if (!value_.contains(key)) fail(ErrorKind::invalid_argument, "{}: \"{}\" is missing", place_, key);
    for (const auto& [key, value] : value_.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end())
        fail(ErrorKind::invalid_argument, "{}: \"{}\": expected no key but {}", place_, key,
             fmt::join(keys, ", "));
  }
  void need_object() const {
    if (!value_.is_object()) refuse("an object");
  }

  Node operator[](const char* key) const { return {value_.at(key), fmt::format("{}: {}", place_, key)}; }

  std::string text() const {
    if (!value_.is_string()) refuse("a text");
    return value_.get<std::string>();
  }
  std::string one_of(std::initializer_list<const char*> words) const {
    const std::string is = text();
    if (std::find(words.begin(), words.end(), is) == words.end())
      refuse(fmt::format("{}", fmt::join(words, ", ")));
    return is;
  }
  std::size_t number() const {
    if (!value_.is_number_unsigned()) refuse("a whole number");
    return value_.get<std::size_t>();
  }
  double positive() const {
    if (!value_.is_number() || !(value_.get<double>() > 0)) refuse("a number above 0");
    return value_.get<double>();
  }

  template <typename Visit>
  void for_each_key(Visit visit) const {
    need_object();
    for (const auto& [key, value] : value_.items())
      visit(key, Node(value, fmt::format("{}: {}", place_, key)));
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    if (!value_.is_array()) refuse("a list");
    for (std::size_t i = 0; i < value_.size(); ++i) visit(Node(value_[i], fmt::format("{}[{}]", place_, i)));
  }

 private:
  const Json& value_;
  std::string place_;
};

Json parse_json(const std::string& text, const std::string& name) {
  try {
    return Json::parse(text);
  } catch (const Json::out_of_range& error) {
    fail(ErrorKind::invalid_argument, "{}: {}: run `rondo tune` again, or remove it", name, error.what());
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    const auto line = std::count(text.begin(), end, '\n') + 1;
    fail(ErrorKind::invalid_argument,
         "{}: line {}, byte {}: no JSON there: run `rondo tune` again, or remove it", name, line, error.byte);
  }
}

Machine machine_from(const Node& node) {
  node.need_keys({"cpu", "cores", "l2_bytes", "l3_bytes"});
  return {node["cpu"].text(), static_cast<int>(node["cores"].number()), node["l2_bytes"].number(),
          node["l3_bytes"].number()};
}

std::map<std::string, std::size_t> settings_from(const Node& node) {
  std::map<std::string, std::size_t> settings;
  node.for_each_key([&](const std::string& name, const Node& value) {
    const auto all = variables();
    const auto variable = std::find_if(all.begin(), all.end(), [&](const Variable& one) {
      return one.tuned != nullptr && one.name == name;
    });
    if (variable == all.end()) value.refuse("no such key: it is no setting that is tuned");
    settings[name] = value.number();
    try {
      Settings trial;
      variable->take(trial, variable->name, std::to_string(settings[name]));
    } catch (const Error& error) {
      value.fail_with(error.what());
    }
  });
  return settings;
}

TunedTimes times_from(const Node& node) {
  node.need_keys({"collective", "buffers", "ranks", "microseconds"});
  TunedTimes times{node["collective"].one_of({"all-reduce", "all-gather", "reduce-scatter"}),
                   node["buffers"].one_of({"malloc", "rondo"}),
                   static_cast<int>(node["ranks"].number()),
                   {}};
  node["microseconds"].for_each([&](const Node& point) {
    point.need_keys({"bytes", "median"});
    times.microseconds[point["bytes"].number()] = point["median"].positive();
  });
  return times;
}

std::optional<std::string> folder_from(const char* variable) {
  const char* value = std::getenv(variable);
  // Relative ones are to be ignored, says the specification of these folders.
  return value != nullptr && *value == '/' ? std::optional(std::string(value)) : std::nullopt;
}

}  // namespace

std::string rondo_version() { return fmt::format("{}.{}.{}", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH); }

void TuneFile::give(Settings& to) const {
  for (const Variable& variable : variables())
    if (const auto found = settings.find(variable.name); found != settings.end()) {
      variable.take(to, variable.name, std::to_string(found->second));
      to.origins[variable.name] = Origin::tune_file;
    }
}

std::string TuneFile::text() const {
  Json all{{"rondo", rondo},
           {"date", date},
           {"machine",
            {{"cpu", machine.cpu},
             {"cores", machine.cores},
             {"l2_bytes", machine.l2_bytes},
             {"l3_bytes", machine.l3_bytes}}},
           {"settings", Json::object()},
           {"times", Json::array()}};
  for (const auto& [name, value] : settings) all["settings"][name] = value;
  for (const TunedTimes& one : times) {
    Json points = Json::array();
    for (const auto& [bytes, median] : one.microseconds)
      points.push_back({{"bytes", bytes}, {"median", median}});
    all["times"].push_back({{"collective", one.collective},
                            {"buffers", one.buffers},
                            {"ranks", one.ranks},
                            {"microseconds", points}});
  }
  return all.dump(1) + "\n";
}

TuneFile parse_tune_file(const std::string& text, const std::string& name) {
  const Json json = parse_json(text, name);
  const Node root(json, name);
  root.need_object();
  TuneFile file;
  if (json.contains("rondo")) file.rondo = root["rondo"].text();
  if (!file.rondo.empty() && file.rondo != rondo_version()) return file;
  root.need_keys({"rondo", "date", "machine", "settings", "times"});
  file.date = root["date"].text();
  file.machine = machine_from(root["machine"]);
  file.settings = settings_from(root["settings"]);
  root["times"].for_each([&](const Node& one) { file.times.push_back(times_from(one)); });
  return file;
}

TuneFile read_tune_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    fail(ErrorKind::invalid_argument, "{}: {}: expected a file of `rondo tune`, or RONDO_TUNE_FILE=none",
         path.string(), std::strerror(errno));
  return parse_tune_file(text.str(), path.string());
}

std::string why_foreign(const TuneFile& file) {
  if (file.rondo != rondo_version())
    return fmt::format("Rondo {} made it, and this is {}", file.rondo, rondo_version());
  const Machine& here = this_machine();
  if (file.machine.cpu != here.cpu)
    return fmt::format("it was made on another CPU, {}; this is {}", file.machine.cpu, here.cpu);
  if (file.machine.cores != here.cores)
    return fmt::format("it was made with {} cores, and here are {}", file.machine.cores, here.cores);
  return "";
}

std::filesystem::path standard_tune_file() {
  const std::filesystem::path file = "rondo/tune.json";
  if (const auto folder = folder_from("XDG_CONFIG_HOME")) return *folder / file;
  if (const auto home = folder_from("HOME")) return std::filesystem::path(*home) / ".config" / file;
  return {};
}

std::optional<std::filesystem::path> tune_file_to_read() {
  if (const char* named = std::getenv("RONDO_TUNE_FILE")) {
    const std::string name = named;
    if (name.empty())
      fail(ErrorKind::invalid_argument, "RONDO_TUNE_FILE=\"\": expected a file of `rondo tune`, or \"none\"");
    return name == "none" ? std::nullopt : std::optional(std::filesystem::path(name));
  }
  const std::filesystem::path standard = standard_tune_file();
  std::error_code no_access;
  if (standard.empty() || !std::filesystem::exists(standard, no_access)) return std::nullopt;
  return standard;
}

}  // namespace rondo
