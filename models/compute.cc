#include "models/compute.h"

#include <algorithm>
#include <utility>

#include "src/engine.h"

namespace rondo {

void Compute::run(Communicator& communicator, Call call) {
  if (const std::shared_ptr<PendingCall> pending = start(communicator, std::move(call))) wait_for(*pending);
}

float* Values::allocate(Compute& compute, std::size_t count) {
  if (count == 0) return nullptr;
  return reinterpret_cast<float*>(compute.allocate(count * sizeof(float), Compute::MemoryFor::arithmetic));
}

void Values::release() {
  if (data_ != nullptr)
    compute_->free(reinterpret_cast<std::byte*>(data_), count_ * sizeof(float),
                   Compute::MemoryFor::arithmetic);
}

Values& Values::operator=(Values&& other) noexcept {
  if (this == &other) return *this;
  release();
  compute_ = other.compute_;
  data_ = std::exchange(other.data_, nullptr);
  count_ = std::exchange(other.count_, 0);
  return *this;
}

Values copy_to(Compute& compute, std::span<const float> host) {
  Values values(compute, host.size());
  compute.write(values, [&](std::span<float> to) { std::ranges::copy(host, to.begin()); });
  return values;
}

}  // namespace rondo
