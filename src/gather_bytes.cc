#include "src/gather_bytes.h"

#include <cstring>
#include <numeric>

#include "src/calls.h"

namespace rondo {

std::vector<std::string> gather_bytes(Communicator& communicator, const std::string& mine) {
  const LedgerScope scope(communicator.ledger(), report_scope);
  const Seat seat{communicator.rank(), communicator.size()};
  const std::size_t size = mine.size();
  std::vector<std::size_t> sizes(static_cast<std::size_t>(seat.size));
  communicator.run(all_gather_call(seat, &size, sizes.data(), 1, DataType::u64));
  std::string all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  communicator.run(all_gather_v_call(seat, mine.data(), all.data(), sizes, DataType::u8));
  std::vector<std::string> texts;
  std::size_t offset = 0;
  for (const std::size_t bytes : sizes) {
    texts.push_back(all.substr(offset, bytes));
    offset += bytes;
  }
  return texts;
}

namespace {

// [from * size + to], from what each rank sent to each and what it read from each.
std::vector<std::uint64_t> merged_matrix(Communicator& communicator, const ByteCounts& sent,
                                         const ByteCounts& fetched) {
  const std::size_t size = sent.size();
  ByteCounts mine = sent;
  mine.insert(mine.end(), fetched.begin(), fetched.end());
  std::vector<std::uint64_t> matrix(size * size);
  const std::vector<std::string> texts = gather_bytes(
      communicator, std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(mine[0])));
  for (std::size_t mover = 0; mover < size; ++mover) {
    std::memcpy(mine.data(), texts[mover].data(), texts[mover].size());
    for (std::size_t peer = 0; peer < size; ++peer) {
      matrix[mover * size + peer] += mine[peer];
      matrix[peer * size + mover] += mine[size + peer];
    }
  }
  return matrix;
}

}  // namespace

std::vector<std::uint64_t> ledger_matrix(Communicator& communicator, ByteClass byte_class) {
  const Traffic total = communicator.ledger().total();
  const ByteCounts none(total.fetched.size());
  return merged_matrix(communicator, total.of(byte_class),
                       byte_class == ByteClass::payload ? total.fetched : none);
}

std::vector<std::uint64_t> expected_matrix(Communicator& communicator) {
  LedgerRow sum(communicator.size());
  for (const auto& [key, row] : communicator.ledger().rows()) {
    if (is_report(key.scope)) continue;
    for (std::size_t peer = 0; peer < row.expected.size(); ++peer) {
      sum.expected[peer] += row.expected[peer];
      sum.expected_fetched[peer] += row.expected_fetched[peer];
    }
  }
  return merged_matrix(communicator, sum.expected, sum.expected_fetched);
}

}  // namespace rondo
