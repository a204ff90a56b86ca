"""Hosts to compare on: network namespaces of this machine, each with an interface eth0 on one bridge, all links
shaped. A process holds each of them, which ends with this one, and the namespace with it: nothing has a name
that could be left behind, or be somebody else's."""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

BURST, LATENCY = "256kb", "50ms"  # of the links' token buckets
HOLD = "mount -t sysfs sysfs /sys && hostname {name} && echo ready && exec cat"
# Programs look in /sys for their interfaces: it is mounted anew, so that it shows this host's.
SET_UP_BRIDGE = "ip link add bridge type bridge && ip link set bridge up"
SET_UP_PORT = (
    "ip link add port{host} type veth peer name eth0 netns {holder} && ip link set port{host} master bridge up"
    " && tc qdisc add dev port{host} root tbf rate {rate} burst {burst} latency {latency}"
)
SET_UP_HOST = (
    "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; ip link set lo up && ip addr add {address}/24 dev eth0"
    " && ip link set eth0 up && tc qdisc add dev eth0 root tbf rate {rate} burst {burst} latency {latency}"
)
WAIT_FOR_LINK = "for i in $(seq 500); do ip link show eth0 | grep -q 'state UP' && exit; sleep 0.01; done; exit 1"


class NoHosts(Exception):
    """Why they cannot be made here."""


def parse_rate(text):
    if not re.fullmatch(r"[1-9][0-9]*[mg]bit", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a rate such as 100mbit or 1gbit")
    return text


def bytes_a_second(rate):
    return int(rate[:-4]) * {"m": 10**6, "g": 10**9}[rate[-4]] // 8


class Hosts:
    def __init__(self, count, rate):
        self.count, self.rate = count, rate
        self.as_user = os.geteuid() != 0
        self.holders = []  # the bridge's, then the hosts'
        missing = [tool for tool in ("unshare", "nsenter", "ip", "tc") if shutil.which(tool) is None]
        if missing:
            raise NoHosts(f"no {', '.join(missing)} here (Debian: util-linux, iproute2)")
        try:
            self.make()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def address(self, host):
        return f"10.91.0.{host + 1}"

    def entering(self, host):
        """The words before a command that let it run on a host."""
        return self.entering_holder(self.holders[host + 1])

    def table(self):
        """For a program on one host that enters the others: a line for each, by address."""
        words = [(self.address(host), self.words_to_enter(self.holders[host + 1])) for host in range(self.count)]
        return "\n".join(" ".join([address, *entering]) for address, entering in words)

    def end_processes(self):
        """Those that a program has left on the hosts."""
        ours = {os.readlink(f"/proc/{holder.pid}/ns/net") for holder in self.holders if holder.poll() is None}
        holders = {holder.pid for holder in self.holders}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in holders:
                continue
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/net") in ours:
                    os.kill(int(entry.name), signal.SIGKILL)

    def close(self):
        self.end_processes()
        for holder in reversed(self.holders):
            holder.kill()
            holder.wait()
        self.holders = []

    def make(self):
        link = {"rate": self.rate, "burst": BURST, "latency": LATENCY}
        bridge = self.hold("bridge")
        self.run(bridge, SET_UP_BRIDGE)
        for host in range(self.count):
            holder = self.hold(f"host{host}")
            self.run(bridge, SET_UP_PORT.format(host=host, holder=holder.pid, **link))
            self.run(holder, SET_UP_HOST.format(address=self.address(host), **link))
        for holder in self.holders[1:]:
            self.run(holder, WAIT_FOR_LINK)

    def hold(self, name):
        """A process in namespaces of its own, for as long as this one holds the other end of its pipe."""
        words = ["unshare", "--net", "--uts", "--mount", "--propagation", "private"]
        if self.as_user:
            words = [*self.entering_user(), *words] if self.holders else [*words, "--user", "--map-root-user"]
        # A session of its own: Ctrl-C is for this program, which then ends its hosts in order.
        holder = subprocess.Popen([*words, "sh", "-c", HOLD.format(name=name)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        if holder.stdout.readline() != "ready\n":
            reason = holder.communicate()[1].strip() or "no reason given"
            raise NoHosts(f"a network namespace is not allowed here: {reason}")
        self.holders.append(holder)
        return holder

    def entering_user(self):
        return ["nsenter", "--target", str(self.holders[0].pid), "--user", "--preserve-credentials"]

    def entering_holder(self, holder):
        return [*(self.entering_user() if self.as_user else []), *self.words_to_enter(holder)]

    @staticmethod
    def words_to_enter(holder):
        return ["nsenter", "--target", str(holder.pid), "--net", "--uts", "--mount"]

    def run(self, holder, command):
        done = subprocess.run([*self.entering_holder(holder), "sh", "-c", command], capture_output=True, text=True)
        if done.returncode != 0:
            raise NoHosts(f"failed: {command}: {done.stderr.strip()[-300:]}")
