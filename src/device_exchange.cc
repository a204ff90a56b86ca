#include "src/device_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "src/calls.h"
#include "src/error.h"

namespace rondo {
namespace {

// How a rank has fared with its part, as the others are told.
struct Report {
  std::uint32_t well;
  std::array<char, 252> why_not;
};

template <typename Body>
Report attempt(Body body) {
  Report report{1, {}};
  try {
    body();
  } catch (const Error& error) {
    report.well = 0;
    std::strncpy(report.why_not.data(), error.what(), report.why_not.size() - 1);
  }
  return report;
}

template <typename Card>
std::vector<Card> gather(Communicator& communicator, const Card& mine) {
  std::vector<Card> all(static_cast<std::size_t>(communicator.size()));
  const LedgerScope scope(communicator.ledger(), "device exchange");
  communicator.run(all_gather_call({communicator.rank(), communicator.size()}, &mine, all.data(), sizeof mine,
                                   DataType::u8));
  return all;
}

// What the first rank says that could not do its part; nothing: all could.
std::optional<std::string> complaint(const std::vector<Report>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (reports[rank].well == 0) return fmt::format("rank {}: {}", rank, reports[rank].why_not.data());
  return std::nullopt;
}

}  // namespace

DeviceControl::DeviceControl(Device& device, DeviceStream stream, int size)
    : device_(device),
      stream_(stream),
      size_(static_cast<std::size_t>(size)),
      block_(take_pinned_block(device, stream, (2 + 2 * size_) * sizeof(std::uint64_t))),
      taken_(2 * size_) {
  std::fill_n(words(), 2 + 2 * size_, 0);
}

DeviceControl::~DeviceControl() { give_back(std::move(block_)); }

DeviceControl::Addresses DeviceControl::at(std::uint64_t* begin) const {
  return {begin, begin + 1, begin + 2, begin + 2 + size_};
}

DeviceControl::Addresses DeviceControl::on_device() const {
  return at(reinterpret_cast<std::uint64_t*>(
      device_.address_of_pinned(stream_, reinterpret_cast<const std::byte*>(words()))));
}

void DeviceControl::abort() { __atomic_store_n(at(words()).abort, 1, __ATOMIC_RELEASE); }

std::uint64_t DeviceControl::failure() const {
  return __atomic_load_n(at(words()).failure, __ATOMIC_ACQUIRE);
}

void DeviceControl::take_traffic(Traffic& to) {
  const auto fresh = [&](const std::uint64_t* counters, std::size_t rank, std::uint64_t& taken) {
    const std::uint64_t now = __atomic_load_n(counters + rank, __ATOMIC_ACQUIRE);
    return now - std::exchange(taken, now);
  };
  const Addresses counters = at(words());
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const auto peer = static_cast<int>(rank);
    to.count(ByteClass::payload, peer, fresh(counters.sent, rank, taken_[rank]));
    to.count_fetched(peer, fresh(counters.fetched, rank, taken_[size_ + rank]));
  }
}

DeviceReference DeviceExchange::allocate(DeviceStream stream, std::size_t bytes) {
  own_ = device_.allocate(bytes);
  device_.clear(stream, own_, bytes);
  device_.synchronise(stream);
  const DeviceReference reference = ToldAllocations(device_).tell(stream, own_, bytes);
  if (reference.number == 0) fail(ErrorKind::device, "its device's memory cannot be told to others");
  return reference;
}

void DeviceExchange::close(Communicator& communicator) {
  memories_.clear();
  open_.clear();
  communicator.run(PlainCall{});
}

DeviceExchange::~DeviceExchange() {
  if (own_ == nullptr) return;
  [[maybe_unused]] const Report report = attempt([&] { device_.free(own_); });
}

void DeviceExchange::open(const std::vector<Card>& cards) {
  for (const Card& card : cards) {
    if (card.process == this_process()) {
      memories_.push_back(reinterpret_cast<std::byte*>(card.memory.address));
      continue;
    }
    std::byte* const base = device_.open(stream_, card.memory.handle);
    if (base == nullptr)
      fail(ErrorKind::device, "freed device memory of a peer that is still open here stands at its address");
    open_.push_back(std::make_unique<const OpenAllocation>(device_, stream_, base));
    memories_.push_back(open_.back()->base() + card.memory.offset);
  }
}

std::unique_ptr<DeviceExchange> DeviceExchange::make(Device& device, DeviceStream stream,
                                                     Communicator& communicator, std::size_t bytes,
                                                     std::string& why_not) {
  std::unique_ptr<DeviceExchange> made(new DeviceExchange(device, stream));
  Card mine{this_process(), {}};
  const Report allocated = attempt([&] { mine.memory = made->allocate(stream, bytes); });
  std::optional<std::string> refused = complaint(gather(communicator, allocated));
  if (!refused) {
    const std::vector<Card> cards = gather(communicator, mine);
    refused = complaint(gather(communicator, attempt([&] { made->open(cards); })));
  }
  if (!refused) return made;
  made->close(communicator);
  why_not = *refused;
  return nullptr;
}

}  // namespace rondo
