// How a communicator comes to be: the ranks meet, tell one another who and where they are, agree on the
// settings, share a segment of memory on each host, and open a network between hosts.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/hosts.h"
#include "src/network.h"
#include "src/process.h"
#include "src/rendezvous.h"
#include "src/segment.h"
#include "src/settings.h"

namespace rondo {

struct CommunicatorOptions {
  Settings settings = Settings::from_environment();
  std::string name;  // stands in messages
};

// What a rank holds of its communicator once all ranks have it.
struct Membership {
  int rank;
  int size;
  std::shared_ptr<Segment> segment;                 // of the ranks of this host
  std::vector<std::shared_ptr<PeerProcess>> peers;  // by rank; null where there is nothing to watch
  std::vector<ProcessIdentity> processes;           // by rank
  bool windows;                                     // every rank can map every other's windows
  bool oversubscribed;  // more ranks of this machine than cores: whoever waits must give way
  std::unique_ptr<Network> network = nullptr;  // null: all ranks are on one host
  Hosts hosts = {};
  std::string address = {};  // this rank's, where the ranks met over a network
};

// Collective. Throws on every rank if it fails on one. `settings` are this rank's, and then what all ranks
// have agreed on.
Membership join_communicator(Rendezvous& rendezvous, int rank, int size, Settings& settings,
                             Deadline deadline);

// A new id's bytes, as rondoUniqueId carries them: where to meet, and the secret.
struct UniqueId {
  std::array<char, 128> bytes{};

  static UniqueId make();
  MeetingPlace meeting_place() const;  // throws if this is no id
};

// Where the ranks of a launcher meet.
MeetingPlace meeting_place(const LaunchEnvironment& launch);

}  // namespace rondo
