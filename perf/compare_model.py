"""The model step: document 1's Qwen3, forward and backward, by Rondo and by PyTorch FSDP2 over Gloo."""

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from compare_programs import HERE


def step_ms(output):
    found = re.search(r"median ([0-9.]+) ms", output)
    if not found:
        raise ValueError(f"no time in: {output[-300:]!r}")
    return float(found.group(1))


def commands(options):
    ranks, layers, steps = str(options.ranks[0]), str(options.layers), str(options.steps)
    ours = [str(Path(options.build) / "perf" / "qwen3_step"), "--ranks", ranks, "--layers", layers]
    python = options.python or Path(options.peers_folder) / "torch" / "bin" / "python"
    theirs = [str(python), str(HERE / "peer_fsdp2.py"), ranks, layers, steps, options.type]
    return {"Rondo": [*ours, "--steps", steps, "--type", options.type], "FSDP2 over Gloo": theirs}


def compare_model_step(options):
    """Interleaved; returns {program: [milliseconds]}."""
    times = {}
    for _ in range(options.rounds):
        for name, command in commands(options).items():
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=options.time_limit * 5, env=environment
            )
            if done.returncode != 0:
                sys.exit(f"compare: {' '.join(command)}: {done.stderr.strip()[-600:]}")
            times.setdefault(name, []).append(step_ms(done.stdout))
    return times


def print_model_step(times, options):
    print(f"model step, {options.ranks[0]} ranks, {options.layers} layers, {options.type}, forward and backward")
    for name, each in times.items():
        rounds = " ".join(f"{time:.1f}" for time in each)
        print(f"  {name:<16} {statistics.median(each):8.1f} ms   (rounds: {rounds})")
    ours, theirs = (statistics.median(each) for each in times.values())
    print(f"  Rondo is {theirs / ours:.1f} times as fast")
