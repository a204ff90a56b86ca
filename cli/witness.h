// A second witness for the ledger's bytes between hosts: the kernel's own counters of the network interfaces.
#pragma once

#include <cstdint>
#include <vector>

#include "src/communicator.h"

namespace rondo {

// Of all interfaces of this host but the loopback, since the kernel started them.
struct InterfaceCounters {
  std::uint64_t sent_bytes = 0, sent_packets = 0, received_bytes = 0, received_packets = 0;

  static InterfaceCounters now();
};

// What one host sent to the others, or received from them.
struct WitnessRow {
  enum class Direction : std::int64_t { sent, received };
  std::int64_t host;
  Direction direction;
  std::uint64_t ledger;            // payload and protocol, from all ledgers
  std::uint64_t counter, packets;  // the kernel's

  // Every packet carries headers of Ethernet (14 B), IPv4 (20 B) and TCP with time stamps (32 B).
  std::uint64_t explained() const { return ledger + 66 * packets; }
  // What is left of the counter, as a part of it: UCX's own headers, mostly.
  double unexplained() const;
};

// From its making on to stop(), with no reset of the ledger between. All ranks call everything together.
// Nothing else may use the interfaces.
class Witness {
 public:
  explicit Witness(Communicator& communicator);
  void stop();
  std::vector<WitnessRow> rows() const;

 private:
  Communicator& communicator_;
  Traffic ledger_before_;
  InterfaceCounters before_;
  ByteCounts sent_;             // between the two, by peer
  InterfaceCounters counters_;  // between the two
};

}  // namespace rondo
