#!/usr/bin/env python3
"""A job whose locale writes 0,5: numbers in the schedule of a tuning and in the environment are what they are elsewhere."""
import shutil

import job

LOCALE = """LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
LC_CTYPE
copy "POSIX"
END LC_CTYPE
"""
BLOCK = "ddl-tune 1 tuner\nblock 0\nsteps 0 -\nfillers 1 60\nKNOB=0.25\nWHOLE=3\nCOMMA=0,5\nend\n"


def knobs(folder):
    if not shutil.which("localedef"):
        raise job.Skip("no localedef")
    (folder / "comma").write_text(LOCALE)
    job.run(["localedef", "-c", "-i", folder / "comma", "-f", "ANSI_X3.4-1968", folder / "xx_XX"])  # it warns of what the definition leaves out
    (folder / "schedule.0").write_text(BLOCK)
    for name, point in (("C", "."), ("xx_XX", ",")):
        run = folder / f"{name}.ddl"
        done = job.run([job.BUILD / "tests" / "programs" / "comma"], LD_PRELOAD=job.LIBRARY, DDL_OUT=run, LOCPATH=folder, LC_ALL=name, DDL_TUNE_FILE=folder / "schedule",
                       FROM_ENVIRONMENT="1.5", check_rc=0)
        if point not in done.stdout:
            raise job.Skip(f"no locale with a decimal comma: {done.stdout}")
        job.check(done.stdout == f"point {point} knob 250 whole 3000 comma 9000 environment 1500\n", f"{name}: {done.stdout!r}")
        told = dict(tuple(r) for r in job.store(run).execute("select name, value from value where name in ('ddl_tuned KNOB', 'ddl_tuned WHOLE')"))
        job.check(told == {"ddl_tuned KNOB": 0.25, "ddl_tuned WHOLE": 3}, f"{name}: the tuner is told {told}")


job.main(knobs)
