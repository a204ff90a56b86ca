// Fully sharded data parallelism after PyTorch's FSDP2: each parameter is cut on dimension 0, rank r holds
// its rows of every parameter, and a unit's parameters are whole only while they are needed. One unit is one
// batched all-gather or reduce-scatter, straight from and to each parameter's own place; only real rows
// travel.
//
// A unit belongs to one rank and is used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "models/memory.h"
#include "models/qwen3_config.h"
#include "models/sharding.h"
#include "models/unit_buffer.h"
#include "src/communicator.h"

namespace rondo {

struct FsdpTypes {
  DataType parameter = DataType::f32;  // f32, f16 or bf16: the shards, and what all-gathers carry
  DataType gradient = DataType::f32;   // what reduce-scatters carry: the parameters' type, or f32
};

// A parameter's values as f32 for as long as the view lives: the memory itself where it is f32, else a copy.
// All is the Compute's memory.
class WeightView {
 public:
  WeightView(Compute& compute, std::span<const std::byte> values, DataType type);
  operator std::span<const float>() const { return values_; }

 private:
  Values copy_;
  std::span<const float> values_;
};

class FsdpUnit {
 public:
  // Throws invalid_argument for a scalar parameter, as FSDP2 does, and for types that are not floating point.
  // Units with the same number of elements take turns with the pool's blocks; `pool` must outlive the unit.
  // The pool's Compute is where all of the unit's memory is, and where it computes.
  FsdpUnit(std::shared_ptr<Communicator> communicator, ParameterUnit parameters, FsdpTypes types,
           BlockPool& pool);
  FsdpUnit(FsdpUnit&&) = default;
  // Waits for a prefetch that is under way, until its deadline: it writes to memory that goes. (On a device
  // that memory's next use comes after.)
  ~FsdpUnit();

  Compute& compute() const { return pool_->compute(); }
  const std::string& name() const { return parameters_.name; }
  std::size_t parameter_count() const { return parameters_.parameters.size(); }
  const ParameterSpec& spec(std::size_t parameter) const { return parameters_.parameters[parameter]; }
  RowRange rows(std::size_t parameter) const;
  const MemoryMeter& memory() const { return *meter_; }

  // Sets this rank's rows: `fill(spec, rows, out)` writes them as f32, rows.size() x the elements of a row,
  // to memory of the host's.
  using Fill = std::function<void(const ParameterSpec&, RowRange, std::span<float>)>;
  void initialize(const Fill& fill);

  // unshard() gathers the whole parameters, begin_unshard() lets that go on until unshard() is called:
  // FSDP2's prefetch. Nothing happens where they are whole already. reshard() frees them.
  void begin_unshard(const std::string& scope);
  void unshard(const std::string& scope);
  void reshard();
  bool is_unsharded() const { return unsharded_; }
  // Needs unshard(). [rows, elements of a row].
  WeightView weight(std::size_t parameter) const;

  // The whole gradient of a parameter, f32, zero at first, to be added to. Allocated when first asked for.
  std::span<float> gradient(std::size_t parameter);
  // Averages the gradients over the ranks, leaves each rank its rows, added to what it had, and frees the
  // whole ones. A parameter that nothing was added to counts as zeros.
  void reduce_gradients(const std::string& scope);
  // This rank's rows of the averaged gradient, and of the parameter in full precision, f32.
  std::span<float> gradient_shard(std::size_t parameter) { return optimizer_[parameter].gradient.floats(); }
  std::span<const float> master_shard(std::size_t parameter) const {
    return optimizer_[parameter].master.floats();
  }
  void zero_gradients();

  // One step of AdamW on this rank's rows. No communication.
  void step(const AdamW& options, std::int64_t step);

 private:
  // What the optimizer keeps, in f32 whatever the parameters are: 1e-8 is zero in f16.
  struct OptimizerState {
    MeteredBuffer master, gradient, first_moment, second_moment;
  };

  std::size_t row_elements(std::size_t parameter) const;
  std::size_t shard_elements(std::size_t parameter) const {
    return rows(parameter).size() * row_elements(parameter);
  }
  std::size_t whole_elements(std::size_t parameter) const;
  // Where the rows of each rank lie in whole tensors of `type`: by rank, an extent for each parameter.
  std::vector<Extents> rows_by_rank(const UnitBuffer& whole, DataType type) const;
  Call batch(CallKind kind, DataType type, const UnitBuffer& whole) const;
  UnitBuffer take_whole(MemoryKind kind, DataType type) const;
  void store_shards();

  std::shared_ptr<Communicator> communicator_;
  ParameterUnit parameters_;
  FsdpTypes types_;
  BlockPool* pool_;
  std::unique_ptr<MemoryMeter> meter_ = std::make_unique<MemoryMeter>();  // buffers point to it
  std::vector<MeteredBuffer> shards_;                                     // by parameter
  UnitBuffer whole_, gradients_;                                          // empty where there are none
  std::vector<bool> has_gradient_;                                        // of gradients_, by parameter
  std::vector<OptimizerState> optimizer_;
  bool unsharded_ = false;
  bool gathering_ = false;                 // begun, and unshard() has not been called since
  std::shared_ptr<PendingCall> gathered_;  // what unshard() waits for, if it must
};

}  // namespace rondo
