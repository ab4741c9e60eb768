#!/usr/bin/env python3
"""Axes of parallelism of jobs over NCCL: from the names that a program gives its communicators, from NCCL's profiler where our wrappers see no call, and from what a
communicator was split from and with; a configuration that is too old to have a name is not read."""
import job
import nccl_job

RANKS = 4
SPLITS = [("0,1", 1, 0), ("0,2", 2, 0), ("1,3", 2, 1), ("2,3", 1, 1)]


def members(db):
    return {row["id"]: row["ranks"] for row in db.execute(
        "SELECT communicator AS id, group_concat(rank) AS ranks FROM (SELECT * FROM communicator_member ORDER BY communicator, comm_rank) GROUP BY 1")}


def told(db):
    who = members(db)
    return sorted((who[row["communicator"]], row["axis"], row["source"]) for row in db.execute("SELECT communicator, axis, source FROM communicator_axis"))


def run(folder, name, *arguments, program="nccl_axes", **extra):
    bare = nccl_job.torchrun(program, folder, RANKS, None, arguments, **extra)
    recorded = nccl_job.torchrun(program, folder, RANKS, folder / f"{name}.ddl", arguments, **extra)
    job.check(recorded == bare, f"{name}: output {recorded} instead of {bare}")
    db = job.store(folder / f"{name}.ddl")
    job.check(job.run([job.DDL, "analyze", folder / f"{name}.ddl"]).returncode == 0, f"{name}: ddl analyze")
    return db


def from_names(folder):
    db = run(folder, "named")
    want = [("0,1", "tensor", "name"), ("0,1,2,3", "all ranks", "shape"), ("0,2", "data", "name"), ("1,3", "data", "lineage"), ("2,3", "tensor", "name")]
    job.check(told(db) == want, f"axes {told(db)}")
    who = members(db)
    splits = sorted((who[row["communicator"]], row["split"], row["color"]) for row in db.execute("SELECT * FROM communicator_split"))
    job.check(splits == SPLITS, f"splits {splits}")
    labels = sorted(row["label"] for row in db.execute("SELECT label FROM communicator WHERE kind = 'nccl'"))
    want = ["DATA_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP#2", "ncclCommInitRankConfig#1", "ncclCommSplit#1"]
    job.check(labels == want, f"labels {labels}")


def without_names(folder):
    shapes = [("0,1", "stride 1", "shape"), ("0,1,2,3", "all ranks", "shape"), ("0,2", "stride 2", "shape"), ("1,3", "stride 2", "shape"), ("2,3", "stride 1", "shape")]
    for how in ("unsaid", "old", "small"):
        found = told(run(folder, how, how))
        job.check(found == shapes, f"{how}: axes {found}")


def from_the_profiler(folder):
    """Opened by dlopen, so that only NCCL's profiler tells of it: it hands the name on, also to a child that is split off without a configuration."""
    for version in (22704, 22809, 22903, 23102):
        plugin = {"NCCL_PROFILER_PLUGIN": str(job.LIBRARY), "FAKE_NCCL_VERSION": version}
        found = told(run(folder, f"plugin{version}", program="nccl_axes_dlopen", **plugin))
        want = [("0,1", "tensor", "name"), ("0,1,2,3", "all ranks", "shape"), ("0,2", "data", "name"), ("1,3", "stride 2", "shape"), ("2,3", "tensor", "name")]
        job.check(found == want, f"NCCL {version}: axes {found}")


if __name__ == "__main__":
    job.main(from_names, without_names, from_the_profiler)
