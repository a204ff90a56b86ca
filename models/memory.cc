#include "models/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace rondo {

void MemoryMeter::add(MemoryKind kind, std::size_t bytes) {
  held_[index(kind)] += bytes;
  peak_[index(kind)] = std::max(peak_[index(kind)], held_[index(kind)]);
}

MeteredBytes::MeteredBytes(MemoryMeter& meter, MemoryKind kind, std::size_t bytes)
    : meter_(&meter), kind_(kind), bytes_(bytes) {
  meter_->add(kind, bytes);
}

MeteredBytes& MeteredBytes::operator=(MeteredBytes&& other) noexcept {
  if (this == &other) return *this;
  release();
  meter_ = std::exchange(other.meter_, nullptr);
  kind_ = other.kind_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MeteredBytes::release() {
  if (meter_ != nullptr) meter_->remove(kind_, bytes_);
}

void MeteredBuffer::Free::operator()(std::byte* data) const { std::free(data); }

MeteredBuffer::MeteredBuffer(MemoryMeter& meter, MemoryKind kind, std::size_t bytes) {
  constexpr std::size_t line = 64;
  const std::size_t lines = std::max<std::size_t>((bytes + line - 1) / line, 1);
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(line, lines * line)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, bytes);
  metered_ = {meter, kind, bytes};
}

}  // namespace rondo
