#!/usr/bin/env python3
"""Collectives of a mock of Gloo: group, members, number, bytes and waiting of each are known; what was not seen being made is passed through."""
import os
import re
from statistics import median

import job

JOB = os.environ["GLOO_JOB"]


def ranks_of(folder, name, *options):
    shared = folder / f"{name}.shared"
    shared.write_bytes(bytes(4096))
    command = " ".join([JOB, *options])
    return ["sh", "-c", f"export FAKE_GLOO={shared} WORLD_SIZE=2; RANK=0 {command} & RANK=1 {command}; wait $!"]


def two_ranks(folder):
    plain = job.run(ranks_of(folder, "plain"), check_rc=0)
    done = job.record(folder / "gloo.ddl", ranks_of(folder, "recorded"), check_rc=0)
    job.check(sorted(plain.stdout.splitlines()) == sorted(done.stdout.splitlines()) == ["rank 0 ends", "rank 1 ends"], f"{plain.stdout} {done.stdout}")
    db = job.store(folder / "gloo.ddl")
    rows = lambda sql: [tuple(row) for row in db.execute(sql)]
    job.check(rows("select label, size, kind, group_concat(rank) from (select c.label, c.size, c.kind, m.rank from communicator c join communicator_member m on m.communicator = c.id"
                   " where c.kind = 'gloo' order by c.label, m.comm_rank) group by label") == [("gloo", 2, "gloo", "0,1"), ("pair", 2, "gloo", "1,0")],
              f"groups {rows('select label, size, kind from communicator')}")
    job.check(rows("select op, comm, source, count(*), sum(payload_bytes), count(distinct seq) from v_collective group by op order by op") ==
              [("gloo::allgather", "pair", "gloo", 24, 22 * 512, 12), ("gloo::allreduce", "gloo", "gloo", 40, 40 * 4000, 20),
               ("gloo::broadcast", "pair", "gloo", 2, 2 * 240, 1), ("gloo::scatter", "pair", "gloo", 2, 1024, 1)],
              f"collectives {rows('select op, comm, source, count(*), sum(payload_bytes), count(distinct seq) from v_collective group by op order by op')}")
    late = rows("select rank, count(*), sum(wait_ns >= 30e6) from v_collective where op = 'gloo::allreduce' group by rank order by rank")
    job.check([row[:2] for row in late] == [(0, 20), (1, 20)] and late[0][2] >= 15 and late[1][2] <= 5, f"waits of 30 ms and more: {late}")
    # A job of half a second on a busy machine may be told that recording took its part.
    first = db.execute("select id, rank from finding where id <> 'heavy_recording' order by position").fetchone()
    job.check(first is not None and tuple(first) == ("straggler", 1), f"first finding {first and tuple(first)}")
    job.check(not rows("select kind from loss"), f"{rows('select kind, count from loss')}")


def another_thread(folder):
    """A rank whose background thread waits in one long call: the training thread computed until that call began and was blocked from then on, by its own clock. Before calls were sampled
    where they begin, the blocked time was spread over the computing. The kernel tells what a thread was ready for only once it runs again. What the training thread communicates itself
    beside that (monitored_barrier, a message) changes nothing."""
    for what in ("background", "tells"):
        done = job.record(folder / f"{what}.ddl", ranks_of(folder, what, what), check_rc=0)
        own = {int(step): int(ns) for step, ns in re.findall(r"rank 0 step (\d+) blocked (\d+)", done.stdout)}
        db = job.store(folder / f"{what}.ddl")
        told = {row[0]: row[1] for row in db.execute("select step, exposed_ns from v_step where rank = 0 and exposed_ns is not null")}
        shares = [told[step] / own[step] for step in own if step in told]
        job.check(len(own) == 20 and len(shares) >= 15 and 0.8 < median(shares) < 1.1, f"{what}: blocked in communication, of what the thread itself says: {shares}")
        barriers = db.execute("select count(*) from event e join op o on o.id = e.op where o.name = 'gloo::monitored_barrier'").fetchone()[0]
        job.check(barriers == 40 * (what == "tells"), f"{what}: {barriers} barriers")


def seldom(folder):
    """A background thread that communicates in every eighth step only, while the training thread ends ranges all the time: it is sampled from the first collective on. Before, its own
    looks put off those of the other thread, up to a second. Where the time of the steps before went is not known, and the report says of how many it is."""
    job.record(folder / "seldom.ddl", ranks_of(folder, "seldom", "seldom"), check_rc=0)
    db = job.store(folder / "seldom.ddl")
    first = [row[0] for row in db.execute("select min(step) from v_step where compute_ns is not null group by rank order by rank")]
    known = db.execute("select count(*) from (select step from v_step where compute_ns is not null group by step having count(*) = 2)").fetchone()[0]
    job.check(len(first) == 2 and max(first) <= 16 and known >= 140, f"first step that is known of each rank: {first}; {known} of 160 are known of both")
    text = " ".join(job.report(folder / "seldom.ddl").stdout.split())
    said = re.search(r"where the time goes is known of (\d+) of 160: the others were not sampled on every rank", text)
    job.check(said and int(said[1]) == known, f"{known} steps are known: {text[:900]}")


def messages(folder):
    """send, recv, isend, irecv, wait and monitored_barrier, which go through virtual functions of Gloo, as python/ddl_hooks tells of them."""
    job.record(folder / "messages.ddl", ranks_of(folder, "messages", "messages"), check_rc=0)
    db = job.store(folder / "messages.ddl")
    rows = lambda sql: [tuple(row) for row in db.execute(sql)]
    told = rows("select comm, source, destination, tag, bytes, send_op, receive_op, count(*) from v_message where why is null group by tag")
    job.check(told == [("pipe", 1, 0, 3, 1000, "gloo::send", "gloo::recv", 20), ("pipe", 0, 1, 7, 2000, "gloo::isend", "gloo::irecv", 20)], f"messages {told}")
    calls = rows("select op, sum(calls) from v_call where op like 'gloo::%' group by op order by op")
    job.check(calls == [("gloo::irecv", 20), ("gloo::isend", 20), ("gloo::monitored_barrier", 40), ("gloo::recv", 20), ("gloo::send", 20), ("gloo::wait", 40)], f"calls {calls}")
    # What the job slept: each wait is that long, and as much longer as the other rank was held up.
    for tag, asleep in (3, 40e6), (7, 20e6):
        waits = [row[0] for row in rows(f"select late_sender_wait_ns from v_message where tag = {tag}")]
        job.check(len(waits) == 20 and asleep * 0.95 < median(waits) < asleep * 1.5, f"waits for messages with tag {tag}: {waits}")
    barriers = rows("select count(*), count(distinct seq), count(wait_ns) from v_collective where op = 'gloo::monitored_barrier'")
    job.check(barriers == [(40, 20, 40)], f"barriers {barriers}")
    job.check(not rows("select kind from loss"), f"{rows('select kind, count from loss')}")


job.main(two_ranks, another_thread, seldom, messages)
