// cuBLAS, loaded where it is there: it is large, and a program linked to it would not start elsewhere.
#pragma once

#include <cublas_v2.h>

namespace rondo {

// Its functions, by their own names.
struct CublasLibrary {
  // Throws invalid_argument where there is none of the version that Rondo was compiled for, or one that lacks
  // something.
  static CublasLibrary load();

  decltype(&::cublasCreate) create;
  decltype(&::cublasDestroy) destroy;
  decltype(&::cublasSetStream) set_stream;
  decltype(&::cublasSetMathMode) set_math_mode;
  decltype(&::cublasSgemm_64) sgemm;
  decltype(&::cublasGetStatusString) get_status_string;
};

}  // namespace rondo
