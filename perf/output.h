// The results: nccl-tests' table as they come, and JSON at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf/bandwidth.h"
#include "perf/measure.h"

namespace rondo {

class PerfOutput {
 public:
  PerfOutput(const Collective& collective, const PerfOptions& options, int ranks);

  void add(const Case& which, const std::optional<Measured>& out_of_place,
           const std::optional<Measured>& in_place);
  // Prints what stands below the table, and writes the JSON. Throws where that cannot be written.
  void finish();
  std::uint64_t wrong() const { return wrong_; }

 private:
  void print_head() const;
  void print_row(const Case& which, const std::optional<Measured>& out_of_place,
                 const std::optional<Measured>& in_place) const;
  std::string side_text(const Case& which, const std::optional<Measured>& side) const;
  nlohmann::ordered_json side_json(const Case& which, const std::optional<Measured>& side);
  Bandwidth bandwidth_of(const Case& which, const Measured& side) const;

  const Collective& collective_;
  const PerfOptions& options_;
  int ranks_;
  std::uint64_t wrong_ = 0;
  std::vector<double> bus_;  // of all measurements
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace rondo
