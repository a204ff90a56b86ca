#include "models/gather_rows.h"

#include <numeric>

namespace rondo {

std::vector<float> gather_rows_to_first(Communicator& communicator, std::span<const float> mine,
                                        std::span<const std::size_t> counts, const char* scope) {
  const bool first = communicator.rank() == 0;
  std::vector<float> all(first ? std::accumulate(counts.begin(), counts.end(), std::size_t{0}) : 0);
  Call call;
  call.kind = CallKind::gather;
  call.type = DataType::f32;
  call.input.resize(counts.size());
  call.output.resize(counts.size());
  std::size_t start = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const std::size_t bytes = counts[rank] * sizeof(float);
    call.count += counts[rank];
    call.chunk_bytes.push_back(bytes);
    if (first && bytes > 0) call.output[rank] = {{reinterpret_cast<std::byte*>(all.data() + start), bytes}};
    start += counts[rank];
  }
  if (!mine.empty())
    call.input[static_cast<std::size_t>(communicator.rank())] = {
        {reinterpret_cast<std::byte*>(const_cast<float*>(mine.data())), mine.size_bytes()}};
  const LedgerScope booked(communicator.ledger(), scope);
  communicator.run(std::move(call));
  return all;
}

}  // namespace rondo
