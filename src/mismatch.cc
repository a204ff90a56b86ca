#include "src/mismatch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "src/call.h"

namespace rondo {
namespace {

// A field of a descriptor that must agree, and how to show it.
struct Field {
  const char* name;
  std::function<std::uint64_t(const CallDescriptor&)> value;
  std::function<std::string(const CallDescriptor&)> text;
};

const std::vector<Field>& fields() {
  using D = const CallDescriptor&;
  const auto number = [](auto value) { return [value](D d) { return fmt::format("{}", value(d)); }; };
  const auto count = [](D d) { return d.count; };
  const auto members = [](D d) -> std::uint64_t { return d.members; };
  const auto root = [](D d) -> std::uint64_t { return static_cast<std::uint64_t>(d.root); };
  // Never destroyed: the progress thread may outlive static objects.
  static const auto& all = *new std::vector<Field>{
      {"call", [](D d) -> std::uint64_t { return d.kind; },
       [](D d) { return std::string(name_of(static_cast<CallKind>(d.kind))); }},
      {"type", [](D d) -> std::uint64_t { return d.type; },
       [](D d) { return std::string(name_of(static_cast<DataType>(d.type))); }},
      {"operator", [](D d) -> std::uint64_t { return d.op; },
       [](D d) { return std::string(name_of(static_cast<ReduceOp>(d.op))); }},
      {"number of calls in the group", members, number(members)},
      {"count", count, number(count)},
      {"root", root, number(root)},
      {"counts of the ranks or of the group's calls", [](D d) { return d.shape; },
       [](D d) { return fmt::format("#{:x}", d.shape); }},
      {"factor", [](D d) { return d.scalar; }, [](D d) { return fmt::format("bits {:#x}", d.scalar); }}};
  return all;
}

}  // namespace

std::optional<std::string> difference(std::span<const CallDescriptor> by_rank) {
  for (const Field& field : fields()) {
    std::vector<std::pair<std::string, std::vector<int>>> camps;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& known) {
        return field.value(by_rank[static_cast<std::size_t>(known.second.front())]) ==
               field.value(by_rank[rank]);
      });
      if (camp != camps.end())
        camp->second.push_back(static_cast<int>(rank));
      else
        camps.push_back({field.text(by_rank[rank]), {static_cast<int>(rank)}});
    }
    if (camps.size() == 1) continue;
    std::vector<std::string> texts;
    for (const auto& [value, ranks] : camps)
      texts.push_back(fmt::format("{}: {}", list_of_ranks(ranks), value));
    return fmt::format("{} differs between ranks: {}", field.name, fmt::join(texts, "; "));
  }
  return std::nullopt;
}

std::string list_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace rondo
