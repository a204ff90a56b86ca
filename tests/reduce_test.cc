// Reductions against a slow reference written apart from them: every type, operator, number of sources, count
// and misalignment; then the numbers that went wrong elsewhere.
#include "kernels/reduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "kernels/half.h"
#include "kernels/reduce_kernel.h"
#include "tests/elements.h"

namespace rondo::test {
namespace {

constexpr std::size_t most_elements = 70;

// ---- the reference: one element at a time, integers in 128 bits and cut at the end ----

double reference_float(ReduceOp op, const std::vector<double>& values, double factor, bool single) {
  const auto rounded = [&](double value) {
    return single ? static_cast<double>(static_cast<float>(value)) : value;
  };
  const auto scaled = [&](double value) {
    return op == ReduceOp::premul_sum ? rounded(value * factor) : value;
  };
  double result = scaled(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double value = scaled(values[i]);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
      case ReduceOp::premul_sum:
        result = rounded(result + value);
        break;
      case ReduceOp::prod:
        result = rounded(result * value);
        break;
      case ReduceOp::max:
        result = std::isnan(result) || std::isnan(value) ? NAN
                 : result == value                       ? (std::signbit(result) ? value : result)
                                                         : std::fmax(result, value);
        break;
      case ReduceOp::min:
        result = std::isnan(result) || std::isnan(value) ? NAN
                 : result == value                       ? (std::signbit(result) ? result : value)
                                                         : std::fmin(result, value);
        break;
    }
  }
  return op == ReduceOp::avg ? rounded(result / static_cast<double>(values.size())) : result;
}

template <typename T>
T reference_integer(ReduceOp op, const std::vector<T>& values, T factor) {
  __extension__ using Wide = __int128;
  __extension__ using Unsigned = unsigned __int128;
  const auto product = [](Wide a, Wide b) {
    return static_cast<Wide>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  };
  const auto wrapped = [](Wide value) { return static_cast<Wide>(static_cast<T>(value)); };
  const auto scaled = [&](T value) {
    return op == ReduceOp::premul_sum ? wrapped(product(value, factor)) : Wide{value};
  };
  Wide result = scaled(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Wide value = scaled(values[i]);
    if (op == ReduceOp::prod)
      result = wrapped(product(result, value));
    else if (op == ReduceOp::max)
      result = std::max(result, value);
    else if (op == ReduceOp::min)
      result = std::min(result, value);
    else
      result = wrapped(result + value);
  }
  if (op == ReduceOp::avg) result /= static_cast<Wide>(values.size());
  return static_cast<T>(result);
}

Memory reference(DataType type, ReduceOp op, const std::vector<Memory>& sources, std::uint64_t scalar) {
  Memory result(sources[0].size());
  with_type(type, [&](auto element) {
    using T = decltype(element);
    const auto element_of = [](const std::byte* from, std::size_t i) {
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof value);
      return value;
    };
    const auto* scalar_bytes = reinterpret_cast<const std::byte*>(&scalar);
    for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
      std::byte* to = result.data() + i * sizeof(T);
      if constexpr (std::is_integral_v<T>) {
        std::vector<T> values;
        for (const Memory& source : sources) values.push_back(element_of(source.data(), i));
        const T value = reference_integer<T>(op, values, element_of(scalar_bytes, 0));
        std::memcpy(to, &value, sizeof value);
      } else {
        std::vector<double> values;
        for (const Memory& source : sources)
          values.push_back(get_element(source.data() + i * sizeof(T), type));
        set_element(to, type,
                    reference_float(op, values, get_element(scalar_bytes, type), type != DataType::f64));
      }
    }
  });
  return result;
}

