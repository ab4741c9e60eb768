#!/usr/bin/env python3
"""Blocks of commands in README and the how-tos do what they say: each page's are run in a folder with the runs and
programs that they name.

    blocks.py quick    but for those that start jobs
    blocks.py all      all
    blocks.py all docs/how-to/top.md

A block is indented by four blanks, or fenced. Every one is run, or stands in not_run.txt with the reason. In one that
shows a dialogue ("$ command"), what the command prints holds every line that is shown, in their order; "..." is any
number of lines.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "first-report.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
STARTS_JOBS = re.compile(r"\bmpirun\b|\btools/")
TIMEOUT_S = 300


def blocks_of(text):
    """(number of the first line, lines)"""
    found, block, fenced, after_blank = [], None, False, True
    for number, line in enumerate([*text.splitlines(), "end"], 1):
        if line.startswith("```"):
            fenced = not fenced
            if fenced:
                block = []
                found.append((number + 1, block))
            else:
                block = None
        elif fenced:
            block.append(line)
        elif line.startswith("    ") and (block is not None or after_blank):
            if block is None:
                block = []
                found.append((number, block))
            block.append(line[4:])
        elif line.strip():
            block = None
        elif block is not None:
            block.append("")
        after_blank = not line.strip()
    return [(number, "\n".join(lines).rstrip("\n").splitlines()) for number, lines in found]


def not_run():
    """{(page, begin of its first line): reason}"""
    rows = {}
    for line in (Path(__file__).parent / "not_run.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            page, rest = line.split(" | ", 1)
            first, reason = rest.rsplit(" | ", 1)
            rows[page, first] = reason
    return rows


PUBLISHED = {"tensors.csv": "param_tensors_resnet50.csv", "vgg16.csv": "pipedream_profile_vgg16.csv",
             "layers.csv": "pipedream_profile_vgg16.csv"}
PAIRS = [(a, b) for a in range(4) for b in range(4) if a != b]
WRITTEN = {
    # Four places in a square, which all send to all.
    "square.csv": "from,to,gb_per_s\n" + "".join(f"p{a},p{(a + 1) % 4},10\n" for a in range(4)),
    "all.csv": "from,to,bytes\n" + "".join(f"{a},{b},1000000000\n" for a, b in PAIRS),
    # Three racks of 16 hosts.
    "topology.conf": "".join(f"SwitchName=rack{r} Nodes=node[{16 * r + 1}-{16 * r + 16}]\n" for r in range(3)) +
                     "SwitchName=top Switches=rack[0-2]\n",
    "epochs.csv": "batch,epochs\n256,50\n1024,52\n4096,60\n8192,72\n",
}


def script(path, *lines):
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    path.chmod(0o755)


def furnish(folder, text):
    """What pages take for granted: ddl on the path, recorded runs under the names that they use, a program."""
    folder.mkdir()
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(job.BUILD)
    (folder / "tests").symlink_to(ROOT / "tests")
    for name, of in PUBLISHED.items():
        (folder / name).symlink_to(ROOT / "tests" / "published" / of)
    for name, content in WRITTEN.items():
        (folder / name).write_text(content)
    demo = job.BUILD / "share" / "ddl" / "demo" / "train.ddl"
    for name in set(re.findall(r"(?<![\w/$-])([\w-]+\.ddl)\b", text)):
        shutil.copytree(demo, folder / name, ignore=shutil.ignore_patterns("run.sqlite*"))
    arguments = 'for a; do shift; [ "$a" = ... ] || set -- "$@" "$a"; done'
    script(folder / "my_program", f"exec {job.BUILD}/tests/programs/sleepy_job --ms 5 --steps 20")
    script(folder / "train", arguments, f'exec {job.TRAIN} "$@"')


def dialogue(lines):
    """[(command, lines that it prints)] of a block in which commands are those behind "$"."""
    turns, at = [], 0
    while at < len(lines):
        command = lines[at][2:]
        while command.endswith("\\"):
            at += 1
            command = command[:-1] + lines[at].strip()
        shown = []
        at += 1
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        turns.append((command, shown))
    return turns


def starts_jobs(lines):
    commands = [command for command, _ in dialogue(lines)] if lines[0].startswith("$ ") else lines
    return any(map(STARTS_JOBS.search, commands))


def in_shell(text, folder):
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = job.environment(HOME=home, PATH=f"{job.BUILD}/bin:{os.environ['PATH']}")
    return subprocess.run(["bash", "-eu", "-c", text], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=TIMEOUT_S)


def is_shown(wanted, printed):
    """The first line of `wanted` that is not printed behind the one before it; None: all are."""
    at = 0
    for line in wanted:
        if line.strip() in ("", "..."):
            continue
        while at < len(printed) and printed[at].rstrip() != line.rstrip():
            at += 1
        if at == len(printed):
            return line
        at += 1
    return None


def run_block(place, lines, folder):
    for name in re.findall(r"-o ([\w-]+\.ddl)", "\n".join(lines)):  # a run is never overwritten
        shutil.rmtree(folder / name)
    if not lines[0].startswith("$ "):
        done = in_shell("\n".join(lines), folder)
        told = done.stdout[-1500:] + done.stderr[-1500:]
        job.check(done.returncode == 0, f"{place}: exit code {done.returncode}\n{told}")
        return
    for command, shown in dialogue(lines):
        done = in_shell(command, folder)
        job.check(done.returncode == 0, f"{place}: {command}: exit code {done.returncode}\n{done.stderr[-1500:]}")
        lost = is_shown(shown, done.stdout.splitlines())
        job.check(lost is None, f"{place}: {command}: does not print, where it should\n{lost}\nbut\n{done.stdout}")


def main():
    which, *chosen = sys.argv[1:] or [""]
    if which not in ("quick", "all"):
        sys.exit(__doc__)
    pages = [page for page in PAGES if not chosen or str(page.relative_to(ROOT)) in chosen]

    def every_block(folder):
        excused, used, ran, left_out, later = not_run(), set(), 0, 0, 0
        for page in pages:
            name, text = str(page.relative_to(ROOT)), page.read_text()
            blocks = blocks_of(text)
            here = folder / page.stem
            furnish(here, "\n".join("\n".join(lines) for _, lines in blocks))
            for number, lines in blocks:
                if excuse := next((key for key in excused if key[0] == name and lines[0].startswith(key[1])), None):
                    used.add(excuse)
                    left_out += 1
                elif which == "quick" and starts_jobs(lines):
                    later += 1
                else:
                    ran += 1
                    run_block(f"{name}:{number}", lines, here)
        stale = {key for key in excused if key[0] in {str(page.relative_to(ROOT)) for page in pages}} - used
        job.check(not stale, f"not_run.txt names blocks that are not there: {stale}")
        print(f"{ran} blocks were run, {left_out} are excused, {later} start jobs")

    job.main(every_block)


main()
