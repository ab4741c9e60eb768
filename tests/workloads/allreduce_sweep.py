#!/usr/bin/env python3
"""The program `allreduce`: what it measures, in which order, and what it refuses. No time is judged."""
import csv
import re

import job

ALLREDUCE = job.BUILD / "bin" / "allreduce"
PROBE = job.BUILD / "tests" / "programs" / "libalgorithm_probe.so"
HEADER = re.compile(r'# allreduce 1 ranks=(\d+) nodes=(\d+) library="([^"]+)" datatype=float op=sum$')
OWN = ["parameter_server", "tree", "butterfly", "rabenseifner", "ring", "hierarchical"]


def sweep(ranks, *options, check_rc=0, **env):
    return job.mpirun(ranks, [ALLREDUCE, *options], check_rc=check_rc, **env)


def parsed(text):
    """First line, comments, rows."""
    lines = text.splitlines()
    first = HEADER.match(lines[0])
    job.check(first is not None, f"first line: {lines[0]}")
    comments = [line for line in lines[1:] if line.startswith("#")]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    job.check(rows and list(rows[0]) == ["algorithm", "segment_bytes", "bytes", "round", "seconds"], f"columns: {rows[:1]}")
    return first.groups(), comments, rows


def names_of(rows):
    return list(dict.fromkeys((row["algorithm"], int(row["segment_bytes"])) for row in rows))


def complete_rounds(_):
    """Every algorithm once per size and round, in an order that begins one further in each round."""
    for ranks in (1, 2, 3, 4):
        done = sweep(ranks, "--bytes", "4,4K,256K", "--segments", "16K,128K", "--rounds", 3, "--calls", 3, "--seconds", 200)
        (header_ranks, nodes, library), _, rows = parsed(done.stdout)
        job.check((header_ranks, nodes) == (str(ranks), "1"), f"{ranks} ranks: header {header_ranks} {nodes}")
        groups = {}
        for row in rows:
            job.check(float(row["seconds"]) > 0, f"no time: {row}")
            groups.setdefault((int(row["round"]), int(row["bytes"])), []).append((row["algorithm"], int(row["segment_bytes"])))
        job.check(list(groups) == [(r, b) for r in range(3) for b in (4, 4096, 262144)], f"{ranks} ranks: rounds and sizes {list(groups)}")
        for (number, size), group in groups.items():
            first_round = groups[0, size]
            job.check(group == first_round[number % len(first_round):] + first_round[:number % len(first_round)],
                      f"{ranks} ranks, {size} bytes, round {number}: {group}")
        expected = {"default", "default_again", *OWN} | ({"multi_ring:2x2"} if ranks == 4 else set())
        small = {name for name, segment in groups[0, 4] if not name.startswith("openmpi:")}
        job.check(small == expected and all(segment == 0 for _, segment in groups[0, 4]), f"{ranks} ranks, 4 bytes: {groups[0, 4]}")
        # A segment is not longer than a block.
        segments = {segment for name, segment in groups[0, 262144] if name == "segmented_ring"}
        job.check(segments == {s for s in (16384, 131072) if s * ranks <= 262144}, f"{ranks} ranks, 256 KiB: segments {segments}")
        if library.startswith("Open MPI"):
            forced = {name for name, _ in groups[0, 262144] if name.startswith("openmpi:")}
            job.check({"openmpi:ring", "openmpi:recursive_doubling"} <= forced and "openmpi:ignore" not in forced, f"forced: {forced}")


def forced_algorithms_run(folder):
    """Counted inside libmpi: each algorithm of Open MPI runs when it is asked for, and those that the default does not use, only then."""
    if not parsed(sweep(1, "--bytes", 4, "--rounds", 1).stdout)[0][2].startswith("Open MPI v4."):
        print("not Open MPI 4: not tested")
        return

    def counted(algorithm):
        out = folder / f"probe.{algorithm}"
        _, comments, rows = parsed(sweep(4, "--bytes", "64K", "--segments", "8K", "--rounds", 1, "--calls", 3, "--algorithms", algorithm,
                                         LD_PRELOAD=PROBE, ALGORITHM_PROBE=out).stdout)
        job.check(not comments, f"{algorithm}: comments {comments}")
        ran = [line.split() for line in out.read_text().splitlines()]
        return names_of(rows), {name for name, _, _ in ran}, {int(segment) for name, _, segment in ran if name == "segmented_ring"}

    by_default = counted("default")[1]
    job.check(len(by_default) <= 3, f"the default at 64 KiB uses {by_default}")
    for algorithm in ("basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner"):
        names, ran, segments = counted(f"openmpi:{algorithm}")
        segment = 8192 if algorithm == "segmented_ring" else 0
        job.check(names == [("default", 0), ("default_again", 0), (f"openmpi:{algorithm}", segment)], f"{algorithm}: measured {names}")
        job.check(ran == by_default | {algorithm}, f"{algorithm}: these ran: {ran}, by default {by_default}")
        job.check(algorithm != "segmented_ring" or segments == {8192}, f"segments that ran: {segments}")


