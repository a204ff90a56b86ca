#include "src/bootstrap.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "src/control_groups.h"
#include "src/error.h"
#include "src/lobby.h"
#include "src/log.h"
#include "src/staging.h"

namespace rondo {
namespace {

template <std::size_t size>
void fill_random(std::array<std::byte, size>& bytes) {
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got = ::getrandom(bytes.data() + filled, size - filled, 0);
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// A setting that may come from a tune file, on one rank.
struct Tuned {
  std::uint64_t value;
  Origin origin;
};

// What each rank tells the others first.
struct Introduction {
  ProcessIdentity process;
  cpu_set_t cores;
  double quota_cores;
  int algorithm;
  std::uint64_t buffer_bytes, slice_bytes;
  std::array<Tuned, tuned_count> tuned;  // in the order of variables()
  std::array<std::byte, 16> door;        // where rank 0 hands out the shared memory: a random abstract name
  Secret door_secret;
  int window_probe;  // a descriptor that the others try to open
};

constexpr double no_quota = 1e9;

Introduction introduce(const Settings& settings) {
  Introduction mine;
  std::memset(static_cast<void*>(&mine), 0, sizeof mine);
  mine.process = this_process();
  ::sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  mine.quota_cores = std::max(1.0, cpu_quota().value_or(no_quota));
  mine.algorithm = static_cast<int>(settings.algorithm);
  mine.buffer_bytes = settings.buffer_bytes;
  mine.slice_bytes = settings.slice_bytes;
  auto tuned = mine.tuned.begin();
  for (const Variable& variable : variables())
    if (variable.tuned != nullptr) *tuned++ = {settings.*variable.tuned, settings.origin_of(variable.name)};
  fill_random(mine.door);
  fill_random(mine.door_secret);
  mine.window_probe = window_probe();
  return mine;
}

std::vector<Introduction> introductions(Rendezvous& rendezvous, const Introduction& mine, Deadline deadline) {
  std::vector<Introduction> all;
  for (const auto& bytes : rendezvous.exchange(std::as_bytes(std::span(&mine, 1)), deadline)) {
    if (bytes.size() != sizeof(Introduction))
      fail(ErrorKind::invalid_usage, "rank {} runs another version of Rondo", all.size());
    std::memcpy(static_cast<void*>(&all.emplace_back()), bytes.data(), sizeof(Introduction));
  }
  return all;
}

template <typename Value>
void need_equal(const char* variable, const Value& first, const Value& other, std::size_t rank) {
  if (first != other)
    fail(ErrorKind::invalid_usage, "{} differs: rank 0 has {}, rank {} has {}; set it alike on all ranks",
         variable, first, rank, other);
}

void check_agreement(const std::vector<Introduction>& all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].process.boot != all[0].process.boot)
      fail(ErrorKind::invalid_usage, "ranks 0 and {} are on different hosts: shared memory joins one host",
           rank);
    need_equal("RONDO_ALGO", std::string(name_of(static_cast<Algorithm>(all[0].algorithm))),
               std::string(name_of(static_cast<Algorithm>(all[rank].algorithm))), rank);
    need_equal("RONDO_BUFFER_BYTES", all[0].buffer_bytes, all[rank].buffer_bytes, rank);
    need_equal("RONDO_SLICE_BYTES", all[0].slice_bytes, all[rank].slice_bytes, rank);
  }
}

// What somebody has set by hand must be alike on all ranks. What comes from tune files, or from none, is what
// rank 0 has.
void agree_on_tuned(const std::vector<Introduction>& all, Settings& settings) {
  std::size_t i = 0;
  for (const Variable& variable : variables()) {
    if (variable.tuned == nullptr) continue;
    const bool by_hand = std::any_of(all.begin(), all.end(), [&](const Introduction& one) {
      return one.tuned[i].origin == Origin::environment;
    });
    for (std::size_t rank = 1; by_hand && rank < all.size(); ++rank)
      need_equal(variable.name, all[0].tuned[i].value, all[rank].tuned[i].value, rank);
    settings.*variable.tuned = all[0].tuned[i].value;
    ++i;
  }
}

// Rank 0's file is the one that matters. Once a process: communicators may be many.
void tell_of_ignored_file(int rank, const Settings& settings) {
  static std::once_flag told;
  if (rank == 0 && !settings.tune_file_ignored.empty())
    std::call_once(told, [&] {
      logger().info("{} is ignored: {}; run `rondo tune`", settings.tune_file, settings.tune_file_ignored);
    });
}

// A function of what all ranks have told, hence the same on all of them: they wait for one another in one of
// two ways (Communicator::all_have_called). Ranks in different containers may have different quotas.
bool more_ranks_than_cores(const std::vector<Introduction>& all) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  double quota = all.front().quota_cores;
  for (const Introduction& one : all) {
    CPU_OR(&cores, &cores, &one.cores);
    quota = std::min(quota, one.quota_cores);
  }
  return static_cast<double>(all.size()) > std::min<double>(CPU_COUNT(&cores), quota);
}

// Rank 0's side, once all others have shown the secret at the door: so all of them are in its queue, and
// there is nobody to wait for. Takes the listener, so that on failure the door closes and nobody waits behind
// it.
void hand_out(Fd listener, const Fd& memory, const Secret& secret, int receivers, Deadline deadline) {
  Lobby lobby(listener, secret.size());
  while (receivers > 0) {
    const auto guest = lobby.next_guest(Deadline::now());
    if (!guest) fail(ErrorKind::remote, "{} rank(s) did not fetch the shared memory", receivers);
    if (!std::equal(secret.begin(), secret.end(), guest->greeting.begin())) {
      logger().info("turned a stranger away from the shared memory");
      continue;
    }
    send_descriptor(guest->socket, memory, deadline);
    --receivers;
  }
}

