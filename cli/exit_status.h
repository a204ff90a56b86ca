// How commands end: 0 when all went well, 2 for bad usage, 1 for other errors, and what a rank ended with.
#pragma once

#include <exception>

namespace rondo {

inline constexpr int exit_failure = 1, exit_usage = 2, exit_cannot_execute = 127;

// A process that was ended by a signal, as shells tell it.
constexpr int exit_by_signal(int signal) { return 128 + signal; }

// Ends the running command with this status, and without a message. Returns for 0.
void finish_with(int status);

// Prints "rondo: ..." to stderr, and returns the exit status that fits.
int report_error(const std::exception& error);

}  // namespace rondo
