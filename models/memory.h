// Memory that is counted as it comes and goes, so that "held" is measured and not derived.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

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
  friend class MeteredBuffer;
  static std::size_t index(MemoryKind kind) { return static_cast<std::size_t>(kind); }
  void add(MemoryKind kind, std::size_t bytes);
  void remove(MemoryKind kind, std::size_t bytes) { held_[index(kind)] -= bytes; }

  std::array<std::size_t, memory_kind_count> held_{}, peak_{};
};

// Bytes on the heap, aligned to cache lines, zero at first. The meter must outlive it.
class MeteredBuffer {
 public:
  MeteredBuffer() = default;
  MeteredBuffer(MemoryMeter& meter, MemoryKind kind, std::size_t bytes);
  ~MeteredBuffer() { release(); }
  MeteredBuffer(MeteredBuffer&& other) noexcept { *this = std::move(other); }
  MeteredBuffer& operator=(MeteredBuffer&& other) noexcept;

  void release();
  std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }
  // The bytes as f32, of which there are bytes / 4.
  std::span<float> floats() const { return {reinterpret_cast<float*>(data_.get()), bytes_ / sizeof(float)}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
  MemoryMeter* meter_ = nullptr;
  MemoryKind kind_ = MemoryKind::shard;
};

}  // namespace rondo
