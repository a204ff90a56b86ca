// What every function of NCCL's does at its end: no exception leaves it, and what went wrong becomes a result
// code and the text of ncclGetLastError.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "include/rondo/rondo.h"
#include "nccl/header.h"

namespace rondo::nccl {

// Thrown inside.
struct Failure {
  ncclResult_t result;
  std::string text;
};

ncclResult_t result_from(rondoResult_t result);

// The text of this thread's last error.
const std::string& last_error();
// Makes "function: text" the last error.
void remember(const char* function, const std::string& text);

// Throws what Rondo's call says, if it says that it failed.
[[noreturn]] void fail(rondoResult_t result);
inline void check(rondoResult_t result) {
  if (result != rondoSuccess) fail(result);
}
// Rondo's last error in this thread, without the name of Rondo's function.
std::string rondo_error();

// ncclInvalidArgument, and ncclInvalidUsage: "not offered by Rondo: what".
[[noreturn]] void refuse(std::string text);
[[noreturn]] void not_offered(const std::string& what);

void need(const char* argument, const void* pointer);

template <typename Body>
ncclResult_t at_the_edge(const char* function, Body body) noexcept {
  try {
    body();
    return ncclSuccess;
  } catch (const Failure& failure) {
    remember(function, failure.text);
    return failure.result;
  } catch (const std::bad_alloc&) {
    remember(function, "out of memory");
    return ncclSystemError;
  } catch (const std::exception& error) {
    remember(function, error.what());
    return ncclInternalError;
  }
}

}  // namespace rondo::nccl
