#include "cli/tune_bench.h"

#include <algorithm>
#include <vector>

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t cache_line = 64;
constexpr std::size_t fewest_calls = 3, most_calls = 1000;

std::size_t input_bytes_of(const TuneCase& which) {
  return which.kind == CallKind::all_gather ? which.bytes / static_cast<std::size_t>(which.ranks)
                                            : which.bytes;
}

PlainCall call_for(const TuneCase& which, const void* input, void* output) {
  const std::size_t elements = which.bytes / sizeof(float);
  const bool parts = which.kind != CallKind::all_reduce;
  return {which.kind, DataType::f32, {},
          input,      output,        parts ? elements / static_cast<std::size_t>(which.ranks) : elements};
}

// The owner writes to every cache line of its input, as a program does that computes it.
void touch(std::byte* input, std::size_t bytes) {
  auto* word = reinterpret_cast<volatile unsigned char*>(input);
  for (std::size_t i = 0; i < bytes; i += cache_line) word[i] = word[i];
}

// The slowest rank's, of each.
void take_slowest(Communicator& communicator, std::vector<double>& seconds) {
  const Seat seat{communicator.rank(), communicator.size()};
  communicator.run(
      all_reduce_call(seat, seconds.data(), seconds.data(), seconds.size(), DataType::f64, {ReduceOp::max}));
}

}  // namespace

TuneBench::Buffers TuneBench::make(BufferKind kind, std::size_t bytes) {
  const std::size_t whole_lines = (bytes + cache_line - 1) / cache_line * cache_line;
  Buffers made{Buffer(whole_lines, kind), Buffer(whole_lines, kind)};
  // Numbers: some machines move zeros faster than anything else.
  for (const Buffer* buffer : {&made.input, &made.output}) {
    auto* const values = reinterpret_cast<float*>(buffer->data());
    for (std::size_t i = 0; i < whole_lines / sizeof(float); ++i)
      values[i] = static_cast<float>(i % 1021) + 1;
  }
  return made;
}

TuneBench::TuneBench(std::size_t most_bytes)
    : malloc_(make(BufferKind::malloc, most_bytes)), rondo_(make(BufferKind::rondo, most_bytes)) {}

double TuneBench::measure(Communicator& communicator, const TuneCase& which, Seconds time) {
  const Buffers& memory = buffers(which.buffers);
  const PlainCall call = call_for(which, memory.input.data(), memory.output.data());
  const std::size_t input_bytes = input_bytes_of(which);
  const auto timed = [&] {
    touch(memory.input.data(), input_bytes);
    communicator.run(PlainCall{});  // a barrier
    const auto start = Clock::now();
    communicator.run(call);
    return Seconds(Clock::now() - start).count();
  };
  timed();  // may set things up
  const auto start = Clock::now();
  timed();
  std::vector<double> one{Seconds(Clock::now() - start).count()};
  take_slowest(communicator, one);  // so that all ranks make as many calls
  const double fitting = time.count() / one.front();
  std::vector<double> seconds(std::clamp(static_cast<std::size_t>(fitting), fewest_calls, most_calls));
  for (double& second : seconds) second = timed();
  take_slowest(communicator, seconds);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2] * 1e6;
}

}  // namespace rondo
