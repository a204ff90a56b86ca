// How the ranks of one communicator find one another: a star of sockets around rank 0, used only while the
// communicator is made. A stranger who connects is turned away and disturbs nothing.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/deadline.h"
#include "src/socket.h"

namespace rondo {

struct Rendezvous {
  virtual ~Rendezvous() = default;
  // Every rank gives bytes of any length; every rank gets all of them, by rank. With no bytes: a barrier.
  virtual std::vector<std::vector<std::byte>> exchange(Bytes mine, Deadline deadline) = 0;
  // This rank's own address, as others reach it; empty where the ranks meet without a network.
  virtual std::string local_address() const { return ""; }
};

using Secret = std::array<std::byte, 64>;

// A text of at most 64 bytes.
Secret secret_from(const std::string& text);

struct MeetingPlace {
  Endpoint endpoint;
  Secret secret{};
  Fd listener;             // rank 0's, where a launcher has bound it already; else empty
  bool same_user = false;  // a Unix socket whose name is no secret: other users' processes are strangers
};

// Returns when all `size` ranks have come. Throws, naming the rank, when one does not come in time, when two
// claim one rank, or when they name different sizes; then all who came get the same error.
std::unique_ptr<Rendezvous> meet(MeetingPlace place, int rank, int size, Deadline deadline);

// Runs each rank's part of a step; one rank's failure becomes everybody's. `doing` names the step.
void together(Rendezvous& rendezvous, const char* doing, Deadline deadline,
              const std::function<void()>& part);

}  // namespace rondo
