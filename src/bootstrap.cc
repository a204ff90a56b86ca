#include "src/bootstrap.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <set>

#include "src/comm_id.h"
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
  CpuAllowance allowance;
  CpuPlace cpu;
  int algorithm;
  std::uint64_t buffer_bytes, slice_bytes;
  std::array<Tuned, tuned_count> tuned;  // in the order of variables()
  int check;
  std::array<char, 128> host_name;  // for messages
  std::array<std::byte, 16> door;   // where a host's first rank hands out the shared memory: a random name
  Secret door_secret;
  int window_probe;  // a descriptor that the others try to open
};

constexpr double no_quota = 1e9;

// "node7 (10.0.0.7)": namespaces and containers may all have one name.
std::string host_name(const std::string& address) {
  std::array<char, 65> name{};
  ::gethostname(name.data(), name.size() - 1);
  return address.empty() ? name.data() : fmt::format("{} ({})", name.data(), address);
}

Introduction introduce(const Settings& settings, const std::string& address) {
  Introduction mine;
  std::memset(static_cast<void*>(&mine), 0, sizeof mine);
  mine.process = this_process();
  ::sched_getaffinity(0, sizeof mine.allowance.cpus, &mine.allowance.cpus);
  mine.cpu = cpu_place(cpu_numbers(mine.allowance.cpus));
  mine.allowance.quota = std::max(1.0, cpu_quota().value_or(no_quota));
  mine.algorithm = static_cast<int>(settings.algorithm);
  mine.buffer_bytes = settings.buffer_bytes;
  mine.slice_bytes = settings.slice_bytes;
  mine.check = settings.check ? 1 : 0;
  host_name(address).copy(mine.host_name.data(), mine.host_name.size() - 1);
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
    need_equal("RONDO_ALGO", std::string(name_of(static_cast<Algorithm>(all[0].algorithm))),
               std::string(name_of(static_cast<Algorithm>(all[rank].algorithm))), rank);
    need_equal("RONDO_BUFFER_BYTES", all[0].buffer_bytes, all[rank].buffer_bytes, rank);
    need_equal("RONDO_SLICE_BYTES", all[0].slice_bytes, all[rank].slice_bytes, rank);
    need_equal("RONDO_CHECK", all[0].check, all[rank].check, rank);
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
// two ways (Communicator::all_have_called).
std::set<std::uint64_t> crowded_machines_of(const std::vector<Introduction>& all) {
  std::vector<ProcessIdentity> processes;
  std::vector<CpuAllowance> allowances;
  for (const Introduction& one : all) {
    processes.push_back(one.process);
    allowances.push_back(one.allowance);
  }
  return crowded_machines(processes, allowances);
}

// The first rank's side, once all others have shown the secret at the door: so all of them are in its queue,
// and there is nobody to wait for. Takes the listener, so that on failure the door closes and nobody waits
// behind it.
void hand_out(Fd listener, const Fd& memory, const std::vector<Fd>& alarms, const Secret& secret,
              int receivers, Deadline deadline) {
  Lobby lobby(listener, secret.size());
  while (receivers > 0) {
    const auto guest = lobby.next_guest(Deadline::now());
    if (!guest) fail(ErrorKind::remote, "{} rank(s) did not fetch the shared memory", receivers);
    if (!std::equal(secret.begin(), secret.end(), guest->greeting.begin())) {
      logger().info("turned a stranger away from the shared memory");
      continue;
    }
    send_descriptor(guest->socket, memory, deadline);
    for (const Fd& alarm : alarms) send_descriptor(guest->socket, alarm, deadline);
    --receivers;
  }
}

Fd knock(const Introduction& first, Deadline deadline) {
  Fd socket = connect_to({.unix_name = "rondo-" + hex(first.door), .host = {}}, deadline);
  send_all(socket, first.door_secret, deadline);
  return socket;
}

// The ranks of one host share a segment, and so many alarms. Its first rank makes them.
std::shared_ptr<Segment> share_segment(Rendezvous& rendezvous, const Introduction& mine,
                                       const Introduction& first, int ranks, SegmentSizes sizes,
                                       int alarm_count, Deadline deadline) {
  const bool is_first = mine.process == first.process && mine.door == first.door;
  Fd memory, door, visit;
  std::vector<Fd> alarms;
  together(rendezvous, "making the shared memory", deadline, [&] {
    if (!is_first) return;
    memory = Segment::create(ranks, sizes);
    for (int i = 0; i < alarm_count; ++i) alarms.push_back(make_alarm());
    door = listen_on({.unix_name = "rondo-" + hex(mine.door), .host = {}});
  });
  together(rendezvous, "asking for the shared memory", deadline, [&] {
    if (!is_first) visit = knock(first, deadline);
  });
  std::shared_ptr<Segment> segment;
  together(rendezvous, "mapping the shared memory", deadline, [&] {
    if (is_first) {
      hand_out(std::move(door), memory, alarms, mine.door_secret, ranks - 1, deadline);
    } else {
      memory = receive_descriptor(visit, deadline);
      for (int i = 0; i < alarm_count; ++i) alarms.push_back(receive_descriptor(visit, deadline));
    }
    segment = Segment::map(memory, ranks, sizes, std::move(alarms));
  });
  return segment;
}

std::unique_ptr<Network> open_network(Rendezvous& rendezvous, int rank, int size, const Settings& settings,
                                      Deadline deadline) {
  std::unique_ptr<Network> network;
  std::vector<std::byte> address;
  together(rendezvous, "opening the network", deadline, [&] {
    network = make_ucx_network(rank, size, settings.net_devices);
    address = network->address();
  });
  network->set_addresses(rendezvous.exchange(address, deadline));
  return network;
}

Hosts hosts_of(const std::vector<Introduction>& all) {
  std::vector<ProcessIdentity> processes;
  std::vector<std::string> names;
  std::vector<CpuPlace> cpus;
  for (const Introduction& one : all) {
    processes.push_back(one.process);
    cpus.push_back(one.cpu);
    names.emplace_back(one.host_name.data());
  }
  return Hosts::group(processes, names, std::move(cpus));
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
// Behind magic, name and secret: "host:port"; or a zero and the host where it is good.
constexpr std::size_t id_address = id_magic.size() + 16 + 64, id_host = id_address + 1;

std::array<std::uint64_t, 2> own_host() {
  const ProcessIdentity process = this_process();
  return {process.boot, process.network};
}

// Ids of make_unique_id that are good on one host say on which; those that the library makes for a split or
// for the threads of a process do not.
void need_own_host(const UniqueId& id) {
  std::array<std::uint64_t, 2> host{};
  std::memcpy(host.data(), id.bytes.data() + id_host, sizeof host);
  if (host != std::array<std::uint64_t, 2>{} && host != own_host())
    fail(ErrorKind::invalid_usage,
         "the unique id was made on another host, and is good only there: expected RONDO_COMM_ID=host:port, "
         "an address of rank 0's host, in the process that makes the id");
}

}  // namespace

Membership join_communicator(Rendezvous& rendezvous, int rank, int size, Settings& settings,
                             Deadline deadline) {
  const std::string address = rendezvous.local_address();
  Introduction mine;
  together(rendezvous, "looking at its process", deadline, [&] { mine = introduce(settings, address); });
  const std::vector<Introduction> all = introductions(rendezvous, mine, deadline);
  check_agreement(all);
  agree_on_tuned(all, settings);
  tell_of_ignored_file(rank, settings);
  const std::set<std::uint64_t> crowded = crowded_machines_of(all);
  Hosts hosts = hosts_of(all);
  hosts.short_of_cores = !crowded.empty();
  std::vector<Introduction> here;
  for (const int neighbour : hosts.neighbours(rank)) here.push_back(all[static_cast<std::size_t>(neighbour)]);
  const auto ranks = static_cast<int>(here.size());
  // Calls between hosts are not staged.
  const SegmentSizes sizes{settings.buffer_bytes,
                           hosts.one() ? Staging::area_bytes(settings.staging_bytes, size) : 0};

  auto segment =
      share_segment(rendezvous, mine, here.front(), ranks, sizes, hosts.one() ? 0 : ranks, deadline);
  Membership membership{rank, size, std::move(segment), {}, {}, false, crowded.count(mine.process.boot) != 0};
  together(rendezvous, "watching the other ranks", deadline, [&] {
    for (const Introduction& one : all) {
      membership.peers.push_back(same_host(one.process, mine.process) ? PeerProcess::watch(one.process)
                                                                      : nullptr);
      membership.processes.push_back(one.process);
    }
  });
  if (hosts.one())
    membership.windows = all_can(rendezvous, mine, all, deadline, [](const Introduction& one) {
      return can_open_windows_of(one.process, one.window_probe);
    });
  else
    membership.network = open_network(rendezvous, rank, size, settings, deadline);
  membership.hosts = hosts;
  membership.address = address;
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

UniqueId make_unique_id() {
  UniqueId id = UniqueId::make();
  if (const auto endpoint = comm_id_endpoint())
    endpoint->text().copy(id.bytes.data() + id_address, id.bytes.size() - id_address - 1);
  else
    std::memcpy(id.bytes.data() + id_host, own_host().data(), 2 * sizeof(std::uint64_t));
  return id;
}

MeetingPlace UniqueId::meeting_place() const {
  if (std::memcmp(bytes.data(), id_magic.data(), id_magic.size()) != 0)
    fail(ErrorKind::invalid_argument, "the unique id was not made by rondoGetUniqueId");
  const auto* random = reinterpret_cast<const std::byte*>(bytes.data() + id_magic.size());
  MeetingPlace place;
  const std::string_view address(bytes.data() + id_address);
  if (const auto colon = address.rfind(':'); colon != std::string_view::npos) {
    place.endpoint.host = address.substr(0, colon);
    std::from_chars(address.data() + colon + 1, address.data() + address.size(), place.endpoint.port);
  } else {
    need_own_host(*this);
    place.endpoint.unix_name = "rondo-" + hex({random, 16});
  }
  std::memcpy(place.secret.data(), random + 16, place.secret.size());
  return place;
}

MeetingPlace meeting_place(const LaunchEnvironment& launch) {
  MeetingPlace place;
  if (launch.master_address.empty()) {
    place.endpoint.unix_name =
        fmt::format("rondo-job-{}-{:016x}", ::geteuid(), std::hash<std::string>{}(launch.job));
    place.same_user = true;
  }
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
