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

std::vector<std::uint64_t> ledger_matrix(Communicator& communicator, ByteClass byte_class) {
  const Traffic total = communicator.ledger().total();
  const std::size_t size = total.fetched.size();
  // What this rank sent to each, then what it read from each.
  ByteCounts mine = total.of(byte_class);
  if (byte_class == ByteClass::payload)
    mine.insert(mine.end(), total.fetched.begin(), total.fetched.end());
  else
    mine.resize(2 * size);
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

}  // namespace rondo
