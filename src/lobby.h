// A door where anybody may knock: takes connections and hears each one's greeting, all at the same time, so
// that a stranger who stays silent keeps nobody waiting.
#pragma once

#include <list>
#include <optional>
#include <vector>

#include "src/socket.h"

namespace rondo {

class Lobby {
 public:
  struct Guest {
    Fd socket;
    std::vector<std::byte> greeting;
  };

  Lobby(const Fd& listener, std::size_t greeting_bytes)
      : listener_(listener), greeting_bytes_(greeting_bytes) {}

  // Somebody whose greeting is complete. Nobody until the deadline: nothing.
  std::optional<Guest> next_guest(Deadline deadline);

 private:
  // So many who have not finished their greeting may wait at once; then the oldest must go.
  static constexpr std::size_t most_visitors = 256;

  struct Visitor {
    Guest guest;
    std::size_t received = 0;
  };

  void let_in();
  std::optional<Guest> hear();
  void wait(Deadline deadline) const;

  const Fd& listener_;
  std::size_t greeting_bytes_;
  std::list<Visitor> visitors_;
};

}  // namespace rondo
