#include "src/ledger.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/error.h"
#include "src/hosts.h"

namespace rondo {
namespace {

class Expected {
 public:
  // Adds to `to`, which is by peer.
  Expected(const CallSizes& call, int rank, int size, ByteCounts& to)
      : call_(call), rank_(rank), size_(size), to_(to) {}

  // To the right goes every chunk but the one that ends here (reduce-scatter) or would come full circle
  // (all-gather).
  void ring(int right) {
    if (size_ == 1) return;
    switch (call_.kind) {
      case CallKind::reduce_scatter:
        add(right, all_chunks() - chunk(rank_));
        break;
      case CallKind::all_gather:
        add(right, all_chunks() - chunk(right));
        break;
      case CallKind::all_reduce:
        add(right, 2 * all_chunks() - chunk(rank_) - chunk(right));
        break;
      case CallKind::broadcast:
        if (right != call_.root) add(right, chunk(0));
        break;
      case CallKind::reduce:
        if (rank_ != call_.root) add(right, chunk(0));
        break;
      case CallKind::gather:
      case CallKind::scatter:
      case CallKind::all_to_all:
      case CallKind::barrier:
      case CallKind::messages:
        fail(ErrorKind::internal, "{} has no ring", name_of(call_.kind));
    }
  }

  // The rank whose chunk it is moves it: it reads every peer's part of it (but an all-gather's, which is its
  // own) and stores an all-reduce's or all-gather's result to every peer. A broadcast is read from its root.
  void fetched_from_windows() {
    if (call_.kind == CallKind::broadcast) {
      if (rank_ != call_.root) add(call_.root, chunk(0));
    } else if (call_.kind != CallKind::all_gather) {
      add_to_all_peers(chunk(rank_));
    }
  }
  void stored_on_windows() {
    if (call_.kind == CallKind::all_reduce || call_.kind == CallKind::all_gather)
      add_to_all_peers(chunk(rank_));
  }

  // Every peer takes all of an all-reduce's input at once.
  void slots() {
    if (call_.kind != CallKind::all_reduce) return direct();
    one_shot();
  }
  void one_shot() { add_to_all_peers(all_chunks()); }

  // Hosts (where all ranks are on one, ranks) are numbered, and the first ones counted in twos until a power
  // of two of numbers is left. The first rank of each number collects what its group gives, and exchanges it
  // with the number that differs in one bit, bit after bit from the lowest: all that its group and those it
  // has exchanged with gave, of a reduce-scatter only what the numbers that are alike in these bits take.
  void doubling(const Hosts* hosts) {
    const bool alone = hosts == nullptr || hosts->one();
    const int count = alone ? size_ : static_cast<int>(hosts->ranks.size());
    const int numbers = static_cast<int>(std::bit_floor(static_cast<unsigned>(count)));
    const auto number = [&](int rank) {
      const int host = alone ? rank : hosts->host(rank);
      return host < 2 * (count - numbers) ? host / 2 : host - (count - numbers);
    };
    const auto first = [&](int wanted) {
      int rank = 0;
      while (number(rank) != wanted) ++rank;
      return rank;
    };
    const int mine = number(rank_);
    if (rank_ != first(mine)) return add(first(mine), given_by(rank_));
    for (int bit = 1; bit < numbers; bit *= 2) {
      const int theirs = mine ^ bit;
      std::uint64_t taken = 0;
      for (int reader = 0; reader < size_; ++reader)
        if (number(reader) % (2 * bit) == theirs % (2 * bit)) taken += chunk(reader);
      for (int source = 0; source < size_; ++source)
        if (number(source) / bit == mine / bit)
          add(first(theirs), call_.kind == CallKind::reduce_scatter ? taken : given_by(source));
    }
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && number(peer) == mine) add(peer, taken_by(peer));
  }

  // The chunk goes to each host once, and there to each rank; where all are on one host, each counts as a
  // host of its own. Hosts are numbered from the root's on. Host number h has it from the host whose number
  // is h without its lowest bit.
  void tree(const Hosts* hosts) {
    const bool alone = hosts == nullptr || hosts->one();
    const int count = alone ? size_ : static_cast<int>(hosts->ranks.size());
    const auto host_of = [&](int rank) { return alone ? rank : hosts->host(rank); };
    const auto first_of = [&](int host) {
      if (host == host_of(call_.root)) return call_.root;
      return alone ? host : hosts->ranks[static_cast<std::size_t>(host)].front();
    };
    if (rank_ != first_of(host_of(rank_))) return;
    const auto number = [&](int host) { return (host + count - host_of(call_.root)) % count; };
    for (int host = 0; host < count; ++host) {
      const int from = number(host) & (number(host) - 1);
      if (number(host) != 0 && from == number(host_of(rank_))) add(first_of(host), chunk(0));
    }
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && host_of(peer) == host_of(rank_)) add(peer, chunk(0));
  }

