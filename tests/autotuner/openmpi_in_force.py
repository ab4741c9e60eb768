#!/usr/bin/env python3
"""Emitted rules under the real Open MPI: a preloaded library counts which algorithms ran, per message and communicator, and the port of the rules' reader
has predicted each; guards, a file that is dropped, silent ways out, operations that do not commute."""
import os
import re
from pathlib import Path

import job

PROGRAMS = job.BUILD / "tests" / "programs"
PROBE = job.BUILD / "lib" / "libddl-probe-openmpi.so"
RULES = ["0:1:0", "64:3:0", "4096:4:0", "65536:5:8192", "262144:2:0", "1048576:6:0", "2097152:0:0"]  # bytes:algorithm:segment
# Elements of 4 bytes: around every boundary, fewer than ranks, and shorter than a segment per rank.
COUNTS = [1, 2, 3, 4, 7, 15, 16, 17, 1000, 1023, 1024, 1025, 16383, 16384, 20000, 65535, 65536, 262143, 262144, 524288]


def emitted(folder, name, ranks, rules):
    directory = folder / name
    job.run([PROGRAMS / "emit_sample", "rules", directory, ranks, *rules], check_rc=0)
    return directory


def launched(folder, name, parameters, ranks, arguments, sums="right"):
    """Runs the job with the parameters file before the machine's, and the probe; its folder of counts."""
    out = folder / f"{name}.probe"
    out.mkdir()
    env = {"LD_PRELOAD": PROBE, "DDL_PROBE_OUT": out}
    if parameters:
        files = [str(parameters), str(Path.home() / ".openmpi" / "mca-params.conf"), "/etc/openmpi/openmpi-mca-params.conf"]
        env["OMPI_MCA_mca_base_param_files"] = ",".join(files)
    done = job.run(["mpirun", "-np", ranks, "--oversubscribe", PROGRAMS / "sized_allreduces", *arguments], check_rc=0, timeout=100, **env)
    job.check(done.stdout == f"sums {sums}\n" * ranks, f"{name}: the job printed {done.stdout!r} {done.stderr!r}")
    job.check(len(list(out.iterdir())) == ranks, f"{name}: {len(list(out.iterdir()))} files of counts from {ranks} ranks")
    return out


def proof(rules, out, ranks):
    done = job.run([PROGRAMS / "prove", rules, out, ranks], check_rc=0)
    lines = done.stdout.splitlines()
    rows = [line.split("|")[1:] for line in lines if line.startswith("row|")]
    return lines[0], lines[1], [line for line in lines if line.startswith("note: ")], [(int(r), int(b), int(c), *rest) for r, b, c, *rest in rows]


def wanted(size):
    """The rule of `size` bytes, found by hand."""
    rule = [r.split(":") for r in RULES if int(r.split(":")[0]) <= size][-1]
    name = ["", "basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner"][int(rule[1])]
    return f"{name} in segments of {rule[2]} bytes" if rule[1] == "5" else name


def test_rules_are_in_force(folder):
    directory = emitted(folder, "tuned", 4, RULES)
    out = launched(folder, "tuned", directory / "mca-params.conf", 5, COUNTS)
    verdict, sentence, notes, rows = proof(directory / "allreduce.rules", out, 4)
    job.check(verdict == "in force", f"{verdict}: {sentence}")
    # Each of 20 sizes once on 2, 3, 4 and 5 ranks, counted on every rank.
    job.check(sum(calls for _, _, calls, *_ in rows) == len(COUNTS) * (2 + 3 + 4 + 5), f"calls: {rows}")
    job.check(len(rows) == len(COUNTS) * 4, f"{len(rows)} rows")
    for ranks, size, calls, match, expected, ran in rows:
        where = f"{ranks} ranks, {size} bytes: {match}, expected {expected}, ran {ran}"
        job.check(calls == ranks, where)
        if ranks != 4:  # guards: the built-in table, which is predicted too
            job.check(match == "not ruled" and expected == f"Open MPI's own choice ({ran.split(',')[0]})", where)
        elif size < 2097152:
            job.check(match in ("as ruled", "same as default") and ran.split(",")[0] == wanted(size), where)
            job.check(expected.partition(", gives way to ")[2] == ran.partition(", gave way to ")[2], where)
        else:
            job.check(match == "not ruled", where)
    gave_way = {(size, ran) for ranks, size, _, match, _, ran in rows if ranks == 4 and "gave way" in ran}
    job.check(gave_way == set(), f"gave way: {gave_way}")
    job.check(not notes, f"{notes}")


