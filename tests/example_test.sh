#!/bin/sh
# What a user does: install Rondo, build the examples with pkg-config alone, run them.
# example_test.sh BUILD_FOLDER EXAMPLES_FOLDER
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
DESTDIR="$work" meson install -C "$1" --no-rebuild >"$work/install.log" 2>&1 || {
  cat "$work/install.log"
  exit 1
}
pc=$(find "$work" -name rondo.pc)
export PKG_CONFIG_SYSROOT_DIR="$work" PKG_CONFIG_PATH="${pc%/rondo.pc}"
flags=$(pkg-config --cflags --libs rondo)
export LD_LIBRARY_PATH="${pc%/pkgconfig/rondo.pc}"

# The header is C, and clean of warnings, as C11 and as C++20.
cc -std=gnu11 -Wall -Wextra -Wpedantic -Werror "$2/all_reduce.c" -o "$work/all_reduce" $flags
"$work/all_reduce"
c++ -std=c++20 -x c++ -Wall -Wextra -Wpedantic -Werror "$2/all_reduce.c" -o "$work/all_reduce_cc" $flags
"$work/all_reduce_cc"
c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror "$2/ledger.cc" -o "$work/ledger" $flags
"$work/ledger"
