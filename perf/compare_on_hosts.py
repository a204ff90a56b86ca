"""The programs that `compare --hosts` runs: a process for each rank, or an mpirun that enters the hosts by an
agent; and what TCP allows there."""

import statistics
import sys
from pathlib import Path

from compare_programs import HERE, Gloo, Mpich, OpenMpi, Program, Rondo

PORT = 29_400


class EachRank:
    """A program whose ranks are started one by one, host after host."""

    def commands(self, work):
        for rank in range(work.ranks):
            world = {
                "RANK": str(rank),
                "WORLD_SIZE": str(work.ranks),
                "MASTER_ADDR": work.hosts.address(0),
                "MASTER_PORT": str(PORT),
            }
            command = [*work.hosts.entering(rank // work.ranks_per_host), *self.rank_command(work)]
            yield command, self.environment(work) | world


class RondoOnHosts(EachRank, Rondo):
    def __init__(self, build):
        super().__init__(Path(build).resolve(), "malloc")
        self.title = self.label = "Rondo"

    def environment(self, work):
        return {"RONDO_SECRET": "of this comparison"}


class GlooOnHosts(EachRank, Gloo):
    def environment(self, work):
        return super().environment(work) | {"GLOO_SOCKET_IFNAME": "eth0"}

    def rank_command(self, work):
        return self.command(work)


class Mpirun:
    """One mpirun on the first host, which enters the others by compare_agent."""

    def environment(self, work):
        return super().environment(work) | {"COMPARE_HOSTS": work.hosts.table()}

    def command(self, work):
        return [*work.hosts.entering(0), *super().command(work)]


class OpenMpiOnHosts(Mpirun, OpenMpi):
    def options(self, work):
        hosts = [f"{work.hosts.address(host)}:{work.ranks_per_host}" for host in range(work.hosts.count)]
        start = ["--host", ",".join(hosts), "--bind-to", "none"]
        start += ["--prtemca", "plm_ssh_agent", HERE / "compare_agent", "--prtemca", "prte_if_include", "eth0"]
        transports = ["--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp", "--mca", "btl_tcp_if_include", "eth0"]
        # All hosts share this one's cores.
        return [*start, *transports, "--mca", "mpi_yield_when_idle", "1"]


class MpichOnHosts(Mpirun, Mpich):
    def options(self, work):
        hosts = [work.hosts.address(host) for host in range(work.hosts.count)]
        start = ["-hosts", ",".join(hosts), "-ppn", work.ranks_per_host, "-localhost", hosts[0], "-bind-to", "none"]
        start += ["-launcher", "ssh", "-launcher-exec", HERE / "compare_agent"]
        # Over TCP its libfabric is faster than its UCX, but for the largest calls.
        return [*start, "-genv", "MPIR_CVAR_CH4_NETMOD", "ofi", "-genv", "FI_PROVIDER", "tcp"]


class TcpLimit(Program):
    """What plain sockets carry between neighbours, all links busy both ways. An all-reduce of S bytes on H hosts
    brings 2 (H-1)/H S to each host, the other two bring half of that."""

    name, title, limit, slow_start = "limit", "TCP limit", True, True
    smallest = 256 << 10  # below it calls wait for round trips, not for bytes

    def __init__(self):
        self.rates = []  # bytes a second, of each measurement the hosts' mean

    def commands(self, work):
        addresses = [work.hosts.address(host) for host in range(work.hosts.count)]
        for host in range(work.hosts.count):
            yield [*work.hosts.entering(host), sys.executable, HERE / "peer_sockets.py", host, *addresses], {}

    def times_of_all(self, outputs, work):
        self.rates.append(statistics.mean(float(output) for output in outputs))
        hosts, passes = work.hosts.count, 2 if work.collective == "all_reduce" else 1
        return {
            size: passes * (hosts - 1) / hosts * size / self.rates[-1] * 1e6 for size, _ in work.sizes
        }


def makers_on_hosts(options):
    peers = options.peers_folder
    return {
        "rondo-malloc": lambda: RondoOnHosts(options.build),
        "limit": TcpLimit,
        "openmpi": lambda: OpenMpiOnHosts(Path(peers).resolve()),
        "mpich": lambda: MpichOnHosts(Path(peers).resolve()),
        "gloo": lambda: GlooOnHosts(Path(peers).resolve(), options.python),
    }