def test_what_gives_way_is_predicted(folder):
    """Every algorithm for all sizes, on 2 to 5 ranks: what ran is what the port says."""
    ways = set()
    for ranks in (3, 5):
        for rule in ("4:0", "5:0", "5:1000", "5:4", "6:0"):
            name = f"all-{ranks}-{rule.replace(':', '-')}"
            directory = emitted(folder, name, ranks, [f"0:{rule}"])
            out = launched(folder, name, directory / "mca-params.conf", ranks, [1, 2, 3, 4, 5, 6, 249, 250, 251, 749, 750, 751, 1249, 1250, 1251, 3000])
            verdict, sentence, notes, rows = proof(directory / "allreduce.rules", out, ranks)
            job.check(verdict == "in force", f"{name}: {verdict}: {sentence}")
            for p, size, _, match, expected, ran in rows:
                if p == ranks:
                    job.check(match in ("as ruled", "same as default"), f"{name}: {size} bytes: {match}")
                    job.check(expected.replace("gives", "gave") == ran, f"{name}: {size} bytes: expected {expected}, ran {ran}")
                    ways |= {ran.split(" in ")[0].split(",")[0] + ">" + ran.partition("gave way to ")[2]} if "gave way" in ran else set()
    job.check(ways == {"ring>recursive_doubling", "segmented_ring>ring", "segmented_ring>recursive_doubling", "rabenseifner>basic_linear"}, f"{ways}")


def test_built_in_table(folder):
    """Without rules the library runs what the published table says."""
    out = launched(folder, "default", None, 5, COUNTS)
    nothing = folder / "nothing.rules"
    nothing.write_text("0\n")
    verdict, sentence, _, rows = proof(nothing, out, 4)
    job.check(verdict == "not in force" and "no rule for 4 ranks" in sentence, f"{verdict}: {sentence}")
    for ranks, size, _, match, expected, ran in rows:
        job.check(match == "not ruled" and expected == f"Open MPI's own choice ({ran.split(',')[0]})", f"{ranks} ranks, {size} bytes: {expected}, {ran}")


def test_a_file_with_one_wrong_count(folder):
    directory = emitted(folder, "wrong", 4, RULES)
    rules = directory / "allreduce.rules"
    text = rules.read_text()
    job.check(text.count("\n3  #") == 1 and text.count("\n4 7 ") == 1, "the file's form has changed")
    rules.write_text(text.replace("\n3  #", "\n4  #"))
    out = launched(folder, "wrong", directory / "mca-params.conf", 4, COUNTS)
    verdict, sentence, _, rows = proof(rules, out, 4)
    job.check(verdict == "not in force" and "ignores the rules, all of them: line" in sentence, f"{verdict}: {sentence}")
    # ... and so it did: beside the file as it should be, calls ran otherwise.
    rules.write_text(text)
    verdict, sentence, _, rows = proof(rules, out, 4)
    job.check(verdict == "not in force" and re.search(r": \d+ calls of MPI_Allreduce ran another", sentence), f"{verdict}: {sentence}")
    # Not every wrong count is an error: with one message rule too many the guard becomes that rule, and what is left of it a rule that says nothing.
    rules.write_text(text.replace("\n4 7 ", "\n4 8 "))
    out = launched(folder, "shifted", directory / "mca-params.conf", 4, [1, 1000, 100000])
    verdict, sentence, _, rows = proof(rules, out, 4)
    job.check(verdict == "not in force" and "no rule for 4 ranks" in sentence, f"{verdict}: {sentence}")
    job.check(all(expected == f"Open MPI's own choice ({ran.split(',')[0]})" for *_, expected, ran in rows), f"{rows}")


def test_rules_that_say_what_the_default_does(folder):
    directory = emitted(folder, "same", 4, ["0:4:0", "16:3:0", "8192:6:0"])
    out = launched(folder, "same", directory / "mca-params.conf", 4, [1, 100, 1000, 3000])
    verdict, sentence, *_ = proof(directory / "allreduce.rules", out, 4)
    job.check(verdict == "cannot tell" and "same algorithm by default" in sentence, f"{verdict}: {sentence}")


def test_operations_that_do_not_commute(folder):
    """The trap that the file warns of: a ring by rule gives wrong results, and the proof says so."""
    directory = emitted(folder, "ring", 4, ["0:4:0"])
    out = launched(folder, "ring", directory / "mca-params.conf", 4, ["ordered", 100], sums="WRONG")
    verdict, _, notes, _ = proof(directory / "allreduce.rules", out, 4)
    job.check(verdict == "in force" and notes == ["note: 4 calls ran a ring with an operation that does not commute: their results are WRONG. Do not use these rules"],
              f"{verdict} {notes}")
    out = launched(folder, "no-ring", None, 4, ["ordered", 100])


