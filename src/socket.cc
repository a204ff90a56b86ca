#include "src/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "src/error.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void fail_errno(const std::string& what) {
  const int error = errno;
  fail(ErrorKind::system, "{}: {}", what, std::strerror(error));
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address unix_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract.
  if (name.size() + 1 > sizeof address.sun_path) fail(ErrorKind::internal, "socket name too long: {}", name);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  Address result;
  std::memcpy(&result.storage, &address, sizeof address);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

bool is_literal(const std::string& host) {
  in6_addr room{};
  return ::inet_pton(AF_INET, host.c_str(), &room) == 1 || ::inet_pton(AF_INET6, host.c_str(), &room) == 1;
}

// Many systems give their own name a loopback address. Who listens under that name wants to be found by
// other hosts, which know the name by a better one.
void listen_everywhere_for_loopback(Address& address, const std::string& host) {
  if (host == "localhost" || is_literal(host)) return;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (address.storage.ss_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 24 == 127)
    v4->sin_addr.s_addr = htonl(INADDR_ANY);
  if (address.storage.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
    v6->sin6_addr = in6addr_any;
}

// All that the name has, in the order in which the system would have them tried.
std::vector<Address> tcp_addresses(const std::string& host, int port, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    fail(ErrorKind::invalid_argument, "MASTER_ADDR=\"{}\": {}; expected an address or a name that resolves",
         host, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<Address> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address& address = all.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
    if (passive) listen_everywhere_for_loopback(address, host);
  }
  return all;
}

std::vector<Address> resolve(const Endpoint& endpoint, bool passive) {
  if (endpoint.unix_name.empty()) return tcp_addresses(endpoint.host, endpoint.port, passive);
  return {unix_address(endpoint.unix_name)};
}

// Empty: addresses of this family are none that this system knows.
Fd open_socket(const Address& address) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket && errno == EAFNOSUPPORT) return socket;
  if (!socket) fail_errno("socket");
  if (address.storage.ss_family != AF_UNIX) {
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return socket;
}

bool nobody_there_yet(int error) {
  // EAGAIN: a Unix listener whose queue is full. EADDRNOTAVAIL: no port left for a client just now.
  return error == EADDRNOTAVAIL || error == ECONNREFUSED || error == ENOENT || error == EAGAIN ||
         error == ETIMEDOUT || error == ECONNRESET || error == EHOSTUNREACH || error == ENETUNREACH;
}

int finish_connecting(const Fd& socket, Deadline deadline) {
  if (wait_ready(socket, POLLOUT, deadline) == Ready::no) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

// Who tries a free port of the range from which clients get theirs may be given that very port, and then be
// connected to itself.
bool connected_to_itself(const Fd& socket) {
  Address mine, peer;
  mine.length = peer.length = sizeof mine.storage;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mine.storage), &mine.length) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) == 0 &&
         mine.storage.ss_family != AF_UNIX && mine.length == peer.length &&
         std::memcmp(&mine.storage, &peer.storage, mine.length) == 0;
}

int try_connect(const Fd& socket, const Address& address, Deadline deadline) {
  if (!socket) return EAFNOSUPPORT;
  int error = 0;
  if (::connect(socket.get(), address.get(), address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS || error == EINTR) error = finish_connecting(socket, deadline);
  }
  if (error == 0 && connected_to_itself(socket)) {
    const linger at_once{1, 0};  // else the port would stay taken for a minute
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return ECONNREFUSED;
  }
  return error;
}

// Empty: none could be bound to, and errno tells why the last one could not.
Fd bound_to_one_of(std::span<const Address> addresses) {
  for (const Address& address : addresses) {
    Fd socket = open_socket(address);
    if (!socket) continue;
    const int on = 1;
    if (address.storage.ss_family != AF_UNIX)
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.get(), address.get(), address.length) == 0) return socket;
    if (errno == EADDRINUSE) break;  // another address would be no better: others come to this one
  }
  return Fd();
}

void need_ready(const Fd& socket, short events, Deadline deadline, const char* doing) {
  if (wait_ready(socket, events, deadline) == Ready::no)
    fail(ErrorKind::timeout, "timed out while {}", doing);
}

}  // namespace

std::string Endpoint::text() const {
  return unix_name.empty() ? fmt::format("{}:{}", host, port) : fmt::format("@{}", unix_name);
}

Ready wait_ready(const Fd& descriptor, short events, Deadline deadline) {
  pollfd entry{descriptor.get(), events, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(1h));
    const int count = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (count > 0) return Ready::yes;
    if (count < 0 && errno != EINTR) fail_errno("poll");
    if (deadline.passed()) return Ready::no;
  }
}

