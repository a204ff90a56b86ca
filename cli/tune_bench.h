// Times calls on this rank's buffers, in step with the other ranks.
#pragma once

#include <chrono>
#include <cstddef>

#include "cli/buffer.h"
#include "src/calls.h"
#include "src/communicator.h"

namespace rondo {

// One thing to measure. The size is that of the whole buffer: of an all-reduce's, an all-gather's output, a
// reduce-scatter's input.
struct TuneCase {
  int ranks;
  CallKind kind;
  BufferKind buffers;
  std::size_t bytes;
};

// Input and output of each kind, written, so that no page is first touched while the clock runs.
class TuneBench {
 public:
  explicit TuneBench(std::size_t most_bytes);

  // Collective. Median microseconds of the slowest rank's calls on f32, each on inputs that their owner has
  // just written again, as many as fit the time, but a few.
  double measure(Communicator& communicator, const TuneCase& which, std::chrono::duration<double> time);

 private:
  struct Buffers {
    Buffer input, output;
  };

  static Buffers make(BufferKind kind, std::size_t bytes);
  const Buffers& buffers(BufferKind kind) const { return kind == BufferKind::malloc ? malloc_ : rondo_; }

  Buffers malloc_, rondo_;
};

}  // namespace rondo
