#!/usr/bin/env python3
"""ddl beside other recorders of MPI, on this machine, as one table: docs/peers.md is its output.

    run.py [--build DIR] [--sources DIR] [--rounds N] > docs/peers.md

EZTrace is taken from Debian (apt install eztrace otf2-tools), mpiP and IPM from checkouts DIR/mpiP and DIR/IPM, which
are built in a copy (apt install automake libtool gfortran). What is not there, or cannot be built, stands below the
table with the reason.

Costs are measured as bench/run.py does, in turns and as differences to the same call in the same process; counts are
those of programs that make known calls (counts.c, counts.F90).
"""
import argparse
import importlib.util
import os
import pathlib
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
spec = importlib.util.spec_from_file_location("bench_run", ROOT / "bench" / "run.py")
measure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measure)

CALLS = 1_000_000
KINDS = ["allreduce_self", "isend_irecv_waitall", "allreduce_self_cold"]
DEBIAN = pathlib.Path(f"/usr/lib/{platform.machine()}-linux-gnu")


class Bench(measure.Bench):
    def run(self, command, variant, **extra):
        """Without what tools print into the job's output."""
        return "\n".join(
            line for line in super().run(command, variant, **extra).splitlines() if re.fullmatch(r"[-\d. e+]+", line)
        )


