#!/bin/bash
# tools/gpu-check says that there is no GPU, or no nvcc, and stops; and runs through all of its steps where both are.
# gpu_check_test.sh GPU_CHECK
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$1"
  exit 1
}
# The script on its own, with programs that only say what they were asked for in place of all others.
mkdir -p "$work/tools" "$work/bin" "$work/build/tests" "$work/build/perf" "$work/perf"
cp "$1" "$work/tools/gpu-check"
for tool in bash date dirname env git sed tail tee; do ln -s "$(command -v "$tool")" "$work/bin/$tool"; done
stand_in() {
  printf '#!/bin/bash\necho "%s $*"\n%s\n' "$(basename "$1")" "${2:-}" >"$1"
  chmod +x "$1"
}
check() { env PATH="$work/bin" "$work/tools/gpu-check" --report "$work/report" build >"$work/out" 2>&1; }
expect() { grep -q -- "$1" "$2" || fail "expected \"$1\" in: $(cat "$2")"; }

for attempt in 'no nvidia-smi' 'no GPU' 'no nvcc'; do
  status=0
  check || status=$?
  [ "$status" -eq 3 ] || fail "$attempt: status $status"
  case $attempt in
    'no nvidia-smi')
      expect 'no GPU here: expected' "$work/out"
      stand_in "$work/bin/nvidia-smi" 'exit 9'
      ;;
    'no GPU')
      expect 'no GPU here: nvidia-smi -L says' "$work/out"
      printf '#!/bin/bash\nfor gpu in 0 1 2; do echo "GPU $gpu: stand-in"; done\n' >"$work/bin/nvidia-smi"
      ;;
    'no nvcc') expect 'no nvcc here' "$work/out" ;;
  esac
done

stand_in "$work/bin/nvcc"
stand_in "$work/bin/ninja"
stand_in "$work/bin/compute-sanitizer"
stand_in "$work/tools/check"
stand_in "$work/build/perf/all_reduce_perf"
stand_in "$work/build/perf/all_gather_perf" 'echo "on GPUs $CUDA_VISIBLE_DEVICES"'
stand_in "$work/perf/compare"
check || fail "without python3: $(cat "$work/out")"
expect 'beside NCCL: not run, no python3' "$work/report"
stand_in "$work/bin/python3"
check || fail "all steps: $(cat "$work/out")"
for line in 'check --suite device' 'compute-sanitizer --tool racecheck' 'all_reduce_perf --ranks 1' \
  'all_gather_perf --ranks 4' 'on GPUs 0$' 'compare --memory device --build build --ranks 1,2,3' \
  'gpu-check: all well'; do
  expect "$line" "$work/report"
done
CUDA_VISIBLE_DEVICES=5,7 NCCL_LIBRARY=/their/libnccl.so check || fail "two of the GPUs: $(cat "$work/out")"
for line in 'on GPUs 5$' '--ranks 1,2 ' '--nccl-library /their/libnccl.so'; do expect "$line" "$work/report"; done

stand_in "$work/build/perf/all_gather_perf" 'exit 1'
status=0
check || status=$?
[ "$status" -eq 1 ] || fail "a step that fails: status $status"
expect 'all-gather, 2 ranks on one GPU: FAILED' "$work/report"
expect 'by host staging: well' "$work/report"
