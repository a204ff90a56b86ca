#include "models/unit_buffer.h"

#include <numeric>

namespace rondo {
namespace {

// So that every parameter begins a cache line.
std::size_t whole_lines(std::size_t bytes) {
  constexpr std::size_t line = 64;
  return (bytes + line - 1) / line * line;
}

}  // namespace

UnitBuffer::UnitBuffer(BlockPool& pool, MemoryMeter& meter, MemoryKind kind,
                       std::span<const std::size_t> parameter_bytes)
    : metered_(meter, kind, std::accumulate(parameter_bytes.begin(), parameter_bytes.end(), std::size_t{0})) {
  std::size_t room = 0;
  for (const std::size_t bytes : parameter_bytes) room += whole_lines(bytes);
  block_ = pool.take(room);
  std::size_t offset = 0;
  for (const std::size_t bytes : parameter_bytes) {
    parameters_.push_back(block_.bytes().subspan(offset, bytes));
    offset += whole_lines(bytes);
  }
}

std::span<float> UnitBuffer::floats(std::size_t parameter) const {
  const std::span<std::byte> all = bytes(parameter);
  return {reinterpret_cast<float*>(all.data()), all.size() / sizeof(float)};
}

}  // namespace rondo
