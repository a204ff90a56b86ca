#include "cli/exit_status.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/error.h"

namespace rondo {

void finish_with(int status) {
  if (status != 0) throw CLI::RuntimeError(status);
}

int report_error(const std::exception& error) {
  std::fflush(stdout);
  fmt::print(stderr, "rondo: {}\n", error.what());
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours != nullptr && ours->kind() == ErrorKind::invalid_argument ? exit_usage : exit_failure;
}

}  // namespace rondo
