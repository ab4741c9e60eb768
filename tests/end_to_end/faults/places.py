#!/usr/bin/env python3
"""The run directory is unusable, or stops being usable while the job runs: the job does not notice, what was recorded before is there, and it is said."""
import os
import shutil

import fault
import job

GROUND = fault.PROGRAMS / "ground"
SURROUNDINGS = fault.PROGRAMS / "surroundings"


def ground(*arguments):
    return job.mpirun(2, [GROUND, *arguments])


def whole_profile(what, run, logs, why):
    """Events are missing and that is said; the profile is exact all the same."""
    fault.reported(what, run, why, "failure to grow the spool")
    db = job.reported_store(run)
    fault.complete(what, db, logs, events_too=False)
    kept = db.execute("select count(*) from event").fetchone()[0]
    job.check(0 < kept < 2 * 5 * 4000, f"{what}: {kept} events are kept")


def removed(folder):
    traced, run, logs = fault.both(folder, "removed", ground("shell", f"rm -rf {folder}/removed.ddl"))
    job.check("removed.ddl was removed while the job ran: nothing is left" in traced.stderr, f"removed: ddl record says {traced.stderr!r}")
    done = job.run([job.DDL, "report", run])
    job.check(done.returncode == 3 and "there is no" in done.stderr, f"removed: ddl report says {done.stderr!r}")


def moved(folder):
    command = ground("shell", f"mv {folder}/moved.ddl {folder}/elsewhere.ddl")
    job.run(command, check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "moved.ddl", CALL_LOG=folder / "moved.log")
    logs = {rank: fault.read_log(folder / f"moved.log.{rank}") for rank in range(2)}
    whole_profile("moved", folder / "elsewhere.ddl", logs, "removed, moved or replaced")


def replaced(folder):
    """Another directory under the same name: nothing of ours may go there."""
    swap = f"mv {folder}/replaced.ddl {folder}/aside.ddl; cp -r {folder}/aside.ddl {folder}/replaced.ddl; truncate -s 4096 {folder}/replaced.ddl/*.spool"
    run, log = folder / "replaced.ddl", folder / "replaced.log"
    job.run(ground("shell", swap), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=run, CALL_LOG=log)
    job.check(all(p.stat().st_size == 4096 for p in run.glob("*.spool")), "replaced: the copies grew")
    whole_profile("replaced", folder / "aside.ddl", {rank: fault.read_log(folder / f"replaced.log.{rank}") for rank in range(2)}, "removed, moved or replaced")


def truncated(folder):
    """Somebody cuts the spools: their mapped pages are gone, as they are where a network file system goes away."""
    def cut(name, size):
        return ground("shell", f"for spool in {folder}/{name}.ddl/*.spool; do test ! -e $spool || truncate -s {size} $spool; done")

    for name, size, what in (("cut to a page", 4096, "damaged chunk header"), ("cut to a third", 200000, "missing records")):
        name = name.replace(" ", "-")
        traced, run, logs = fault.both(folder, name, cut(name, size))
        fault.reported(name, run, "pages of the spool that their file system took away", what)
        db = job.reported_store(run)
        parts = db.execute("select count(*) from rank_part").fetchone()[0]
        job.check(parts == 0, f"{name}: {parts} ranks' computing and waiting are claimed of spools with holes")
    traced, run, logs = fault.preloaded(folder, "emptied", cut("emptied", 0))
    done = job.run([job.DDL, "report", run])
    job.check(done.returncode != 0 and "its header" in done.stderr, f"emptied: ddl report says {done.stderr!r}")


def link_or_file(folder):
    (folder / "target").mkdir()
    (folder / "link.ddl").symlink_to("target")
    (folder / "dangling.ddl").symlink_to("nowhere")
    (folder / "file.ddl").write_text("")
    for name in ("link", "dangling", "file"):
        fault.preloaded(folder, name, job.mpirun(2, [fault.ENDING, "finalize"]), says="is a file or a symbolic link")
    job.check(list((folder / "target").iterdir()) == [] and not (folder / "nowhere").exists(), "something was written through a link")


def limits(folder):
    for what, value, why in (("fsize", 200000, "limit on file sizes"), ("as", 0, "no memory or address range"), ("nofile", 0, "no file descriptor")):
        traced, run, logs = fault.both(folder, what, ground(what, value))
        whole_profile(what, run, logs, why)


def another_user(folder):
    if os.geteuid() != 0:
        print("another_user: not root, left out")
        return
    traced, run, logs = fault.both(folder, "uid", ground("uid", 65534))
    whole_profile("uid", run, logs, "not allowed to open its file again")


def no_rights_for_new_files(folder):
    """umask 0777, as somebody whom modes stop. (Open MPI itself cannot start then.)"""
    place = folder / "umask"
    place.mkdir()
    shutil.copy(job.LIBRARY, place)
    shutil.copy(fault.PROGRAMS / "daemon", place)
    os.chmod(folder, 0o755)
    command = ["sh", "-c", f"umask 0777 && cd {place} && exec ./daemon own"]
    if os.geteuid() == 0:
        os.chown(place, 65534, 65534)
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    run = place / "run.ddl"
    traced = job.run(command, LD_PRELOAD=place / job.LIBRARY.name, DDL_OUT=run, check_rc=0)
    job.check(traced.stderr == "", f"umask: {traced.stderr}")
    job.check(run.stat().st_mode & 0o777 == 0o700 and next(run.glob("*.spool")).stat().st_mode & 0o777 == 0o600, "umask: modes")
    layers = job.store(run).execute("select sum(calls) from v_layer where layer = 'work'").fetchone()[0]
    job.check(layers == 20100, f"umask: {layers} layers instead of 20100")
    fault.reported("umask", run, "nothing missing")


job.main(removed, moved, replaced, truncated, link_or_file, limits, another_user, no_rights_for_new_files)