  // Ring j joins the ranks that are number j on their hosts, and has all their chunks. Within a host, what
  // belongs to ring j goes to its rank there (all but an all-gather) and from it to the others (all but a
  // reduce-scatter); between hosts, to the next one's rank.
  void hierarchy(const Hosts& hosts) {
    const int place = hosts.place_of(rank_), host = hosts.host(rank_);
    for (const int peer : hosts.neighbours(rank_)) {
      if (peer == rank_) continue;
      if (call_.kind != CallKind::all_gather) add(peer, chunks_of_ring(hosts, hosts.place_of(peer)));
      if (call_.kind != CallKind::reduce_scatter) add(peer, chunks_of_ring(hosts, place));
    }
    const auto next = static_cast<std::size_t>(host + 1) % hosts.ranks.size();
    const int right = hosts.ranks[next][static_cast<std::size_t>(place)];
    if (call_.kind != CallKind::all_gather) add(right, chunks_of_ring(hosts, place) - chunk(rank_));
    if (call_.kind != CallKind::reduce_scatter) add(right, chunks_of_ring(hosts, place) - chunk(right));
  }

  void direct() {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) add(peer, direct_to(peer));
    for (const Message& message : call_.messages)
      if (message.direction == Message::Direction::send && message.peer != rank_)
        add(message.peer, message.extent.bytes);
  }

 private:
  std::uint64_t chunks_of_ring(const Hosts& hosts, int place) const {
    std::uint64_t bytes = 0;
    for (const auto& host : hosts.ranks) bytes += chunk(host[static_cast<std::size_t>(place)]);
    return bytes;
  }

  std::uint64_t given_by(int rank) const {
    return call_.kind == CallKind::all_gather ? chunk(rank) : all_chunks();
  }
  std::uint64_t taken_by(int rank) const {
    if (call_.kind == CallKind::all_gather) return all_chunks() - chunk(rank);
    return call_.kind == CallKind::all_reduce ? all_chunks() : chunk(rank);
  }

  std::uint64_t direct_to(int peer) const {
    switch (call_.kind) {
      case CallKind::reduce_scatter:
      case CallKind::all_to_all:
        return chunk(peer);
      case CallKind::all_gather:
        return chunk(rank_);
      case CallKind::all_reduce:
        return chunk(peer) + chunk(rank_);
      case CallKind::broadcast:
        return rank_ == call_.root ? chunk(0) : 0;
      case CallKind::reduce:
        return peer == call_.root ? chunk(0) : 0;
      case CallKind::gather:
        return peer == call_.root ? chunk(rank_) : 0;
      case CallKind::scatter:
        return rank_ == call_.root ? chunk(peer) : 0;
      case CallKind::barrier:
      case CallKind::messages:
        return 0;
    }
    return 0;
  }

  void add_to_all_peers(std::uint64_t bytes) {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) add(peer, bytes);
  }
  void add(int peer, std::uint64_t bytes) { to_[static_cast<std::size_t>(peer)] += bytes; }
  std::uint64_t chunk(int index) const { return call_.chunk_bytes[static_cast<std::size_t>(index)]; }
  std::uint64_t all_chunks() const {
    return std::accumulate(call_.chunk_bytes.begin(), call_.chunk_bytes.end(), std::uint64_t{0});
  }

  const CallSizes& call_;
  int rank_, size_;
  ByteCounts& to_;
};

void add_expected_payload(const CallSizes& call, Algorithm algorithm, int rank, int size, const Order& order,
                          ByteCounts& to) {
  Expected expected(call, rank, size, to);
  switch (algorithm) {
    case Algorithm::ring:
      return expected.ring(order.right);
    case Algorithm::one_shot:
      return expected.one_shot();
    case Algorithm::doubling:
      return expected.doubling(order.hosts);
    case Algorithm::tree:
      return expected.tree(order.hosts);
    case Algorithm::windows:
      return expected.stored_on_windows();
    case Algorithm::slots:
      return expected.slots();
    case Algorithm::hierarchy:
      return expected.hierarchy(*order.hosts);
    case Algorithm::direct:
    case Algorithm::staged:
    case Algorithm::automatic:
      return expected.direct();
  }
}

void add_expected_fetched(const CallSizes& call, Algorithm algorithm, int rank, int size, ByteCounts& to) {
  Expected expected(call, rank, size, to);
  if (algorithm == Algorithm::windows) expected.fetched_from_windows();
}

}  // namespace

const char* name_of(Memory memory) {
  switch (memory) {
    case Memory::host:
      return "host";
    case Memory::device_staged:
      return "device, host staging";
    case Memory::device:
      return "device";
  }
  return "?";
}

