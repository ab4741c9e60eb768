#!/usr/bin/env python3
"""The history in PostgreSQL: Debian's real server in a folder of the test's. The unit tests of the database and its eight writers, ddl history itself, and the
queries of the dashboard, held against what ddl history says."""
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import job
from copied_runs import growing

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "docs" / "grafana" / "ddl-history.json"
DEMO = job.BUILD / "share" / "ddl" / "demo" / "train.ddl"
RUNS = 40


class Server:
    """Listens on a socket in `folder` only, as nobody where we are root: PostgreSQL refuses that."""

    def __init__(self, folder):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
        if not programs:
            raise job.Skip("no PostgreSQL server (apt-get install postgresql)")
        self.bin, self.folder = programs[-1].parent, folder
        folder.mkdir()
        self.drop = []
        if os.getuid() == 0:
            if not shutil.which("setpriv"):
                raise job.Skip("needs setpriv")
            shutil.chown(folder, "nobody", "nogroup")
            self.drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        for above in folder.parents:
            if os.getuid() == 0 and not above.stat().st_mode & 1:
                above.chmod(above.stat().st_mode | 0o011)
        data = folder / "data"
        self.run([self.bin / "initdb", "--no-sync", "-A", "trust", "-U", "ddl", "-E", "UTF8", "--locale=C", data])
        self.process = subprocess.Popen([*self.drop, self.bin / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "log_min_messages=fatal"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        for _ in range(300):
            if subprocess.run([self.bin / "pg_isready", "-q", "-h", folder]).returncode == 0:
                return
            time.sleep(0.1)
        raise job.Skip("the server does not start here")

    def run(self, command):
        done = subprocess.run([*self.drop, *map(str, command)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise job.Skip(f"{command[0].name}: {done.stderr[-500:]}")

    def database(self, name):
        self.sql(f"CREATE DATABASE {name}", "postgres")
        return f"postgresql://ddl@/{name}?host={self.folder}"

    def sql(self, text, database):
        """Rows as lists of texts."""
        done = subprocess.run([self.bin / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-A", "-t", "-F", "\t", "-h", self.folder, "-U", "ddl", "-d", database], input=text, text=True,
                              capture_output=True)
        job.check(done.returncode == 0, f"{text}\n{done.stderr}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def history(url, *words, check_rc=0):
    return job.run([job.DDL, "history", *words], check_rc=check_rc, DDL_HISTORY=url)


def unit_tests(server):
    url = server.database("unit")
    done = job.run([job.BUILD / "bin" / "history_test", "--gtest_filter=Database.*"], DDL_TEST_POSTGRES=url)
    job.check(done.returncode == 0, f"history_test: {done.stdout[-3000:]}{done.stderr[-1000:]}")


def verbs(server):
    url = server.database("verbs")
    nothing = history(url, check_rc=3)
    job.check("there is no history yet" in nothing.stderr, nothing.stderr)
    adders = [subprocess.Popen([job.DDL, "history", "add", DEMO], env=job.environment(DDL_HISTORY=url), stdout=subprocess.DEVNULL) for _ in range(8)]
    job.check([adder.wait() for adder in adders] == [0] * 8, "eight at once")
    said = json.loads(history(url, "list", "--json").stdout)
    job.check(len(said["runs"]) == 1, f"one run that eight added: {said['runs']}")
    wrong = job.run([job.DDL, "history"], check_rc=1, DDL_HISTORY=f"postgresql://ddl:hunter2@/absent?host={server.folder}")
    job.check("absent" in wrong.stderr and "hunter2" not in wrong.stderr, wrong.stderr)
    away = job.run([job.DDL, "history"], check_rc=1, DDL_HISTORY=f"postgresql://ddl:hunter2@/x?host={server.folder}/nowhere")
    job.check("hint: is the server up" in away.stderr and "hunter2" not in away.stderr, away.stderr)


def dashboard(server):
    url = f"postgresql://ddl@/verbs?host={server.folder}"
    columns = server.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'ddl_run' ORDER BY ordinal_position", "verbs")
    server.sql(growing([column for (column,) in columns], RUNS), "verbs")
    said = json.loads(history(url, "list", "--json").stdout)
    job.check(len(said["runs"]) == RUNS + 1, f"{len(said['runs'])} runs")
    (change,) = said["changes"]
    job.check(change["first_run"] == "job 4721" and change["part"] == "exposed transfer" and abs(change["change_ratio"] - 0.1) < 0.01, f"{change}")
    gate = history(url, "check", "--fail-over", "5%", check_rc=4)
    job.check("is slower by" in gate.stderr, gate.stderr)
    drain = history(url, "nodes", "--drain").stdout
    job.check("\nscontrol update nodename=node1 state=drain reason=\"ddl: slow in 41 of 41 runs" in drain, drain)

    answers = {}
    board = json.loads(DASHBOARD.read_text())
    variable = next(one for one in board["templating"]["list"] if one["name"] == "job")
    names = [name for (name,) in server.sql(variable["query"], "verbs")]
    job.check(names == sorted({run["name"] for run in said["runs"]}), f"{names}")
    for panel in board["panels"]:
        for target in panel["targets"]:
            sql = target["rawSql"].replace("$__unixEpochNanoFilter(started_ns)", "started_ns >= 0 AND started_ns <= 9000000000000000000").replace(
                "$job", ", ".join(f"'{name}'" for name in names))
            job.check("$" not in sql, f"{panel['title']}: a macro that the test does not know: {sql}")
            answers[panel["title"]] = server.sql(sql, "verbs")
            job.check(answers[panel["title"]] or panel["title"] in ("Samples per second",), f"{panel['title']}: no rows")
    runs = list(reversed(said["runs"]))
    job.check([round(float(row[2]) * 1e9) for row in answers["Step time"]] == [run["step_time_ns"] for run in runs], "Step time")
    job.check([round(float(row[-1]), 6) for row in answers["Parallel efficiency"]] == [round(run["efficiency"], 6) for run in runs], "Parallel efficiency")
    job.check([round(float(row[3]) * 1e9) for row in answers["Where a step goes"]] == [run["wait_ns"] for run in runs], "Where a step goes")
    (host,) = answers["Slow hosts"]
    told = next(row for row in said["nodes"] if row["host"] == host[0])
    job.check(int(float(host[1])) == told["slow_runs"] and int(host[2]) == told["runs"] and abs(float(host[3]) - told["expected_runs"]) < 1e-9, f"{host} {told}")
    job.check(len(answers["Runs"]) == RUNS + 1 and len(answers["Waiting and transfer by axis"]) == RUNS + 1, "Runs")


def main(folder):
    if not (job.BUILD / "lib" / "libddl-postgres.so").exists():
        raise job.Skip("ddl was built without PostgreSQL (apt-get install libpqxx-dev)")
    server = Server(Path(folder) / "server")
    try:
        unit_tests(server)
        verbs(server)
        dashboard(server)
    finally:
        server.stop()


job.main(main)
