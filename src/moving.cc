#include "src/moving.h"

#include <thread>

#include "src/deadline.h"

namespace rondo {

using namespace std::chrono_literals;

bool wait_for_moving(const Segment& segment, int self, std::span<const std::shared_ptr<PeerProcess>> peers) {
  const Deadline deadline = Deadline::after(most_wait_for_moving);
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    if (rank == static_cast<std::size_t>(self)) continue;
    const std::atomic<std::uint32_t>& mark = segment.rank(static_cast<int>(rank)).moving;
    const auto& process = peers[rank];
    while (mark.load(std::memory_order_seq_cst) != 0 && (!process || process->alive())) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(50us);
    }
  }
  return true;
}

}  // namespace rondo