def says_what_is_missing(_):
    """Where nothing can be forced: the rest is measured, and a comment says why."""
    done = sweep(2, "--bytes", "1K", "--rounds", 1, "--calls", 3, "--algorithms", "openmpi,openmpi:ring,ring", OMPI_MCA_coll_tuned_use_dynamic_rules="0")
    _, comments, rows = parsed(done.stdout)
    job.check(names_of(rows) == [("default", 0), ("default_again", 0), ("ring", 0)], f"measured: {names_of(rows)}")
    job.check(len(comments) == 1 and "no algorithm of Open MPI: coll_tuned_" in comments[0], f"comments: {comments}")


def named_ones_only(_):
    done = sweep(4, "--bytes", "256K", "--rounds", 1, "--calls", 3, "--segments", "4K", "--algorithms", "ring,multi_ring:2x2,multi_ring,segmented_ring,ring,default")
    names = names_of(parsed(done.stdout)[2])
    job.check(names == [("default", 0), ("default_again", 0), ("ring", 0), ("multi_ring:2x2", 0), ("segmented_ring", 4096)], f"names: {names}")


def time_is_up(_):
    done = sweep(2, "--bytes", "4,64", "--rounds", 1000000, "--seconds", 0.2, "--algorithms", "own")
    _, comments, rows = parsed(done.stdout + "default,0,4,-1,1\n")
    rows.pop()
    job.check(len(comments) == 1 and "0.2 seconds are over in round" in comments[0], f"comments: {comments}")
    group_sizes = {}
    for row in rows:
        group_sizes[row["round"], row["bytes"]] = group_sizes.get((row["round"], row["bytes"]), 0) + 1
    job.check(set(group_sizes.values()) <= {2 + len(OWN)}, f"incomplete: {group_sizes}")


def wrong_sums(_):
    done = sweep(2, "--bytes", "1K", "--rounds", 1, "--algorithms", "ring", check_rc=1, LD_PRELOAD=PROBE, SPOIL_SUMS=1)
    errors = [line for line in done.stderr.splitlines() if line.startswith("allreduce: error:")]
    job.check(len(errors) == 1 and "ring with 1024 bytes: wrong sum on rank " in errors[0], f"errors: {done.stderr}")


def mistakes(_):
    wrong = ((["--algorithms", "rings"], "unknown algorithm 'rings'; known: "), (["--algorithms", "openmpi:rings"], "Open MPI has "),
                           (["--algorithms", "multi_ring:3x5"], "do not make 1 ranks"), (["--algorithms", "ring,"], "empty"),
                           (["--bytes", "6"], "multiple"), (["--bytes", "4X"], "number of bytes"), (["--bytes", "0"], "number of bytes"),
                           (["--bytes", "99999999G"], "number of bytes"), (["--segments", "-1"], "number of bytes"), (["--segments", "2G"], "number of bytes"),
                           (["--rounds", "0"], "1 to 1000000"), (["--calls", "-1"], "1 to 1000000"), (["--seconds", "nan"], "more than 0"), (["--no-such"], "--no-such"))
    for (options, words), done in zip(wrong, job.three_at_once(lambda mistake: job.run([ALLREDUCE, *mistake[0]], check_rc=2), wrong)):
        errors = [line for line in done.stderr.splitlines() if line.startswith("allreduce: error:")]
        job.check(len(errors) == 1 and words in errors[0] and not done.stdout, f"{options}: {done.stdout} {done.stderr}")
    done = sweep(2, "--rounds", 0, check_rc=2, **job.QUICK)
    job.check(done.stderr.count("allreduce: error:") == 1 and not done.stdout, f"said on two ranks: {done.stdout} {done.stderr}")
    full = job.run(["sh", "-c", f"{ALLREDUCE} --bytes 4 --rounds 1 --calls 3 --algorithms ring >/dev/full"], check_rc=1)
    job.check("stdout: cannot be written" in full.stderr, f"full disk: {full.stderr}")
    job.check(sweep(2, "--help").stdout.count("usage:") == 1, "help")


job.main(complete_rounds, forced_algorithms_run, says_what_is_missing, named_ones_only, time_is_up, wrong_sums, mistakes)
