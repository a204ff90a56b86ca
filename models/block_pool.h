// Memory for whole parameters and gradients, kept for the next unit once one has let it go: fresh pages cost
// more than the collectives that fill them. It lies in windows, which peers read and write in place.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace rondo {

// One thread at a time. Holds the most that was taken at one time, of each size, until it ends.
class BlockPool {
  struct FreeWindow {
    void operator()(std::byte* memory) const;
  };
  using Window = std::unique_ptr<std::byte, FreeWindow>;

 public:
  // A block in use; the pool must outlive it.
  class Block {
   public:
    Block() = default;
    ~Block() { release(); }
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept;

    void release();
    std::span<std::byte> bytes() const { return {window_.get(), bytes_}; }

   private:
    friend class BlockPool;
    Block(BlockPool& pool, Window window, std::size_t bytes)
        : pool_(&pool), window_(std::move(window)), bytes_(bytes) {}

    BlockPool* pool_ = nullptr;
    Window window_;
    std::size_t bytes_ = 0;
  };

  // At least one page, aligned to a page; what it holds is left from before. Throws system where there is no
  // memory.
  Block take(std::size_t bytes);

 private:
  std::map<std::size_t, std::vector<Window>> free_;  // by bytes
};

}  // namespace rondo
