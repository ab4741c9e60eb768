#!/usr/bin/env python3
"""Runs the conformance programs without the library and with it: nothing that a program sees may differ, and every row of the table is reached.

Compared are the transcripts that the programs write (every return code, status, result and call of an error handler, see
c/support/transcript.h), the exit code, stdout and stderr. What was recorded is compared as well: calls per rank and operation equal what the
program counted itself. A program says in its head how it is run:

    conformance: ranks=3 threads=yes cases=NAME:CODE,... unsteady=openmpi

threads=yes: once more with CONFORMANCE_THREADS=2, its body on two threads under MPI_THREAD_MULTIPLE. cases: one run for each, NAME is its
argument, CODE the exit code of mpirun that is right. unsteady: with this MPI library it hangs or fails now and then by itself, and is then tried
again, three times at most. A/B: A with Open MPI, B with MPICH; -: not run. Programs in c/ are run once (those in c/mpi4 with MPICH only); those in fortran/ are compiled for three bindings, mpif_h (include 'mpif.h'), mpi (use mpi) and f08 (use mpi_f08), and run in each
that the MPI library has; their call sites must be in the program.

Most sources write the same in every binding: what the first one writes without the library is what all are compared with. One that differs from it is run
without the library in its own binding as well, and judged by that.

A row counts as covered for a binding if a program of that binding left completed calls of it in the recorded profile (calls that never
return, MPI_Abort: an open one). Rows for which the MPI library has no Fortran function are listed and not asked for.
"""
import argparse
import concurrent.futures
import csv
import io
import itertools
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, namedtuple
from pathlib import Path

import job

HERE = Path(__file__).resolve().parent
MOST_LINES = 80  # of a run that ends otherwise: the stacks of its ranks, too
TIMEOUT_S = 60  # a run takes 1 to 5
UNSTEADY_TIMEOUT_S = 20  # what hangs by itself is tried again
Program = namedtuple("Program", "name binding ranks threads cases unsteady")
Check = namedtuple("Check", "program binary case expected threads label")
Flavour = namedtuple("Flavour", "mpirun library bindings jobs environment shim not_asked loses_codes")
FLAVOURS = {
    # Jobs at a time: ranks let go of the processor while they wait, and most of a run is mpirun's coming and going.
    # The treematch of 4.1.4 hangs in one of some hundred MPI_Dist_graph_create, without us and whatever it is asked. Windows need
    # single copies: emulated ones where a container forbids process_vm_readv.
    "openmpi": Flavour("mpirun.openmpi", "libddl.so", ("c", "mpif_h", "mpi", "f08"), 3, {"OMPI_MCA_topo": "basic", "OMPI_MCA_btl_vader_single_copy_mechanism": "emulated", **job.QUICK}, None, set(), False),
    "mpich": Flavour("mpirun.mpich", "libddl-mpich.so", ("c",), 2, {}, job.YIELDING, set(), False),
    # Its launcher ends with 0 now and then where a rank did not, without us too.
    "mpich42": Flavour("mpirun.mpich", "libddl-mpich.so", ("c",), 2, {}, job.YIELDING, set(), True),
    # 5.0.7: collective writes of its default, vulcan, hang now and then; its launcher ends by SIGSEGV when one call spawns
    # two programs.
    "openmpi5": Flavour("mpirun.openmpi", "libddl.so", ("c", "mpif_h", "mpi", "f08"), 3, {"OMPI_MCA_fcoll": "dynamic"}, None,
                        {"mpi_comm_spawn_multiple"}, False),
}
FORTRAN = ("mpif_h", "mpi", "f08")
# What Open MPI 5 has of MPI 4: called by the programs in C, from Fortran only the persistent collectives.
NOT_FROM_FORTRAN = {f"mpi_{name}" for name in (
    "comm_create_from_group", "comm_idup_with_info", "intercomm_create_from_groups", "isendrecv", "isendrecv_replace", "parrived",
    "pready", "pready_list", "pready_range", "precv_init", "psend_init", "session_finalize", "session_init")}


