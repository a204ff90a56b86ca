#!/bin/bash
# Under each mpirun that is installed: the program that knows nothing of MPI, and, where there is one, the
# program that was built with this MPI.
# mpi_test.sh WORLD_PROGRAM RONDO [MPI_PROGRAM]
set -euo pipefail

world_program=$1 rondo=$2 mpi_program=${3:-}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI 4 and 5: more ranks than cores, and no other transport than it needs here.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT

fail() {
  echo "$launcher: $1" >&2
  exit 1
}

run_world() {
  local size=$1 said
  said=$(timeout 60 "$launcher" -n "$size" "$world_program" | sort)
  local expected
  expected=$(for ((rank = 0; rank < size; ++rank)); do
    echo "rank $rank of $size: sum $((size * (size + 1) / 2))"
  done | sort)
  if [ "$said" != "$expected" ]; then fail "world of $size: $said"; fi
}

launchers=0
for launcher in mpirun.openmpi mpirun.mpich; do
  if ! command -v "$launcher" >/dev/null; then continue; fi
  launchers=$((launchers + 1))
  for size in 1 3 4; do run_world "$size"; done
  # Two jobs at the same time, which must not meet.
  run_world 3 &
  run_world 4
  wait $! || exit 1
  said=$(timeout 60 "$launcher" -n 4 "$rondo" ledger --json) || fail "rondo ledger"
  if ! grep -q '"ranks": 4' <<<"$said"; then fail "rondo ledger: $said"; fi
  if timeout 60 "$launcher" -n 2 "$rondo" ledger --ranks 4 >/dev/null 2>&1; then fail "4 ranks of a job of 2"; fi
  echo "$launcher: well"
done
if [ -n "$mpi_program" ]; then
  launcher=mpirun
  for size in 1 2 5; do
    said=$(timeout 60 mpirun -n "$size" "$mpi_program")
    if [ "$said" != "$size ranks: agree" ]; then fail "$said"; fi
  done
  echo "rondo/mpi.h: well"
fi
if [ "$launchers" -eq 0 ] && [ -z "$mpi_program" ]; then
  echo "no mpirun is installed"
  exit 77 # Meson: skipped
fi
