#!/usr/bin/env python3
"""Stores with flipped bits, cut ones, and ones with pages of another run: a verb answers as it did before (exit code 0, from the spools), or not at all
(exit code 3, where there are none). DDL_TEST_STORES: how many with flipped bits (20), a tenth of it of each other kind."""
import os
import random
import shutil

import fault
import job

PAGE = 4096  # the smallest that a store has: pages of another run are laid where pages begin


def flipped(draw, whole, _, number):
    damaged = bytearray(whole)
    for _ in range(1 if number % 2 == 0 else 20):
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def cut(draw, whole, _, number):
    return whole[:-1 - number] if number % 2 == 0 else whole[:draw.randrange(len(whole))]


def with_pages(draw, whole, other, _):
    damaged = bytearray(whole)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(min(len(whole), len(other)) // PAGE) * PAGE
        damaged[at:at + PAGE] = other[at:at + PAGE]
    return bytes(damaged)


def damaged(folder):
    flips = int(os.environ.get("DDL_TEST_STORES", "20"))
    job.run(job.mpirun(2, [fault.ENDING, "finalize"]), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "run.ddl")
    job.run(job.mpirun(3, [fault.ENDING, "finalize"]), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "other.ddl")
    for run in ("run.ddl", "other.ddl"):
        job.report(folder / run)
    run, bare = folder / "run.ddl", folder / "alone" / "run.ddl"  # of one name, which every answer tells
    bare.mkdir(parents=True)
    shutil.copy(run / "run.sqlite", bare)
    whole, other = ((folder / name / "run.sqlite").read_bytes() for name in ("run.ddl", "other.ddl"))
    verbs = {"report": ["report", "--json"],
             "query": ["query", "SELECT * FROM event ORDER BY rowid", "--json"],
             "export": ["export", "csv", "--table", "v_rank"],
             "analyze": ["analyze"]}

    def ask(verb, where):
        words = verbs[verb]
        first = 2 if words[0] == "export" else 1
        return job.run([job.DDL, *words[:first], "run.ddl", *words[first:]], cwd=where)

    before = {}
    for verb in verbs:
        before[verb] = ask(verb, folder).stdout
        job.check(len(before[verb]) > 100, f"{verb}: says {before[verb]!r}")
        job.check(ask(verb, bare.parent).stdout == before[verb], f"{verb}: another answer without spools")
    draw = random.Random(25)
    for damage, cases in ((flipped, flips), (cut, flips // 10), (with_pages, flips // 10)):
        answered = refused = 0
        for number in range(cases):
            data = damage(draw, whole, other, number)
            while data == whole:
                data = damage(draw, whole, other, number)
            verb = list(verbs)[number // 2 % len(verbs)]
            what = f"{damage.__name__} {number}, {verb}"
            for store in (run / "run.sqlite", bare / "run.sqlite"):
                store.write_bytes(data)
            again = ask(verb, folder)
            answered += job.check(again.returncode == 0 and again.stdout == before[verb],
                                  f"{what}, with spools: exit code {again.returncode}, {again.stderr!r}, {len(again.stdout)} bytes of {len(before[verb])}")
            alone = ask(verb, bare.parent)
            refused += job.check(alone.returncode == 3 and alone.stdout == "" and "error: " in alone.stderr,
                                 f"{what}, alone: exit code {alone.returncode}, {alone.stderr!r}, {alone.stdout[:200]!r}")
        print(f"{damage.__name__}: {cases} stores, with spools {answered} answered as before, without {refused} refused with exit code 3")


if __name__ == "__main__":
    job.main(damaged)