class Reduce : public ::testing::TestWithParam<DataType> {
 protected:
  // Puts source number s `misalign + s` bytes off, the target likewise, and reduces the first `count`
  // elements.
  void reduce_and_compare(const Reduction& reduction, const std::vector<Memory>& sources,
                          const Memory& expected, std::size_t count, std::size_t misalign) {
    const DataType type = GetParam();
    const std::size_t bytes = count * size_of(type);
    std::vector<const std::byte*> pieces;
    for (std::size_t s = 0; s < sources.size(); ++s) {
      std::byte* at = arena_[s].data() + (misalign + s) % 8;
      if (bytes > 0) std::memcpy(at, sources[s].data(), bytes);
      pieces.push_back(at);
    }
    Memory& target = arena_[sources.size()];
    std::fill(target.begin(), target.end(), sentinel);
    std::byte* to = target.data() + guard + misalign;
    reduce(reduction, pieces, FirstSource::input, Result::complete, to, count);
    ASSERT_TRUE(same(type, to, expected.data(), count))
        << name_of(type) << " " << name_of(reduction.op) << ", " << sources.size() << " sources, count "
        << count << ", misaligned by " << misalign;
    for (std::byte* byte = target.data(); byte < target.data() + target.size(); ++byte)
      if (byte < to || byte >= to + bytes) {
        ASSERT_EQ(*byte, sentinel) << "written at " << byte - to;
      }
  }

  static constexpr std::size_t guard = 32;
  static constexpr std::byte sentinel{0xA5};
  std::vector<Memory> arena_{6, Memory(1600 * 8 + 2 * guard + 8)};
};

TEST_P(Reduce, AgreesWithTheReferenceAtEveryCountAndAlignment) {
  const DataType type = GetParam();
  std::mt19937 random(7);
  for (const ReduceOp op : all_ops()) {
    for (std::size_t sources = 1; sources <= 5; ++sources) {
      std::vector<Memory> inputs;
      for (std::size_t s = 0; s < sources; ++s)
        inputs.push_back(random_elements(type, most_elements, random));
      const Reduction reduction{type, op, factor_of(type, is_float(type) ? 1.0 / 3 : 3),
                                static_cast<int>(sources)};
      const Memory expected = reference(type, op, inputs, reduction.scalar);
      for (std::size_t count = 0; count <= most_elements; ++count)
        for (std::size_t misalign = 0; misalign < 8; ++misalign)
          ASSERT_NO_FATAL_FAILURE(reduce_and_compare(reduction, inputs, expected, count, misalign));
    }
  }
}

TEST_P(Reduce, AgreesAcrossTheEdgesOfItsBlocks) {
  const DataType type = GetParam();
  std::mt19937 random(8);
  for (const ReduceOp op : all_ops()) {
    const std::vector<Memory> inputs{random_elements(type, 1600, random),
                                     random_elements(type, 1600, random)};
    const Reduction reduction{type, op, factor_of(type, 2), 2};
    const Memory expected = reference(type, op, inputs, reduction.scalar);
    for (const std::size_t count : {511u, 512u, 513u, 1023u, 1024u, 1025u, 1600u})
      ASSERT_NO_FATAL_FAILURE(reduce_and_compare(reduction, inputs, expected, count, 1));
  }
}

TEST_P(Reduce, MayWriteOverAnyOfItsSources) {
  const DataType type = GetParam();
  std::mt19937 random(9);
  for (const ReduceOp op : all_ops()) {
    for (std::size_t target = 0; target < 3; ++target) {
      std::vector<Memory> inputs;
      for (int s = 0; s < 3; ++s) inputs.push_back(random_elements(type, 600, random));
      const Reduction reduction{type, op, factor_of(type, 2), 3};
      const Memory expected = reference(type, op, inputs, reduction.scalar);
      std::vector<Memory> work = inputs;
      const std::vector<const std::byte*> pieces{work[0].data(), work[1].data(), work[2].data()};
      reduce(reduction, pieces, FirstSource::input, Result::complete, work[target].data(), 600);
      EXPECT_TRUE(same(type, work[target].data(), expected.data(), 600)) << name_of(op) << " over " << target;
      for (std::size_t s = 0; s < 3; ++s)
        if (s != target) {
          EXPECT_EQ(work[s], inputs[s]);
        }
    }
  }
}

