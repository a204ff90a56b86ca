// Memory for whole parameters and gradients, kept for the next unit once one has let it go: fresh pages cost
// more than the collectives that fill them. It is a Compute's, for exchange.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "models/compute.h"

namespace rondo {

// One thread at a time. Holds the most that was taken at one time, of each size, until it ends.
class BlockPool {
  struct Free {
    Compute* compute;
    std::size_t bytes;
    void operator()(std::byte* memory) const { compute->free(memory, bytes, Compute::MemoryFor::exchange); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;

 public:
  // The Compute must outlive it.
  explicit BlockPool(Compute& compute) : compute_(compute) {}
  Compute& compute() const { return compute_; }

  // A block in use; the pool must outlive it.
  class Block {
   public:
    Block() = default;
    ~Block() { release(); }
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept;

    void release();
    std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }

   private:
    friend class BlockPool;
    Block(BlockPool& pool, Memory memory, std::size_t bytes)
        : pool_(&pool), memory_(std::move(memory)), bytes_(bytes) {}

    BlockPool* pool_ = nullptr;
    Memory memory_{nullptr, Free{}};
    std::size_t bytes_ = 0;
  };

  // What it holds is left from before. Throws what Compute::allocate() does.
  Block take(std::size_t bytes);

 private:
  Compute& compute_;
  std::map<std::size_t, std::vector<Memory>> free_;  // by bytes
};

}  // namespace rondo
