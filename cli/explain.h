// What `rondo explain` tells, a function and a file for each kind of thing to explain.
#pragma once

#include <cstddef>
#include <string>

#include "cli/buffer_kind.h"
#include "kernels/types.h"
#include "src/call.h"
#include "src/settings.h"

namespace rondo {

struct CollectiveQuestion {
  CallKind kind;
  int ranks;
  std::size_t count;  // as the call of rondo.h takes it
  DataType type;
  Algorithm draw;  // automatic: nobody asked for one
  int root;
  BufferKind buffers;
  bool on_device;  // copied to buffers of the kind `buffers`, and back, where the host carries the call out
  Settings settings;
};

void explain_collective(const CollectiveQuestion& question);
void explain_collective_json(const CollectiveQuestion& question);

struct FsdpQuestion {
  int ranks;
  int layers;
  DataType type;
  std::string config;  // a config.json; empty: document 1's sizes
};

void explain_fsdp(const FsdpQuestion& question);
void explain_fsdp_json(const FsdpQuestion& question);

}  // namespace rondo
