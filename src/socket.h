// Stream sockets with deadlines: TCP, and Unix sockets with abstract names, which leave nothing in the file
// system. Every call restarts after a signal. Failures are Errors.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/deadline.h"
#include "src/fd.h"

namespace rondo {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Where ranks meet: an abstract Unix name on this host, or a TCP address.
struct Endpoint {
  std::string unix_name;  // used when not empty
  std::string host;
  int port = 0;

  std::string text() const;
};

// On the first of the addresses of the host's name that is one of this machine.
Fd listen_on(const Endpoint& endpoint);
// Takes a waiting connection, or none: an empty Fd. Never blocks.
Fd accept_from(const Fd& listener);
// Keeps trying while nobody listens there yet, until the deadline: all addresses of the host's name in turn.
Fd connect_to(const Endpoint& endpoint, Deadline deadline);

void send_all(const Fd& socket, Bytes bytes, Deadline deadline);
// Fails with ErrorKind::remote when the peer closes first.
void receive_all(const Fd& socket, MutableBytes bytes, Deadline deadline);
// What is there already, up to bytes.size(). Returns the number received, or -1 at end of file or a broken
// connection, and never blocks.
long receive_some(const Fd& socket, MutableBytes bytes);

// A descriptor travels over a Unix socket beside one byte.
void send_descriptor(const Fd& socket, const Fd& descriptor, Deadline deadline);
Fd receive_descriptor(const Fd& socket, Deadline deadline);

// The address of this side of a TCP connection, as text; empty for a Unix socket.
std::string local_address(const Fd& socket);
bool is_loopback(const std::string& address);

// Whether the process at the other end of a Unix socket runs as the same user.
bool is_same_user(const Fd& socket);

// The port that a listening TCP socket got, when it asked for port 0.
int bound_port(const Fd& listener);

enum class Ready { no, yes };
// Waits until `events` (poll's) may happen on the descriptor.
Ready wait_ready(const Fd& descriptor, short events, Deadline deadline);

}  // namespace rondo
