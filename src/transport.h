// How bytes cross from one rank to another. A transport belongs to one rank of one communicator and is used
// by one thread at a time. To each peer and on each channel there is a stream each way: messages are received
// in the order and with the sizes in which they were sent, which both sides know, so nothing is added to the
// bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/extent.h"
#include "src/segment.h"
#include "src/traffic.h"

namespace rondo {

// A transfer that was posted. Transfers of one stream end in order.
struct Ticket {
  int stream = -1;  // a transport's own number; -1: nothing was posted, done at once
  std::uint64_t number = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // The extents' memory stays the caller's, and must stay as it is until the ticket is done.
  virtual Ticket post_send(int peer, Channel channel, std::span<const Extent> extents,
                           ByteClass byte_class) = 0;
  virtual Ticket post_receive(int peer, Channel channel, std::span<const Extent> extents) = 0;
  virtual bool done(Ticket ticket) const = 0;
  // Moves what can be moved now and never blocks. True if anything moved.
  virtual bool progress() = 0;
  // Bytes that this rank has moved since the communicator last booked them, counted where they are copied.
  // The communicator adds its own control lines.
  virtual Traffic& traffic() = 0;
};

// One host: streams in a shared segment.
std::unique_ptr<Transport> make_shm_transport(std::shared_ptr<Segment> segment, int rank, int size);

// Ranks of several hosts: streams to those of this one, by their places there, and the network to the others.
struct Hosts;
std::unique_ptr<Transport> make_mixed_transport(std::unique_ptr<Transport> local, Transport& network,
                                                const Hosts& hosts, int rank);

}  // namespace rondo
