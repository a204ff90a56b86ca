// Memory that is counted as it comes and goes, so that "held" is measured and not derived.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "models/compute.h"

namespace rondo {

enum class MemoryKind {
  shard,      // this rank's rows of the parameters, always there
  unsharded,  // whole parameters, between unshard and reshard
  gradient,   // whole gradients, during backward
  optimizer,  // f32 master copies, moments and reduced gradients of the shard
};
inline constexpr int memory_kind_count = 4;

// Live bytes by kind, and the most there were. One thread at a time.
class MemoryMeter {
 public:
  std::size_t held(MemoryKind kind) const { return held_[index(kind)]; }
  std::size_t peak(MemoryKind kind) const { return peak_[index(kind)]; }

 private:
  friend class MeteredBytes;
  static std::size_t index(MemoryKind kind) { return static_cast<std::size_t>(kind); }
  void add(MemoryKind kind, std::size_t bytes);
  void remove(MemoryKind kind, std::size_t bytes) { held_[index(kind)] -= bytes; }

  std::array<std::size_t, memory_kind_count> held_{}, peak_{};
};

// So many bytes, held for as long as this lives. The meter must outlive it.
class MeteredBytes {
 public:
  MeteredBytes() = default;
  MeteredBytes(MemoryMeter& meter, MemoryKind kind, std::size_t bytes);
  ~MeteredBytes() { release(); }
  MeteredBytes(MeteredBytes&& other) noexcept { *this = std::move(other); }
  MeteredBytes& operator=(MeteredBytes&& other) noexcept;

  std::size_t count() const { return bytes_; }

 private:
  void release();

  MemoryMeter* meter_ = nullptr;
  MemoryKind kind_ = MemoryKind::shard;
  std::size_t bytes_ = 0;
};

// Bytes where a Compute works, zero at first. The Compute and the meter must outlive it.
class MeteredBuffer {
 public:
  MeteredBuffer() = default;
  MeteredBuffer(Compute& compute, MemoryMeter& meter, MemoryKind kind, std::size_t bytes);

  std::span<std::byte> bytes() const { return {data_.get(), metered_.count()}; }
  // The bytes as f32, of which there are bytes / 4.
  std::span<float> floats() const {
    return {reinterpret_cast<float*>(data_.get()), metered_.count() / sizeof(float)};
  }

 private:
  struct Free {
    Compute* compute;
    std::size_t bytes;
    void operator()(std::byte* data) const { compute->free(data, bytes, Compute::MemoryFor::arithmetic); }
  };
  std::unique_ptr<std::byte, Free> data_{nullptr, Free{}};
  MeteredBytes metered_;
};

}  // namespace rondo
