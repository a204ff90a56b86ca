"""The programs that `compare --memory device` runs: Rondo on GPUs' memory, and NCCL in the same processes."""

import json
import subprocess
from pathlib import Path

from compare_programs import NotThere, Program, Rondo

PROBE_SECONDS = 60  # NCCL has no deadlines


def last_line(text):
    return (text.strip().splitlines() or ["no message"])[-1][:300]


class RondoOnDevices(Rondo):
    """NCCL's calls take turns with Rondo's where there is one (`nccl`, of this module)."""

    nccl = None

    def __init__(self, build):
        super().__init__(build, "device")
        self.probe([])

    def probe(self, more):
        why_not = self.why_not("all_reduce", 1, more)
        if why_not:
            raise NotThere(why_not)

    def why_not(self, collective, ranks, more):
        command = [self.folder / f"{collective}_perf", "--memory", "device", "--ranks", ranks, "-b", 64, "-n", 1, *more]
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end in {PROBE_SECONDS} s"
        return last_line(done.stderr) if done.returncode != 0 else None

    def rank_command(self, work):
        words = super().rank_command(work)
        if self.nccl and not self.nccl.why_not(work):
            words += ["--against", self.nccl.library]
        return words

    def times(self, output):
        report = json.loads(output)
        if "against" in report:
            self.nccl.take(report)
        return {row["bytes"]: row["out_of_place"]["time_us"] for row in report["results"]}


class Nccl(Program):
    """Has no command of its own: its times come with Rondo's, of the run before."""

    name, title = "nccl", "NCCL"

    def __init__(self, rondo, library):
        self.library, self.report = library, None
        self.rondo, self.reasons = rondo, {}
        rondo.probe(["--against", library])
        rondo.nccl = self

    def why_not(self, work):
        """None where NCCL does this collective with so many ranks. What it fails at is not to cost Rondo its times."""
        key = work.collective, work.ranks
        if key not in self.reasons:
            self.reasons[key] = self.rondo.why_not(*key, ["--against", self.library])
        return self.reasons[key]

    def commands(self, work):
        return []

    def take(self, report):
        self.report = report

    def times_of_all(self, outputs, work):
        report, self.report = self.report, None
        if self.why_not(work):
            raise ValueError(self.why_not(work))
        if report is None:
            raise ValueError("Rondo failed, in whose run it is measured")
        if report["against"]["left_out"]:
            raise ValueError(report["against"]["left_out"])
        if report["against"]["wrong"]:
            raise ValueError(f"wrong result at {report['results'][0]['bytes']} bytes")
        return {row["bytes"]: row["out_of_place"]["nccl"]["time_us"] for row in report["results"]}


def nccl_library(options):
    """--nccl-library, or that of --install-peers, or the loader's."""
    installed = sorted(Path(options.peers_folder).glob("nccl/lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
    return options.nccl_library or (str(installed[0]) if installed else "nccl")


def makers_on_devices(options):
    made = []

    def rondo():
        made.append(RondoOnDevices(options.build))
        return made[0]

    def nccl():
        if not made:
            raise NotThere("it is measured in Rondo's processes")
        return Nccl(made[0], nccl_library(options))

    return {"rondo-device": rondo, "nccl": nccl}
