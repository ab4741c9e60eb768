#!/usr/bin/env python3
"""A Fortran job that counts what it calls (programs/stencil.F90), in each binding: calls and bytes per operation and communicator are those in
v_call, and each line of its source is a call site of its own, with that line's calls and bytes."""
import re
import shutil
import subprocess
from collections import Counter

import job

RANKS = 4
STENCILS = sorted((job.BUILD / "tests" / "programs").glob("stencil_*"))


def counted(folder):
    """rank, line, operation, communicator ('-': none) -> (calls, bytes)."""
    result = {}
    for rank in range(RANKS):
        for line in (folder / str(rank)).read_text().splitlines():
            number, op, calls, nbytes, comm = line.split(" ", 4)
            result[rank, int(number), op, comm] = (int(calls), int(nbytes))
    return result


def summed(rows, key):
    calls, nbytes = Counter(), Counter()
    for row, (n, size) in rows.items():
        calls[key(*row)] += n
        nbytes[key(*row)] += size
    return {k: (calls[k], nbytes[k]) for k in calls}


def each(rows):
    """(rank, operation) -> what its lines, or sites, have, in any order."""
    result = {}
    for (rank, op, _), numbers in rows.items():
        result[rank, op] = sorted([*result.get((rank, op), []), numbers])
    return result


def lines_of(program, offsets):
    """File offset of a return address -> (file, line) of the call."""
    segments = [[int(word, 16) for word in match] for match in re.findall(
        r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout)]
    addresses = [next(hex(offset - begin + address - 1) for begin, address, size in segments if begin <= offset < begin + size) for offset in offsets]
    text = subprocess.run(["addr2line", "-e", program, *addresses], capture_output=True, text=True, check=True).stdout
    places = [re.match(r"(?:.*/)?(.*):(\d+)", line) for line in text.splitlines()]
    return {offset: (place[1], int(place[2])) for offset, place in zip(offsets, places)}


def compare(what, truth, found):
    for key in sorted(truth.keys() | found.keys()):
        job.check(truth.get(key) == found.get(key), f"{what}: {key}: counted {truth.get(key)}, recorded {found.get(key)} (calls, bytes)")


def count(program, folder):
    run = folder / "run.ddl"
    mpirun, more = ("mpirun.mpich", {"LD_PRELOAD": job.YIELDING}) if "_mpich_" in program.name else ("mpirun.openmpi", {})
    done = job.record(run, [mpirun, "-np", RANKS, program], STENCIL_OUT=folder, check_rc=0, **more)
    job.check("stencil:" in done.stdout, f"{program.name} did not get to its end:\n{done.stdout}{done.stderr}")
    truth = counted(folder)
    db = job.store(run)
    recorded = {(r["rank"], r["op"], r["comm"] or "-"): (r["calls"], r["bytes"]) for r in db.execute("select rank, op, comm, calls, bytes from v_call")}
    compare(program.name, summed(truth, lambda rank, line, op, comm: (rank, op, comm)), recorded)

    sites = db.execute("select p.rank, o.name as op, s.module, s.offset, sum(f.calls) as calls, sum(f.bytes) as bytes from profile f "
                       "join process p on p.id = f.process join op o on o.id = f.op left join site s on s.id = f.site group by 1, 2, 3, 4").fetchall()
    outside = {(r["op"], r["module"]) for r in sites if r["module"] != str(program)}
    job.check(not outside, f"{program.name}: call sites outside the program: {sorted(map(str, outside))}")
    inside = [r for r in sites if r["module"] == str(program)]
    # As many sites as lines, with the same calls and bytes.
    compare(f"{program.name}, sites of lines", each(summed(truth, lambda rank, line, op, comm: (rank, op, line))),
            each({(r["rank"], r["op"], r["offset"]): (r["calls"], r["bytes"]) for r in inside}))
    # And they are those lines, as far as the compiler says: for calls that set a scalar argument of intent(out), gfortran 12's line is that of
    # the head of the procedure.
    place = lines_of(program, sorted({r["offset"] for r in inside}))
    by_line = {(r["rank"], r["op"], *place[r["offset"]]): (r["calls"], r["bytes"]) for r in inside}
    lines = summed(truth, lambda rank, line, op, comm: (rank, op, "stencil.F90", line))
    told = by_line.keys() & lines.keys()
    job.check(2 * len(told) > len(lines), f"{program.name}: only {len(told)} of {len(lines)} lines found by addr2line: {sorted(by_line)}")
    compare(f"{program.name} by line", {key: lines[key] for key in told}, {key: by_line[key] for key in told})
    print(f"{program.name}: {len(truth)} counts of lines on {RANKS} ranks ({len(told)} found by addr2line), {sum(n for n, _ in truth.values())} calls, {sum(b for _, b in truth.values())} bytes agree")


def every_binding(folder):
    if not STENCILS:
        raise job.Skip("no Fortran program was built (tools/setup test)")
    for tool in ("readelf", "addr2line"):
        if not shutil.which(tool):
            raise job.Skip(f"{tool} is not installed")
    for program in STENCILS:
        here = folder / program.name
        here.mkdir()
        count(program, here)


job.main(every_binding)
