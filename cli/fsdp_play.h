// A training step of FSDP2 as data: which unit is gathered, computed, scattered and freed when, and what
// every rank holds and sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "models/qwen3_config.h"

namespace rondo {

// A unit of parameters that travels as one: the root or a layer.
struct PlayedUnit {
  std::string name;                        // "root", "layer 0"
  std::vector<std::uint64_t> shard_bytes;  // by rank
  std::uint64_t bytes = 0;                 // of all its parameters
};

struct FsdpStep {
  enum class Kind { start, gather, forward, free, backward, scatter, optimizer };

  Kind kind;
  int unit;          // -1: all
  std::string part;  // of the root's computing: "embedding", "norm, head, loss"
  bool in_backward;

  std::vector<std::uint64_t> sent;   // by rank
  std::uint64_t freed;               // unsharded parameters and gradients, the same on every rank
  std::vector<bool> whole;           // units held whole, after the step
  std::vector<bool> whole_gradient;  // units whose gradient is held whole
  std::vector<bool> gradient_shard;  // units of whose gradient the shard is held
};

struct FsdpPlay {
  int ranks;
  std::vector<PlayedUnit> units;  // the root, then the layers
  std::vector<FsdpStep> steps;

  std::uint64_t shards(int rank) const;                           // of the parameters: held always
  std::uint64_t unsharded(const FsdpStep& step) const;            // parameters held whole
  std::uint64_t gradients(const FsdpStep& step, int rank) const;  // whole and shards
  std::uint64_t held(const FsdpStep& step, int rank) const;       // all of these
  std::uint64_t sent_by(int rank) const;                          // in all steps
};

// The order that FSDP2 has: the root unit stays whole from forward to backward, every layer is gathered again
// in backward, the last one too, and the gather of layer i-1 is issued before the backward of layer i.
FsdpPlay play_fsdp(const Qwen3Config& config, int ranks, DataType type);

}  // namespace rondo
