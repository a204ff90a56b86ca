// What a perf program must know of its collective: four functions and two facts. The driver does the rest.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "include/rondo/rondo.h"
#include "perf/functions.h"

namespace rondo {

// Where a rank stands in one measurement. `elements` is what the size on the command line comes to.
struct Seating {
  std::size_t elements;
  int rank, ranks, root;

  std::size_t part() const { return elements / static_cast<std::size_t>(ranks); }
  std::size_t before(int which) const { return static_cast<std::size_t>(which) * part(); }
};

// In elements. In place, both buffers are one: `send_at` and `receive_at` are where each begins in it.
struct Sizes {
  struct InPlace {
    std::size_t send_at, receive_at;
  };
  std::size_t send, receive;
  std::size_t count;                // what the call is given
  std::optional<InPlace> in_place;  // nothing: this collective has no such form
};

// Part of a rank's result: `count` elements at `at` are those at `from` of a rank's input, or of the
// reduction of all inputs.
struct Expected {
  static constexpr int reduction = -1;
  std::size_t at, count;
  int source;
  std::size_t from;
};

struct CallArguments {
  const Functions& functions;
  const std::byte* send;
  std::byte* receive;
  std::size_t count;
  rondoDataType_t type;
  rondoRedOp_t op;
  int root, rank, ranks;
  rondoComm_t comm;
  rondoStream_t stream;
};

struct Collective {
  const char* name;      // all_reduce
  const char* function;  // AllReduce: what it calls first, without prefix
  bool reduces, rooted;
  Sizes (*sizes)(const Seating&);
  std::vector<Expected> (*expected)(const Seating&);
  rondoResult_t (*call)(const CallArguments&);
  double (*bus_factor)(int ranks);
};

}  // namespace rondo
