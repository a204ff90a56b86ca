"""What the PyTorch peers share: ranks as processes of one thread each, and the timing of the perf programs.

Where RANK is set, as launchers do, this process is that one rank, and MASTER_ADDR and MASTER_PORT say where they
meet; else all ranks are started here.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

WARMUP = 5
WORDS_IN_A_LINE = 16


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def be_local_rank(rank, size, port, body, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    os.environ["LOCAL_SIZE"] = str(size)
    cpus = sorted(os.sched_getaffinity(0))
    if size <= len(cpus):
        os.sched_setaffinity(0, {cpus[rank]})
    be_rank(rank, size, body, arguments)


def be_rank(rank, size, body, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    body(rank, size, *arguments)
    dist.destroy_process_group()


def run_ranks(size, body, *arguments):
    if "RANK" in os.environ:
        be_rank(int(os.environ["RANK"]), size, body, arguments)
    else:
        processes.spawn(be_local_rank, (size, free_port(), body, arguments), nprocs=size)


def sizes_of(words):
    """BYTES:ITERATIONS, as on the command line."""
    return [tuple(int(number) for number in word.split(":")) for word in words]


def median_us(call, given, iterations, dirty):
    """The median over the iterations of the slowest rank's time, in microseconds. `given` is what the call
    reads: rewritten, one word in each cache line, before each timed call if `dirty`."""
    for _ in range(WARMUP):
        call()
    dist.barrier()
    touched = given[::WORDS_IN_A_LINE]
    times = torch.empty(iterations, dtype=torch.float64)
    for i in range(iterations):
        if dirty:
            touched.copy_(touched.clone())
            dist.barrier()
        start = time.perf_counter()
        call()
        times[i] = time.perf_counter() - start
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return statistics.median(times.tolist()) * 1e6
