#!/bin/sh
# nccl_program as four ranks of `rondo run`, which get their id through a file.
# nccl_launched_test.sh NCCL_PROGRAM RONDO_PROGRAM
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2" run -n 4 -- "$1" launched "$work/id"
