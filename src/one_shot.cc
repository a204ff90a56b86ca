// All-reduce in one round: every rank sends its whole input to every other, and adds all of them up itself,
// in the order of the ranks, rounding once. More bytes than a direct one, and half of its rounds.
#include "src/reduce_extents.h"
#include "src/rounds.h"

namespace rondo {
namespace {

class OneShot : public Rounds {
 public:
  OneShot(const Call& call, const Place& place)
      : Rounds(place),
        reduction_(reduction_of(call, place.size)),
        input_(joined(call.input)),
        output_(joined(call.output)),
        all_bytes_(call.all_bytes()),
        room_(static_cast<std::size_t>(place.size) * std::min(all_bytes_, place.slice_bytes)) {}

 private:
  bool begin_round() override {
    // The input may be the output: it has left before it is written over.
    if (bytes_ > 0) reduce_slice();
    offset_ += bytes_;
    bytes_ = std::min(place().slice_bytes, all_bytes_ - offset_);
    if (bytes_ == 0) return false;
    // Each rank begins with its right neighbour, so that no receiver is everybody's first.
    for (int distance = 1; distance < place().size; ++distance) {
      const int to = (place().rank + distance) % place().size,
                from = (place().rank + place().size - distance) % place().size;
      send(to, slice(input_, offset_, bytes_));
      receive(from, room_for(from));
    }
    return true;
  }

  Extents room_for(int peer) { return {{room_.data() + static_cast<std::size_t>(peer) * bytes_, bytes_}}; }

  void reduce_slice() {
    std::vector<Extents> sources;
    for (int peer = 0; peer < place().size; ++peer)
      sources.push_back(peer == place().rank ? slice(input_, offset_, bytes_) : room_for(peer));
    reduce_extents(reduction_, sources, FirstSource::input, Result::complete,
                   slice(output_, offset_, bytes_));
  }

  Reduction reduction_;
  Extents input_, output_;  // of all chunks
  std::size_t all_bytes_;
  std::vector<std::byte> room_;         // a slice from each rank
  std::size_t offset_ = 0, bytes_ = 0;  // the slice under way
};

}  // namespace

std::unique_ptr<Collective> make_one_shot(const Call& call, const Place& place) {
  return std::make_unique<OneShot>(call, place);
}

}  // namespace rondo
