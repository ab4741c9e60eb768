#!/usr/bin/env python3
"""Other PMPI tools in the chain, before and after us: one that forwards to the next MPI_X and one that calls PMPI_X. Everybody sees every call once."""
import fault
import job


def every_position(folder):
    expected = {"MPI_Allreduce": 40, "MPI_Isend": 40, "MPI_Waitall": 40}
    for tool in ("forward", "direct"):
        library = fault.PROGRAMS / f"libchain_{tool}.so"
        for position in ("before", "after"):
            what = f"{tool}_{position}"
            chain = [library, job.LIBRARY] if position == "before" else [job.LIBRARY, library]
            run, counts = folder / f"{what}.ddl", folder / f"{what}.counts"
            command = job.mpirun(2, [fault.ENDING, "finalize"])
            plain = job.run(command, LD_PRELOAD=library)
            traced = job.run(command, LD_PRELOAD=":".join(map(str, chain)), DDL_OUT=run, CHAIN_COUNTS=counts, CALL_LOG=folder / f"{what}.log")
            fault.same(what, plain, traced)
            seen = [{op: int(n) for op, n in (line.split() for line in p.read_text().splitlines())} for p in folder.glob(f"{what}.counts.*")]
            job.check(seen == [expected, expected], f"{what}: the other tool counted {seen}")
            fault.complete(what, job.store(run), {rank: fault.read_log(folder / f"{what}.log.{rank}") for rank in range(2)})
            fault.reported(what, run, "nothing missing")


def a_preload_of_the_job_itself(folder):
    """`ddl record` keeps what the job preloads."""
    library, counts = fault.PROGRAMS / "libchain_forward.so", folder / "own.counts"
    traced, run, logs = fault.both(folder, "own", job.mpirun(2, [fault.ENDING, "finalize"]), LD_PRELOAD=library, CHAIN_COUNTS=counts)
    fault.complete("own preload", job.store(run), logs)
    job.check(len(list(folder.glob("own.counts.*"))) >= 2, "the job's own preloaded library was not there")


job.main(every_position, a_preload_of_the_job_itself)
