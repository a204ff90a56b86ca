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
  const ByteCounts row = communicator.ledger().total().of(byte_class);
  std::vector<std::uint64_t> matrix;
  for (const std::string& text :
       gather_bytes(communicator,
                    std::string(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(row[0])))) {
    const std::size_t start = matrix.size();
    matrix.resize(start + row.size());
    std::memcpy(matrix.data() + start, text.data(), text.size());
  }
  return matrix;
}

}  // namespace rondo
