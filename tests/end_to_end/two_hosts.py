#!/usr/bin/env python3
"""Jobs on two hosts: one recording, one report, the right rank on the right host, also where the hosts' clocks disagree."""
import shutil
import statistics
import sys
from pathlib import Path

import job
import virtual_hosts
from virtual_hosts import Clock, Hosts

virtual_hosts.enter()

SLOW_MS = 40


def train(*options):
    return [job.TRAIN, "--no-overlap", "--width", 64, "--print-every", 0, *options]


def first_finding(run):
    row = job.store(run).execute("select id, rank, sentence from finding order by position").fetchone()
    return tuple(row) if row else None


def one_report(folder):
    """Four ranks; what ddl record was told reaches the ranks of the other host too."""
    hosts = Hosts(folder)
    run = folder / "four.ddl"
    hosts.run("nodea", [job.DDL, "record", "-o", run, "--steps", "10:39", "--", "mpirun", "-np", 4, "--host", "nodea:2,nodeb:2",
                        *train("--steps", 40, "--slow-rank", f"3:{SLOW_MS}")], check_rc=0)
    ranks = [tuple(r) for r in job.store(run).execute("select rank, host, node, local_rank from v_rank order by rank")]
    job.check(ranks == [(0, "nodea", 1, 0), (1, "nodea", 1, 1), (2, "nodeb", 2, 0), (3, "nodeb", 2, 1)], f"ranks: {ranks}")
    window = [tuple(r) for r in job.store(run).execute("select rank, min(step), max(step) from v_collective where step is not null group by rank")]
    job.check(window == [(rank, 10, 39) for rank in range(4)], f"window: {window}")
    finding = first_finding(run)
    job.check(finding is not None and finding[:2] == ("straggler", 3) and "rank 3 (nodeb)" in finding[2], f"first finding: {finding}")
    text = job.report(run).stdout
    job.check(text.startswith("train   4 ranks on 2 hosts   40 steps in "), f"headline: {text[:80]}")
    job.check("data: 4/4 ranks" in text, f"data: {text[:300]}")


def record_skewed(folder, name, *options):
    """nodeb's clocks are 3 s ahead, its uptime is another, and it gains 50 ppm. The settings reach nodeb through ddl record alone."""
    skew = Clock(monotonic_ns=1234 * 10**9, realtime_ns=3 * 10**9, drift_ppm=50)
    hosts = Hosts(folder, nodeb=skew)
    run = folder / name
    hosts.run("nodea", [job.DDL, "record", "-o", run, "--", "mpirun", "-np", 2, "--host", "nodea,nodeb", *train(*options)], check_rc=0,
              LD_PRELOAD=virtual_hosts.CLOCK_SHIM, DDL_CLOCK="monotonic")
    db = job.store(run)
    job.check([r[0] for r in db.execute("select clock from v_rank")] == ["monotonic"] * 2, f"{name}: DDL_CLOCK did not reach both hosts")
    nodea, nodeb = db.execute("select * from host order by name").fetchall()
    # When the axis is at zero, the machine's clock is this, which is also what nodea shows, and nodeb shows that:
    zero_ns = -nodea["offset_ns"]
    shown_ns = zero_ns + skew.monotonic_ns + (zero_ns - hosts.origin_ns) * skew.drift_ppm * 1e-6
    wrong_ns = -nodeb["offset_ns"] - shown_ns
    print(f"{name}: offset wrong by {wrong_ns / 1e3:.1f} us, sigma {nodeb['sigma_ns'] / 1e3:.1f} us, drift {nodeb['drift_ppm']:.2f} ppm, by {nodeb['method']}")
    job.check(nodea["method"] == "reference" and nodeb["method"] == "collectives", f"{name}: methods {nodea['method']}, {nodeb['method']}")
    job.check(nodeb["sigma_ns"] <= 1e6, f"{name}: sigma is {nodeb['sigma_ns']} ns")
    job.check(abs(wrong_ns) <= 3 * nodeb["sigma_ns"], f"{name}: the offset is wrong by {wrong_ns} ns, sigma {nodeb['sigma_ns']}")
    return run, nodeb["drift_ppm"]


def delay_under_skew(folder):
    """Either rank late in turn. Three collectives a step: the later ones, which nobody is late for, are what tells the clocks well."""
    for slow, host in enumerate(virtual_hosts.NAMES):
        run, drift_ppm = record_skewed(folder, f"slow{slow}.ddl", "--bucket-mb", 0.005, "--steps", 80, "--slow-rank", f"{slow}:{SLOW_MS}")
        job.check(abs(drift_ppm - 50) <= 25, f"drift {drift_ppm} ppm, expected 50")
        waits = [r[0] for r in job.store(run).execute(
            "select max(wait_ns) from v_collective where op = 'MPI_Allreduce' and step >= 5 and rank = ? group by step", (1 - slow,))]
        waited_ms = statistics.median(waits) / 1e6
        job.check(abs(waited_ms - SLOW_MS) <= 0.1 * SLOW_MS, f"rank {1 - slow} waited {waited_ms:.2f} ms a step for a delay of {SLOW_MS} ms")
        finding = first_finding(run)
        job.check(finding is not None and finding[:2] == ("straggler", slow) and f"rank {slow} ({host})" in finding[2], f"first finding: {finding}")
        print(f"waited {waited_ms:.2f} ms for {SLOW_MS} ms; {finding and finding[2]}")


