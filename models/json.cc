#include "models/json.h"

#include <set>
#include <vector>

#include "models/mapped_file.h"
#include "src/error.h"

namespace rondo {
namespace {

using nlohmann::json;

// Each level of a value costs far more memory than its one byte of text.
constexpr std::size_t depth_limit = 32;

// Looks at a value while it is parsed: once it is, of two equal keys only one is left.
class Inspector {
 public:
  explicit Inspector(const std::string& source) : source_(source) {}

  void see(json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (keys_.size() == depth_limit) {
          fail(ErrorKind::invalid_argument, "{}: JSON values nest more than {} deep", source_, depth_limit);
        }
        keys_.emplace_back();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        see_key(parsed.get_ref<const std::string&>());
        break;
      case json::parse_event_t::value:
        break;
    }
  }

 private:
  void see_key(const std::string& key) {
    if (!keys_.back().insert(key).second) {
      fail(ErrorKind::invalid_argument, "{}: the key '{:.200}' stands twice in one JSON object", source_,
           key);
    }
  }

  const std::string& source_;
  std::vector<std::set<std::string>> keys_;  // of every object or array that is open
};

}  // namespace

json parse_json(std::string_view text, const std::string& source) {
  Inspector inspector(source);
  const auto callback = [&inspector](int, json::parse_event_t event, json& parsed) {
    inspector.see(event, parsed);
    return true;
  };
  try {
    return json::parse(text, callback);
  } catch (const json::exception& error) {
    // The message quotes the text read last, which may be megabytes.
    fail(ErrorKind::invalid_argument, "{}: not valid JSON: {:.200}", source, error.what());
  }
}

json read_json_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_json(file.text(), path.string());
}

}  // namespace rondo
