// The one exception type of Rondo. "Not yet" is a return value; everything else is thrown as an Error, and
// turned into a result code in one place, at the C edge (src/c_api.cc).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace rondo {

enum class ErrorKind {
  system,            // the operating system refused something
  internal,          // a fault of ours, such as a ledger that does not balance
  invalid_argument,  // a null pointer, a rank out of range, a bad setting
  invalid_usage,     // calls that do not fit together, such as counts that differ between ranks
  remote,            // a peer died or broke off
  timeout,           // a deadline passed
  aborted,           // the communicator was aborted or has failed before
  device,            // a device, such as a GPU, or its driver refused something
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws an Error whose message is formatted as by fmt::format.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace rondo