def programs(flavour, bindings, binaries):
    """Every source in c/ and fortran/ is one, in each of its bindings; those in c/mpi4, which need MPI 4 or some of it, where they were built."""
    of_mpi4 = [source for source in sorted(HERE.glob("c/mpi4/*.c")) if (binaries / source.stem).exists()]
    for source in sorted(HERE.glob("c/*.c")) + of_mpi4 + sorted(HERE.glob("fortran/*.F90")):
        said = re.search(r"conformance:((?:[\s*!]+\w+=[\w:,/.-]+)+)", source.read_text())
        if not said:
            sys.exit(f"{source}: says nowhere how it is run (conformance: ranks=...)")
        facts = dict(word.split("=") for word in re.findall(r"\w+=\S+", said[1]))
        cases = [case.split(":") for case in facts["cases"].split(",")] if "cases" in facts else [[None, "0"]]
        for binding in ("c",) if source.suffix == ".c" else FORTRAN:
            if binding in bindings:
                yield Program(source.stem, binding, [int(ranks) for ranks in facts["ranks"].split("/")], facts.get("threads", "no").split("/"),
                              [(name, codes.split("/")) for name, codes in cases], facts.get("unsteady") in (flavour, flavour.rstrip("0123456789")))


def of_flavour(values, flavour):
    """Of what a program's head says, A, A/B or A/B/C."""
    column = {"openmpi": 0, "mpich": 1, "mpich42": 1, "openmpi5": 2}[flavour]
    return values[column] if column < len(values) else values[0]


def shown_by(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def rows_of(library, binding, binaries):
    """Names of the rows, in lower case, that programs of a binding can call, and those that they cannot: the MPI library has no such function."""
    rows = {name.lower() for name in shown_by(library) if re.match("MPIX?_", name)}
    folder = binaries if binding == "c" else binaries / binding
    some_program = next(path for path in sorted(folder.iterdir()) if os.access(path, os.X_OK) and path.is_file())
    loaded = re.findall(r"=> (\S*/libmpi\S*)", subprocess.run(["ldd", some_program], capture_output=True, text=True, check=True).stdout)
    functions = {name.lower() for name in set().union(*map(shown_by, loaded))}
    names = {"c": ("{}",), "f08": ("{}_f08_", "{}_f08ts_")}.get(binding, ("{}_",))
    callable_rows = {row for row in rows if any(name.format(row) in functions for name in names)}
    return callable_rows, rows - callable_rows


def normalised(text):
    """Output of several ranks, in any order; process ids, job ids, addresses and the folder say nothing."""
    text = re.sub(r"0x[0-9a-f]+", "0xN", text)
    text = re.sub(r"/[\w./-]*/conformance-[\w/.-]+/(plain|traced)", "FOLDER", text)
    return sorted(re.sub(r"\d{3,}", "N", line) for line in text.splitlines())


def end_ranks_of(folder):
    said = f"CONFORMANCE_OUT={folder / 'transcripts'}".encode()
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and said in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # has ended, or is somebody else's
            continue


class Run:
    """One mpirun in a fresh folder."""

    def __init__(self, flavour, binary, ranks, case, threads, folder, library, timeout_s=TIMEOUT_S):
        folder.mkdir()
        (folder / "transcripts").mkdir()
        self.record = folder / "run.ddl"
        extra = {"CONFORMANCE_OUT": folder / "transcripts", "CONFORMANCE_THREADS": threads, "DDL_OUT": self.record, **flavour.environment}
        if preloaded := [str(path) for path in (library, flavour.shim) if path]:
            extra["LD_PRELOAD"] = " ".join(preloaded)
        command = [flavour.mpirun, "-np", str(ranks), str(binary)] + ([case] if case else [])
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(command, cwd=folder, env=job.environment(**extra), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True)
            try:
                self.code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)  # mpirun takes its ranks with it
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                self.code = f"no end within {timeout_s} s"
        if flavour.loses_codes:  # and leaves the other ranks
            end_ranks_of(folder)
        self.stdout, self.stderr = (normalised((folder / name).read_text(errors="replace")) for name in ("stdout", "stderr"))
        self.transcripts, self.calls = {}, Counter()
        for file in sorted((folder / "transcripts").iterdir()):
            if file.suffix == ".calls":
                rank = int(file.stem.split("-")[-1])
                self.calls.update({(rank, line.split()[0]): int(line.split()[1]) for line in file.read_text().splitlines()})
            else:
                self.transcripts[file.name] = file.read_text(errors="replace").splitlines()


def first_difference(name, plain, traced):
    for number, (left, right) in enumerate(zip(plain + ["(end)"], traced + ["(end)"]), 1):
        if left != right:
            before = "".join(f"    {number - len(plain[max(0, number - 4):number - 1]) + i}: {line}\n" for i, line in enumerate(plain[max(0, number - 4):number - 1]))
            return f"{name} differs in line {number}, after\n{before}  without: {left}\n  with:    {right}"
    return None


