#include "src/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "src/error.h"
#include "src/lobby.h"
#include "src/log.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t hello_magic = 0x314f4c4c45484f44;  // "DOHELLO1"
// Others wait this much longer than rank 0, whose verdict names who is missing.
constexpr auto verdict_grace = 2s;
constexpr std::size_t most_frame_bytes = 1 << 24;

struct Hello {
  std::uint64_t magic;
  std::int32_t rank;
  std::int32_t size;
  Secret secret;
};

// A length and a verdict before each message: 0 for data, else ErrorKind + 1 and the bytes are its text.
struct FrameHeader {
  std::uint32_t verdict;
  std::uint32_t bytes;
};

void send_frame(const Fd& socket, std::uint32_t verdict, Bytes bytes, Deadline deadline) {
  const FrameHeader header{verdict, static_cast<std::uint32_t>(bytes.size())};
  send_all(socket, std::as_bytes(std::span(&header, 1)), deadline);
  send_all(socket, bytes, deadline);
}

struct Frame {
  std::uint32_t verdict = 0;
  std::vector<std::byte> bytes;

  // The data; throws the verdict if it is one.
  std::vector<std::byte> data() && {
    if (verdict == 0) return std::move(bytes);
    throw Error(static_cast<ErrorKind>(verdict - 1),
                std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
};

Frame receive_frame(const Fd& socket, Deadline deadline) {
  FrameHeader header{};
  receive_all(socket, std::as_writable_bytes(std::span(&header, 1)), deadline);
  if (header.bytes > most_frame_bytes)
    fail(ErrorKind::remote, "a message of {} bytes came at the start", header.bytes);
  Frame frame{header.verdict, std::vector<std::byte>(header.bytes)};
  receive_all(socket, frame.bytes, deadline);
  return frame;
}

// Tells everyone who came why there will be no communicator. Who cannot be told has left already.
void spread(const std::vector<Fd>& sockets, const Error& error) {
  const std::string text = error.what();
  for (const Fd& socket : sockets) {
    if (!socket) continue;
    try {
      send_frame(socket, static_cast<std::uint32_t>(error.kind()) + 1, std::as_bytes(std::span(text)),
                 Deadline::after(1s));
    } catch (const Error&) {
    }
  }
}

// Has the other side closed, or died?
bool hung_up(const Fd& socket) {
  pollfd entry{socket.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// Rank 0 while the others come.
class Reception {
 public:
  Reception(const MeetingPlace& place, int size)
      : place_(place), size_(size), members_(static_cast<std::size_t>(size)) {}

  std::vector<Fd> receive_all_ranks(const Fd& listener, Deadline deadline) {
    try {
      Lobby lobby(listener, sizeof(Hello));
      while (come_ < size_ - 1) {
        if (auto guest = lobby.next_guest(earlier(deadline, Deadline::after(200ms))))
          welcome(std::move(*guest));
        else
          look_around(deadline);
      }
      tell_all_have_come(deadline);
      return std::move(members_);
    } catch (const Error& error) {
      spread(members_, error);
      throw;
    }
  }

 private:
  void look_around(Deadline deadline) const {
    for (int rank = 1; rank < size_; ++rank) {
      const Fd& member = members_[static_cast<std::size_t>(rank)];
      if (member && hung_up(member))
        fail(ErrorKind::remote, "rank {} has ended before all ranks had come", rank);
    }
    if (deadline.passed())
      fail(ErrorKind::timeout, "{} did not come to the start (world size {})", missing(), size_);
  }

  void tell_all_have_come(Deadline deadline) const {
    for (int rank = 1; rank < size_; ++rank) {
      try {
        send_frame(members_[static_cast<std::size_t>(rank)], 0, {}, deadline);
      } catch (const Error& error) {
        fail(error.kind(), "rank {} was lost at the start: {}", rank, error.what());
      }
    }
  }

  void welcome(Lobby::Guest guest) {
    Hello hello{};
    std::memcpy(&hello, guest.greeting.data(), sizeof hello);
    const bool is_stranger = place_.same_user && !is_same_user(guest.socket);
    if (is_stranger || hello.magic != hello_magic || hello.secret != place_.secret) {
      logger().info("turned a stranger away from the start");
      return;
    }
    if (hello.size != size_ || hello.rank < 1 || hello.rank >= size_)
      refuse(std::move(guest), [&] {
        return hello.size != size_ ? fmt::format("world sizes differ: rank 0 says {}, rank {} says {}", size_,
                                                 hello.rank, hello.size)
                                   : fmt::format("two processes claim rank {}", hello.rank);
      }());
    Fd& seat = members_[static_cast<std::size_t>(hello.rank)];
    if (seat) refuse(std::move(guest), fmt::format("two processes claim rank {}", hello.rank));
    seat = std::move(guest.socket);
    ++come_;
  }

  [[noreturn]] void refuse(Lobby::Guest guest, const std::string& why) {
    const Error error(ErrorKind::invalid_usage, why);
    std::vector<Fd> one;
    one.push_back(std::move(guest.socket));
    spread(one, error);
    throw error;
  }

  std::string missing() const {
    std::string ranks;
    int count = 0;
    for (int rank = 1; rank < size_; ++rank) {
      if (members_[static_cast<std::size_t>(rank)]) continue;
      ranks += fmt::format("{}{}", count++ == 0 ? "" : ", ", rank);
    }
    return fmt::format("{} {}", count == 1 ? "rank" : "ranks", ranks);
  }

  const MeetingPlace& place_;
  const int size_;
  int come_ = 0;
  std::vector<Fd> members_;  // by rank; rank 0's own stays empty
};

// Rank 0's side of the star.
class Center : public Rendezvous {
 public:
  explicit Center(std::vector<Fd> members) : members_(std::move(members)) {}

  std::vector<std::vector<std::byte>> exchange(Bytes mine, Deadline deadline) override {
    try {
      auto all = collect(mine, deadline);
      for (const Fd& member : others())
        for (const auto& bytes : all) send_frame(member, 0, bytes, deadline);
      return all;
    } catch (const Error& error) {
      spread(members_, error);
      throw;
    }
  }

  // Ranks of this host may have come over the loopback: what the others came to is the one to tell.
  std::string local_address() const override {
    std::string address;
    for (const Fd& member : others()) {
      address = rondo::local_address(member);
      if (!is_loopback(address)) break;
    }
    return address;
  }

 private:
  std::span<const Fd> others() const { return std::span(members_).subspan(1); }

  std::vector<std::vector<std::byte>> collect(Bytes mine, Deadline deadline) {
    std::vector<std::vector<std::byte>> all{{mine.begin(), mine.end()}};
    for (const Fd& member : others()) {
      try {
        all.push_back(receive_frame(member, deadline).data());
      } catch (const Error& error) {
        fail(error.kind(), "rank {} was lost at the start: {}", all.size(), error.what());
      }
    }
    return all;
  }

  std::vector<Fd> members_;
};

// Every other rank's side.
class Spoke : public Rendezvous {
 public:
  Spoke(Fd center, int size) : center_(std::move(center)), size_(size) {}

  std::vector<std::vector<std::byte>> exchange(Bytes mine, Deadline deadline) override {
    try {
      send_frame(center_, 0, mine, deadline);
    } catch (const Error& error) {
      // Rank 0 has closed: its verdict, if it left one, is read below.
      if (error.kind() != ErrorKind::remote) throw;
    }
    std::vector<std::vector<std::byte>> all;
    for (int rank = 0; rank < size_; ++rank)
      all.push_back(from_center(deadline.extended(verdict_grace)).data());
    return all;
  }

  std::string local_address() const override { return rondo::local_address(center_); }

 private:
  Frame from_center(Deadline deadline) const {
    try {
      return receive_frame(center_, deadline);
    } catch (const Error& error) {
      fail(error.kind(), "rank 0 was lost at the start: {}", error.what());
    }
  }

  Fd center_;
  int size_;
};

// A communicator of one needs nobody.
class Alone : public Rendezvous {
 public:
  std::vector<std::vector<std::byte>> exchange(Bytes mine, Deadline) override {
    return {{mine.begin(), mine.end()}};
  }
};

std::unique_ptr<Rendezvous> join(const MeetingPlace& place, int rank, int size, Deadline deadline) {
  Fd center = connect_to(place.endpoint, deadline);
  if (place.same_user && !is_same_user(center))
    fail(ErrorKind::invalid_usage,
         "another user's process has taken rank 0's place at {}: set MASTER_ADDR, "
         "MASTER_PORT and RONDO_SECRET instead",
         place.endpoint.text());
  const Hello hello{hello_magic, rank, size, place.secret};
  Frame welcome;
  try {
    send_all(center, std::as_bytes(std::span(&hello, 1)), deadline);
    welcome = receive_frame(center, deadline.extended(verdict_grace));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::remote) throw;
    fail(ErrorKind::remote,
         "rank 0 at {} closed the connection of rank {}: it has ended, or turned us away (a wrong "
         "RONDO_SECRET, "
         "or another job's door?)",
         place.endpoint.text(), rank);
  }
  std::move(welcome).data();
  return std::make_unique<Spoke>(std::move(center), size);
}

}  // namespace

Secret secret_from(const std::string& text) {
  Secret secret{};
  if (text.size() > secret.size())
    fail(ErrorKind::invalid_argument, "RONDO_SECRET has {} bytes: expected at most {}", text.size(),
         secret.size());
  std::memcpy(secret.data(), text.data(), text.size());
  return secret;
}

std::unique_ptr<Rendezvous> meet(MeetingPlace place, int rank, int size, Deadline deadline) {
  if (size < 1) fail(ErrorKind::invalid_argument, "world size {}: expected at least 1", size);
  if (rank < 0 || rank >= size)
    fail(ErrorKind::invalid_argument, "rank {}: expected 0 to {}", rank, size - 1);
  if (size == 1) return std::make_unique<Alone>();
  if (rank != 0) return join(place, rank, size, deadline);
  const Fd listener = place.listener ? std::move(place.listener) : listen_on(place.endpoint);
  return std::make_unique<Center>(Reception(place, size).receive_all_ranks(listener, deadline));
}

void together(Rendezvous& rendezvous, const char* doing, Deadline deadline,
              const std::function<void()>& part) {
  std::string my_error;
  try {
    part();
  } catch (const std::exception& error) {
    my_error = error.what();
  }
  const auto all = rendezvous.exchange(std::as_bytes(std::span(my_error)), deadline);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    fail(ErrorKind::system, "rank {} failed while {}: {}", rank, doing,
         std::string(reinterpret_cast<const char*>(all[rank].data()), all[rank].size()));
  }
}

}  // namespace rondo
