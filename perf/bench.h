// One collective at one size on this rank: its buffers, and the calls on them, of Rondo and of whom it is
// compared with.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "include/rondo/rondo.hpp"
#include "perf/bench_memory.h"
#include "perf/collective.h"
#include "perf/options.h"
#include "perf/pattern.h"
#include "perf/values.h"

namespace rondo {

struct Case {
  std::uint64_t bytes;  // as asked for; what it comes to may be a little less
  DataType type;
  ReduceOp op;
  bool in_place;
};

Seating place_of(const Case& which, int rank, int ranks, int root);

// The operator as a library knows it. That of mulsum is made for a communicator, with its factor.
class Operator {
 public:
  Operator(const Callee& callee, DataType type, ReduceOp op);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  rondoRedOp_t get() const { return op_; }

 private:
  const Callee callee_;
  rondoRedOp_t op_ = rondoSum;
  bool made_ = false;
};

class Bench {
 public:
  // `callees` must outlive it. They work on the same buffers.
  Bench(const Communicator& communicator, const std::vector<Callee>& callees, const Collective& collective,
        const Case& which, const PerfOptions& options);

  void fill();
  // The owner writes to every cache line of its input. What is done on a GPU has no such lines.
  void touch();
  // One iteration of the callee of that number; the time of a call.
  double run(std::size_t callee, int calls);
  std::uint64_t count_wrong();

 private:
  static constexpr std::size_t cache_line = 64;

  rondoStream_t stream() const;
  void need_no_error(const Callee& callee) const;
  CallArguments arguments_for(std::size_t callee) const;
  std::size_t receive_room(bool in_place) const;
  Pattern input_pattern(int rank) const;
  const Pattern& expected_pattern(int source);

  const std::vector<Callee>& callees_;
  const Collective& collective_;
  Case which_;
  Numbers numbers_;
  Seating place_;
  Sizes sizes_;
  std::size_t element_;
  std::unique_ptr<BenchStream> device_stream_;  // of buffers in a device's memory; else null
  BenchMemory receive_memory_, send_memory_;
  Pattern input_;
  std::map<int, Pattern> expected_;  // by source
  std::optional<Stream> stream_;
  std::deque<Operator> operators_;                  // by callee
  std::byte *send_ = nullptr, *receive_ = nullptr;  // on the host
  const std::byte* call_send_ = nullptr;            // as calls are given them
  std::byte* call_receive_ = nullptr;
};

}  // namespace rondo
