// Numbers that look random and are the same on every machine, for any number of ranks, in any language:
// element i of the tensor NAME depends on nothing but NAME and i. tests/golden/make_golden.py is the same in
// Python.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace rondo {

// FNV-1a, 64 bits.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The finalizer of SplitMix64 (Steele et al., 2014).
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  std::uint64_t z = x + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Uniform in [-1, 1), on a grid that f32 holds exactly. key is fnv1a of the tensor's name.
constexpr float generated_unit(std::uint64_t key, std::uint64_t index) {
  return static_cast<float>(splitmix64(key + index) >> 40) * 0x1p-23f - 1.0f;
}

// Normal with mean 0 and deviation 1, by Box and Muller's transform.
inline float generated_normal(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = splitmix64(key + index), more = splitmix64(bits ^ key);
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(bits >> 11) + 1.0) * 0x1p-53));
  return static_cast<float>(radius *
                            std::cos(2.0 * std::numbers::pi * static_cast<double>(more >> 11) * 0x1p-53));
}

}  // namespace rondo
