// cuBLAS has what the models call. Without a GPU that is all that can be asked.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "models/cublas_library.h"
#include "src/error.h"

namespace rondo {
namespace {

TEST(Cublas, HasAllThatIsUsed) {
  std::optional<CublasLibrary> cublas;
  try {
    cublas = CublasLibrary::load();
  } catch (const Error& error) {
    const std::string reason = error.what();
    if (!reason.starts_with("no cuBLAS")) throw;
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);  // as if --device were wrong
    GTEST_SKIP() << reason;
  }
  EXPECT_STRNE(cublas->get_status_string(CUBLAS_STATUS_NOT_INITIALIZED),
               cublas->get_status_string(CUBLAS_STATUS_SUCCESS));
}

}  // namespace
}  // namespace rondo