def differences(plain, traced, loses_codes):
    if plain.code != traced.code and not (loses_codes and 0 in (plain.code, traced.code)):
        yield f"exit code {plain.code} without, {traced.code} with the library\n" + "\n".join(traced.stderr[-MOST_LINES:])
    if plain.transcripts.keys() != traced.transcripts.keys():
        yield f"transcripts {sorted(plain.transcripts)} without, {sorted(traced.transcripts)} with the library"
    for name in plain.transcripts.keys() & traced.transcripts.keys():
        if said := first_difference(name, plain.transcripts[name], traced.transcripts[name]):
            yield said
    if plain.code != 0 or traced.code != 0:  # the launcher loses lines of a job that fails
        if loud := [line for line in traced.stderr if line.startswith("ddl:")]:
            yield f"said on stderr: {loud}"
        return
    for name in ("stdout", "stderr"):
        if said := first_difference(name, getattr(plain, name), getattr(traced, name)):
            yield said


def recorded(run_dir, sql):
    done = job.run([job.DDL, "query", run_dir, sql, "--csv"])
    if done.returncode != 0:
        sys.exit(f"{run_dir} cannot be read: {done.stderr}")
    return list(csv.DictReader(io.StringIO(done.stdout)))


def read_record(run_dir):
    """Calls by (rank, operation), summed over worlds; operations that were entered and never left."""
    rows = recorded(run_dir, "SELECT rank, op, sum(calls) AS calls FROM v_call WHERE rank IS NOT NULL GROUP BY rank, op"
                             " UNION ALL SELECT DISTINCT NULL, o.name, NULL FROM open_call c JOIN op o ON o.id = c.op")
    calls = Counter({(int(row["rank"]), row["op"]): int(row["calls"]) for row in rows if row["rank"]})
    return calls, {row["op"] for row in rows if not row["rank"]}


def sites_outside(run_dir, binary):
    """Calls whose site is not in the program but, say, in the MPI library's Fortran layer: operation and module."""
    rows = recorded(run_dir, "SELECT DISTINCT o.name AS op, s.module FROM profile f JOIN op o ON o.id = f.op LEFT JOIN site s ON s.id = f.site")
    return sorted((row["op"], row["module"]) for row in rows if row["module"] != str(binary))


class FailsByItself(Exception):
    """Without the library, which is not judged by it."""


def conform(flavour, rows, ranks, case, expected, threads, binary, folder, library, unsteady, reference):
    """Runs a program both ways; up to three times one that is unsteady, or fails by itself. Returns what is wrong, the operations that were recorded, a summary,
    and the run without the library, which is the `reference` of the source's other bindings."""
    for attempt in range(3):
        here = folder / str(attempt)
        here.mkdir()
        by_itself = unsteady
        try:
            wrong, ops, summary, plain = conform_once(flavour, rows, ranks, case, expected, threads, binary, here, library,
                                                      UNSTEADY_TIMEOUT_S if unsteady else TIMEOUT_S, reference)
        except FailsByItself as failure:
            wrong, ops, summary, plain, by_itself = [str(failure)], set(), "", None, True
        if not wrong or not by_itself:
            break
        print(f"{binary.name}, by itself, attempt {attempt + 1}: {wrong[0]}", flush=True)
    return wrong, ops, summary, plain


def conform_once(flavour, rows, ranks, case, expected, threads, binary, folder, library, timeout_s, reference):
    def run(name, preloaded):
        return Run(flavour, binary, ranks, case, threads, folder / name, preloaded, timeout_s)

    plain = traced = None
    if reference:
        traced = run("traced", library)
        if not any(differences(reference, traced, flavour.loses_codes)):
            plain = reference
    plain = plain or run("plain", None)
    if plain.code == 77:
        return [], set(), "skipped: " + " ".join(plain.stderr), None
    if plain.code != expected and not (flavour.loses_codes and plain.code == 0):
        raise FailsByItself(f"exit code {plain.code} without the library, expected {expected}\n" + "\n".join(plain.stderr[-MOST_LINES:]))
    if not plain.transcripts or not all(plain.transcripts.values()):
        return [f"wrote no transcript: {sorted(plain.transcripts)}"], set(), "", None
    traced = traced or run("traced", library)
    wrong = list(differences(plain, traced, flavour.loses_codes))
    calls, unfinished = read_record(traced.record) if library and traced.record.exists() else (Counter(), set())
    if library:
        for rank, op in sorted(traced.calls.keys() | calls.keys() if traced.calls else ()):
            if op.lower() in rows and op not in unfinished and calls[rank, op] != traced.calls[rank, op]:
                wrong.append(f"rank {rank} called {op} {traced.calls[rank, op]} times, recorded are {calls[rank, op]}")
        if binary.parent.name in FORTRAN and platform.machine() == "x86_64" and traced.record.exists():
            wrong += [f"calls of {op} seem to be made in {module or 'no file'}" for op, module in sites_outside(traced.record, binary)]
    ops = {op.lower() for _, op in calls} | {op.lower() for op in unfinished}
    return wrong, ops, f"{len(plain.transcripts)} transcripts, {sum(map(len, plain.transcripts.values()))} lines, {len(ops)} operations", plain


