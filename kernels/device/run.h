// A whole call, as one block of one rank does its part.
#pragma once

#include "kernels/device/one_shot.h"
#include "kernels/device/ring.h"
#include "kernels/device/staged.h"
#include "kernels/device/windows.h"

namespace rondo::device {

// All ranks run the same call with the same number of blocks, at most most_blocks. Calls on the same exchange
// memory run one after another. The way must be one that has the kind.
RONDO_HOST_DEVICE inline void run_collective(const CollectiveCall& call, Lanes lanes) {
  switch (call.way) {
    case Way::one_shot:
      return run_rounds(call, lanes, OneShot(call, lanes));
    case Way::staged:
      return run_rounds(call, lanes, Staged(call, lanes));
    case Way::windows:
      return run_round(call, lanes, Last::meet, [&](const Meeting&) {
        Windows(call, lanes).move();
        return true;
      });
    case Way::ring:
      return run_round(call, lanes, Last::go,
                       [&](const Meeting& meeting) { return Ring(call, lanes).run(meeting); });
  }
}

}  // namespace rondo::device
