#!/bin/bash
# librondo.so shows the functions that rondo.h declares, and nothing else.
# exports_test.sh LIBRARY HEADER
set -euo pipefail

shown=$(nm -D --defined-only --format=posix "$1" | cut -d ' ' -f 1 | LC_ALL=C sort)
declared=$(grep -o '\brondo[A-Z][A-Za-z]*(' "$2" | tr -d '(' | LC_ALL=C sort -u)
if ! diff --label "$1" --label "$2" -u <(echo "$shown") <(echo "$declared"); then exit 1; fi
echo "$(wc -l <<<"$shown") functions"
