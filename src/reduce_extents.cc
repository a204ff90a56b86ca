#include "src/reduce_extents.h"

#include <algorithm>

namespace rondo {
namespace {

// Walks through extents in pieces of any size.
class Walk {
 public:
  explicit Walk(const Extents& extents) : extents_(extents) { skip_ended(); }
  bool at_end() const { return index_ == extents_.size(); }
  std::byte* data() const { return extents_[index_].data + offset_; }
  std::size_t left() const { return extents_[index_].bytes - offset_; }
  void advance(std::size_t bytes) {
    offset_ += bytes;
    skip_ended();
  }

 private:
  void skip_ended() {
    while (!at_end() && left() == 0) ++index_, offset_ = 0;
  }

  const Extents& extents_;
  std::size_t index_ = 0, offset_ = 0;
};

}  // namespace

void reduce_extents(const Reduction& reduction, std::span<const Extents> sources, FirstSource first,
                    Result result, const Extents& target) {
  std::vector<const std::byte*> pieces(sources.size());
  const auto one_piece = [](const Extents& extents) { return extents.size() == 1; };
  if (one_piece(target) && std::all_of(sources.begin(), sources.end(), one_piece)) {
    std::transform(sources.begin(), sources.end(), pieces.begin(),
                   [](const Extents& extents) { return extents.front().data; });
    return reduce(reduction, pieces, first, result, target.front().data,
                  target.front().bytes / size_of(reduction.type));
  }
  std::vector<Walk> from(sources.begin(), sources.end());
  for (Walk to(target); !to.at_end();) {
    std::size_t bytes = to.left();
    for (const Walk& walk : from) bytes = std::min(bytes, walk.left());
    std::transform(from.begin(), from.end(), pieces.begin(), [](const Walk& walk) { return walk.data(); });
    reduce(reduction, pieces, first, result, to.data(), bytes / size_of(reduction.type));
    for (Walk& walk : from) walk.advance(bytes);
    to.advance(bytes);
  }
}

}  // namespace rondo
