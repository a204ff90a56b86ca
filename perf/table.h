// The table of the results: nccl-tests' columns. Where Rondo is compared, a line is out of place or in place,
// and has the columns of both and their ratio.
#pragma once

#include <optional>

#include "perf/against.h"
#include "perf/bandwidth.h"
#include "perf/measure.h"

namespace rondo {

class PerfTable {
 public:
  // All must outlive it.
  PerfTable(const Collective& collective, const PerfOptions& options, int ranks,
            const std::optional<Against>& against)
      : collective_(collective), options_(options), ranks_(ranks), against_(against) {}

  void print_head() const;
  void print_row(const Case& which, const std::optional<Measured>& out_of_place,
                 const std::optional<Measured>& in_place) const;
  Bandwidth bandwidth_of(const Case& which, const CalleeMeasured& side) const;

 private:
  bool is_compared() const { return against_ && against_->left_out.empty(); }
  std::string start_of_row(const Case& which) const;
  std::string side_text(const Case& which, const std::optional<Measured>& side) const;
  std::string callee_text(const Case& which, const CalleeMeasured& side) const;
  void print_compared(const Case& which, const char* place, const std::optional<Measured>& side) const;

  const Collective& collective_;
  const PerfOptions& options_;
  int ranks_;
  const std::optional<Against>& against_;
};

}  // namespace rondo