def source_of(check):
    """Equal for one source and case in several bindings."""
    return check.program.binding == "c", check.program.name, check.case, check.threads


def checks_of(chosen, flavour, binaries):
    for program in chosen:
        binary = binaries / ("" if program.binding == "c" else program.binding) / program.name
        if not binary.exists():
            print(f"{program.binding} {program.name}: not built, what it needs is not here")
            continue
        for case, codes in program.cases:
            expected = of_flavour(codes, flavour)
            for threads in (1, 2) if of_flavour(program.threads, flavour) == "yes" else (1,):
                label = program.name + (f" {case}" if case else "") + (" on two threads" if threads > 1 else "")
                if program.binding != "c":
                    label = f"{program.binding} {label}"
                if expected != "-":
                    yield Check(program, binary, case, int(expected), threads, label)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flavour", choices=FLAVOURS, default="openmpi")
    parser.add_argument("--binding", choices=("c", *FORTRAN), action="append", help="programs of this binding only (repeatable)")
    parser.add_argument("--programs", type=Path, help="the folder with the compiled programs; default: those of the build")
    parser.add_argument("--without", action="store_true", help="both runs without the library: is what the programs write repeatable?")
    parser.add_argument("program", nargs="*", help="default: all; coverage is judged only then")
    options = parser.parse_args()
    flavour = FLAVOURS[options.flavour]
    library = job.BUILD / "lib" / flavour.library
    binaries = options.programs or job.BUILD / "tests" / "conformance" / options.flavour
    for needed, what in ((shutil.which(flavour.mpirun), f"{flavour.mpirun} is not installed"), (library.exists(), f"{library} was not built"),
                         (binaries.exists(), f"{binaries} was not built")):
        if not needed:
            print("skipped:", what)
            return 77
    bindings = [binding for binding in options.binding or flavour.bindings if binding == "c" or (binaries / binding).exists()]
    if not bindings:
        print("skipped: no program was built; is there a Fortran compiler, and what has the MPI library for it?")
        return 77
    chosen = [p for p in programs(options.flavour, bindings, binaries) if (not options.program or p.name in options.program)]
    rows, without = {}, {}
    for binding in bindings:
        rows[binding], without[binding] = rows_of(library, binding, binaries)
    covered = {binding: set() for binding in bindings}
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    failed, began = 0, time.monotonic()

    def do(check, reference):
        start = time.monotonic()
        here = folder / check.label.replace(" ", "_")
        here.mkdir()
        program = check.program
        *found, plain = conform(flavour, rows[program.binding], of_flavour(program.ranks, options.flavour), check.case, check.expected, check.threads,
                                check.binary, here, None if options.without else library, program.unsteady, reference)
        return plain, (check, *found, time.monotonic() - start)

    def do_all(checks):
        """Of one source, one after the other."""
        reference, results = None, []
        for check in checks:
            plain, result = do(check, reference)
            reference = reference or (plain if not options.without else None)
            results.append(result)
        return results

    sources = {}
    for check in checks_of(chosen, options.flavour, binaries):
        sources.setdefault(source_of(check), []).append(check)
    with concurrent.futures.ThreadPoolExecutor(flavour.jobs) as pool:
        for check, wrong, ops, summary, took_s in itertools.chain.from_iterable(pool.map(do_all, sources.values())):
            covered[check.program.binding] |= ops
            print(f"{check.label}: {'DIFFERS' if wrong else 'equal'} ({summary}), {took_s:.1f} s", flush=True)
            for line in wrong:
                print("  " + line.replace("\n", "\n  "), flush=True)
            failed += bool(wrong)
    print(f"{len(chosen)} programs, {failed} runs differ, {time.monotonic() - began:.1f} s")
    for binding in bindings if not options.without else ():
        missing = rows[binding] - covered[binding] - flavour.not_asked - (NOT_FROM_FORTRAN if binding in FORTRAN else set())
        print(f"row coverage, {options.flavour} {binding}: {len(rows[binding]) - len(missing)} of {len(rows[binding])} rows")
        if without[binding]:
            print("  without a function in this binding:", " ".join(sorted(without[binding])))
        if missing and not options.program:
            print("  not reached:", " ".join(sorted(missing)))
            failed += 1
    if failed:
        print(f"what was written is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


sys.exit(main())
