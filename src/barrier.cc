// A barrier of messages, for ranks that share no memory: in round k each rank tells the one 2^k further on
// that it and the 2^k - 1 before it have come. After ceil(log2 N) rounds it has heard of all. Where N is a
// power of two pairs of ranks tell one another instead: an answer carries TCP's acknowledgement with it,
// which else is a packet of its own.
#include <bit>

#include "src/collective.h"

namespace rondo {
namespace {

class MessageBarrier : public Collective {
 public:
  explicit MessageBarrier(const Place& place) : place_(place) { begin_round(); }

  bool step() override {
    while (distance_ < place_.size) {
      if (!place_.transport.done(sent_) || !place_.transport.done(received_)) return false;
      distance_ *= 2;
      begin_round();
    }
    return true;
  }

 private:
  void begin_round() {
    if (distance_ >= place_.size) return;
    const Extent out{&out_, 1}, in{&in_, 1};
    const bool pairs = std::has_single_bit(static_cast<unsigned>(place_.size));
    const int to = pairs ? place_.rank ^ distance_ : (place_.rank + distance_) % place_.size,
              from = pairs ? to : (place_.rank + place_.size - distance_) % place_.size;
    sent_ = place_.transport.post_send(to, Channel::collective, std::span(&out, 1), ByteClass::protocol);
    received_ = place_.transport.post_receive(from, Channel::collective, std::span(&in, 1));
  }

  Place place_;
  int distance_ = 1;
  std::byte out_{}, in_{};
  Ticket sent_, received_;
};

}  // namespace

std::unique_ptr<Collective> make_message_barrier(const Place& place) {
  return std::make_unique<MessageBarrier>(place);
}

}  // namespace rondo
