"""Recorded runs in Python: the tables of `ddl`, as DataFrames where pandas or polars are installed.

    import ddl

    run = ddl.open("job.ddl")
    run.findings()                       # what to fix first
    run.steps().groupby("rank").wait_ns.mean() / 1e6
    run.query("SELECT op, sum(bytes) AS bytes FROM v_call GROUP BY op")

Tables are pandas.DataFrame if pandas is installed, else polars.DataFrame, else a list of dictionaries. Durations and moments are integers in
ns (columns *_ns; moments count from the begin of the run), sizes in bytes (*_bytes, bytes), shares 0 to 1. What is not known is None (NA in
pandas), never 0; a column `why` says why.

Standard library only. Reading needs the program `ddl`: the one that this module came with, $DDL, or the one in PATH. It makes the run's
store when nobody has read the run yet.
"""
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

__all__ = ["Error", "Run", "open", "program"]

_open = open


class Error(Exception):
    """What `ddl` said, with its hint."""


def program(name="ddl"):
    """Where the program `name` (ddl, ddl-top) is. Raises Error if it is nowhere."""
    here = Path(__file__).resolve().parent
    # A wheel has a whole installation in it; an installation has this file in share/ddl/reader/ddl.
    for place in (here / "installation" / "bin", here.parents[3] / "bin"):
        if (place / name).is_file():
            return str(place / name)
    found = os.environ.get("DDL") if name == "ddl" else None
    found = found or shutil.which(name)
    if not found:
        raise Error(f"the program {name} was not found: install ddl, or set DDL to its path")
    return found


def _ddl(*arguments):
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        raise Error(done.stderr.strip() or f"ddl {arguments[0]} ended with {done.returncode}")
    return done.stdout


def _frame(columns, rows):
    try:
        import pandas
    except ImportError:
        pass
    else:
        def column(values):
            values = list(values)
            kinds = {type(value) for value in values if value is not None}
            # Integers stay integers where some are not known: a float of 64 bits does not hold a moment to the ns.
            kind = "Int64" if kinds == {int} else "float64" if kinds and kinds <= {int, float} else object
            return pandas.Series(values, dtype=kind)

        frame = pandas.DataFrame({i: column(row[i] for row in rows) for i in range(len(columns))})
        frame.columns = columns  # two may have one name
        return frame
    try:
        import polars
    except ImportError:
        return [dict(zip(columns, row)) for row in rows]
    return polars.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)


class Run:
    """One recorded run. Made by open()."""

    def __init__(self, path):
        self.path = Path(path)
        """Its run directory."""
        _ddl("report", os.fspath(self.path), "--one-line")  # makes run.sqlite, or makes it anew after a change
        store = self.path if self.path.is_file() else self.path / "run.sqlite"
        if not store.is_file():
            raise Error(f"{self.path} cannot be written, so that its store cannot be made there: copy the run")
        self._db = sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True)

    def __repr__(self):
        return f"ddl.open({os.fspath(self.path)!r})"

    def query(self, sql, parameters=()):
        """The rows of one SELECT. `parameters`: values of its ? or :names. Views v_* are stable between versions: tables() lists them."""
        try:
            cursor = self._db.execute(sql, parameters)
        except sqlite3.Error as error:
            raise Error(f"{error}: {sql}") from None
        if cursor.description is None:
            raise Error(f"not a SELECT: {sql}")
        return _frame([column[0] for column in cursor.description], cursor.fetchall())

    def tables(self):
        """Names of all views, then tables, each with the list of its columns."""
        names = [row[0] for row in self._db.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('view', 'table') AND name NOT LIKE 'sqlite%' ORDER BY type = 'table', name")]
        return {name: [row[0] for row in self._db.execute("SELECT name FROM pragma_table_info(?)", (name,))] for name in names}

    def steps(self):
        """A row per rank and step (v_step): start_ns, duration_ns, compute_ns, exposed_ns, wait_ns, xfer_ns, idle_ns, ..."""
        return self.query("SELECT * FROM v_step")

    def ranks(self):
        """A row per rank (v_rank): its host and process, and how it ended."""
        return self.query("SELECT * FROM v_rank")

    def collectives(self):
        """A row per collective and rank (v_collective): op, comm, seq, bytes, enter_ns, duration_ns = wait_ns + xfer_ns, and by which method
        (wait_method) the waiting was split off; why it was not."""
        return self.query("SELECT * FROM v_collective")

    def calls(self):
        """Calls, bytes and time per rank, operation and communicator (v_call), exact for the whole run."""
        return self.query("SELECT * FROM v_call")

    def layers(self):
        """compute_ns, comm_ns, exposed_ns and wait_ns per rank, layer and phase (v_layer), sums over the run."""
        return self.query("SELECT * FROM v_layer")

    def report(self):
        """All of `ddl report --json` as dictionaries and lists: run, findings, metrics, tables."""
        return json.loads(_ddl("report", os.fspath(self.path), "--json"))

    def findings(self):
        """What to fix, most important first: id, sentence, rank, saving_ns per step, share_ratio, confidence, evidence, try."""
        found = self.report()["findings"]
        columns = list(dict.fromkeys(key for finding in found for key in finding))
        return _frame(columns, [tuple(finding.get(key) for key in columns) for finding in found])

    def metrics(self):
        """id, value, unit and why (of no value), with the interval lo to hi where there is one. `ddl analyze --list` says what each means."""
        columns = ["id", "value", "unit", "why", "lo", "hi"]
        return _frame(columns, [tuple(metric.get(key) for key in columns) for metric in self.report()["metrics"]])

    def text(self):
        """`ddl report`, for people."""
        return _ddl("report", os.fspath(self.path))

    def close(self):
        """Closes the store; further questions are errors."""
        self._db.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open(path=None):
    """The run in `path`, a run directory NAME.ddl; without it the newest one in the working directory. Raises Error."""
    if path is None:
        runs = sorted(Path().glob("*.ddl"), key=lambda run: run.stat().st_mtime)
        if not runs:
            raise Error("there is no *.ddl here: ddl record -- COMMAND makes one")
        path = runs[-1]
    return Run(path)


def _run_program():
    """What the commands `ddl` and `ddl-top` of a wheel are."""
    import sys
    name = Path(sys.argv[0]).name
    os.execv(program(name), [name, *sys.argv[1:]])
