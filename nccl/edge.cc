#include "nccl/edge.h"

#include <string_view>

namespace rondo::nccl {
namespace {

// ncclTimeout, where this nccl.h has it.
constexpr int timeout_number = 8;
constexpr ncclResult_t timeout_result =
    timeout_number < ncclNumResults ? static_cast<ncclResult_t>(timeout_number) : ncclRemoteError;

std::string& last_error_text() {
  thread_local std::string text;
  return text;
}

}  // namespace

// NCCL has no code for a communicator that has failed before, and 2.28 none for a deadline. Both are mostly a
// peer's doing.
ncclResult_t result_from(rondoResult_t result) {
  switch (result) {
    case rondoSuccess:
      return ncclSuccess;
    case rondoUnhandledCudaError:
      return ncclUnhandledCudaError;
    case rondoSystemError:
      return ncclSystemError;
    case rondoInternalError:
      return ncclInternalError;
    case rondoInvalidArgument:
      return ncclInvalidArgument;
    case rondoInvalidUsage:
      return ncclInvalidUsage;
    case rondoInProgress:
      return ncclInProgress;
    case rondoTimeout:
      return timeout_result;
    case rondoRemoteError:
    case rondoAborted:
      return ncclRemoteError;
    case rondoNumResults:
      break;
  }
  return ncclInternalError;
}

const std::string& last_error() { return last_error_text(); }

void remember(const char* function, const std::string& text) {
  last_error_text() = std::string(function) + ": " + text;
}

std::string rondo_error() {
  const std::string_view text = rondoGetLastError(nullptr);
  const auto colon = text.find(": ");
  if (text.starts_with("rondo") && colon != std::string_view::npos)
    return std::string(text.substr(colon + 2));
  return std::string(text);
}

void fail(rondoResult_t result) { throw Failure{result_from(result), rondo_error()}; }

void refuse(std::string text) { throw Failure{ncclInvalidArgument, std::move(text)}; }

void not_offered(const std::string& what) {
  throw Failure{ncclInvalidUsage, "not offered by Rondo: " + what};
}

void need(const char* argument, const void* pointer) {
  if (pointer == nullptr) refuse(std::string(argument) + " is null");
}

}  // namespace rondo::nccl
