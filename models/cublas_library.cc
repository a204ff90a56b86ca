#include "models/cublas_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <type_traits>

#include "src/error.h"

// The header renames functions to their newest versions: the name as the library has it.
#define RONDO_TEXT_OF(name) #name
#define RONDO_SYMBOL(name) RONDO_TEXT_OF(name)

namespace rondo {

CublasLibrary CublasLibrary::load() {
  const std::string name = fmt::format("libcublas.so.{}", CUBLAS_VER_MAJOR);
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(ErrorKind::invalid_argument, "no cuBLAS: {}", ::dlerror());
  CublasLibrary cublas{};
  const auto find = [&](auto& function, const char* symbol) {
    void* const found = ::dlsym(library, symbol);
    if (found == nullptr) fail(ErrorKind::invalid_argument, "{} lacks {}", name, symbol);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(cublas.create, RONDO_SYMBOL(cublasCreate));
  find(cublas.destroy, RONDO_SYMBOL(cublasDestroy));
  find(cublas.set_stream, RONDO_SYMBOL(cublasSetStream));
  find(cublas.set_math_mode, RONDO_SYMBOL(cublasSetMathMode));
  find(cublas.sgemm, RONDO_SYMBOL(cublasSgemm_64));
  find(cublas.get_status_string, RONDO_SYMBOL(cublasGetStatusString));
  return cublas;
}

}  // namespace rondo
