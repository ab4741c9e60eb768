"""Two hosts on one machine for the Python tests: "nodea" and "nodeb", joined by a cable.

    virtual_hosts.enter()                        # first of all: goes on in namespaces of its own, or exits 77 where that is not allowed
    hosts = virtual_hosts.Hosts(folder)          # hosts = Hosts(folder, nodeb=Clock(realtime_ns=..., drift_ppm=...))
    hosts.run("nodea", ["mpirun", "-np", 2, "--host", "nodea,nodeb", "./train"])

A host has its own network, host name, boot id, /etc/hosts and a folder /run/local that the other one does not see, and through clock_shim.c its own
clocks. They share the file system (as hosts with a network disk do), the process table and the CPUs. A command comes to a host through its `agent`,
which takes the place of ssh for Open MPI and Hydra; like ssh it passes no environment on.

All of it hangs on one process: the first of a PID namespace. When that ends, however it ends, the kernel ends the others and takes mounts, cables and
names with them, so that nothing has to be cleaned up and runs at the same time do not see each other.
"""
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import job

NAMES = ("nodea", "nodeb")
ADDRESSES = dict(zip(NAMES, ("10.78.0.1", "10.78.0.2")))
CLOCK_SHIM = job.BUILD / "tests" / "programs" / "libclock_shim.so"
INSIDE = "VIRTUAL_HOSTS_INSIDE"

TRY = """set -e
mount -t tmpfs tmpfs /run
mkdir /run/cgroup; mount --rbind /sys/fs/cgroup /run/cgroup
ip netns add a; ip netns add b; ip link add x netns a type veth peer name x netns b
nsenter --net=/run/netns/a unshare --uts --mount sh -ec '
  hostname a; mount -t sysfs sysfs /sys; mount --bind /dev/null /proc/sys/kernel/random/boot_id; mount --bind /dev/null /etc/hosts'
"""

SET_UP = """set -e
mount -t tmpfs -o mode=755 tmpfs /run
ip link set lo up
mkdir -p /run/local /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
ip netns add nodea; ip netns add nodeb
ip link add cable netns nodea type veth peer name cable netns nodeb
printf '127.0.0.1 localhost\\n10.78.0.1 nodea\\n10.78.0.2 nodeb\\n' >/run/names
for host in nodea:10.78.0.1 nodeb:10.78.0.2; do
  name=${host%%:*}
  ip -n $name addr add ${host##*:}/24 dev cable
  ip -n $name link set lo up; ip -n $name link set cable up
  mkdir -p /run/hosts/$name/local
  cat /proc/sys/kernel/random/uuid >/run/hosts/$name/boot_id
done
"""

# As ssh: [OPTION...] HOST COMMAND..., the words are joined and given to a shell.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec nsenter --net=/run/netns/$host unshare --uts --mount sh -ec '
  name=$1; shift
  hostname $name
  mount -t sysfs sysfs /sys  # with the network cards of this host
  mount --rbind /run/cgroup /sys/fs/cgroup  # slurmd does not start without
  mount --bind /run/hosts/$name/boot_id /proc/sys/kernel/random/boot_id
  mount --bind /run/hosts/$name/local /run/local
  mount --bind /run/names /etc/hosts
  exec env -i PATH="$PATH" HOME=/ $(cat /run/hosts/$name/environment) sh -c "$*"' agent $host "$@"
"""


def enter():
    """Runs this test again in namespaces of its own. With a user namespace where the user is not root."""
    if os.environ.get(INSIDE):
        subprocess.run(["sh", "-c", SET_UP], check=True)
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    namespaces = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for tool in ("unshare", "nsenter", "ip", "mpirun"):
        if not shutil.which(tool):
            print(f"skipped: no {tool} here")
            sys.exit(77)
    tried = subprocess.run([*namespaces, "sh", "-c", TRY], capture_output=True, text=True)
    if tried.returncode != 0:
        print(f"skipped: no two hosts on this machine: {tried.stderr.strip() or tried.returncode}")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp("unshare", [*namespaces, sys.executable, *sys.argv])


@dataclass
class Clock:
    """What a host's clocks show, against the machine's: both drift, each from its own start."""
    monotonic_ns: int = 0
    realtime_ns: int = 0
    drift_ppm: float = 0


class Hosts:
    def __init__(self, folder, **clocks):
        """Jobs that run on a host with a Clock need LD_PRELOAD=CLOCK_SHIM and DDL_CLOCK=monotonic: TSC cannot be bent."""
        self.agent = folder / "agent.sh"
        self.agent.write_text(AGENT)
        self.agent.chmod(0o755)
        self.origin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for name in NAMES:
            clock = clocks.get(name, Clock())
            settings = f"CLOCK_SHIM={clock.monotonic_ns}:{clock.realtime_ns}:{clock.drift_ppm}:{self.origin_ns}\n"
            Path(f"/run/hosts/{name}/environment").write_text(settings)

    def run(self, host, command, check_rc=None, timeout=120, **env):
        """Runs on that host; mpirun and Hydra started there reach the other one."""
        settings = {**job.MPI_ENV, "OMPI_MCA_plm_rsh_agent": self.agent, "OMPI_MCA_btl": "tcp,self,vader", "HYDRA_LAUNCHER": "ssh",
                    "HYDRA_LAUNCHER_EXEC": self.agent, "PWD": os.getcwd(), **env}
        words = ["cd", os.getcwd(), "&&", "exec", "env", *(quoted(f"{k}={v}") for k, v in settings.items()), *(quoted(str(c)) for c in command)]
        return job.run([self.agent, host, *words], check_rc=check_rc, timeout=timeout)


def slow_the_cable(rate):
    """Both directions of it, to a rate as tc(8) has them: "200mbit"."""
    for name in NAMES:
        subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", "cable", "root", "tbf", "rate", rate, "burst", "64kb", "latency", "100ms"], check=True)


def lengthen_the_cable(microseconds, mbit):
    """Another cable in place of the one there is: packets travel for so long, at that rate (tun_relay.c; netem is not in every kernel). The process
    that is it; skips where there may be none."""
    for name in NAMES:
        subprocess.run(["ip", "-n", name, "link", "del", "cable"], stderr=subprocess.DEVNULL)
    relay = subprocess.Popen([job.BUILD / "tests/programs/tun_relay", *(f"/run/netns/{name}" for name in NAMES), str(microseconds), str(mbit)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if relay.stdout.readline() != "ready\n":
        raise job.Skip(f"no long cable here: {relay.stderr.read().strip()}")
    for name in NAMES:
        for words in ("link set cable mtu 9000 up", f"addr add {ADDRESSES[name]}/24 dev cable"):
            subprocess.run(["ip", "-n", name, *words.split()], check=True)
    return relay


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"
