"""The programs that `compare` runs: Rondo, its peers, the memory limit. Each knows its command line and how
to read what it prints; all time the same calls in the same way."""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")


class NotThere(Exception):
    """A program that is not installed, and what would install it."""


class Work:
    """One collective on so many ranks, for sizes and iterations; on `hosts`, or on this one."""

    def __init__(self, collective, ranks, dirty, sizes, hosts=None):
        self.collective, self.ranks, self.dirty, self.sizes = collective, ranks, dirty, sizes
        self.hosts = hosts

    @property
    def ranks_per_host(self):
        return self.ranks // self.hosts.count

    @property
    def inputs(self):
        return "dirty" if self.dirty else "clean"

    def words(self):
        return [f"{size}:{iterations}" for size, iterations in self.sizes]


class Program:
    """name: on the command line; title: in tables, and label for short; rondo: ours; slow_start: better run once
    for all sizes."""

    name = title = label = ""
    rondo = limit = slow_start = False
    collectives = COLLECTIVES
    smallest = 4

    def command(self, work):
        raise NotImplementedError

    def environment(self, work):
        return {}

    def commands(self, work):
        """All that is to be started at the same time, each with its environment."""
        return [(self.command(work), self.environment(work))]

    def times_of_all(self, outputs, work):
        """From what the commands printed. The first is rank 0's."""
        return self.times(outputs[0])

    def times(self, output):
        """{size: microseconds}, or ValueError for a wrong result."""
        times = {}
        for line in output.splitlines():
            words = line.split()
            if len(words) < 2 or not words[0].isdigit():
                continue
            if words[2:3] == ["wrong"]:
                raise ValueError(f"wrong result at {words[0]} bytes")
            times[int(words[0])] = float(words[1])
        return times


class Rondo(Program):
    rondo = True

    def __init__(self, build, memory):
        self.folder, self.memory, self.label = Path(build) / "perf", memory, memory
        self.name = f"rondo-{memory}"
        self.title = "Rondo, " + {"malloc": "malloc", "rondo": "rondoMemAlloc", "device": "GPU memory"}[memory]
        probe = self.folder / "all_reduce_perf"
        if not os.access(probe, os.X_OK):
            raise NotThere(f"{probe} is not there: build the project, or name its folder by --build")
        if memory not in subprocess.run([probe, "--help"], capture_output=True, text=True).stdout:
            raise NotThere(f"{probe} does not know --memory {memory}")

    def command(self, work):
        words = [*self.rank_command(work), "--ranks", work.ranks]
        return words + (["--bind"] if work.ranks <= cpu_count() else [])

    def rank_command(self, work):
        # One size a run: a list of sizes need not be a progression.
        (size, iterations), = work.sizes
        words = [self.folder / f"{work.collective}_perf", "-b", size, "-n", iterations]
        words += ["--memory", self.memory, "--out-of-place-only", "-J", "-"]
        return words + ([] if work.dirty else ["--clean"])

    def times(self, output):
        return {row["bytes"]: row["out_of_place"]["time_us"] for row in json.loads(output)["results"]}


class MemoryLimit(Program):
    name, title, limit = "limit", "memory limit", True
    smallest = 4096  # below it is the time of a function call

    def __init__(self, build):
        self.path = Path(build) / "perf" / "memory_limit"
        if not os.access(self.path, os.X_OK):
            raise NotThere(f"{self.path} is not there")

    def command(self, work):
        return [self.path, work.collective, work.ranks, work.inputs, *work.words()]


class Mpi(Program):
    """peer_mpi.c, compiled by the MPI's own mpicc the first time."""

    launcher = "mpiexec"

    def __init__(self, folder):
        self.root = Path(folder) / self.folder
        self.bin = self.root / "bin"
        if not os.access(self.bin / "mpicc", os.X_OK):
            raise NotThere(f"{self.bin / 'mpicc'} is not there: see --install-peers")
        self.program = self.root / "peer_mpi"
        self.compile()

    def compile(self):
        source = HERE / "peer_mpi.c"
        if self.program.exists() and self.program.stat().st_mtime > source.stat().st_mtime:
            return
        command = [self.bin / "mpicc", "-O2", "-o", self.program, source]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | self.base_environment())
        if done.returncode != 0:
            raise NotThere(f"{self.bin / 'mpicc'} cannot compile peer_mpi.c: {done.stderr.strip()[-300:]}")

    def base_environment(self):
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def environment(self, work):
        return self.base_environment()

    def options(self, work):
        return []

    def command(self, work):
        start = [self.bin / self.launcher, "-n", work.ranks, *self.options(work)]
        return start + [self.program, work.collective, work.inputs, *work.words()]


class OpenMpi(Mpi):
    name, title, folder = "openmpi", "Open MPI", "openmpi"
    launcher = "mpirun"

    def options(self, work):
        crowded = work.ranks > cpu_count()
        binding = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"] if crowded else ["--bind-to", "core"]
        waiting = ["--mca", "mpi_yield_when_idle", "1"] if crowded else []
        return ["--mca", "pml", "ob1", "--mca", "btl", "self,sm", *binding, *waiting]

    def environment(self, work):
        # Containers are often root's.
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return self.base_environment() | root


