// The results: nccl-tests' table as they come, and JSON at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf/measure.h"
#include "perf/table.h"

namespace rondo {

class PerfOutput {
 public:
  PerfOutput(const Collective& collective, const PerfOptions& options, int ranks,
             std::optional<Against> against);
  PerfOutput(const PerfOutput&) = delete;
  PerfOutput& operator=(const PerfOutput&) = delete;

  void add(const Case& which, const std::optional<Measured>& out_of_place,
           const std::optional<Measured>& in_place);
  // Prints what stands below the table, and writes the JSON. Throws where that cannot be written.
  void finish();
  std::uint64_t wrong() const { return wrong_; }

 private:
  nlohmann::ordered_json side_json(const Case& which, const std::optional<Measured>& side);
  nlohmann::ordered_json callee_json(const Case& which, const CalleeMeasured& side) const;

  const Collective& collective_;
  const PerfOptions& options_;
  int ranks_;
  std::optional<Against> against_;
  PerfTable table_;
  std::uint64_t wrong_ = 0, wrong_of_other_ = 0;
  std::vector<double> bus_;  // of all measurements
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace rondo