Fd listen_on(const Endpoint& endpoint) {
  Fd listener = bound_to_one_of(resolve(endpoint, true));
  if (!listener) {
    if (errno == EADDRINUSE && !endpoint.unix_name.empty())
      fail(ErrorKind::invalid_usage, "two processes claim rank 0 of one communicator");
    if (errno == EADDRINUSE)
      fail(ErrorKind::system,
           "{} is in use by another program or job: choose another port with RONDO_MASTER_PORT",
           endpoint.text());
    fail_errno(fmt::format("bind to {}", endpoint.text()));
  }
  if (::listen(listener.get(), SOMAXCONN) != 0) fail_errno("listen");
  return listener;
}

Fd accept_from(const Fd& listener) {
  while (true) {
    const int fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) return Fd(fd);
    if (errno == EAGAIN) return Fd();
    // A connection that went away before it was taken is no fault of the listener.
    if (errno != EINTR && errno != ECONNABORTED) fail_errno("accept");
  }
}

Fd connect_to(const Endpoint& endpoint, Deadline deadline) {
  // Where a name has several addresses one that does not answer must not keep us from the next.
  constexpr auto most_for_one = 1s;
  const std::vector<Address> addresses = resolve(endpoint, false);
  std::chrono::nanoseconds pause = 200us;
  while (true) {
    int error = 0;
    bool may_come = false;
    for (const Address& address : addresses) {
      Fd socket = open_socket(address);
      error =
          try_connect(socket, address,
                      addresses.size() == 1 ? deadline : earlier(deadline, Deadline::after(most_for_one)));
      if (error == 0) return socket;
      may_come |= nobody_there_yet(error);
    }
    if (!may_come) fail(ErrorKind::system, "connect to {}: {}", endpoint.text(), std::strerror(error));
    if (deadline.passed())
      fail(ErrorKind::timeout, "rank 0 did not come: nobody listens on {}", endpoint.text());
    std::this_thread::sleep_for(deadline.left(pause));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, 20ms);
  }
}

void send_all(const Fd& socket, Bytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    // MSG_NOSIGNAL: a library must not raise SIGPIPE in its user's program.
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      need_ready(socket, POLLOUT, deadline, "sending");
    } else if (errno == EPIPE || errno == ECONNRESET) {
      fail(ErrorKind::remote, "the peer closed the connection");
    } else if (errno != EINTR) {
      fail_errno("send");
    }
  }
}

long receive_some(const Fd& socket, MutableBytes bytes) {
  while (true) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) return static_cast<long>(got);
    if (got == 0) return -1;
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return -1;
  }
}

void receive_all(const Fd& socket, MutableBytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const long got = receive_some(socket, bytes);
    if (got < 0) fail(ErrorKind::remote, "the peer closed the connection");
    if (got == 0) need_ready(socket, POLLIN, deadline, "receiving");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void send_descriptor(const Fd& socket, const Fd& descriptor, Deadline deadline) {
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = descriptor.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  while (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno == EAGAIN)
      need_ready(socket, POLLOUT, deadline, "handing out shared memory");
    else if (errno != EINTR)
      fail_errno("sendmsg");
  }
}

Fd receive_descriptor(const Fd& socket, Deadline deadline) {
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  while (true) {
    const ssize_t got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
    if (got > 0) break;
    if (got == 0)
      fail(ErrorKind::remote, "the peer closed the connection before it handed out shared memory");
    if (errno == EAGAIN)
      need_ready(socket, POLLIN, deadline, "receiving shared memory");
    else if (errno != EINTR)
      fail_errno("recvmsg");
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS)
    fail(ErrorKind::system, "no descriptor came: is the limit of open files (ulimit -n) reached?");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Fd(fd);
}

bool is_same_user(const Fd& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

int bound_port(const Fd& listener) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    fail_errno("getsockname");
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

std::string local_address(const Fd& socket) {
  Address address;
  address.length = sizeof address.storage;
  char text[NI_MAXHOST] = "";
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    fail_errno("getsockname");
  if (address.storage.ss_family == AF_UNIX) return "";
  if (::getnameinfo(address.get(), address.length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  const std::string mapped = "::ffff:";  // an IPv4 address, seen by an IPv6 listener
  const std::string whole = text;
  return whole.starts_with(mapped) ? whole.substr(mapped.size()) : whole;
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace rondo
