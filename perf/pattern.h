// What stands in the buffers: numbers that repeat with a prime period, so that no chunk looks like its
// neighbour, and that are made by a formula, so that every rank knows what every element must come out as.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/types.h"

namespace rondo {

class Pattern {
 public:
  // Element i is value(i % period), as a `type`: integers wrap, floating-point numbers round.
  Pattern(DataType type, const std::function<double(std::size_t)>& value);

  // Writes the elements first, first + 1, ...
  void write(std::byte* to, std::size_t first, std::size_t count) const;
  // How many of the elements are not those that write() would write, bit by bit.
  std::size_t count_wrong(const std::byte* is, std::size_t first, std::size_t count) const;

  static constexpr std::size_t period = 4093;

 private:
  // Calls visit(place in the buffer, place in the period, bytes) for each stretch that lies in one period.
  template <typename Visit>
  void for_stretches(std::size_t first, std::size_t count, Visit visit) const;

  std::size_t element_;
  std::vector<std::byte> bytes_;
};

}  // namespace rondo
