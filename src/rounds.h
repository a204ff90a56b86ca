// What algorithms of few rounds have in common: the transfers of a round are posted together, and when all of
// them are done the next one begins.
#pragma once

#include <algorithm>

#include "src/collective.h"

namespace rondo {

class Rounds : public Collective {
 public:
  explicit Rounds(const Place& place) : place_(place) {}

  bool step() override {
    while (all_done()) {
      under_way_.clear();
      if (!begin_round()) return true;
    }
    return false;
  }

 protected:
  // Posts the next round's transfers. False: there is none.
  virtual bool begin_round() = 0;

  void send(int peer, const Extents& what) {
    under_way_.push_back(place_.transport.post_send(peer, Channel::collective, what, ByteClass::payload));
  }
  void receive(int peer, const Extents& where) {
    under_way_.push_back(place_.transport.post_receive(peer, Channel::collective, where));
  }
  const Place& place() const { return place_; }

 private:
  bool all_done() const {
    return std::all_of(under_way_.begin(), under_way_.end(),
                       [&](Ticket ticket) { return place_.transport.done(ticket); });
  }

  Place place_;
  std::vector<Ticket> under_way_;
};

}  // namespace rondo