def lines_of(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


class Tool:
    """How one is loaded, where it writes, and what it says of a call."""

    reads = "at the end of the job"
    answer = None  # a command that makes text of what was written

    def __init__(self, name, kind, libraries, settings):
        self.name, self.kind, self.libraries, self.settings = name, kind, libraries, settings

    def environment(self, out):
        return {name: str(value).replace("OUT", str(out)) for name, value in self.settings.items()}

    def calls(self, out, name):
        """Of `name`, over all ranks, as the tool tells them; None: it tells nothing."""
        raise NotImplementedError


class Ddl(Tool):
    def __init__(self, build, name, settings):
        super().__init__(
            name, "trace, profile, report", [build / "lib" / "libddl.so"], {"DDL_OUT": "OUT/run.ddl", **settings}
        )
        self.program = build / "bin" / "ddl"

    def answer(self, out):
        return [self.program, "report", out / "run.ddl"]

    def calls(self, out, name):
        subprocess.run([self.program, "report", out / "run.ddl"], capture_output=True)
        store = out / "run.ddl" / "run.sqlite"
        if not store.exists():
            return None
        db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        return db.execute(
            "SELECT sum(calls) FROM profile p JOIN op o ON o.id = p.op WHERE o.name = ?", (name,)
        ).fetchone()[0]


class EzTrace(Tool):
    def trace(self, out):
        return next(out.rglob("*.otf2"), None)

    def answer(self, out):
        return ["otf2-print", self.trace(out)]

    def calls(self, out, name):
        if not self.trace(out):
            return None
        printed = lines_of("otf2-print", self.trace(out))
        region = re.compile(rf'ENTER.*"{name}_?"', re.I)  # mpi_allreduce_ from Fortran
        return sum(bool(region.match(line)) for line in printed) if printed else None


class MpiP(Tool):
    def calls(self, out, name):
        text = "".join(path.read_text() for path in out.glob("*.mpiP"))
        table = re.search(r"@--- Aggregate Time .*?\n-+\nCall.*?\n(.*?)\n-+\n", text, re.S)
        rows = [line.split() for line in table[1].splitlines()] if table else []
        return sum(int(row[5]) for row in rows if row[0] == name.removeprefix("MPI_")) if rows else None


class Ipm(Tool):
    def calls(self, out, name):
        text = "".join(path.read_text() for path in out.glob("*.xml"))
        return sum(map(int, re.findall(rf'<func name="{name}" count="(\d+)"', text))) if text else None


def build_mpip(source):
    must(source, "env", "LOGNAME=ddl", "./configure", "CC=mpicc", "F77=mpif77", "--disable-libunwind", "--disable-bfd")
    must(source, "env", "LOGNAME=ddl", "make", "shared")
    return source / "libmpiP.so"


def build_ipm(source):
    """Its own way to a shared library fails with mpicc: the objects are linked here."""
    must(source, "autoreconf", "-fi")
    must(source, "./configure", "CC=mpicc", "MPICC=mpicc", "MPIFC=mpif77")
    subprocess.run(["make", "-C", source / "src", "CFLAGS=-O2 -fPIC", "libipm.la"], capture_output=True)
    must(source, "sh", "-c", "mpicc -shared -o libipm.so src/.libs/libipm_la-*.o -lm")
    return source / "libipm.so"


class CannotBuild(Exception):
    pass


def must(folder, *command):
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise CannotBuild(f"`{command[0]} {command[1]}` failed: {said[-1][:120] if said else done.returncode}")


def tools_of(build, sources, folder):
    """(those that can be run, {name: why not})"""
    recorded, default = measure.VARIANTS["recorded"][1], measure.VARIANTS["default"][1]
    tools, missing = [Ddl(build, "ddl, every event", recorded), Ddl(build, "ddl, default", default)], {}
    libraries = [DEBIAN / "libeztrace-lib.so", DEBIAN / "libeztrace-openmpi.so"]
    if all(path.exists() for path in libraries) and shutil.which("otf2-print"):
        version = lines_of("dpkg-query", "-W", "-f", "${Version}", "eztrace")[0]
        tools.append(
            EzTrace(
                f"EZTrace {version}",
                "trace",
                libraries,
                {
                    "EZTRACE_TRACE": "openmpi",
                    "EZTRACE_LIBRARY_PATH": DEBIAN,
                    "EZTRACE_TRACE_DIR": "OUT",
                    "LD_LIBRARY_PATH": DEBIAN,
                },
            )
        )
    else:
        missing["EZTrace"] = "apt install eztrace otf2-tools"
    for name, build_it, make in (
        (
            "mpiP",
            build_mpip,
            lambda n, lib: [
                MpiP(n, "profile", [lib], {"MPIP": "-f OUT"}),
                MpiP(f"{n}, no call sites", "profile", [lib], {"MPIP": "-f OUT -k 0"}),
            ],
        ),
        (
            "IPM",
            build_ipm,
            lambda n, lib: [Ipm(n, "profile", [lib], {"IPM_LOGDIR": "OUT", "IPM_REPORT": "none", "IPM_LOG": "full"})],
        ),
    ):
        if not sources or not (sources / name).is_dir():
            missing[name] = "no sources (--sources)"
            continue
        copy = folder / name
        shutil.copytree(sources / name, copy)
        version = lines_of("git", "-C", sources / name, "log", "-1", "--format=%h of %cs")
        try:
            tools += make(" ".join([name, *version]), build_it(copy))
        except CannotBuild as reason:
            missing[name] = str(reason)
    return tools, missing


def job(tool, folder, command, ranks):
    """Runs under the tool, whatever comes of it: (folder that it wrote to, exit code)."""
    out = folder / f"out-{time.monotonic_ns()}"
    out.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DDL_") and k != "LD_PRELOAD"}
    environment.update(measure.MPI_ENV)
    environment.update(tool.environment(out))
    preload = "LD_PRELOAD=" + ":".join(map(str, tool.libraries))
    try:
        done = subprocess.run(
            ["mpirun", "-np", str(ranks), "env", preload, *map(str, command)],
            env=environment,
            cwd=out,
            capture_output=True,
            timeout=120,
        )
        return out, done.returncode
    except subprocess.TimeoutExpired:
        return out, "hangs"


def counted(tool, folder, program, arguments, wanted):
    out, code = job(tool, folder, [program, *arguments], 2)
    if not arguments and code != 0:
        return "hangs" if code == "hangs" else f"breaks the job (exit code {code})"
    told = [tool.calls(out, name) for name in wanted]
    if all(count is None for count in told):
        return "nothing"
    if all(count == right for count, right in zip(told, wanted.values())):
        return "all" if arguments else "right"
    return ", ".join(f"{count or 0} of {right}" for count, right in zip(told, wanted.values()))


def programs(folder):
    made = {}
    for name, compiler, source, options in (
        ("C", "mpicc", "counts.c", []),
        ("mpi", "mpif90", "counts.F90", []),
        ("mpi_f08", "mpif90", "counts.F90", ["-DF08"]),
    ):
        made[name] = folder / f"counts-{name}"
        must(folder, compiler, "-O1", *options, "-o", made[name], HERE / source)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--sources", type=pathlib.Path, help="where checkouts mpiP and IPM are")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddl-peers-") as name:
        folder, build = pathlib.Path(name), options.build.resolve()
        tools, missing = tools_of(build, options.sources.resolve() if options.sources else None, folder)
        bench = Bench(build, options.rounds, folder)
        written = folder / "written"
        written.mkdir()
        for tool in tools:
            bench.variants[tool.name] = (tool.libraries, tool.environment(written))
        variants = ["none", "floor_rdtsc", "floor_clock", *(tool.name for tool in tools)]
        costs = measure.bench_calls(bench, KINDS, variants, ranks=1, arguments=["100", "1000"])
        counting = programs(folder)
        print_page(bench, tools, missing, costs, counting, folder)


