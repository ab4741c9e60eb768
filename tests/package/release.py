#!/usr/bin/env python3
"""tools/release prepare in a clone of this repository: what it writes, commits and tags, and what it refuses."""
import datetime
import subprocess
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]


def prepare(folder):
    clone = folder / "clone"
    job.run(["git", "clone", "-q", ROOT, clone], check_rc=0)
    # What is tried is the tree as it lies here, committed or not.
    for name in subprocess.run(["git", "-C", ROOT, "ls-files", "-m", "-o", "--exclude-standard"], capture_output=True, text=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
            (clone / name).chmod((ROOT / name).stat().st_mode)
    git = ["git", "-C", clone, "-c", "user.name=t", "-c", "user.email=t@t"]
    job.run([*git, "add", "-A"], check_rc=0)
    job.run([*git, "commit", "-q", "--allow-empty", "-m", "as it lies here"], check_rc=0)
    who = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}

    def release(*words):
        return job.run([clone / "tools" / "release", *words], **who)

    def refused(words, *arguments, code=1):
        done = release(*arguments)
        job.check(done.returncode == code and words in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")

    refused("invalid version '1.2'", "prepare", "1.2")
    refused("is below the version of the sources", "prepare", "0.0.9")
    refused("usage: tools/release", "prepare", code=2)
    refused("is not the commit of tag", "packages")
    (clone / "left").write_text("over")
    refused("not committed", "prepare", "97.0.1")
    (clone / "left").unlink()

    done = release("prepare", "97.0.1")
    job.check(done.returncode == 0, f"prepare: {done.stderr}")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    text = {name: (clone / name).read_text() for name in ("CMakeLists.txt", "CITATION.cff", "CHANGELOG.md", "docs/how-to/install.md", "docs/examples/pytorchjob.yaml")}
    job.check("project(ddl VERSION 97.0.1 " in text["CMakeLists.txt"], "no version in CMakeLists.txt")
    job.check(f"version: 97.0.1\ndate-released: {today}\n" in text["CITATION.cff"] and text["CITATION.cff"].count("date-released") == 1, text["CITATION.cff"])
    job.check(f"## Unreleased\n\n## 97.0.1 - {today}\n\n" in text["CHANGELOG.md"], text["CHANGELOG.md"][:300])
    job.check("ddl-97.0.1-linux" in text["docs/how-to/install.md"], "the install page names an earlier archive")
    job.check("GIT_TAG v97.0.1)" in text["docs/how-to/install.md"], "the install page names an earlier tag")
    job.check(text["docs/examples/pytorchjob.yaml"].count("localhost/ddl:97.0.1") == 2, "an example names an earlier image")
    tagged = job.run([*git, "rev-parse", "v97.0.1^{commit}", "HEAD"]).stdout.split()
    job.check(len(set(tagged)) == 1, f"the tag is not HEAD: {tagged}")
    job.check(job.run([*git, "status", "--porcelain"]).stdout == "", "something was not committed")
    refused("there is a tag v97.0.1 already", "prepare", "97.0.1")
    refused("says nothing under 'Unreleased'", "prepare", "97.0.2")


job.main(prepare)
