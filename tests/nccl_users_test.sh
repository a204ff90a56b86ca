#!/bin/bash
# Programs that were written for NCCL find in librondo-nccl.so all that they need. Those that this machine has:
#   NCCL_TESTS_SOURCE  a folder with the source of NVIDIA's nccl-tests, which is built against the library and linked
#   NCCL_USERS         shared libraries and programs that use libnccl.so.2, with : between them
# nccl_users_test.sh LIBRARY_FOLDER [INCLUDE_FOLDER...]
set -euo pipefail

libraries=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

functions_of() { nm -D --format=posix "$@" | cut -d ' ' -f 1 | sed 's/@.*//' | grep -E '^p?nccl[A-Z]' | LC_ALL=C sort -u; }

# Every function of NCCL's that FILE takes from elsewhere is there.
check_user() {
  local missing
  missing=$(LC_ALL=C comm -23 <(functions_of --undefined-only "$1") <(functions_of --defined-only "$libraries/libnccl.so.2"))
  if [ -n "$missing" ]; then
    echo "$1 needs, and librondo-nccl.so does not have:" $missing
    return 1
  fi
  echo "$1: $(functions_of --undefined-only "$1" | wc -l) functions of NCCL's, all there"
}

# One architecture is enough to see that it compiles. The toolkit may bring an NCCL of its own: only its runtime is
# in reach.
build_nccl_tests() { # INCLUDE_FOLDER...
  local folder
  mkdir -p "$work"/{home/lib,home/include,cuda,source}
  ln -s "$libraries"/libnccl.so "$libraries"/libnccl.so.2 "$work/home/lib/"
  ln -s "$cuda"/lib64/libcudart* "$work/cuda/"
  for folder in "$@" /usr/local/include /usr/include; do
    if [ -e "$folder/nccl.h" ]; then
      ln -s "$folder"/nccl* "$work/home/include/"
      break
    fi
  done
  cp -r "$NCCL_TESTS_SOURCE/." "$work/source"
  NVCC_APPEND_FLAGS="-Xlinker -rpath-link=$libraries/.. -Xlinker --no-undefined" make -s -j "$(nproc)" \
    -C "$work/source" BUILDDIR="$work/built" NCCL_HOME="$work/home" CUDA_HOME="$cuda" CUDA_LIB="$work/cuda" \
    NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90"
}

# Loads the library and asks it for its version; without a GPU that is as far as it gets.
check_run() { # PROGRAM
  local output
  if [ -e /dev/nvidia0 ]; then return; fi
  output=$(LD_LIBRARY_PATH="$libraries:$work/cuda" "$1" -g 1 -b 8 -e 8 2>&1) || true
  if ! grep -q 'Test CUDA failure' <<<"$output"; then
    echo "$1 does not say that there is no GPU: $output"
    return 1
  fi
  echo "  run: $(grep -m1 'Test CUDA failure' <<<"$output" | sed 's/.*Test/Test/')"
}

check_nccl_tests() { # INCLUDE_FOLDER...
  local program
  build_nccl_tests "$@"
  for program in "$work"/built/*_perf; do
    check_user "$program"
    check_run "$program"
  done
}

did=no
if [ -n "${NCCL_USERS:-}" ]; then
  IFS=: read -ra users <<<"$NCCL_USERS"
  for user in "${users[@]}"; do check_user "$user"; done
  did=yes
fi
if [ -n "${NCCL_TESTS_SOURCE:-}" ]; then
  if ! nvcc=$(command -v nvcc); then
    echo "NCCL_TESTS_SOURCE is set, and there is no nvcc to build it with"
    exit 1
  fi
  cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  check_nccl_tests "$@"
  did=yes
fi
if [ $did = no ]; then
  echo "skipped: neither NCCL_TESTS_SOURCE nor NCCL_USERS is set (docs/nccl.md)"
  exit 77
fi
