#!/usr/bin/env python3
"""python/ddl: what it reads of the run that ships with ddl is what `ddl query` says, with and without pandas."""
import contextlib
import csv
import importlib.util
import io
import json
import shutil
import sys
from pathlib import Path

from job import BUILD, DDL, check, main, run

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "run.ipynb"
MODULE = BUILD / "share" / "ddl" / "reader"
sys.path.insert(0, str(MODULE))
import ddl  # noqa: E402


def rows_of(frame):
    return frame if isinstance(frame, list) else frame.astype(object).where(frame.notna(), None).to_dict("records")


def equals_what_the_program_says(folder):
    shutil.copytree(BUILD / "share" / "ddl" / "demo" / "train.ddl", "job.ddl", ignore=shutil.ignore_patterns("run.sqlite*"))
    for packages in ("alone", "pandas"):
        if packages == "alone":
            sys.modules["pandas"] = sys.modules["polars"] = None  # an import of them fails
        elif importlib.util.find_spec("numpy") is None or not has_pandas():
            print("skipped: no pandas (tools/setup package)")
            continue
        with ddl.open() as job:
            check(isinstance(job.steps(), list) == (packages == "alone"), f"{type(job.steps())}")
            for name, view in (("steps", "v_step"), ("ranks", "v_rank"), ("collectives", "v_collective"), ("calls", "v_call"), ("layers", "v_layer")):
                rows = rows_of(getattr(job, name)())
                said = list(csv.DictReader(io.StringIO(run([DDL, "report", "job.ddl", "--csv", view], check_rc=0).stdout)))
                check(len(rows) == len(said) > 0 and list(rows[0]) == list(said[0]), f"{view}: {len(rows)} and {len(said)} rows")
                for column in [c for c in said[0] if c.endswith("_ns") or c in ("rank", "bytes", "calls")]:
                    ours = sum(row[column] or 0 for row in rows)
                    theirs = sum(float(row[column] or 0) for row in said)
                    check(abs(ours - theirs) <= 1e-9 * abs(theirs), f"{view}.{column}: {ours}, not {theirs}")
            moments = rows_of(job.query("SELECT 1234567890123456789 AS ns UNION ALL SELECT NULL"))
            check(moments == [{"ns": 1234567890123456789}, {"ns": None}], f"{moments}: to the ns")
            unknown = rows_of(job.query("SELECT NULL AS unknown, ? AS seven", (7,)))
            check(unknown == [{"unknown": None, "seven": 7}], f"{unknown}: what is not known is None")
            first = rows_of(job.findings())[0]
            check(first["rank"] == 2 and abs(first["saving_ns"] - 10e6) < 0.3e6, f"{first}: rank 2 was slowed by 10 ms")
            check({row["id"] for row in rows_of(job.metrics())} >= {"step_time", "ccr_xfer"}, "metrics")
            check("v_step" in job.tables() and "wait_ns" in job.tables()["v_step"], "tables")
            check("WHERE IT GOES" in job.text(), "the report")
            for wrong in ("SELECT nonsense", "DELETE FROM event", "PRAGMA user_version = 3"):
                try:
                    job.query(wrong)
                    check(wrong.startswith("PRAGMA"), f"{wrong} was taken")
                except ddl.Error:
                    pass
            check(rows_of(job.query("SELECT * FROM pragma_user_version"))[0]["user_version"] != 3, "the store cannot be written")


def notebook_runs(folder):
    if not has_pandas():
        print("skipped: no pandas (tools/setup package)")
        return
    shutil.copytree(BUILD / "share" / "ddl" / "demo" / "train.ddl", "job.ddl", ignore=shutil.ignore_patterns("run.sqlite*"))
    names = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec("".join(cell["source"]), names)
    check(names["late"] == 2 and names["findings"]["rank"][0] == 2, f"{names['late']}: rank 2 was slowed")
    sums = names["by_op"].loc["MPI_Iallreduce"]
    check(abs(sums["duration_ns"] - sums["wait_ns"] - sums["xfer_ns"]) < 1e-6, f"{sums}: waiting and transfer add up")
    shutil.rmtree("job.ddl")


def has_pandas():
    for name in ("pandas", "polars"):
        sys.modules.pop(name, None)
    return importlib.util.find_spec("pandas") is not None


def errors(folder):
    for path, words in (("absent.ddl", "absent.ddl"), (None, "no *.ddl here")):
        try:
            if path is None:
                shutil.rmtree("job.ddl")
            ddl.open(path)
            check(False, f"{path} was opened")
        except ddl.Error as error:
            check(words in str(error), str(error))
    check(Path(ddl.program()).resolve() == Path(DDL).resolve(), f"{ddl.program()}: the program beside the module")


if __name__ == "__main__":
    main(equals_what_the_program_says, errors, notebook_runs)
