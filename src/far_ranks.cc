#include "src/far_ranks.h"

#include <cstring>

namespace rondo {
namespace {

using namespace std::chrono_literals;

// How long a rank that fails stays to see its words off.
constexpr auto farewell_time = 200ms;

// What a rank sent before it ended is here after so many looks at the network, or was never sent.
constexpr int most_last_looks = 64;

}  // namespace

FarRanks::FarRanks(Network& network, const Hosts& hosts, int rank, Failed failed)
    : network_(network), hosts_(hosts), rank_(rank), failed_(std::move(failed)), ranks_(hosts.of.size()) {
  network_.on_word([this](int from, Bytes bytes) { hear(from, bytes); });
}

template <typename Visit>
void FarRanks::each(Visit visit) const {
  for (int peer = 0; peer < static_cast<int>(ranks_.size()); ++peer)
    if (!hosts_.together(peer, rank_)) visit(peer);
}

void FarRanks::tell(int peer, const Word& word, const std::string& text) {
  std::vector<std::byte> bytes(sizeof word + text.size());
  std::memcpy(bytes.data(), &word, sizeof word);
  std::memcpy(bytes.data() + sizeof word, text.data(), text.size());
  network_.tell(peer, bytes);
}

void FarRanks::hear(int from, Bytes bytes) {
  Word word{};
  if (bytes.size() < sizeof word) return;
  std::memcpy(&word, bytes.data(), sizeof word);
  switch (word.kind) {
    case Kind::failure: {
      const auto text = bytes.subspan(sizeof word);
      return failed_(from, Error(static_cast<ErrorKind>(word.error),
                                 std::string(reinterpret_cast<const char*>(text.data()), text.size())));
    }
    case Kind::goodbye:
      tell(from, {Kind::farewell, 0, 0});
      at(from).left = true;
      return network_.set_gone(from);
    case Kind::farewell:
      at(from).bade_farewell = true;
      return;
    case Kind::question:
      return tell(from, {Kind::answer, 0, begun_});
    case Kind::answer:
      at(from).answer = word.sequence;
      return;
  }
}

void FarRanks::tell_failure(const Error& error) {
  each([&](int peer) {
    tell(peer, {Kind::failure, static_cast<std::uint32_t>(error.kind()), 0}, error.what());
  });
  network_.flush(Deadline::after(farewell_time));
}

bool FarRanks::say_goodbye() {
  if (std::exchange(gone_, true)) return false;
  // Whoever has had nothing to do with this rank so far will see its absence should it ever try.
  each([&](int peer) {
    if (network_.knows(peer)) tell(peer, {Kind::goodbye, 0, 0});
  });
  return true;
}

bool FarRanks::all_have_answered(bool& moved) {
  moved = network_.progress();
  bool all = true;
  each([&](int peer) { all &= !network_.knows(peer) || network_.lost(peer) || at(peer).bade_farewell; });
  return all;
}

void FarRanks::need_reachable() {
  each([&](int peer) {
    if (!(network_.lost(peer) || at(peer).left)) return;
    // What it sent before it ended may be here.
    for (int look = 0; network_.has_transfers(peer) && look < most_last_looks && network_.progress();) ++look;
    if (!network_.has_transfers(peer)) return;
    if (at(peer).left) fail(ErrorKind::remote, "{} has destroyed the communicator", hosts_.description(peer));
    fail(ErrorKind::remote, "{} is lost: it has died, or its host cannot be reached",
         hosts_.description(peer));
  });
}

void FarRanks::call_the_roll() {
  each([&](int peer) {
    at(peer).answer.reset();
    at(peer).asked = true;
    tell(peer, {Kind::question, 0, 0});
  });
}

std::vector<int> FarRanks::late(std::uint64_t sequence) const {
  std::vector<int> late;
  each([&](int peer) {
    if (at(peer).answer.value_or(sequence) < sequence) late.push_back(peer);
  });
  return late;
}

std::string FarRanks::silent() const {
  std::vector<std::string> names;
  each([&](int peer) {
    if (at(peer).asked && !at(peer).answer) names.push_back(hosts_.description(peer));
  });
  if (names.empty()) return "";
  return fmt::format("; no word from {}: stopped, or cannot be reached", fmt::join(names, ", "));
}

}  // namespace rondo
