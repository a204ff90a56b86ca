#include "src/lobby.h"

#include <poll.h>

namespace rondo {

using namespace std::chrono_literals;

std::optional<Lobby::Guest> Lobby::next_guest(Deadline deadline) {
  while (true) {
    let_in();
    if (auto guest = hear()) return guest;
    if (deadline.passed()) return std::nullopt;
    if (visitors_.size() == most_visitors) visitors_.pop_front();
    wait(deadline);
  }
}

void Lobby::let_in() {
  while (visitors_.size() < most_visitors) {
    Fd socket = accept_from(listener_);
    if (!socket) return;
    visitors_.push_back({{std::move(socket), std::vector<std::byte>(greeting_bytes_)}});
  }
}

std::optional<Lobby::Guest> Lobby::hear() {
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    const auto room = std::span(visitor->guest.greeting).subspan(visitor->received);
    const long got = receive_some(visitor->guest.socket, room);
    if (got < 0) {
      visitor = visitors_.erase(visitor);
      continue;
    }
    visitor->received += static_cast<std::size_t>(got);
    if (visitor->received == greeting_bytes_) {
      Guest guest = std::move(visitor->guest);
      visitors_.erase(visitor);
      return guest;
    }
    ++visitor;
  }
  return std::nullopt;
}

void Lobby::wait(Deadline deadline) const {
  std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
  for (const Visitor& visitor : visitors_) entries.push_back({visitor.guest.socket.get(), POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(1h));
  ::poll(entries.data(), entries.size(), static_cast<int>(left.count()));
}

}  // namespace rondo
