#!/usr/bin/env python3
"""ddl report --html on virtual jobs: well-formed, one file, within its size, and deaf to every name that a run can hold. --json of the same follows its schema."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hostile_store import HOSTILE, poison
from json_schema import violations

try:
    from checked_page import Page
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-html5lib)")
    sys.exit(77)

SCHEMA = json.loads((Path(__file__).resolve().parents[3] / "docs" / "reference" / "ddl-report.schema.json").read_text())
BUILD = Path(os.environ["DDL_BUILD"]).resolve()
KIB = 1024


def page_of(run, file=None):
    file = file or run.with_suffix(".html")
    subprocess.run([BUILD / "bin" / "ddl", "report", run, "--html", file], check=True)
    return Page(file.read_bytes())


def json_of(run):
    out = subprocess.run([BUILD / "bin" / "ddl", "report", run, "--json"], check=True, capture_output=True).stdout
    return json.loads(out.decode("utf-8"))


def check_json(run):
    wrong = list(violations(SCHEMA, json_of(run), SCHEMA))
    assert not wrong, (run.name, [w[:200] for w in wrong[:10]])


def check_one_line(run):
    out = subprocess.run([BUILD / "bin" / "ddl", "report", run, "--one-line"], check=True, capture_output=True).stdout.decode("utf-8")
    assert out.count("\n") == 1 and out.endswith("\n") and len(out) < 2000 and out[:-1].isprintable(), out


def check_hostile(run):
    plain = page_of(run)
    plain.check()
    fields = poison(run / "run.sqlite")
    assert fields > 40, fields
    page = page_of(run)
    page.check()
    shown = page.words()
    assert "<script>alert(1)</script>" in shown and "\\x1b" in shown and "\\u{202e}" in shown, "the names are shown, as words"
    assert "x" * 1000 not in shown, "long names are shortened"
    assert HOSTILE[:20] in json.dumps(json_of(run)["run"])
    check_one_line(run)
    folder = run.with_name("<b onclick=alert(1)>&quot;.ddl")
    shutil.copytree(run, folder)
    page_of(folder, run.with_suffix(".html")).check()


def check_output(run, folder):
    ddl = BUILD / "bin" / "ddl"
    report = [ddl, "report", run, "--html"]
    page = subprocess.run([*report, "-"], check=True, capture_output=True).stdout
    assert page == run.with_suffix(".html").read_bytes(), "the same run gives the same page"
    full = subprocess.run([*report, "/dev/full"], capture_output=True, text=True)
    assert full.returncode == 1 and "No space left" in full.stderr, full
    nowhere = subprocess.run([*report, folder / "no" / "such.html"], capture_output=True, text=True)
    assert nowhere.returncode == 1 and "such.html" in nowhere.stderr and not list(folder.glob("*.new")), nowhere
    old = folder / "old.html"
    old.write_text("old")
    subprocess.run([*report, old], check=True)
    assert old.read_bytes() == page
    for words in (["--json"], ["--csv", "v_step"], ["ranks"]):
        assert subprocess.run([*report, old, *words], capture_output=True).returncode == 2, words


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder], check=True)
        sizes = {}
        for run in sorted(folder.glob("*.ddl")):
            page = page_of(run)
            page.check()
            check_json(run)
            check_one_line(run)
            sizes[run.stem] = page.size
        print(", ".join(f"{run} {size / KIB:.0f} KiB" for run, size in sizes.items()))
        assert sizes["ranks64"] <= 300 * KIB and sizes["ranks1024"] <= 1024 * KIB, sizes
        check_output(folder / "small.ddl", folder)
        check_hostile(folder / "hostile.ddl")


if __name__ == "__main__":
    main()
