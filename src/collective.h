// The algorithms: state machines that move a call's bytes over a transport. step() never blocks, so that one
// thread can keep any number of them going.
#pragma once

#include <memory>
#include <vector>

#include "src/call.h"
#include "src/settings.h"
#include "src/transport.h"

namespace rondo {

class Collective {
 public:
  virtual ~Collective() = default;
  // Does what can be done now. True when the call is complete on this rank: its output is whole, and its
  // input may be changed.
  virtual bool step() = 0;
  // Whether this rank still needs something of `peer`.
  virtual bool waits_for(int /*peer*/) const { return true; }
};

// What the algorithms run on.
struct Place {
  int rank;
  int size;
  Transport& transport;
  std::size_t slice_bytes;  // a multiple of 8, so that slices hold whole elements of every type

  int left() const { return (rank + size - 1) % size; }
  int right() const { return (rank + 1) % size; }
};

// One pure function of what all ranks know: so ranks cannot choose differently.
Algorithm choose_algorithm(CallKind kind, Algorithm forced);

std::unique_ptr<Collective> make_collective(const Call& call, Algorithm algorithm, const Place& place);

// The parts of make_collective, one file each.
std::unique_ptr<Collective> make_ring(const Call& call, const Place& place);
std::unique_ptr<Collective> make_direct_reduction(const Call& call, const Place& place);
std::unique_ptr<Collective> make_exchange(const Call& call, const Place& place);
// Every rank's own chunk of the outputs goes to all: the second half of a direct all-reduce.
std::unique_ptr<Collective> make_gather_of_outputs(const Call& call, const Place& place);
std::unique_ptr<Collective> make_messages(const Call& call, const Place& place);

// Throws invalid_usage when a message to this rank itself lacks its other half.
void check_messages_to_self(const Call& call, int rank);

Reduction reduction_of(const Call& call, int size);

}  // namespace rondo
