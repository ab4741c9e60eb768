#!/usr/bin/env python3
"""Jobs on two hosts: one recording, one report, the right rank on the right host, also where the hosts' clocks disagree."""
import shutil
from pathlib import Path

import job
import virtual_hosts
from virtual_hosts import Hosts

virtual_hosts.enter()

SLOW_MS = 25


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
    done = hosts.run("nodea", [job.DDL, "record", "-o", folder / "words.ddl", "--steps", "3:5", "--", *launch, "sh", "-c",
                               "echo $(hostname) $DDL_STEPS $DDL_OUT $LD_PRELOAD"], check_rc=0)
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


job.main(one_report, bare_preload, no_shared_disk, mpich)
