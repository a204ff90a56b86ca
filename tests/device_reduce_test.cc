// The GPU's reductions, run here as plain functions, thread after thread, and held against the CPU's own:
// every type, operator, number of sources, count, misalignment and several ways of sharing the work. Then the
// same on a GPU, where there is one.
#include "kernels/device/reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>

#include "kernels/reduce_kernel.h"
#include "tests/elements.h"
#include "tests/gpu.h"

namespace rondo::test {
namespace {

using device::ReduceWork;

constexpr std::size_t most_sources = 5, most_targets = 3, guard = 32;
constexpr std::byte sentinel{0xA5};

// Addresses in their memory: all off by the same, or each by another number of bytes.
enum class Misaligned { alike, each };

std::size_t offset_of(std::size_t buffer, std::size_t misalign, Misaligned how) {
  return how == Misaligned::alike ? misalign : (misalign + 5 * buffer) % 16;
}

// Room for sources and targets, each with guards around it.
class Buffers {
 public:
  static std::size_t room(std::size_t bytes) { return (bytes + 2 * guard + 16 + 63) / 64 * 64; }

  Buffers(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* source(std::size_t s) const { return memory_ + s * room(bytes_); }
  std::byte* target(std::size_t t) const { return source(most_sources + t); }
  static std::size_t all(std::size_t bytes) { return (most_sources + most_targets) * room(bytes); }

 private:
  std::byte* memory_;
  std::size_t bytes_;
};

std::unique_ptr<std::byte[], decltype(&std::free)> aligned_memory(std::size_t bytes) {
  return {static_cast<std::byte*>(std::aligned_alloc(64, bytes)), &std::free};
}

void reduce_plainly(const ReduceWork& work, std::byte* target) {
  reduce_kernel_plain(
      work.type, work.op)({work.sources, static_cast<std::size_t>(work.source_count), work.first_is_partial,
                           work.complete, &target, 1, nullptr, 0, work.count, work.scalar, work.ranks});
}

void reduce_with_threads(const ReduceWork& work, std::size_t threads) {
  // The last first: no thread may count on another.
  for (std::size_t thread = threads; thread-- > 0;) device::reduce_strided(work, {thread, threads});
}

// Makes the work of one case in `memory`, has it done and looks at all targets and what lies around them.
class Case {
 public:
  Case(const ReduceWork& reduction, std::span<const Memory> inputs, std::size_t targets, std::size_t count,
       std::size_t misalign, Misaligned how, const Buffers& buffers)
      : work_(reduction), bytes_(count * size_of(reduction.type)), buffers_(buffers) {
    work_.source_count = static_cast<int>(inputs.size());
    work_.target_count = static_cast<int>(targets);
    work_.count = count;
    for (std::size_t s = 0; s < inputs.size(); ++s) {
      std::byte* const at = buffers.source(s) + guard + offset_of(s, misalign, how);
      if (bytes_ > 0) std::memcpy(at, inputs[s].data(), bytes_);
      work_.sources[s] = at;
    }
    for (std::size_t t = 0; t < targets; ++t) {
      std::memset(buffers.target(t), static_cast<int>(sentinel), bytes_ + 2 * guard + 16);
      work_.targets[t] = buffers.target(t) + guard + offset_of(t + inputs.size(), misalign, how);
    }
  }

  const ReduceWork& work() const { return work_; }

  void expect(const Memory& expected) const {
    for (int t = 0; t < work_.target_count; ++t) {
      const std::byte* const to = work_.targets[t];
      ASSERT_TRUE(same(work_.type, to, expected.data(), work_.count)) << text() << ", target " << t;
      const std::byte* const begin = buffers_.target(static_cast<std::size_t>(t));
      for (const std::byte* byte = begin; byte < begin + bytes_ + 2 * guard + 16; ++byte)
        if (byte < to || byte >= to + bytes_) {
          ASSERT_EQ(*byte, sentinel) << text() << ", written at " << byte - to << " of target " << t;
        }
    }
  }

 private:
  std::string text() const {
    return std::string(name_of(work_.type)) + " " + std::string(name_of(work_.op)) + ", " +
           std::to_string(work_.source_count) + " sources, count " + std::to_string(work_.count) +
           ", first source " + std::to_string(reinterpret_cast<std::uintptr_t>(work_.sources[0]) % 16) +
           " bytes off";
  }

