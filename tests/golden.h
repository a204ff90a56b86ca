// Golden files (tests/golden/README.md), and comparisons norm by norm, a tensor.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/generator.h"
#include "models/qwen3_config.h"
#include "models/safetensors.h"
#include "src/calls.h"
#include "src/communicator.h"

namespace rondo::test {

inline std::string golden_path(const std::string& name) { return std::string(RONDO_GOLDEN_DIR) + "/" + name; }

inline std::vector<float> floats_of(const TensorInfo& tensor) {
  // Seen as one row, whatever its shape.
  TensorInfo flat = tensor;
  std::size_t elements = 1;
  for (const std::size_t size : tensor.shape) elements *= size;
  flat.shape = {1, elements};
  std::vector<float> values(elements);
  read_rows(flat, {0, 1}, DataType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

inline std::vector<double> doubles_of(const TensorInfo& tensor) {
  std::vector<double> values(tensor.bytes.size() / sizeof(double));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

inline std::vector<std::int64_t> integers_of(const TensorInfo& tensor) {
  std::vector<std::int64_t> values(tensor.bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

inline Qwen3Config config_of(const SafetensorsFile& file) {
  return parse_qwen3_config(file.metadata().at("config"), file.path());
}

// Sums over ranks, so that each rank needs to look at its own part only.
inline std::vector<double> sum_over_ranks(Communicator& comm, std::vector<double> values) {
  comm.run(all_reduce_call({comm.rank(), comm.size()}, values.data(), values.data(), values.size(),
                           DataType::f64, {}));
  return values;
}

// || ours - golden || / || golden || over the parts of all ranks.
inline double relative_difference(Communicator& comm, std::span<const float> ours,
                                  std::span<const float> golden) {
  EXPECT_EQ(ours.size(), golden.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(ours.size(), golden.size()); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - golden[i], 2);
    norm += std::pow(static_cast<double>(golden[i]), 2);
  }
  const std::vector<double> sums = sum_over_ranks(comm, {difference, norm});
  return std::sqrt(sums[0] / sums[1]);
}

// The sketch of make_golden.py: 64 signed sums of a tensor of which this rank has the elements from `first`
// on.
inline std::vector<double> sketch(Communicator& comm, const std::string& name, std::span<const float> values,
                                  std::size_t first) {
  const std::uint64_t key = fnv1a(name + ".sketch");
  std::vector<double> sums(64);
  for (std::size_t k = 0; k < sums.size(); ++k)
    for (std::size_t i = 0; i < values.size(); ++i)
      sums[k] += (splitmix64(key + (k << 32) + first + i) >> 63) != 0 ? -values[i] : values[i];
  for (double& sum : sums) sum /= 8;
  return sum_over_ranks(comm, sums);
}

inline double relative_difference(std::span<const double> ours, std::span<const double> golden) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    difference += std::pow(ours[i] - golden[i], 2);
    norm += std::pow(golden[i], 2);
  }
  return std::sqrt(difference / norm);
}

// The weight that make_golden.py generates: rows of the tensor NAME.
inline void generated_weight(const ParameterSpec& spec, RowRange rows, std::span<float> out) {
  const std::uint64_t key = fnv1a(spec.name);
  const std::size_t width = spec.shape.size() == 1 ? 1 : spec.shape[1];
  const float scale = spec.shape.size() == 1 ? 0.1f
                      : spec.name.find("embed_tokens") != std::string::npos
                          ? 0.5f
                          : static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float value = generated_unit(key, rows.begin * width + i) * scale;
    out[i] = spec.shape.size() == 1 ? 1.0f + value : value;
  }
}

}  // namespace rondo::test
