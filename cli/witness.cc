#include "cli/witness.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "src/calls.h"
#include "src/gather_bytes.h"

namespace rondo {
namespace {

// What a rank tells of the time between: its host's counters, and what it sent, by peer.
std::string statement(const InterfaceCounters& counters, const ByteCounts& sent) {
  std::string bytes(sizeof counters + sent.size() * sizeof sent[0], '\0');
  std::memcpy(bytes.data(), &counters, sizeof counters);
  std::memcpy(bytes.data() + sizeof counters, sent.data(), sent.size() * sizeof sent[0]);
  return bytes;
}

// By peer, payload and protocol; between hosts no rank reads another's memory.
ByteCounts sent_since(const Traffic& before, const Traffic& now) {
  ByteCounts sent(before.fetched.size());
  for (std::size_t c = 0; c < now.sent.size(); ++c)
    for (std::size_t peer = 0; peer < sent.size(); ++peer)
      sent[peer] += now.sent[c][peer] - before.sent[c][peer];
  return sent;
}

}  // namespace

InterfaceCounters InterfaceCounters::now() {
  // Of the network namespace of this thread; /sys shows that of whoever mounted it.
  std::ifstream file("/proc/thread-self/net/dev");
  InterfaceCounters sum;
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).ends_with(" lo")) continue;
    std::istringstream fields(line.substr(colon + 1));
    std::uint64_t values[10] = {};  // received: bytes, packets and six more; sent: bytes, packets
    for (std::uint64_t& value : values) fields >> value;
    sum.received_bytes += values[0];
    sum.received_packets += values[1];
    sum.sent_bytes += values[8];
    sum.sent_packets += values[9];
  }
  return sum;
}

double WitnessRow::unexplained() const {
  if (counter == 0) return explained() == 0 ? 0 : 1;
  return std::abs(static_cast<double>(counter) - static_cast<double>(explained())) /
         static_cast<double>(counter);
}

Witness::Witness(Communicator& communicator)
    : communicator_(communicator), ledger_before_(communicator.size()) {
  const LedgerScope scope(communicator.ledger(), report_scope);
  communicator.run(barrier_call());
  ledger_before_ = communicator.ledger().total();
  before_ = InterfaceCounters::now();
  communicator.run(barrier_call());
}

void Witness::stop() {
  const LedgerScope scope(communicator_.ledger(), report_scope);
  communicator_.run(barrier_call());
  sent_ = sent_since(ledger_before_, communicator_.ledger().total());
  const InterfaceCounters now = InterfaceCounters::now();
  counters_ = {now.sent_bytes - before_.sent_bytes, now.sent_packets - before_.sent_packets,
               now.received_bytes - before_.received_bytes, now.received_packets - before_.received_packets};
}

std::vector<WitnessRow> Witness::rows() const {
  const Hosts& hosts = communicator_.hosts();
  std::vector<WitnessRow> rows;
  for (std::size_t host = 0; host < hosts.ranks.size(); ++host)
    for (const auto direction : {WitnessRow::Direction::sent, WitnessRow::Direction::received})
      rows.push_back({static_cast<std::int64_t>(host), direction, 0, 0, 0});
  const std::vector<std::string> texts = gather_bytes(communicator_, statement(counters_, sent_));
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    InterfaceCounters counters;
    ByteCounts to(sent_.size());
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    std::memcpy(&counters, text.data(), sizeof counters);
    std::memcpy(to.data(), text.data() + sizeof counters, to.size() * sizeof to[0]);
    const auto from = static_cast<std::size_t>(hosts.host(rank));
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      if (hosts.together(rank, peer)) continue;
      rows[2 * from].ledger += to[static_cast<std::size_t>(peer)];
      rows[2 * static_cast<std::size_t>(hosts.host(peer)) + 1].ledger += to[static_cast<std::size_t>(peer)];
    }
    if (hosts.place_of(rank) != 0) continue;  // one rank speaks for its host's interfaces
    rows[2 * from].counter = counters.sent_bytes;
    rows[2 * from].packets = counters.sent_packets;
    rows[2 * from + 1].counter = counters.received_bytes;
    rows[2 * from + 1].packets = counters.received_packets;
  }
  return rows;
}

}  // namespace rondo