  ReduceWork work_;
  std::size_t bytes_;
  const Buffers& buffers_;
};

ReduceWork reduction_of(DataType type, ReduceOp op, std::size_t ranks) {
  ReduceWork work{};
  work.type = type;
  work.op = op;
  work.scalar = factor_of(type, is_float(type) ? 1.0 / 3 : 3);
  work.ranks = static_cast<int>(ranks);
  work.complete = true;
  return work;
}

// All operators and numbers of sources, with random inputs and what the CPU makes of them.
template <typename Visit>
void for_each_reduction(DataType type, std::size_t count, Visit visit) {
  std::mt19937 random(11);
  for (const ReduceOp op : all_ops()) {
    for (std::size_t sources = 1; sources <= most_sources; ++sources) {
      std::vector<Memory> inputs;
      for (std::size_t s = 0; s < sources; ++s) inputs.push_back(random_elements(type, count, random));
      ReduceWork work = reduction_of(type, op, sources);
      work.source_count = static_cast<int>(sources);
      work.count = count;
      for (std::size_t s = 0; s < sources; ++s) work.sources[s] = inputs[s].data();
      Memory expected(count * size_of(type));
      reduce_plainly(work, expected.data());
      visit(work, inputs, expected);
    }
  }
}

class DeviceReduce : public ::testing::TestWithParam<DataType> {};

TEST_P(DeviceReduce, HasTheBitsOfTheCpuAtEveryCountAndAlignment) {
  const DataType type = GetParam();
  const std::size_t most = 3 * 16 / size_of(type) + 5;
  const auto memory = aligned_memory(Buffers::all(most * size_of(type)));
  const Buffers buffers(memory.get(), most * size_of(type));
  for_each_reduction(type, most, [&](const ReduceWork& work, const auto& inputs, const Memory& expected) {
    for (std::size_t count = 0; count <= most; ++count)
      for (std::size_t misalign = 0; misalign < 16; ++misalign)
        for (const Misaligned how : {Misaligned::alike, Misaligned::each}) {
          const Case one(work, inputs, 1 + misalign % most_targets, count, misalign, how, buffers);
          reduce_with_threads(one.work(), 1 + 2 * (count % 2));
          ASSERT_NO_FATAL_FAILURE(one.expect(expected));
        }
  });
}

// Enough for threads that have several vectors under way, and for those that get none.
TEST_P(DeviceReduce, HasTheBitsOfTheCpuHoweverTheWorkIsShared) {
  const DataType type = GetParam();
  const std::size_t most = 1000;
  const auto memory = aligned_memory(Buffers::all(most * size_of(type)));
  const Buffers buffers(memory.get(), most * size_of(type));
  for_each_reduction(type, most, [&](const ReduceWork& work, const auto& inputs, const Memory& expected) {
    for (const std::size_t threads : {1u, 2u, 7u, 32u, 512u})
      for (const std::size_t count : {most, most - 1, std::size_t{97}}) {
        const Case one(work, inputs, 2, count, threads % 16, Misaligned::alike, buffers);
        reduce_with_threads(one.work(), threads);
        ASSERT_NO_FATAL_FAILURE(one.expect(expected));
      }
  });
}

TEST_P(DeviceReduce, ContinuesFromAPartialResultAndMayLeaveOne) {
  const DataType type = GetParam();
  const std::size_t count = 77;
  for_each_reduction(type, count, [&](ReduceWork work, const auto&, Memory& expected) {
    for (const bool complete : {false, true}) {
      work.first_is_partial = true;
      work.complete = complete;
      Memory result(expected.size());
      reduce_plainly(work, expected.data());
      work.target_count = 1;
      work.targets[0] = result.data();
      reduce_with_threads(work, 3);
      ASSERT_TRUE(same(type, result.data(), expected.data(), count)) << name_of(work.op) << complete;
    }
  });
}

TEST_P(DeviceReduce, MayWriteOverAnyOfItsSources) {
  const DataType type = GetParam();
  const std::size_t count = 300;
  for_each_reduction(type, count, [&](ReduceWork work, std::vector<Memory> inputs, const Memory& expected) {
    for (std::size_t over = 0; over < inputs.size(); ++over) {
      std::vector<Memory> room = inputs;
      for (std::size_t s = 0; s < room.size(); ++s) work.sources[s] = room[s].data();
      work.target_count = 1;
      work.targets[0] = room[over].data();
      reduce_with_threads(work, 4);
      ASSERT_TRUE(same(type, room[over].data(), expected.data(), count)) << name_of(work.op) << over;
      for (std::size_t s = 0; s < room.size(); ++s)
        if (s != over) {
          ASSERT_EQ(room[s], inputs[s]);
        }
    }
  });
}

TEST_P(DeviceReduce, OnAGpuHasTheBitsOfTheCpu) {
  const std::string none = why_no_gpu();
  if (!none.empty()) GTEST_SKIP() << none;
  const DataType type = GetParam();
  const std::size_t most = 20000;
  const SharedWithGpu memory(Buffers::all(most * size_of(type)));
  const Buffers buffers(memory.data(), most * size_of(type));
  for_each_reduction(type, most, [&](const ReduceWork& work, const auto& inputs, const Memory& expected) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1000}, most})
      for (const std::size_t misalign : {0, 1, 2, 4, 8, 15})
        for (const Misaligned how : {Misaligned::alike, Misaligned::each}) {
          const Case one(work, inputs, 2, count, misalign, how, buffers);
          reduce_on_gpu(one.work(), 3);
          ASSERT_NO_FATAL_FAILURE(one.expect(expected));
        }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceReduce, ::testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(DeviceCopy, CopiesEveryCountAndAlignmentAndNoMore) {
  constexpr std::size_t most = 150;
  const auto memory = aligned_memory(Buffers::all(most));
  const Buffers buffers(memory.get(), most);
  std::mt19937 random(12);
  const Memory data = random_elements(DataType::u8, most, random);
  const ReduceWork copy = reduction_of(DataType::u8, ReduceOp::sum, 1);
  for (std::size_t bytes = 0; bytes <= most; ++bytes)
    for (std::size_t misalign = 0; misalign < 16; ++misalign)
      for (const Misaligned how : {Misaligned::alike, Misaligned::each})
        for (const std::size_t threads : {1u, 3u}) {
          const Case one(copy, std::span(&data, 1), 1 + bytes % 3, bytes, misalign, how, buffers);
          for (std::size_t thread = threads; thread-- > 0;)
            device::copy_strided(one.work().sources[0], one.work().targets, one.work().target_count, bytes,
                                 {thread, threads});
          ASSERT_NO_FATAL_FAILURE(one.expect(data));
        }
}

}  // namespace
}  // namespace rondo::test