def print_text(text):
    """A paragraph and the empty line behind it."""
    print(textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n")


def print_page(bench, tools, missing, costs, counting, folder):
    m = measure.machine(bench.build)
    print("# Beside other recorders\n")
    print_text("Written by `bench/peers/run.py --sources DIR`; its `--help` lists the sources it needs.")
    print_text(
        f"{m['processor']}, {m['cores']} cores, Linux {m['kernel']}, {m['mpi']}; {m['date']}, commit"
        f" {m['commit']}, {bench.rounds} rounds; load average"
        f" {m['load']:.1f} when the tables were printed."
    )
    print_text(
        "ns added per call, against the same call without the tool in the same process; tools take turns in random"
        " order. Hot: fastest block of 1,000 calls; cold: median after 8 MB were touched. The floors only store 32"
        " bytes a call (`bench/floor.c`)."
    )
    print(
        "| tool | kind | MPI_Allreduce, hot | Isend + Irecv + Waitall, hot, a call | MPI_Allreduce, cold |\n"
        "| --- | --- | --- | --- | --- |"
    )
    for name, kind in [("floor_rdtsc", "floor"), ("floor_clock", "floor"), *((tool.name, tool.kind) for tool in tools)]:
        cell = lambda call, column: f"{costs[call][name][column]:.0f}"
        print(
            f"| {name} | {kind} | {cell('allreduce_self', 'quiet')} | {cell('isend_irecv_waitall', 'quiet')} |"
            f" {cell('allreduce_self_cold', 'median')} |"
        )
    print()
    print_text(
        f"{CALLS:,} calls of `MPI_Allreduce` on one rank: bytes written per call, and processor time of the"
        " tool's own program to turn them into text:"
    )
    print("| tool | bytes a call | first answer |\n| --- | --- | --- |")
    for tool in tools:
        out, code = job(tool, folder, [bench.program("bench_many_calls"), CALLS], 1)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        answer = tool.reads
        if tool.answer:
            seconds, _ = measure.cost_of(tool.answer(out))
            answer = f"{seconds:.1f} s, `{pathlib.Path(tool.answer(out)[0]).name}`"
        print(
            f"| {tool.name} | {f'{size / CALLS:.2f}' if size > CALLS else f'{size:,} in all'} |"
            f" {answer if code == 0 else 'the job fails'} |"
        )
    print()
    print_text(
        "Two ranks make known calls (`bench/peers/counts.c`, `counts.F90`): whether they are counted right, from C"
        " and Fortran, and how many `MPI_Allreduce` are reported if both ranks get SIGKILL 1.5 s after their calls:"
    )
    print("| tool | C | `use mpi` | `use mpi_f08` | SIGKILL |\n| --- | --- | --- | --- | --- |")
    calls = {"MPI_Allreduce": 2000, "MPI_Barrier": 1000}
    for tool in tools:
        cells = [
            counted(tool, folder, counting[name], [], {**calls, "MPI_Isend": 1000} if name == "C" else calls)
            for name in counting
        ]
        cells.append(counted(tool, folder, counting["C"], ["kill"], {"MPI_Allreduce": 2000}))
        print(f"| {tool.name} | {' | '.join(cells)} |")
    if missing:
        print("\nNot run:\n")
        for name, why in missing.items():
            print(f"- {name}: {why}")
    print()
    print_text(
        "IPM counts Fortran by a separate library, which does not link here. ddl's bytes a call are those of its"
        " spools."
    )
    print_text(
        "TALP, Score-P, Caliper, Extrae and TAU are not here; [performance](performance.md#beside-a-tracer) cites"
        " figures from another machine."
    )


if __name__ == "__main__":
    main()
