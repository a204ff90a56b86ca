// Broadcast along a tree, slice after slice: while one goes down to the children the next one comes from the
// parent.
#include "src/hosts.h"
#include "src/rounds.h"
#include "src/tree_schedule.h"

namespace rondo {
namespace {

class Tree : public Rounds {
 public:
  Tree(const Call& call, const Place& place, const Hosts& hosts)
      : Rounds(place),
        output_(call.output[0]),
        bytes_(call.chunk_bytes[0]),
        role_(role_in_tree(place.rank, call.root, hosts.parties())) {
    if (!is_root()) return;
    copy_extents(call.input[0], output_);
    received_ = bytes_;
  }

 private:
  bool begin_round() override {
    if (sent_ == bytes_) return false;
    const std::size_t here = received_;
    if (const Extents next = slice_from(received_, bytes_); !next.empty()) {
      receive(role_.parent, next);
      received_ += total_bytes(next);
    }
    if (const Extents next = slice_from(sent_, here); !next.empty()) {
      for (const int child : role_.children) send(child, next);
      sent_ += total_bytes(next);
    }
    return true;
  }

  Extents slice_from(std::size_t offset, std::size_t end) const {
    return slice(output_, offset, std::min(place().slice_bytes, end - offset));
  }

  bool is_root() const { return role_.parent < 0; }

  const Extents& output_;
  std::size_t bytes_;
  TreeRole role_;
  std::size_t received_ = 0, sent_ = 0;  // or on their way
};

}  // namespace

std::unique_ptr<Collective> make_tree(const Call& call, const Place& place, const Hosts& hosts) {
  return std::make_unique<Tree>(call, place, hosts);
}

}  // namespace rondo
