// What a failing call says.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "src/error.h"

namespace rondo {

// The message of the Error that `call` throws; without one the test fails and the message is empty.
template <typename Call>
std::string error_message(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

}  // namespace rondo