def estimators_agree_under_skew(folder):
    """Both ranks late by turns, up to 40 ms: waits by the joined clocks are what the durations say, whoever is late."""
    run, _ = record_skewed(folder, "jitter.ddl", "--steps", 80, "--jitter", 40)
    instances = {}
    for seq, rank, clocked, free in job.store(run).execute("select seq, rank, wait_ns, min_duration_wait_ns from v_collective where op = 'MPI_Allreduce'"
                                                           " and step >= 5 and wait_method = 'max-start' order by seq, rank"):
        instances.setdefault(seq, []).append((clocked, free))
    job.check(len(instances) == 75, f"{len(instances)} collectives were split by the clocks, expected 75")
    typical = statistics.median(max(free for _, free in members) for members in instances.values())
    for rank in (0, 1):
        apart = statistics.median(members[rank][0] - members[rank][1] for members in instances.values())
        job.check(abs(apart) <= 0.1 * typical, f"rank {rank}: by the clocks it waits {apart / 1e3:.0f} us longer than by the durations, of {typical / 1e6:.2f} ms")
    print(f"typical wait {typical / 1e6:.2f} ms")


def bare_preload(folder):
    """Without ddl record both hosts must come upon the same name for the run directory."""
    hosts = Hosts(folder)
    hosts.run("nodea", ["mpirun", "-x", "LD_PRELOAD", "-np", 2, "--host", "nodea,nodeb", *train("--steps", 3)], check_rc=0, LD_PRELOAD=job.LIBRARY)
    runs = list(folder.glob("ddl-*.ddl"))
    job.check(len(runs) == 1, f"run directories: {runs}")
    hosts_of = [r[0] for r in job.store(runs[0]).execute("select host from v_rank order by rank")]
    job.check(hosts_of == ["nodea", "nodeb"], f"hosts of the ranks: {hosts_of}")


def no_shared_disk(folder):
    """Each host keeps its own part; the report says what is missing until somebody fetches it."""
    hosts = Hosts(folder)
    run = "/run/local/apart.ddl"
    done = hosts.run("nodea", [job.DDL, "record", "-o", run, "--", "mpirun", "-np", 4, "--host", "nodea:2,nodeb:2", *train("--steps", 5)], check_rc=0)
    job.check("recorded 2 of 4 ranks" in done.stderr, f"ddl record says: {done.stderr}")
    text = hosts.run("nodea", [job.DDL, "report", run], check_rc=0).stdout
    job.check(text.startswith("train   2 of 4 ranks on 1 host   ") and "of 4 ranks left no spool: rank 2, 3" in text, f"report before: {text}")
    of_nodeb, of_nodea = (Path(f"/run/hosts/{name}/local/apart.ddl") for name in ("nodeb", "nodea"))
    for spool in of_nodeb.glob("*.spool"):
        shutil.copy2(spool, of_nodea)  # with its old time
    text = hosts.run("nodea", [job.DDL, "report", run], check_rc=0).stdout
    job.check(text.startswith("train   4 ranks on 2 hosts   ") and "data: 4/4 ranks" in text, f"report after: {text}")


def mpich(folder):
    """Hydra passes its environment on by itself; a job of MPICH's over both hosts."""
    hydra, compiler, library = shutil.which("mpiexec.hydra"), shutil.which("mpicc.mpich"), job.LIBRARY.with_name("libddl-mpich.so")
    if not hydra or not compiler or not library.exists():
        print("no MPICH: not tested")
        return
    hosts = Hosts(folder)
    launch = [hydra, "-n", 2, "-hosts", "nodea,nodeb", "-iface", "cable"]
    # Hydra writes its own input to proxies, and SIGPIPE ends it where one has ended already: no job of a few milliseconds.
    done = hosts.run("nodea", [job.DDL, "record", "-o", folder / "words.ddl", "--steps", "3:5", "--", *launch, "sh", "-c",
                               "echo $(hostname) $DDL_STEPS $DDL_OUT $LD_PRELOAD; sleep 0.2"], check_rc=0)
    expected = [f"{host} 3:5 {folder / 'words.ddl'} {library}" for host in virtual_hosts.NAMES]
    job.check(sorted(done.stdout.splitlines()) == expected, f"the processes of Hydra saw: {done.stdout}")

    program = folder / "delayed_allreduce"
    source = Path(__file__).parent / "programs" / "delayed_allreduce.c"
    job.run([compiler, "-O1", "-I", Path(__file__).parents[2] / "include", "-o", program, source], check_rc=0)
    hosts.run("nodea", [job.DDL, "record", "-o", folder / "mpich.ddl", "--", *launch, program, 20, 11, 1, 200], check_rc=0)
    ranks = [tuple(r) for r in job.store(folder / "mpich.ddl").execute("select rank, host, local_rank from v_rank order by rank")]
    job.check(ranks == [(0, "nodea", 0), (1, "nodeb", 0)], f"ranks of MPICH: {ranks}")
    waits = [r[0] for r in job.store(folder / "mpich.ddl").execute(
        "select wait_ns from v_collective where op = 'MPI_Allreduce' and seq = 11 order by rank")]
    job.check(len(waits) == 2 and abs(waits[0] - 200e6) <= 20e6 and waits[1] == 0, f"rank 1 came 200 ms late; the ranks waited {waits}")


if sys.argv[1:] == ["clocks"]:  # alone on the machine
    job.main(delay_under_skew, estimators_agree_under_skew)
else:
    job.main(one_report, bare_preload, no_shared_disk, mpich)
