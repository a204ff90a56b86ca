#include "models/tensor_parallel.h"

#include <array>
#include <bit>

#include "models/patch.h"
#include "src/calls.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

// Where each rank's columns of a matrix lie.
std::vector<Extents> columns_by_rank(std::span<const float> matrix, std::size_t rows, int ranks) {
  const std::size_t columns = matrix.size() / rows;
  std::vector<Extents> places;
  for (int rank = 0; rank < ranks; ++rank)
    places.push_back(extents_of(column_patch(rows, columns, rank, ranks), matrix, columns));
  return places;
}

// FNV-1a over words instead of bytes: a change of any one word changes the hash.
std::uint64_t hash_of(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  return hash;
}

}  // namespace

const char* name_of(Conjugates conjugates) {
  switch (conjugates) {
    case Conjugates::megatron:
      return "megatron";
    case Conjugates::dual:
      return "dual";
  }
  return "?";
}

void TensorParallel::f_backward(std::span<float> gradient) {
  if (conjugates_ == Conjugates::megatron) all_reduce(gradient, gradient);
}

void TensorParallel::g_forward(std::span<float> values) { all_reduce(values, values); }

std::span<const float> TensorParallel::g_backward(std::span<const float> gradient, std::span<float> room) {
  if (conjugates_ == Conjugates::megatron) return gradient;
  all_reduce(gradient, room);
  return room;
}

void TensorParallel::gather_forward(std::span<const float> mine, std::size_t rows, std::span<float> all) {
  Call call = all_gather_call({rank(), size()}, mine.data(), all.data(), mine.size(), DataType::f32);
  call.output = columns_by_rank(all, rows, size());
  run(std::move(call));
}

void TensorParallel::gather_backward(std::span<const float> all, std::size_t rows, std::span<float> mine) {
  if (conjugates_ == Conjugates::dual) return reduce_scatter_columns(all, rows, mine);
  const std::size_t columns = all.size() / rows, width = mine.size() / rows;
  compute_.copy_rows(all.subspan(static_cast<std::size_t>(rank()) * width), columns, mine, width, rows,
                     width);
}

void TensorParallel::reduce_scatter_columns(std::span<const float> all, std::size_t rows,
                                            std::span<float> mine) {
  Call call = reduce_scatter_call({rank(), size()}, all.data(), mine.data(), mine.size(), DataType::f32,
                                  {ReduceOp::sum});
  call.input = columns_by_rank(all, rows, size());
  run(std::move(call));
}

void TensorParallel::sum_leaf(std::span<float> gradient) {
  if (conjugates_ == Conjugates::dual) all_reduce(gradient, gradient);
}

void TensorParallel::need_same(const char* name, std::span<const float> values) {
  const std::uint64_t hash = hash_of(values);
  // The greatest complement is the complement of the least: one call finds both.
  std::array<std::uint64_t, 2> greatest{hash, ~hash};
  communicator_.run(all_reduce_call({rank(), size()}, greatest.data(), greatest.data(), greatest.size(),
                                    DataType::u64, {ReduceOp::max}));
  if (greatest[0] != ~greatest[1])
    fail(ErrorKind::invalid_argument,
         "rank {} of {}: {} ({} elements) is not the same on all ranks: here its hash is {:#018x}, elsewhere "
         "{:#018x}",
         rank(), size(), name, values.size(), hash, greatest[0] != hash ? greatest[0] : ~greatest[1]);
}

void TensorParallel::all_reduce(std::span<const float> from, std::span<float> to) {
  run(all_reduce_call({rank(), size()}, from.data(), to.data(), to.size(), DataType::f32, {ReduceOp::sum}));
}

void TensorParallel::run(Call call) {
  const Clock::time_point start = Clock::now();
  compute_.run(communicator_, std::move(call));
  communication_time_ += Clock::now() - start;
}

}  // namespace rondo
