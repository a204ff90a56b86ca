// How the library would carry out a collective on this host, why, and how long it would take.
#pragma once

#include <optional>
#include <string>

#include "cli/explain.h"
#include "src/ledger.h"
#include "src/tune_file.h"

namespace rondo {

// Just what the library's choices and the ledger's formula look at: there are no buffers.
Call describe(const CollectiveQuestion& question);
bool has_root(CallKind kind);

struct Way {
  Algorithm algorithm;  // as the ledger names it
  const char* name;     // slots, windows, staged or streams
  std::string reason;
  std::string stores;  // how outputs are stored, and why; empty where that is not chosen
};
Way explain_way(const CollectiveQuestion& question, const Call& call);

Memory memory_of(const CollectiveQuestion& question, const Call& call);
// Why buffers on a device are staged, if they are.
std::string why_staged(const CollectiveQuestion& question, const Call& call);

struct ExpectedTime {
  std::optional<double> microseconds;
  std::string basis;  // what it rests on, or why there is none
};
// With a file of `rondo tune`; nothing where none is in force.
ExpectedTime expected_time(const CollectiveQuestion& question, const Call& call,
                           const std::optional<TuneFile>& file);

}  // namespace rondo
