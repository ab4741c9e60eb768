"""What the tests of faults share: a job run without and with the recorder, compared, and its record held against the job's own log.

The log (programs/call_log.h) is a mapped file per rank into which the program counts the calls that have returned. It is the truth.
"""
import json
import re
import shutil
import struct
import subprocess
from collections import Counter

import job

PROGRAMS = job.BUILD / "tests" / "programs"
ENDING = PROGRAMS / "ending"
EVERYTHING = {"DDL_BUDGET": "off"}  # these programs do little but communicate


def read_log(path):
    """Call -> (how often it returned, bytes)."""
    data = path.read_bytes()
    rows = struct.iter_unpack("=48sQQ", data)
    return {name.rstrip(b"\0").decode(): (calls, size) for name, calls, size in rows if name[0]}


def without_names(text):
    """Standard error of two runs of a job, comparable: process ids, job numbers and addresses are their own, ranks print in any order."""
    text = re.sub(r"\[[\w.-]+:\d+\]", "[HOST:PID]", text)
    text = re.sub(r"\[\[\d+,(\d+)\],(\d+)\]", r"[[JOB,\1],\2]", text)
    text = re.sub(r"reported by process \[\d+,", "reported by process [JOB,", text)
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"\b(PID|pid|process) \d+", r"\1 N", text)
    text = re.sub(r"process rank \d+ with PID", "process rank R with PID", text)  # the first one that mpirun noticed
    return sorted(line.rstrip() for line in text.splitlines() if not line.startswith("ddl: "))


LOST_BY_MPIRUN = "ORTE_ERROR_LOG: "


def same_errors(a, b):
    """mpirun may lose help texts of a dying job, without us too, and says so: then what is left of one has to be part of the other."""
    if any(LOST_BY_MPIRUN in line for line in a + b):
        a, b = (Counter(line for line in lines if LOST_BY_MPIRUN not in line) for lines in (a, b))
        return a <= b or b <= a
    return a == b


def same(what, plain, traced):
    """The job's own behaviour: exit code or signal, output, error output."""
    plain_code, code = (128 - c if c < 0 else c for c in (plain.returncode, traced.returncode))  # a signal, as a shell and `ddl record` say it
    job.check(plain_code == code, f"{what}: exit code {plain_code} without, {code} with the recorder\n{traced.stderr[-1500:]}")
    job.check(sorted(plain.stdout.splitlines()) == sorted(traced.stdout.splitlines()), f"{what}: output\n{plain.stdout[-1500:]}\nbecame\n{traced.stdout[-1500:]}")
    a, b = without_names(plain.stderr), without_names(traced.stderr)
    job.check(same_errors(a, b), f"{what}: error output\n" + "\n".join(a) + "\nbecame\n" + "\n".join(b))


def both(folder, name, command, **env):
    """Runs `command` without and with `ddl record`. Returns the second run, its directory and the logs of its ranks."""
    run = folder / f"{name}.ddl"
    for _ in range(4):  # mpirun loses messages of a dying job now and then ("Data unpack would read past end of buffer"), without us too
        shutil.rmtree(run, ignore_errors=True)
        plain = job.run(command, CALL_LOG=folder / f"{name}.plain", **job.QUICK, **env)
        traced = job.record(run, command, CALL_LOG=folder / f"{name}.log", **{**EVERYTHING, **job.QUICK, **env})
        if same_errors(without_names(plain.stderr), without_names(traced.stderr)):
            break
    same(name, plain, traced)
    logs = {int(p.suffix[1:]): read_log(p) for p in folder.glob(f"{name}.log.*")}
    return traced, run, logs


def preloaded(folder, name, command, **env):
    """The same with nothing but LD_PRELOAD. Not a line may be added to the job's error output, unless `says` is part of it. The job ends well
    without us, else there is nothing to judge."""
    run = folder / f"{name}.ddl"
    says = env.pop("says", None)
    plain = job.run(command, CALL_LOG=folder / f"{name}.plain", **job.QUICK, **env)
    if plain.returncode != 0:
        raise job.Unjudged(f"{name}: exit code {plain.returncode} without the recorder: {(plain.stderr or plain.stdout)[-500:].strip()}")
    traced = job.run(command, CALL_LOG=folder / f"{name}.log", LD_PRELOAD=job.LIBRARY, **{"DDL_OUT": run, **EVERYTHING, **job.QUICK, **env})
    same(name, plain, traced)
    ours = [line for line in traced.stderr.splitlines() if line.startswith("ddl: ")]
    job.check(ours == [] if says is None else len(ours) == 1 and says in ours[0], f"{name}: said {ours}, expected {says!r}")
    logs = {int(p.suffix[1:]): read_log(p) for p in folder.glob(f"{name}.log.*")}
    return traced, run, logs


def recorded(db):
    """rank -> call -> (how often, bytes) by the profile, and rank -> call -> events."""
    calls, events = {}, {}
    for row in db.execute("select rank, op, sum(calls) as calls, sum(bytes) as bytes from v_call group by rank, op"):
        calls.setdefault(row["rank"], {})[row["op"]] = (row["calls"], row["bytes"])
    for row in db.execute("select p.rank, o.name, count(*) as n from event e join op o on o.id = e.op join process p on p.id = e.process"
                          " where e.kind = 1 group by p.rank, o.name"):
        events.setdefault(row["rank"], {})[row["name"]] = row["n"]
    return calls, events


def complete(what, db, logs, in_mid_call=(), events_too=True):
    """Everything that returned is in the record. A rank that was ended by somebody else may be one call ahead of its log."""
    calls, events = recorded(db)
    for rank, log in logs.items():
        job.check(len(log) > 3, f"{what}: rank {rank} logged only {log}")
        for op, (count, size) in log.items():
            seen, seen_bytes = calls.get(rank, {}).get(op, (0, 0))
            ahead = 1 if rank in in_mid_call else 0
            job.check(count <= seen <= count + ahead, f"{what}: rank {rank}, {op}: {seen} recorded, {count} returned")
            job.check(seen > count or seen_bytes == size, f"{what}: rank {rank}, {op}: {seen_bytes} bytes recorded, {size} sent")
            if events_too:
                seen = events.get(rank, {}).get(op, 0)
                job.check(count <= seen <= count + ahead, f"{what}: rank {rank}, {op}: {seen} events, {count} returned")


def reported(what, run, *sentences, code=0):
    """`ddl report` works, and each of the patterns is on its screen (line breaks count as blanks) or in a sentence or evidence of its findings."""
    done = job.run([job.DDL, "report", run])
    findings = job.run([job.DDL, "report", run, "--json"]).stdout
    sentences_of = [f"{f['sentence']}\n{f['evidence']}" for f in json.loads(findings or "{}").get("findings", [])]
    text = " ".join(done.stdout.split()) + "\n" + "\n".join(sentences_of)
    job.check(done.returncode == code, f"{what}: ddl report returned {done.returncode}\n{done.stderr}")
    for sentence in sentences:
        job.check(re.search(sentence, text) is not None, f"{what}: the report does not say '{sentence}':\n{done.stdout}")
    return text


def remove(run):
    if not job.failures:
        shutil.rmtree(run, ignore_errors=True)


def in_namespace(what, script, *flags, **env):
    """Runs a shell script in namespaces of its own; skips where that is not allowed."""
    if subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode != 0:
        raise job.Skip(f"{what} needs: unshare {' '.join(flags)}")
    return job.run(["unshare", *flags, "sh", "-e", "-c", script], **env)
