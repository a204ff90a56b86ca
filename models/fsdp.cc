#include "models/fsdp.h"

#include <algorithm>

#include "src/calls.h"
#include "src/engine.h"

namespace rondo {
namespace {

bool is_floating(DataType type) {
  return type == DataType::f32 || type == DataType::f16 || type == DataType::bf16;
}

}  // namespace

WeightView::WeightView(Compute& compute, std::span<const std::byte> values, DataType type) {
  if (type == DataType::f32) {
    values_ = {reinterpret_cast<const float*>(values.data()), values.size() / sizeof(float)};
    return;
  }
  copy_ = Values(compute, values.size() / size_of(type));
  compute.to_f32(values, type, copy_);
  values_ = copy_;
}

FsdpUnit::FsdpUnit(std::shared_ptr<Communicator> communicator, ParameterUnit parameters, FsdpTypes types,
                   BlockPool& pool)
    : communicator_(std::move(communicator)),
      parameters_(std::move(parameters)),
      types_(types),
      pool_(&pool) {
  if (!is_floating(types.parameter) || (types.gradient != DataType::f32 && types.gradient != types.parameter))
    fail(ErrorKind::invalid_argument,
         "parameters of type {} with gradients of type {}: expected f32, f16 or bf16, and gradients of the "
         "same "
         "type or f32",
         name_of(types.parameter), name_of(types.gradient));
  optimizer_.resize(parameter_count());
  for (std::size_t p = 0; p < parameter_count(); ++p) {
    shard_shape(spec(p).name, spec(p).shape, communicator_->rank(), communicator_->size());
    shards_.emplace_back(compute(), *meter_, MemoryKind::shard, shard_elements(p) * size_of(types.parameter));
    const auto state = [&] {
      return MeteredBuffer(compute(), *meter_, MemoryKind::optimizer, shard_elements(p) * sizeof(float));
    };
    optimizer_[p] = {state(), state(), state(), state()};
  }
}

FsdpUnit::~FsdpUnit() {
  if (!gathered_) return;
  try {
    wait_for(*gathered_);
  } catch (const std::exception&) {
    // A failed call is done too, and touches nothing any more.
  }
}

RowRange FsdpUnit::rows(std::size_t parameter) const {
  return shard_rows(spec(parameter).shape[0], communicator_->rank(), communicator_->size());
}

std::size_t FsdpUnit::row_elements(std::size_t parameter) const {
  return whole_elements(parameter) / spec(parameter).shape[0];
}

std::size_t FsdpUnit::whole_elements(std::size_t parameter) const {
  return element_count(spec(parameter).shape).value();
}

void FsdpUnit::initialize(const Fill& fill) {
  for (std::size_t p = 0; p < parameter_count(); ++p)
    compute().write(optimizer_[p].master.floats(),
                    [&](std::span<float> master) { fill(spec(p), rows(p), master); });
  store_shards();
}

// Rounds the masters to the parameters' type.
void FsdpUnit::store_shards() {
  for (std::size_t p = 0; p < parameter_count(); ++p)
    compute().from_f32(optimizer_[p].master.floats(), types_.parameter, shards_[p].bytes());
}

std::vector<Extents> FsdpUnit::rows_by_rank(const UnitBuffer& whole, DataType type) const {
  std::vector<Extents> places;
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    Extents& place = places.emplace_back();
    for (std::size_t p = 0; p < parameter_count(); ++p) {
      const RowRange range = shard_rows(spec(p).shape[0], rank, communicator_->size());
      const std::size_t row_bytes = row_elements(p) * size_of(type);
      if (range.size() > 0)
        place.push_back({whole.bytes(p).data() + range.begin * row_bytes, range.size() * row_bytes});
    }
  }
  return places;
}

UnitBuffer FsdpUnit::take_whole(MemoryKind kind, DataType type) const {
  std::vector<std::size_t> bytes;
  for (std::size_t p = 0; p < parameter_count(); ++p) bytes.push_back(whole_elements(p) * size_of(type));
  return {*pool_, *meter_, kind, bytes};
}

