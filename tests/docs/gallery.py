#!/usr/bin/env python3
"""The pages of docs/gallery show what ddl prints, and tools/gallery sees it when they do not."""
import shutil
import sys
from pathlib import Path

import job
from job import check

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
TRACES = ROOT / ".." / "shared" / "traces"  # extra: needs ../shared, skipped without it


def gallery(*options):
    return job.run([sys.executable, "-B", ROOT / "tools" / "gallery", *options], DDL_BUILD=job.BUILD)


def test_pages_show_what_is_printed(folder):
    done = gallery("--check", *(["--traces", TRACES] if TRACES.exists() else []))
    print(done.stdout, end="")
    check(done.returncode == 0, done.stderr)
    if not TRACES.exists():
        print("pages of public traces: skipped, needs ../shared")
        check("without --traces: cloverleaf.md" in done.stdout, f"what was skipped is named: {done.stdout}")


def said_of(folder, name, change):
    """What the check says of a gallery in which something was changed, and whether the tool mends it."""
    shutil.copytree(GALLERY, folder / name)
    change(folder / name)
    done = gallery("--check", "--folder", folder / name, "demo.md")
    check(done.returncode == 1, f"{name}: exit code {done.returncode}: {done.stdout}")
    return done.stderr


def rewrite(path, old, new):
    text = path.read_text()
    check(old in text, f"{path.name} holds {old}")
    path.write_text(text.replace(old, new))


def test_what_is_stale_is_named_and_mended(folder):
    said = said_of(folder, "numbers", lambda g: rewrite(g / "demo.md", "10.1 ms", "10.2 ms"))
    check("demo.md is stale" in said, said)
    said = said_of(folder, "picture", lambda g: rewrite(g / "demo-late.svg", "<title", "<title "))
    check("demo-late.svg is stale" in said, said)
    for name in ("numbers", "picture"):
        check(gallery("--folder", folder / name, "demo.md").returncode == 0, f"{name}: mended")
        other = [p.name for p in GALLERY.iterdir() if p.read_bytes() != (folder / name / p.name).read_bytes()]
        check(not other, f"{name}: {other} differ from what they were")


def test_what_belongs_to_nothing_is_named(folder):
    said = said_of(folder, "left", lambda g: (g / "old-late.svg").write_text("<svg/>"))
    check("old-late.svg is in no page" in said, said)
    said = said_of(folder, "unlisted", lambda g: rewrite(g / "README.md", "(killed.md)", "(demo.md)"))
    check("killed.md is not in README.md" in said, said)


def test_commands_that_fail_are_errors(folder):
    said = said_of(folder, "failing", lambda g: rewrite(g / "demo.md", "$ ddl report train", "$ ddl report none"))
    check("ddl report none.ddl: exit code" in said, said)


if __name__ == "__main__":
    job.main(test_pages_show_what_is_printed, test_what_is_stale_is_named_and_mended,
             test_what_belongs_to_nothing_is_named, test_commands_that_fail_are_errors)
