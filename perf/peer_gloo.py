"""Times Gloo's collectives, under torch.distributed, as the perf programs time Rondo's. f32, sum.

usage: peer_gloo.py COLLECTIVE RANKS dirty|clean BYTES:ITERATIONS...
prints for each size: bytes, median microseconds of the slowest rank, "ok" or "wrong".
torch.distributed reduces in place; the other two are out of place.
"""

import sys

import torch
import torch.distributed as dist

from peer_torch import median_us, run_ranks, sizes_of


def values(rank, count):
    return ((torch.arange(count) * 7 + rank * 3) % 11).float()


def bench(collective, rank, ranks, count):
    """The call, the tensor it reads, and whether its result is right."""
    part = count // ranks
    total = sum(values(r, count) for r in range(ranks))
    if collective == "all_reduce":
        buffer = torch.zeros(count)

        def right():
            buffer.copy_(values(rank, count))
            dist.all_reduce(buffer)
            return torch.equal(buffer, total)

        return lambda: dist.all_reduce(buffer), buffer, right
    if collective == "all_gather":
        own, gathered = values(rank, part), torch.empty(part * ranks)
        expected = torch.cat([values(r, part) for r in range(ranks)])
        return (lambda: dist.all_gather_into_tensor(gathered, own), own, lambda: torch.equal(gathered, expected))
    given, own = values(rank, part * ranks), torch.empty(part)
    return (
        lambda: dist.reduce_scatter_tensor(own, given),
        given,
        lambda: torch.equal(own, total[rank * part : (rank + 1) * part]),
    )


def body(rank, ranks, collective, dirty, sizes):
    for size, iterations in sizes:
        call, given, right = bench(collective, rank, ranks, size // 4)
        time = median_us(call, given, iterations, dirty)
        good = right()
        if rank == 0:
            print(f"{size} {time:.3f} {'ok' if good else 'wrong'}", flush=True)


if __name__ == "__main__":
    collective, ranks, inputs = sys.argv[1:4]
    run_ranks(int(ranks), body, collective, inputs == "dirty", sizes_of(sys.argv[4:]))