class Mpich(Mpi):
    name, title, folder = "mpich", "MPICH", "mpich"

    def options(self, work):
        return ["-bind-to", "core"] if work.ranks <= cpu_count() else []


class IntelMpi(Mpi):
    name, title, folder = "impi", "Intel MPI", "impi"

    def base_environment(self):
        libraries = [str(self.root / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        return super().base_environment() | {
            "I_MPI_ROOT": str(self.root),
            "I_MPI_FABRICS": "shm",
            "I_MPI_CC": "cc",
            "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
        }


class IntelMpiYielding(IntelMpi):
    """Its own remedy for more ranks than CPUs."""

    name, title = "impi-yield", "Intel MPI, yielding"

    def environment(self, work):
        return super().environment(work) | {"I_MPI_THREAD_YIELD": "2"}


class Torch(Program):
    """A Python peer, in a virtual environment with PyTorch."""

    slow_start = True
    smallest = 256

    def __init__(self, folder, python=None):
        self.python = Path(python) if python else Path(folder) / self.folder / "bin" / "python"
        probe = [self.python, "-c", f"import {self.module}"]
        if not os.access(self.python, os.X_OK) or subprocess.run(probe, capture_output=True).returncode != 0:
            raise NotThere(f"{self.python} has no {self.module}: see --install-peers and --python")

    def environment(self, work):
        return {"PATH": f"{self.python.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def command(self, work):
        # These take milliseconds where others take one microsecond.
        fewer = [f"{size}:{max(5, iterations // 5)}" for size, iterations in work.sizes]
        return [self.python, HERE / self.script, work.collective, work.ranks, work.inputs, *fewer]


class Gloo(Torch):
    name, title, folder, script, module = "gloo", "Gloo", "torch", "peer_gloo.py", "torch"


class DeepSpeed(Torch):
    name, title, folder = "deepspeed", "DeepSpeed shm", "deepspeed"
    script, module = "peer_deepspeed.py", "deepspeed"
    collectives = ("all_reduce",)

    def environment(self, work):
        return super().environment(work) | {"DS_ACCELERATOR": "cpu"}


class LineTrip:
    """How quickly cache lines go from core to core (line_trip.cc): on virtual machines that changes within minutes,
    and with it everything else."""

    LINES = 1024

    def __init__(self, path):
        self.path = path

    @staticmethod
    def find(build):
        path = Path(build) / "perf" / "line_trip"
        return LineTrip(path) if os.access(path, os.X_OK) and cpu_count() > 1 else None

    def nanoseconds(self):
        done = subprocess.run([self.path, str(self.LINES)], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[1])


def cpu_count():
    return len(os.sched_getaffinity(0))


def makers_here(options):
    """Each program's name, and what makes it or raises NotThere."""
    peers = options.peers_folder
    return {
        "rondo-malloc": lambda: Rondo(options.build, "malloc"),
        "rondo-rondo": lambda: Rondo(options.build, "rondo"),
        "limit": lambda: MemoryLimit(options.build),
        "openmpi": lambda: OpenMpi(peers),
        "mpich": lambda: Mpich(peers),
        "impi": lambda: IntelMpi(peers),
        "impi-yield": lambda: IntelMpiYielding(peers),
        "gloo": lambda: Gloo(peers, options.python),
        "deepspeed": lambda: DeepSpeed(peers, options.deepspeed_python),
        "nccl": no_host_memory,
    }


def no_host_memory():
    raise NotThere("it takes no memory but a GPU's: see --memory device")


def find_programs(options, makers):
    """Those that are there; the others are named on stderr."""
    found = []
    for name, make in makers.items():
        if options.peers and name not in options.peers and not name.startswith(("rondo", "limit")):
            continue
        try:
            found.append(make())
        except NotThere as reason:
            print(f"without {name}: {reason}", file=sys.stderr)
    return found


PACKAGES = {
    "openmpi": ["openmpi"],
    "mpich": ["mpich"],
    "impi": ["impi-rt", "impi-devel"],
    "torch": ["torch", "numpy", "transformers"],
    "deepspeed": ["torch", "numpy", "deepspeed", "ninja", "setuptools"],
    "nccl": ["nvidia-nccl-cu13"],
}


def has_gpu():
    try:
        return "GPU " in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    except OSError:
        return False


def install_peers(folder, wanted):
    """A virtual environment for each, in a folder of its own."""
    for name, packages in PACKAGES.items():
        if wanted and name not in wanted and not (name == "torch" and "gloo" in wanted):
            continue
        if name == "nccl" and not wanted and not has_gpu():
            print("without nccl: no GPU here; --peers nccl fetches it all the same", file=sys.stderr)
            continue
        environment = Path(folder) / name
        print(f"installing {', '.join(packages)} in {environment}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "--quiet", *packages], check=True)
