"""Times DeepSpeed's shared-memory all-reduce as the perf programs time Rondo's. f32, sum, in place.

usage: peer_deepspeed.py all_reduce RANKS dirty|clean BYTES:ITERATIONS...
prints for each size: bytes, median microseconds of the slowest rank, "ok" or "wrong".
DeepSpeed compiles its operator at the first start: that takes a minute.
"""

import os
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch

from peer_torch import median_us, run_ranks, sizes_of


def load():
    from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder

    return ShareMemCommBuilder().load()


def body(rank, ranks, dirty, sizes):
    load().initialize(ranks, rank)
    reduce = torch.ops.deepspeed.inference_all_reduce_
    for size, iterations in sizes:
        buffer = torch.zeros(size // 4)
        time = median_us(lambda: reduce(buffer), buffer, iterations, dirty)
        buffer.fill_(rank + 1)
        reduce(buffer)
        good = bool((buffer == ranks * (ranks + 1) / 2).all())
        if rank == 0:
            print(f"{size} {time:.3f} {'ok' if good else 'wrong'}", flush=True)


if __name__ == "__main__":
    collective, ranks, inputs = sys.argv[1:4]
    if collective != "all_reduce":
        sys.exit("peer_deepspeed.py: DeepSpeed has an all-reduce only")
    load()
    run_ranks(int(ranks), body, inputs == "dirty", sizes_of(sys.argv[4:]))