std::uint64_t sum_of(const ByteCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

ByteCounts expected_payload(const Call& call, Algorithm algorithm, int rank, int size) {
  ByteCounts to(static_cast<std::size_t>(size));
  add_expected_payload(call.sizes(), algorithm, rank, size, {(rank + 1) % size, nullptr}, to);
  return to;
}

ByteCounts expected_fetched(const Call& call, Algorithm algorithm, int rank, int size) {
  ByteCounts from(static_cast<std::size_t>(size));
  add_expected_fetched(call.sizes(), algorithm, rank, size, from);
  return from;
}

void Ledger::end_scope() {
  if (scopes_.empty()) fail(ErrorKind::invalid_usage, "the ledger has no open scope to end");
  scopes_.pop_back();
}

const std::string& Ledger::scope() const {
  static const std::string none;
  return scopes_.empty() ? none : scopes_.back();
}

void Ledger::book(const std::string& scope, const CallSizes& call, Algorithm algorithm, const Traffic& moved,
                  Memory memory, const CopiedBytes& copied) {
  expected_.assign(static_cast<std::size_t>(size_), 0);
  expected_fetched_.assign(static_cast<std::size_t>(size_), 0);
  add_expected_payload(call, algorithm, rank_, size_, order_, expected_);
  add_expected_fetched(call, algorithm, rank_, size_, expected_fetched_);
  if (copied != CopiedBytes{}) memory = Memory::device_staged;
  LedgerRow& row = row_of(scope, call.kind, algorithm, memory)->second;
  ++row.calls;
  row.copied += copied;
  row.measured += moved;
  for (std::size_t peer = 0; peer < moved.fetched.size(); ++peer) {
    row.expected[peer] += expected_[peer];
    row.expected_fetched[peer] += expected_fetched_[peer];
  }
  if (strict_) check(algorithm, moved);
}

Ledger::Rows::iterator Ledger::row_of(const std::string& scope, CallKind kind, Algorithm algorithm,
                                      Memory memory) {
  const auto fits = [&](const LedgerKey& key) {
    return key.kind == kind && key.algorithm == algorithm && key.memory == memory && key.scope == scope;
  };
  if (last_ == rows_.end() || !fits(last_->first))
    last_ = rows_.try_emplace({scope, kind, algorithm, memory}, size_).first;
  return last_;
}

void Ledger::book_refused(const Traffic& moved) {
  for (std::size_t peer = 0; peer < moved.fetched.size(); ++peer)
    refused_.count(ByteClass::protocol, static_cast<int>(peer), moved.of(ByteClass::protocol)[peer]);
}

std::map<LedgerKey, LedgerRow> Ledger::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

Traffic Ledger::total() const {
  const std::lock_guard lock(mutex_);
  Traffic total = refused_;
  for (const auto& [key, row] : rows_)
    if (!is_report(key.scope)) total += row.measured;
  return total;
}

void Ledger::check(Algorithm algorithm, const Traffic& moved) const {
  const auto compare = [&](const char* what, const char* way, std::size_t peer, std::uint64_t bytes,
                           std::uint64_t formula) {
    if (bytes != formula)
      fail(ErrorKind::internal, "ledger ({}): rank {} {} {} {} bytes {} rank {}, the formula says {}",
           name_of(algorithm), rank_, way[0] == 't' ? "sent" : "read", bytes, what, way, peer, formula);
  };
  for (std::size_t peer = 0; peer < moved.fetched.size(); ++peer) {
    compare("payload", "to", peer, moved.of(ByteClass::payload)[peer], expected_[peer]);
    compare("padding", "to", peer, moved.of(ByteClass::padding)[peer], 0);
    compare("payload", "from", peer, moved.fetched[peer], expected_fetched_[peer]);
  }
}

void Ledger::reset() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
  last_ = rows_.end();
  refused_ = Traffic(size_);
}

std::string Ledger::json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [key, row] : this->rows()) {
    rows.push_back({{"scope", key.scope},
                    {"collective", name_of(key.kind)},
                    {"algorithm", name_of(key.algorithm)},
                    {"memory", name_of(key.memory)},
                    {"calls", row.calls},
                    {"expected", sum_of(row.expected) + sum_of(row.expected_fetched)},
                    {"measured", sum_of(row.measured.of(ByteClass::payload)) + sum_of(row.measured.fetched)},
                    {"padding", sum_of(row.measured.of(ByteClass::padding))},
                    {"protocol", sum_of(row.measured.of(ByteClass::protocol))},
                    {"sent_to", row.measured.of(ByteClass::payload)},
                    {"read_from", row.measured.fetched},
                    {"copied_to_host", row.copied.down},
                    {"copied_to_device", row.copied.up}});
  }
  // A scope's name is the caller's: what is not UTF-8 in it becomes a replacement character.
  return nlohmann::ordered_json{{"rank", rank_}, {"size", size_}, {"rows", rows}}.dump(
      2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rondo