// A ring reduces two at a time: the partial result of the ranks before is multiplied and divided no second
// time.
TEST_P(Reduce, PartialResultsAreScaledOnce) {
  const DataType type = GetParam();
  const auto one = [&](double value) {
    Memory memory(size_of(type));
    set_element(memory.data(), type, value);
    return memory;
  };
  const Memory a = one(3), b = one(5), c = one(10);
  for (const auto& [op, expected] : {std::pair{ReduceOp::premul_sum, 36.0}, std::pair{ReduceOp::avg, 6.0}}) {
    const Reduction reduction{type, op, factor_of(type, 2), 3};
    Memory partial = one(0), result = one(0);
    const std::vector<const std::byte*> first{a.data(), b.data()}, second{partial.data(), c.data()};
    reduce(reduction, first, FirstSource::input, Result::partial, partial.data(), 1);
    reduce(reduction, second, FirstSource::partial, Result::complete, result.data(), 1);
    EXPECT_EQ(get_element(result.data(), type), expected) << name_of(op);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Reduce, ::testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// ---- reports from the field ----

template <typename T>
std::vector<T> reduced(DataType type, ReduceOp op, const std::vector<std::vector<T>>& sources) {
  std::vector<const std::byte*> pieces;
  for (const auto& source : sources) pieces.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<T> result(sources[0].size());
  reduce({type, op, 0, static_cast<int>(sources.size())}, pieces, FirstSource::input, Result::complete,
         reinterpret_cast<std::byte*>(result.data()), result.size());
  return result;
}

template <typename T>
void expect_all(DataType type, ReduceOp op, const std::vector<T>& inputs, T expected) {
  for (std::size_t length = 1; length <= 65; ++length) {
    std::vector<std::vector<T>> sources;
    for (const T input : inputs) sources.emplace_back(length, input);
    EXPECT_EQ(reduced(type, op, sources), std::vector<T>(length, expected)) << "length " << length;
  }
}

TEST(ReduceReports, IntegersWrapInVectorBodyAndTailAlike) {
  expect_all<std::int8_t>(DataType::i8, ReduceOp::sum, {100, 90}, -66);
  expect_all<std::uint8_t>(DataType::u8, ReduceOp::sum, {250, 10}, 4);
  expect_all<std::int32_t>(DataType::i32, ReduceOp::sum, {std::numeric_limits<std::int32_t>::max(), 1},
                           std::numeric_limits<std::int32_t>::min());
  expect_all<std::int64_t>(DataType::i64, ReduceOp::prod, {std::numeric_limits<std::int64_t>::max(), 2}, -2);
  expect_all<std::int32_t>(DataType::i32, ReduceOp::prod, {65536, 65536}, 0);
}

TEST(ReduceReports, IntegerAverageTruncatesTowardZero) {
  expect_all<std::int32_t>(DataType::i32, ReduceOp::avg, {5, 8}, 6);
  expect_all<std::int32_t>(DataType::i32, ReduceOp::avg, {-5, -8}, -6);
  expect_all<std::int8_t>(DataType::i8, ReduceOp::avg, {-5, -8}, -6);
  expect_all<std::int64_t>(DataType::i64, ReduceOp::avg, {-5, -8}, -6);
  expect_all<std::uint8_t>(DataType::u8, ReduceOp::avg, {5, 8}, 6);
  expect_all<std::uint64_t>(DataType::u64, ReduceOp::avg, {~std::uint64_t{0}, 0, 0}, ~std::uint64_t{0} / 3);
}

TEST(ReduceReports, NanWinsWhoeverHoldsIt) {
  for (const DataType type : {DataType::f16, DataType::f32, DataType::f64, DataType::bf16}) {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      for (std::size_t holder = 0; holder < 4; ++holder) {
        std::vector<double> values{7, -2, 9};
        values.insert(values.begin() + static_cast<long>(holder), NAN);
        std::vector<Memory> sources;
        for (const double value : values) {
          sources.emplace_back(33 * size_of(type));
          for (std::size_t i = 0; i < 33; ++i)
            set_element(sources.back().data() + i * size_of(type), type, value);
        }
        std::vector<const std::byte*> pieces;
        for (const Memory& source : sources) pieces.push_back(source.data());
        Memory result(33 * size_of(type));
        reduce({type, op}, pieces, FirstSource::input, Result::complete, result.data(), 33);
        for (std::size_t i = 0; i < 33; ++i)
          EXPECT_TRUE(std::isnan(get_element(result.data() + i * size_of(type), type)))
              << name_of(type) << " " << name_of(op) << ", held by " << holder;
      }
    }
  }
}

TEST(ReduceReports, MinusZeroIsLessThanZeroInEitherOrder) {
  for (const auto& inputs : {std::vector{0.0f, -0.0f}, std::vector{-0.0f, 0.0f}}) {
    const std::vector<std::vector<float>> sources{std::vector<float>(9, inputs[0]),
                                                  std::vector<float>(9, inputs[1])};
    for (const float value : reduced(DataType::f32, ReduceOp::min, sources)) EXPECT_TRUE(std::signbit(value));
    for (const float value : reduced(DataType::f32, ReduceOp::max, sources))
      EXPECT_FALSE(std::signbit(value));
  }
}

double sum_of_one_element(DataType type, const std::vector<double>& values) {
  std::vector<Memory> sources;
  for (const double value : values) {
    sources.emplace_back(size_of(type));
    set_element(sources.back().data(), type, value);
  }
  std::vector<const std::byte*> pieces;
  for (const Memory& source : sources) pieces.push_back(source.data());
  Memory result(size_of(type));
  reduce({type, ReduceOp::sum}, pieces, FirstSource::input, Result::complete, result.data(), 1);
  return get_element(result.data(), type);
}

TEST(ReduceReports, SixteenBitTypesAccumulateInF32AndRoundOnce) {
  // 527 lies between 524 and 528 in bf16. Rounding at each step would stay at 512.
  EXPECT_EQ(sum_of_one_element(DataType::bf16, {512, 3, 3, 3, 3, 3}), 528);
  // 79984 is more than f16 can hold, but only on the way.
  EXPECT_EQ(sum_of_one_element(DataType::f16, {49984, 30000, -49984, -30000}), 0);
}

TEST(ReduceReports, TheFactorIsReadInItsOwnType) {
  for (const DataType type : {DataType::f16, DataType::f32, DataType::f64, DataType::bf16}) {
    for (const double factor : {0.25, 2.0, 1.0 / 3}) {
      Memory a(size_of(type)), b(size_of(type)), result(size_of(type)), expected(size_of(type));
      set_element(a.data(), type, 12);
      set_element(b.data(), type, -3);
      const Reduction reduction{type, ReduceOp::premul_sum, factor_of(type, factor), 2};
      reduce(reduction, std::vector<const std::byte*>{a.data(), b.data()}, FirstSource::input,
             Result::complete, result.data(), 1);
      // The factor as the type holds it.
      const double held = get_element(reinterpret_cast<const std::byte*>(&reduction.scalar), type);
      set_element(expected.data(), type, 12 * held - 3 * held);
      EXPECT_EQ(get_element(result.data(), type), get_element(expected.data(), type))
          << name_of(type) << factor;
      EXPECT_NEAR(get_element(result.data(), type), 9 * factor, 9 * factor / 100);
    }
  }
}

TEST(Copies, ReachTargetsThatLieAlikeAndOthersAndTheSourceItself) {
  constexpr std::size_t line = 64, most = 40'000, guard = line;
  constexpr auto sentinel = std::byte{0x5A};
  std::mt19937_64 random(11);
  for (const std::size_t bytes : {0u, 1u, 16'383u, 16'384u, 16'385u, 40'000u})
    for (const std::size_t second : {0u, 16u, 33u})
      for (const std::size_t target_count : {1u, 2u})
        for (const bool in_place : {false, true}) {
          std::vector<std::byte> source(most);
          for (std::byte& byte : source) byte = static_cast<std::byte>(random());
          const std::vector<std::byte> input = source;
          // Two kinds of places in a line: begins differ by a multiple of a line, plus `second`.
          std::vector<std::byte> rooms(2 * (most + 3 * guard), sentinel);
          const std::size_t begins[] = {guard, 2 * guard + most / line * line + line + second};
          std::byte* targets[] = {rooms.data() + begins[0], rooms.data() + begins[1]};
          if (in_place) targets[0] = source.data();
          copy(source.data(), Targets(std::span(targets).first(target_count)), bytes);
          ASSERT_EQ(source, input) << "the source has changed";
          for (std::size_t i = 0; i < rooms.size(); ++i) {
            std::byte expected = sentinel;
            for (std::size_t t = in_place ? 1 : 0; t < target_count; ++t)
              if (i >= begins[t] && i < begins[t] + bytes) expected = input[i - begins[t]];
            ASSERT_EQ(rooms[i], expected) << bytes << " bytes, " << target_count << " targets, " << second;
          }
        }
}

// ---- the loops of all instruction sets, with all kinds of stores, against the plain ones ----

class Kernels : public testing::TestWithParam<DataType> {};

// Two vectors of the widest kind and a little more, at every misalignment of a cache line, between sentinels.
TEST_P(Kernels, OfEveryInstructionSetGiveTheSameBits) {
  const DataType type = GetParam();
  constexpr std::size_t line = 64, most_bytes = 2 * line + 24;
  constexpr auto sentinel = std::byte{0x5A};
  using Room = std::array<std::byte, 4 * line>;
  std::mt19937_64 random(7);
  std::vector<std::vector<std::byte>> inputs(3);
  for (auto& input : inputs) {
    for (std::size_t i = 0; i < most_bytes + line; ++i) input.push_back(static_cast<std::byte>(random()));
    // Random bits hold NaNs, and which NaN a sum of NaNs gives is not promised: no exponent is all ones.
    if (is_float(type))
      for (std::size_t i = size_of(type) - 1; i < input.size(); i += size_of(type))
        input[i] &= std::byte{0xBB};
  }
  const std::byte* sources[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
  std::uint64_t factor = 3;
  if (type == DataType::f16) factor = to_f16(3.0f).bits;
  if (type == DataType::bf16) factor = to_bf16(3.0f).bits;
  if (type == DataType::f32) factor = std::bit_cast<std::uint32_t>(3.0f);
  if (type == DataType::f64) factor = std::bit_cast<std::uint64_t>(3.0);
  for (const ReduceOp op : all_ops())
    for (std::size_t count = 0; count * size_of(type) <= most_bytes; ++count)
      for (std::size_t misalignment = 0; misalignment < line; misalignment += count % 2 ? 1 : size_of(type)) {
        std::optional<Room> expected;
        for (const NamedReduceKernels& set : reduce_kernels_of_this_cpu())
          for (const bool streaming : {false, true}) {
            alignas(line) Room first, second;  // alike, so that streaming stores are possible
            first.fill(sentinel);
            second.fill(sentinel);
            std::byte* targets[] = {first.data() + misalignment, second.data() + misalignment};
            const std::size_t streamed = streaming ? 2 : 0;
            set.kernels(type, op)(
                {sources, 3, false, true, targets, 2 - streamed, targets, streamed, count, factor, 3});
            if (!expected) expected = first;
            const std::string which =
                fmt::format("{}{} {}, {} elements, {} off", set.name, streaming ? " streaming" : "",
                            name_of(op), count, misalignment);
            ASSERT_EQ(*expected, first) << which;
            ASSERT_EQ(*expected, second) << which;
          }
        for (std::size_t i = 0; i < expected->size(); ++i) {
          const bool inside = i >= misalignment && i < misalignment + count * size_of(type);
          ASSERT_TRUE(inside || (*expected)[i] == sentinel) << i;
        }
      }
}

// Long enough for vectors to begin where the first target begins a cache line; in place, so that nothing may
// be taken twice. The reference goes element by element.
TEST_P(Kernels, LongCallsAreRightAtEveryMisalignment) {
  const DataType type = GetParam();
  constexpr std::size_t line = 64, bytes = 16384 + 3 * line + 40;
  constexpr auto sentinel = std::byte{0x5A};
  const std::size_t count = bytes / size_of(type);
  std::vector<std::vector<std::byte>> inputs(2, std::vector<std::byte>(count * size_of(type)));
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t s = 0; s < 2; ++s)
      set_element(inputs[s].data() + i * size_of(type), type, static_cast<double>((i * 7 + s) % 11));
  std::vector<std::byte> expected(count * size_of(type));
  for (std::size_t at = 0; at < expected.size(); at += size_of(type)) {
    const std::byte* element[] = {inputs[0].data() + at, inputs[1].data() + at};
    std::byte* to[] = {expected.data() + at};
    reduce_kernel_plain(type, ReduceOp::sum)({element, 2, false, true, to, 1, nullptr, 0, 1, 0, 2});
  }
  for (const NamedReduceKernels& set : reduce_kernels_of_this_cpu())
    for (std::size_t misalignment = 0; misalignment < line; ++misalignment) {
      struct alignas(line) Room {
        std::array<std::byte, bytes + 2 * line> all;
      };
      const auto rooms = std::make_unique<std::array<Room, 2>>();
      for (Room& room : *rooms) room.all.fill(sentinel);
      std::byte* targets[] = {(*rooms)[0].all.data() + misalignment, (*rooms)[1].all.data() + 8};
      std::memcpy(targets[0], inputs[0].data(), expected.size());
      const std::byte* sources[] = {targets[0], inputs[1].data()};
      set.kernels(type, ReduceOp::sum)({sources, 2, false, true, targets, 2, nullptr, 0, count, 0, 2});
      for (std::size_t room = 0; room < 2; ++room) {
        const auto& all = (*rooms)[room].all;
        const std::size_t begin = room == 0 ? misalignment : 8;
        for (std::size_t i = 0; i < all.size(); ++i) {
          const bool inside = i >= begin && i < begin + expected.size();
          ASSERT_EQ(all[i], inside ? expected[i - begin] : sentinel)
              << set.name << ", " << misalignment << " off, target " << room << ", byte " << i;
        }
      }
    }
}

// Some blocks and a little more, streamed to targets that never begin a cache line together.
TEST_P(Kernels, StreamToTargetsThatLieDifferently) {
  const DataType type = GetParam();
  constexpr std::size_t line = 64, bytes = 3 * 4096 + 1024 + 40;
  constexpr auto sentinel = std::byte{0x5A};
  const std::size_t count = bytes / size_of(type);
  std::vector<std::vector<std::byte>> inputs(2, std::vector<std::byte>(bytes));
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t s = 0; s < 2; ++s)
      set_element(inputs[s].data() + i * size_of(type), type, static_cast<double>((i * 7 + s) % 11));
  const std::byte* sources[] = {inputs[0].data(), inputs[1].data()};
  std::vector<std::byte> expected(count * size_of(type));
  std::byte* whole[] = {expected.data()};
  reduce_kernel_plain(type, ReduceOp::sum)({sources, 2, false, true, whole, 1, nullptr, 0, count, 0, 2});
  for (const NamedReduceKernels& set : reduce_kernels_of_this_cpu())
    for (const std::size_t first : {0u, 16u, 1u})
      for (const std::size_t second : {0u, 32u, 63u}) {
        struct alignas(line) Room {
          std::array<std::byte, bytes + 2 * line> all;
        };
        const auto rooms = std::make_unique<std::array<Room, 3>>();
        for (Room& room : *rooms) room.all.fill(sentinel);
        std::byte* streamed[] = {(*rooms)[0].all.data() + first, (*rooms)[1].all.data() + second};
        std::byte* ordinary[] = {(*rooms)[2].all.data() + 8};
        set.kernels(type, ReduceOp::sum)({sources, 2, false, true, ordinary, 1, streamed, 2, count, 0, 2});
        const std::size_t begins[] = {first, second, 8};
        for (std::size_t room = 0; room < 3; ++room) {
          const auto& all = (*rooms)[room].all;
          for (std::size_t i = 0; i < all.size(); ++i) {
            const bool inside = i >= begins[room] && i < begins[room] + expected.size();
            ASSERT_EQ(all[i], inside ? expected[i - begins[room]] : sentinel)
                << set.name << ", " << first << " and " << second << " off, target " << room << ", byte "
                << i;
          }
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Types, Kernels,
                         testing::Values(DataType::i8, DataType::u8, DataType::i32, DataType::u32,
                                         DataType::i64, DataType::u64, DataType::f16, DataType::f32,
                                         DataType::f64, DataType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace rondo::test
