// Ranks that are bound to no core may begin on one, and the kernel may leave them there though others are
// free.
#pragma once

namespace rondo {

// Moves the calling thread to one of the CPUs that it may run on, by turns, and binds it to nothing: the
// kernel may move it on. Returns that CPU; -1 where the thread may run on one only, stands there, or cannot
// be moved.
int move_to_cpu_in_turn(int turn);

}  // namespace rondo