Fd knock(const Introduction& rank_0, Deadline deadline) {
  Fd socket = connect_to({.unix_name = "rondo-" + hex(rank_0.door), .host = {}}, deadline);
  send_all(socket, rank_0.door_secret, deadline);
  return socket;
}

SegmentSizes sizes_from(const Settings& settings, int size) {
  return {settings.buffer_bytes, Staging::area_bytes(settings.staging_bytes, size)};
}

std::shared_ptr<Segment> share_segment(Rendezvous& rendezvous, const Introduction& mine,
                                       const Introduction& rank_0, int rank, SegmentSizes sizes, int size,
                                       Deadline deadline) {
  Fd memory, door, visit;
  together(rendezvous, "making the shared memory", deadline, [&] {
    if (rank != 0) return;
    memory = Segment::create(size, sizes);
    door = listen_on({.unix_name = "rondo-" + hex(mine.door), .host = {}});
  });
  together(rendezvous, "asking for the shared memory", deadline, [&] {
    if (rank != 0) visit = knock(rank_0, deadline);
  });
  std::shared_ptr<Segment> segment;
  together(rendezvous, "mapping the shared memory", deadline, [&] {
    if (rank == 0)
      hand_out(std::move(door), memory, mine.door_secret, size - 1, deadline);
    else
      memory = receive_descriptor(visit, deadline);
    segment = Segment::map(memory, size, sizes);
  });
  return segment;
}

// Containers and other users' processes may keep their memory to themselves. What one rank cannot do none
// does, so that all take the same algorithm.
template <typename Can>
bool all_can(Rendezvous& rendezvous, const Introduction& mine, const std::vector<Introduction>& all,
             Deadline deadline, Can can) {
  const bool mine_can = std::all_of(all.begin(), all.end(), [&](const Introduction& one) {
    return one.process == mine.process || (one.process.namespace_ == mine.process.namespace_ && can(one));
  });
  const auto answer = static_cast<std::byte>(mine_can);
  const auto answers = rendezvous.exchange(std::span(&answer, 1), deadline);
  return std::all_of(answers.begin(), answers.end(), [](const auto& bytes) {
    return bytes.size() == 1 && bytes[0] == static_cast<std::byte>(true);
  });
}

constexpr std::array<char, 8> id_magic{'R', 'O', 'N', 'D', 'O', 'I', 'D', '1'};

}  // namespace

Membership join_communicator(Rendezvous& rendezvous, int rank, int size, Settings& settings,
                             Deadline deadline) {
  Introduction mine;
  together(rendezvous, "looking at its process", deadline, [&] { mine = introduce(settings); });
  const std::vector<Introduction> all = introductions(rendezvous, mine, deadline);
  check_agreement(all);
  agree_on_tuned(all, settings);
  tell_of_ignored_file(rank, settings);
  auto segment = share_segment(rendezvous, mine, all[0], rank, sizes_from(settings, size), size, deadline);
  Membership membership{rank, size, std::move(segment), {}, {}, false, false};
  together(rendezvous, "watching the other ranks", deadline, [&] {
    for (const Introduction& one : all) {
      membership.peers.push_back(PeerProcess::watch(one.process));
      membership.processes.push_back(one.process);
    }
  });
  membership.windows = all_can(rendezvous, mine, all, deadline, [](const Introduction& one) {
    return can_open_windows_of(one.process, one.window_probe);
  });
  membership.oversubscribed = more_ranks_than_cores(all);
  return membership;
}

UniqueId UniqueId::make() {
  std::array<std::byte, 80> random;  // 16 bytes of name, 64 of secret
  fill_random(random);
  UniqueId id;
  std::memcpy(id.bytes.data(), id_magic.data(), id_magic.size());
  std::memcpy(id.bytes.data() + id_magic.size(), random.data(), random.size());
  return id;
}

MeetingPlace UniqueId::meeting_place() const {
  if (std::memcmp(bytes.data(), id_magic.data(), id_magic.size()) != 0)
    fail(ErrorKind::invalid_argument, "the unique id was not made by rondoGetUniqueId");
  const auto* random = reinterpret_cast<const std::byte*>(bytes.data() + id_magic.size());
  MeetingPlace place;
  place.endpoint.unix_name = "rondo-" + hex({random, 16});
  std::memcpy(place.secret.data(), random + 16, place.secret.size());
  return place;
}

MeetingPlace meeting_place(const LaunchEnvironment& launch) {
  MeetingPlace place;
  if (launch.master_address.empty())
    place.endpoint.unix_name =
        fmt::format("rondo-job-{}-{:016x}", ::getuid(), std::hash<std::string>{}(launch.job));
  place.endpoint.host = launch.master_address;
  place.endpoint.port = launch.master_port;
  place.secret = secret_from(launch.secret);
  if (launch.listen_fd && launch.rank == 0) {
    // The launcher may have made it to block, and we look again and again.
    if (::fcntl(*launch.listen_fd, F_SETFD, FD_CLOEXEC) != 0 ||
        ::fcntl(*launch.listen_fd, F_SETFL, ::fcntl(*launch.listen_fd, F_GETFL) | O_NONBLOCK) != 0)
      fail(ErrorKind::invalid_argument, "RONDO_LISTEN_FD={}: {}; expected a listening socket",
           *launch.listen_fd, std::strerror(errno));
    place.listener = Fd(*launch.listen_fd);
  }
  return place;
}

}  // namespace rondo
