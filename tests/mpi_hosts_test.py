"""rondoCommInitMPI over two hosts with two ranks each, under the system's mpirun, which enters the hosts by an agent
in the place of ssh.

usage: mpi_hosts_test.py PERF_FOLDER MPI_PROGRAM
Exit status 77 (skipped) where there are no hosts to be had, or this mpirun is not known.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
RANKS_PER_HOST = 2
# Any rank may be the first of a communicator, where the others come to.
AS_RANK = """
address=$(ip -4 -o address show eth0 | sed 's/.* inet //; s,/.*,,')
export RONDO_COMM_ID=$address:$((29455 + ${OMPI_COMM_WORLD_RANK:-$PMI_RANK})) RONDO_TIMEOUT=60
exec "$0"
"""
# Without an address every rank fails, before any deadline.
WITHOUT_ADDRESS = 'RONDO_TIMEOUT=0 exec "$0"'


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def words_of_mpirun(agent, hosts):
    """How the mpirun that is installed starts ranks on all hosts."""
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    addresses = [hosts.address(host) for host in range(hosts.count)]
    ranks = ["-n", str(RANKS_PER_HOST * hosts.count)]
    if "Open MPI" in version:
        slots = ",".join(f"{address}:{RANKS_PER_HOST}" for address in addresses)
        agent_name = ["--mca", "plm_rsh_agent"] if "Open MPI) 4" in version else ["--prtemca", "plm_ssh_agent"]
        transports = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "eth0"]
        return ["mpirun", *ranks, "--host", slots, *agent_name, agent, "--bind-to", "none", *transports]
    if "HYDRA" in version:
        where = ["-hosts", ",".join(addresses), "-ppn", str(RANKS_PER_HOST), "-localhost", addresses[0]]
        return ["mpirun", *ranks, *where, "-launcher", "ssh", "-launcher-exec", agent]
    skip(f"this mpirun is not known: {version.splitlines()[:1]}")


def main():
    perf_folder, program = Path(sys.argv[1]).resolve(), str(Path(sys.argv[2]).resolve())
    sys.path.insert(0, str(perf_folder))
    from compare_hosts import Hosts, NoHosts

    if shutil.which("mpirun") is None:
        skip("no mpirun is installed")
    try:
        with Hosts(2, "1gbit") as hosts:
            environment = os.environ | {
                "COMPARE_HOSTS": hosts.table(),
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            }
            start = [*hosts.entering(0), *words_of_mpirun(str(perf_folder / "compare_agent"), hosts)]

            def run(ranks):
                return subprocess.run([*start, "sh", "-c", ranks, program], capture_output=True, text=True,
                                      timeout=120, env=environment)

            done, refused = run(AS_RANK), run(WITHOUT_ADDRESS)
    except NoHosts as reason:
        skip(reason)
    expected = f"{2 * RANKS_PER_HOST} ranks: agree"
    if done.returncode != 0 or done.stdout.strip() != expected:
        sys.exit(f"expected {expected!r}, got {done.stdout!r} and {done.stderr!r}, status {done.returncode}")
    if refused.returncode == 0 or "expected RONDO_COMM_ID=host:port" not in refused.stderr:
        sys.exit(f"without RONDO_COMM_ID: status {refused.returncode}, {refused.stdout!r} and {refused.stderr!r}")
    print("rondo/mpi.h over two hosts: well")


if __name__ == "__main__":
    main()