def test_beside_the_recorder(folder):
    """libddl.so and the probe in one job: both count all calls."""
    directory = emitted(folder, "recorded", 4, RULES)
    out = folder / "recorded.probe"
    out.mkdir()
    environment = job.run(["sh", "-c", f"set -a; . '{directory}/tuned.env'; env"], check_rc=0).stdout.splitlines()
    rules = dict(line.split("=", 1) for line in environment if line.startswith("OMPI_MCA_coll_"))
    job.record("recorded.ddl", ["mpirun", "-np", 4, PROGRAMS / "sized_allreduces", *COUNTS], check_rc=0, LD_PRELOAD=PROBE, DDL_PROBE_OUT=out, **rules)
    verdict, sentence, _, rows = proof(directory / "allreduce.rules", out, 4)
    job.check(verdict == "in force", f"{verdict}: {sentence}")
    recorded = job.store("recorded.ddl").execute("SELECT sum(calls) FROM v_call WHERE op = 'MPI_Allreduce'").fetchone()[0]
    job.check(recorded == sum(calls for _, _, calls, *_ in rows) == len(COUNTS) * 9, f"{recorded} calls recorded, {rows}")


def test_python(folder):
    """mpi4py loads libmpi where RTLD_NEXT does not look."""
    if job.run(["/usr/bin/python3", "-c", "import mpi4py"]).returncode:
        print("no mpi4py here")
        return
    directory = emitted(folder, "python", 2, ["0:1:0"])
    out = folder / "python.probe"
    out.mkdir()
    program = "from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(1) == 2; import array; a = array.array('i', [1] * 10); b = array.array('i', [0] * 10); MPI.COMM_WORLD.Allreduce(a, b); assert b[3] == 2"
    job.run(["mpirun", "-np", 2, "/usr/bin/python3", "-c", program], check_rc=0, LD_PRELOAD=PROBE, DDL_PROBE_OUT=out,
            OMPI_MCA_mca_base_param_files=f"{directory}/mca-params.conf,/etc/openmpi/openmpi-mca-params.conf")
    verdict, sentence, _, rows = proof(directory / "allreduce.rules", out, 2)
    job.check(verdict == "in force" and (2, 40, 2, "as ruled", "basic_linear", "basic_linear") in rows, f"{verdict}: {sentence} {rows}")


def test_what_cannot_be_looked_into(folder):
    """MPICH; a job without MPI leaves nothing; without DDL_PROBE_OUT nothing is written."""
    quiet = job.run([PROGRAMS / "sized_allreduces", 10], check_rc=0, LD_PRELOAD=PROBE)
    job.check(quiet.stdout == "sums right\n" and quiet.stderr == "", f"{quiet.stdout} {quiet.stderr}")
    empty = folder / "empty"
    empty.mkdir()
    done = job.run(["sh", "-c", "true; ls /"], check_rc=0, LD_PRELOAD=PROBE, DDL_PROBE_OUT=empty)
    job.check(done.stderr == "" and not list(empty.iterdir()), f"{done.stderr} {list(empty.iterdir())}")
    rules = folder / "any.rules"
    rules.write_text("1 2 1  4 1  0 4 0 0\n")
    verdict, sentence, *_ = proof(rules, empty, 4)
    job.check(verdict == "cannot tell" and "no process left a count" in sentence, sentence)
    mpich = PROGRAMS / "sized_allreduces_mpich"
    if mpich.exists():
        done = job.run([mpich, 10], check_rc=0, LD_PRELOAD=PROBE, DDL_PROBE_OUT=empty)
        verdict, sentence, *_ = proof(rules, empty, 4)
        job.check(verdict == "cannot tell" and "cannot be checked here: the job runs MPICH" in sentence, sentence)
    (empty / "torn.probe").write_text("ddl-probe-openmpi 1\nlibrary x\nrank 0 of 4\nsymbols 1\nlost 0\n4 1 4 4 4 0 1 7\n")
    done = job.run([PROGRAMS / "prove", rules, empty, 4])
    job.check(done.returncode == 1 and "torn.probe:7: the file ends here" in done.stderr, f"{done.returncode} {done.stderr}")


def test_the_library_is_inert(folder):
    exported = job.run(["nm", "-D", "--defined-only", PROBE], check_rc=0).stdout
    names = {line.split()[-1] for line in exported.splitlines()}
    job.check(len(names) == 6 and all(name.startswith("ompi_coll_base_allreduce_intra_") for name in names), f"exported: {names}")
    dynamic = job.run(["readelf", "-dW", PROBE], check_rc=0).stdout
    job.check(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) == ["libc.so.6"], dynamic)
    undefined = job.run(["nm", "-D", "--undefined-only", PROBE], check_rc=0).stdout
    newer = [v for v in re.findall(r"@GLIBC_([\d.]+)", undefined) if tuple(map(int, v.split("."))) > (2, 28)]
    job.check(not newer, f"needs glibc {newer}")


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    job.main(test_the_library_is_inert, test_rules_are_in_force, test_what_gives_way_is_predicted, test_built_in_table, test_a_file_with_one_wrong_count,
             test_rules_that_say_what_the_default_does, test_operations_that_do_not_commute, test_beside_the_recorder, test_python, test_what_cannot_be_looked_into)