Call FsdpUnit::batch(CallKind kind, DataType type, const UnitBuffer& whole) const {
  Call call;
  call.kind = kind;
  call.type = type;
  call.members = static_cast<std::uint8_t>(parameter_count());
  const std::vector<Extents> places = rows_by_rank(whole, type);
  for (const Extents& place : places) call.chunk_bytes.push_back(total_bytes(place));
  for (std::size_t p = 0; p < parameter_count(); ++p) call.count += whole_elements(p);
  (kind == CallKind::all_gather ? call.output : call.input) = places;
  (kind == CallKind::all_gather ? call.input : call.output).resize(places.size());
  return call;
}

void FsdpUnit::begin_unshard(const std::string& scope) {
  if (unsharded_ || gathering_) return;
  whole_ = take_whole(MemoryKind::unsharded, types_.parameter);
  Call call = batch(CallKind::all_gather, types_.parameter, whole_);
  Extents& mine = call.input[static_cast<std::size_t>(communicator_->rank())];
  for (const MeteredBuffer& shard : shards_)
    if (!shard.bytes().empty()) mine.push_back({shard.bytes().data(), shard.bytes().size()});
  const LedgerScope booked(communicator_->ledger(), scope);
  gathered_ = compute().start(*communicator_, std::move(call));
  gathering_ = true;
  if (gathered_) communicator_->progress();
}

void FsdpUnit::unshard(const std::string& scope) {
  if (unsharded_) return;
  begin_unshard(scope);
  if (gathered_) wait_for(*gathered_);
  gathered_ = nullptr;
  gathering_ = false;
  unsharded_ = true;
}

void FsdpUnit::reshard() {
  whole_.release();
  unsharded_ = false;
}

WeightView FsdpUnit::weight(std::size_t parameter) const {
  return {compute(), whole_.bytes(parameter), types_.parameter};
}

std::span<float> FsdpUnit::gradient(std::size_t parameter) {
  if (gradients_.empty()) {
    gradients_ = take_whole(MemoryKind::gradient, DataType::f32);
    has_gradient_.assign(parameter_count(), false);
  }
  // One by one, so that the zeros are still in the caches when something is added to them.
  if (!has_gradient_[parameter]) compute().clear(gradients_.bytes(parameter));
  has_gradient_[parameter] = true;
  return gradients_.floats(parameter);
}

void FsdpUnit::reduce_gradients(const std::string& scope) {
  for (std::size_t p = 0; p < parameter_count(); ++p) gradient(p);  // zeros where nothing was added
  if (types_.gradient != DataType::f32) {
    UnitBuffer rounded = take_whole(MemoryKind::gradient, types_.gradient);
    for (std::size_t p = 0; p < parameter_count(); ++p)
      compute().from_f32(gradients_.floats(p), types_.gradient, rounded.bytes(p));
    gradients_ = std::move(rounded);
  }
  Call call = batch(CallKind::reduce_scatter, types_.gradient, gradients_);
  call.op = ReduceOp::avg;
  // In place: a rank's rows of the sums take the place of its rows of the whole gradients.
  const Extents mine = call.input[static_cast<std::size_t>(communicator_->rank())];
  call.output[static_cast<std::size_t>(communicator_->rank())] = mine;
  {
    const LedgerScope booked(communicator_->ledger(), scope);
    compute().run(*communicator_, std::move(call));
  }
  auto reduced = mine.begin();
  for (std::size_t p = 0; p < parameter_count(); ++p)
    if (!gradient_shard(p).empty()) {
      compute().add(gradient_shard(p),
                    WeightView(compute(), {reduced->data, reduced->bytes}, types_.gradient));
      ++reduced;
    }
  gradients_.release();
}

void FsdpUnit::zero_gradients() {
  for (OptimizerState& state : optimizer_) compute().clear(state.gradient.bytes());
}

void FsdpUnit::step(const AdamW& options, std::int64_t step) {
  for (OptimizerState& state : optimizer_)
    compute().adamw_step(options, step, state.master.floats(), state.gradient.floats(),
                         state.first_moment.floats(), state.second_moment.floats());
  store_shards();
}

}  // namespace rondo
