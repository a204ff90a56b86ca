// What joins ranks of different hosts: a transport, and words that ranks tell one another beside the data.
// Used by one thread at a time, like every transport.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/deadline.h"
#include "src/socket.h"
#include "src/transport.h"

namespace rondo {

class Network : public Transport {
 public:
  // What others need to reach this rank, as they are to be told it: set_addresses() takes all ranks', in
  // order, before the first transfer.
  virtual std::vector<std::byte> address() const = 0;
  virtual void set_addresses(std::vector<std::vector<std::byte>> addresses) = 0;

  // A small message beside the data, heard by on_word's function in some later progress() of the peer. Words
  // to a peer that is lost go nowhere.
  virtual void tell(int peer, Bytes word) = 0;
  virtual void on_word(std::function<void(int from, Bytes word)> hear) = 0;

  // Once the connection to a peer has broken, transfers with it that are under way never end.
  virtual bool lost(int peer) const = 0;
  virtual bool has_transfers(int peer) const = 0;
  // Whether this rank and the peer have had to do with one another.
  virtual bool knows(int peer) const = 0;
  // The peer has gone as it should: what it sent may still be received, and nothing be sent to it.
  virtual void set_gone(int peer) = 0;

  // Moves on until all that was sent and told has left (true), or the deadline.
  virtual bool flush(Deadline deadline) = 0;
  // Ends all transfers as they are: their memory is the caller's again. Nothing may be posted afterwards.
  virtual void abandon() = 0;

  // How to sleep until something comes: arm(), and where it says yes poll the descriptor. No: there is
  // something to do already.
  virtual bool arm() = 0;
  virtual int descriptor() const = 0;
};

// Over UCX, on the network devices of that name ("a,b"; empty: all). Throws where they are not there, or
// Rondo was built without UCX.
std::unique_ptr<Network> make_ucx_network(int rank, int size, const std::string& devices);
// The least version of UCX that this was built for; empty: built without it.
std::string ucx_version();

}  // namespace rondo
