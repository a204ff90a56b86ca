#include "perf/functions.h"

#include <fmt/format.h>

#include "include/rondo/rondo.hpp"

namespace rondo {

void Callee::check(rondoResult_t result) const {
  if (result == rondoSuccess) return;
  throw Exception(result, fmt::format("{}: {}: {}", name, functions.get_error_string(result),
                                      functions.get_last_error(comm)));
}

}  // namespace rondo
