#!/usr/bin/env python3
"""The disk is full at one call that needs room on it, or from that call on, by a preloaded library: the job does not notice; a verb says so, leaves what
was there as it was, and works again afterwards. Some calls in CI; each of them with DDL_TEST_EVERY_WRITE=1."""
import errno
import os
import re
import shutil

import fault
import job

SHIM = fault.PROGRAMS / "libfull_disk_shim.so"
EVERY = os.environ.get("DDL_TEST_EVERY_WRITE") == "1"
TRACE = '[{"ph": "X", "name": "MPI_Barrier", "cat": "mpi", "pid": 0, "tid": 1, "ts": 5, "dur": 2, "args": {"comm": "MPI_COMM_WORLD", "comm_size": 1}}]'


def chosen(calls):
    """Of 1 to `calls`: the first and last ones, and some between."""
    if EVERY:
        return list(range(1, calls + 1))
    return sorted({n for n in (1, 2, 3, calls // 4, calls // 2, calls - 1, calls) if 1 <= n <= calls})


def calls_of(log):
    return max((int(line) for line in log.read_text().split()), default=0) if log.exists() else 0


def files_of(folder):
    """Their bytes; None of a folder."""
    return {path.relative_to(folder): None if path.is_dir() else path.read_bytes() for path in sorted(folder.rglob("*"))}


def without_times(text):
    return re.sub(r"\d+(\.\d+)? (s|ms|us)\b", "N s", text)


def verb(folder, name, command, place, restore, seen=files_of):
    """`command` writes below `place` and is exit code 0; restore() makes what it begins with. seen(place): what must be as before where it is refused."""
    restore()
    log = folder / f"{name}.calls"
    env = {"LD_PRELOAD": SHIM, "FULL_DISK_UNDER": place, "TMPDIR": folder / "tmp"}
    whole = job.run(command, check_rc=0, FULL_DISK_LOG=log, **env)
    calls = calls_of(log)
    if not job.check(calls >= 3, f"{name}: only {calls} calls need room"):
        return
    refused = 0
    for at in chosen(calls):
        for stays in (False, True):
            for error in (errno.ENOSPC, errno.EIO) if EVERY else (errno.ENOSPC,):
                restore()
                before = seen(place)
                done = job.run(command, FULL_DISK_AT=at, FULL_DISK_ERROR=error, **env, **({"FULL_DISK_STAYS": 1} if stays else {}))
                what = f"{name}, call {at} of {calls}{' and later ones' if stays else ''}, {errno.errorcode[error]}"
                job.check(done.returncode in (0, 1, 3), f"{what}: exit code {done.returncode} {done.stderr!r}")
                if done.returncode == 0:
                    job.check(without_times(done.stdout) == without_times(whole.stdout), f"{what}: another answer\n{done.stdout}")
                else:
                    refused += 1
                    job.check("error: " in done.stderr, f"{what}: not said: {done.stderr!r}")
                    after = seen(place)
                    job.check(after == before, f"{what}: left {sorted(str(p) for p in after if p not in before or after[p] != before[p])}, "
                                             f"removed {sorted(set(map(str, before)) - set(map(str, after)))}")
                again = job.run(command, check_rc=0, TMPDIR=folder / "tmp")
                job.check(without_times(again.stdout) == without_times(whole.stdout), f"{what}: afterwards another answer")
                job.check(list((folder / "tmp").iterdir()) == [], f"{what}: left {list((folder / 'tmp').iterdir())}")
    print(f"{name}: {calls} calls, {refused} refused")


def verbs(folder):
    (folder / "tmp").mkdir()
    job.run(job.mpirun(2, [fault.ENDING, "finalize"]), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "fresh.ddl")
    place = folder / "place"
    shutil.copytree(folder / "fresh.ddl", folder / "reported.ddl")
    job.report(folder / "reported.ddl")

    def empty():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()

    def recorded():
        empty()
        shutil.copytree(folder / "fresh.ddl", place / "run.ddl")

    def reported():
        empty()
        shutil.copytree(folder / "reported.ddl", place / "run.ddl")

    def traced():
        empty()
        (folder / "trace.json").write_text(TRACE)

    def remembered():
        reported()
        shutil.copytree(place / "run.ddl", folder / "other.ddl", dirs_exist_ok=True)
        job.run([job.DDL, "history", "add", folder / "other.ddl", "--database", place / "history.sqlite"], check_rc=0)

    def listed(_):
        """What a history holds; a transaction that did not end is taken back by who opens it next."""
        return {"runs": job.run([job.DDL, "history", "list", "--json", "--database", place / "history.sqlite"], check_rc=0).stdout}

    run = place / "run.ddl"
    verb(folder, "report", [job.DDL, "report", run], place, recorded)
    verb(folder, "export", [job.DDL, "export", "perfetto", run, "-o", place / "out.pftrace"], place, reported)
    verb(folder, "csv", [job.DDL, "export", "csv", run, "--table", "v_rank", "-o", place / "ranks.csv"], place, reported)
    verb(folder, "all csv", [job.DDL, "export", "csv", run, "-o", place / "deep" / "tables"], place, reported)
    verb(folder, "chrome-json", [job.DDL, "export", "chrome-json", run, "--ranks", "1", "-o", place / "rank.json"], place, reported)
    verb(folder, "all chrome-json", [job.DDL, "export", "chrome-json", run, "-o", place / "traces"], place, reported)
    verb(folder, "html", [job.DDL, "report", run, "--html", place / "page.html"], place, reported)
    verb(folder, "chakra", [job.DDL, "export", "chakra", run, "-o", place / "traces"], place, reported)
    if EVERY:
        verb(folder, "history", [job.DDL, "history", "add", run, "--database", place / "history.sqlite"], place, remembered, listed)
    verb(folder, "import", [job.DDL, "import", "chrome", folder / "trace.json", "-o", place / "new.ddl"], place, traced)


def recorder(folder):
    """One process: what it writes itself, and the file that grows by fallocate."""
    command = job.mpirun(1, [fault.PROGRAMS / "ground"])
    plain = job.run(command, CALL_LOG=folder / "plain")
    log = folder / "recorder.calls"

    def traced(number, **env):
        run = folder / f"{number}.ddl"
        shutil.rmtree(run, ignore_errors=True)
        done = job.run(command, LD_PRELOAD=f"{job.LIBRARY} {SHIM}", DDL_OUT=run, FULL_DISK_UNDER=run, CALL_LOG=folder / f"{number}.log",
                       **fault.EVERYTHING, **env)
        return run, done

    traced("whole", FULL_DISK_LOG=log)
    calls = calls_of(log)
    job.check(calls > 3, f"the recorder: only {calls} calls need room")
    for at in chosen(calls):
        for stays in (False, True):
            run, done = traced(f"{at}-{stays}", FULL_DISK_AT=at, **({"FULL_DISK_STAYS": 1} if stays else {}))
            what = f"the recorder, call {at} of {calls}{' and later ones' if stays else ''}"
            fault.same(what, plain, done)
            ours = [line for line in done.stderr.splitlines() if line.startswith("ddl: ")]
            job.check(len(ours) <= 1, f"{what}: said {ours}")
            report = job.run([job.DDL, "report", run])
            job.check(report.returncode == 0 or ours or "error: " in report.stderr, f"{what}: report says {report.returncode} {report.stderr!r}")
            if report.returncode != 0:
                job.check(report.returncode == 3, f"{what}: report: {report.returncode} {report.stderr!r}")
                continue
            db = job.store(run)
            calls_recorded, _ = fault.recorded(db)
            losses = db.execute("select count(*) from loss").fetchone()[0]
            log_of_rank = fault.read_log(folder / f"{at}-{stays}.log.0")
            equal = all(calls_recorded.get(0, {}).get(op) == value for op, value in log_of_rank.items())
            job.check(equal or losses > 0, f"{what}: calls are missing and no loss is told")
            fault.remove(run)
    print(f"the recorder: {calls} calls")


if __name__ == "__main__":
    job.main(verbs, recorder)
