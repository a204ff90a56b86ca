#include "models/memory.h"

#include <algorithm>
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

MeteredBuffer::MeteredBuffer(Compute& compute, MemoryMeter& meter, MemoryKind kind, std::size_t bytes)
    : data_(compute.allocate(bytes, Compute::MemoryFor::arithmetic), Free{&compute, bytes}),
      metered_(meter, kind, bytes) {
  compute.clear(this->bytes());
}

}  // namespace rondo
