"""ddl record around mpirun: what a user sees, settings that reach every program, other people's preloads."""
import json
import os
import re
from pathlib import Path

from job import BUILD, DDL, LIBRARY, TRAIN, Skip, check, main, record, report, run


def two_commands(folder):
    if not TRAIN.exists():
        raise Skip("train is not built")
    job = ["mpirun", "-np", "2", TRAIN, "--steps", "12", "--slow-rank", "1:150", "--print-every", "1"]
    bare = run(job, check_rc=0)
    done = record("job.ddl", job, check_rc=0)
    check(done.stdout == bare.stdout, "the job prints the same with and without recording")
    lines = [line for line in done.stderr.splitlines() if line.startswith("ddl: ")]
    check(len(lines) == 1 and lines[0].startswith("ddl: recorded 2 ranks to job.ddl ("), f"one line of ours: {done.stderr}")
    check(lines and lines[0].endswith("ddl report job.ddl"), "... which says what to type next")
    text = report("job.ddl").stdout
    check(" rank 1 (" in text, f"the slowed rank is found:\n{text}")  # a busy machine may have worse findings
    check(text.startswith("train   2 ranks on 1 host   12 steps in "), text[:100])
    check(max(len(line) for line in report("job.ddl", COLUMNS="80").stdout.splitlines()) <= 80, "fits 80 columns")
    data = json.loads(report("job.ddl", "--json").stdout)
    check(any(finding["rank"] == 1 for finding in data["findings"]) and data["run"]["exit_code"] == 0, str(data["run"]))


def failing_job(folder):
    done = record("abort.ddl", ["mpirun", "-np", "2", "sh", "-c", "exit 9"])
    check(done.returncode == 9, f"exit code {done.returncode}")


def settings_reach_every_program(folder):
    show = ["sh", "-c", "echo $DDL_OUT"]
    done = record("two.ddl", ["mpirun", "-np", "1", *show, ":", "-np", "1", *show], check_rc=0)
    check(done.stdout.split() == [str(Path("two.ddl").resolve())] * 2, done.stdout)


def preload_of_the_user(folder):
    other = next((p for p in ["/usr/lib/x86_64-linux-gnu/libdl.so.2", "/lib64/libdl.so.2"] if Path(p).exists()), None)
    if other is None:
        raise Skip("no library to preload besides")
    done = record("theirs.ddl", ["mpirun", "-x", f"LD_PRELOAD={other}", "-np", "1", "sh", "-c", "echo $LD_PRELOAD"], check_rc=0)
    check(done.stdout.strip().endswith(f"libddl.so:{other}"), done.stdout)


def environment_list_of_open_mpi(folder):
    done = record("list.ddl", ["mpirun", "--mca", "mca_base_env_list", "A=5", "-np", "1", "sh", "-c", "echo $A $DDL_OUT"], check_rc=0)
    check(done.stdout.split() == ["5", str(Path("list.ddl").resolve())], done.stdout + done.stderr)


SECRET = "hush4Hush"
FORMS = [["--password=S"], ["--auth=S"], ["--pass=S"], ["--pwd", "S"], ["--credential", "S"], ["--passphrase", "S"], ["--session-cookie=S"], ["--hub-token", "S"],
         ["--header", "Authorization: Bearer S"], ["--header", "Authorization:", "Bearer", "S"], ["-H", "X-Api-Key: S"], ["+trainer.password=S"], ["db.token=S"],
         ['{"password": "S", "lr": 0.1}'], ["--cfg={'apiKey': 'S'}"], ["https://u:S@h.example.org/"], ["postgresql://u:S@h/db"], ["https://h/?token=S&x=1"],
         ["redis://:S@h:6379/0"], ["-x", "API_KEY=S"], ["--export=ALL,HF_TOKEN=S"], ["-u", "me:S"], ["--client-secret=S"], ["--jwt", "S"], ["password: S"],
         ["export TOKEN=S; true"]]


def secrets_reach_no_file(folder):
    """Secrets in the arguments and the environment of a job are in no file of its run directory, and in nothing that is made of it."""
    program = BUILD / "tests" / "programs" / "tiny_calls"
    if not program.exists():
        raise Skip("tiny_calls is not built")
    words = [re.sub(r"\bS\b", SECRET, word) for form in FORMS for word in form]
    token = "ghp_" + "aB3" * 12
    record("secret.ddl", [program, "1", "1", *words, "--steps", "5", token], check_rc=0, UCX_PROXY=f"http://u:{SECRET}@proxy:1", NCCL_TOKEN=SECRET, OMPI_MCA_x=f"key={SECRET}")
    folder = Path("made")
    folder.mkdir()
    made = {"text": report("secret.ddl").stdout, "json": report("secret.ddl", "--json").stdout}
    report("secret.ddl", "--html", folder / "page.html")
    run([DDL, "export", "csv", "secret.ddl", "-o", folder / "csv"], check_rc=0)
    run([DDL, "export", "perfetto", "secret.ddl", "-o", folder / "trace"], check_rc=0)
    made.update({str(path): path.read_bytes().decode(errors="replace") for place in (Path("secret.ddl"), folder) for path in place.rglob("*") if path.is_file()})
    check(any(name.endswith(".spool") for name in made), f"no spool in {sorted(made)}")
    for name, text in made.items():
        check(SECRET not in text and token[4:] not in text, f"{name} holds a secret: {text[max(0, text.find(SECRET) - 200):][:400]}")
    command = json.loads(made["secret.ddl/job.json"])["command"]
    check(command[-3:] == ["--steps", "5", "***"] and "https://u:***@h.example.org/" in command, f"what is not a secret stays: {command}")


def long_and_odd_names(folder):
    program = BUILD / "tests" / "programs" / "tiny_calls"
    if not program.exists():
        raise Skip("tiny_calls is not built")
    home = os.getcwd()
    try:
        for level in range(10):  # 2,229 characters and more
            os.mkdir("d" * 220)
            os.chdir("d" * 220)
        done = record("deep.ddl", [program, "1", "1"], check_rc=0)
        check("recorded 1 rank" in done.stderr and list(Path("deep.ddl").glob("*.spool")), f"in a deep folder: {done.stderr}")
        for level in range(7):
            os.mkdir("d" * 240)
            os.chdir("d" * 240)
        done = record("deep.ddl", [program, "1", "1"])
        check(done.returncode == 2 and "more than 3800" in done.stderr, f"too deep: {done.returncode} {done.stderr}")
        bare = run([program, "1", "1"], LD_PRELOAD=LIBRARY)
        check(bare.returncode == 0 and bare.stderr.count("not recording") == 1, f"too deep, by the library: {bare.returncode} {bare.stderr}")
    finally:
        os.chdir(home)
    done = record("sp ace's.ddl", [program, "1", "1"], check_rc=0)
    check(done.stderr.rstrip().endswith("ddl report 'sp ace'\\''s.ddl'"), f"quoted: {done.stderr}")
    done = run([DDL, "record", "-o", "./-dash.ddl", "--", program, "1", "1"], check_rc=0)
    check(done.stderr.rstrip().endswith("ddl report ./-dash.ddl"), f"a dash: {done.stderr}")
    for words in (["./-dash.ddl"], ["--", "-dash.ddl"]):
        check(run([DDL, "report", *words]).returncode == 0, f"ddl report {words}")


if __name__ == "__main__":
    main(two_commands, failing_job, settings_reach_every_program, preload_of_the_user, environment_list_of_open_mpi, secrets_reach_no_file, long_and_odd_names)
