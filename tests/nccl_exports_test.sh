#!/bin/bash
# librondo-nccl.so shows the functions that nccl.h and nccl_device.h declare, and nothing else, under the name
# that programs look for.
# nccl_exports_test.sh LIBRARY COMPILER [INCLUDE_FOLDER...]
set -euo pipefail

library=$1 compiler=$2
shift 2
preprocessed() { # HEADER; twins and inline functions included
  echo "#include <cstddef>
    #include <cstdint>
    #include <$1>" | $compiler "${folders[@]}" -DNCCL_OS_LINUX -std=c++20 -x c++ -E -P -
}
folders=()
for folder in "$@"; do folders+=("-isystem$folder"); done

shown=$(nm -D --defined-only --format=posix "$library" | cut -d ' ' -f 1 | LC_ALL=C sort)
# nccl.h declares plain functions only. In nccl_device.h those of the library are extern "C" and not inline.
declared=$({
  preprocessed nccl.h | grep -oE '\bp?nccl[A-Z][A-Za-z0-9]*\s*\(' | tr -d '( '
  preprocessed nccl_device.h | tr '\n' ' ' | tr ';{}' '\n' | grep 'extern "C"' | grep -vw inline |
    grep -oE '\bp?nccl[A-Z][A-Za-z0-9]*\s*\(' | tr -d '( '
} | LC_ALL=C sort -u)
if [ "$(grep -c . <<<"$declared")" -lt 80 ]; then
  echo "found only these functions in nccl.h: $declared"
  exit 1
fi
if ! diff --label "$library" --label nccl.h -u <(echo "$shown") <(echo "$declared"); then exit 1; fi

soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
if [ "$soname" != libnccl.so.2 ]; then
  echo "SONAME is '$soname': expected libnccl.so.2"
  exit 1
fi
echo "$(wc -l <<<"$shown") functions"
