"""What programs/gpu_job.c and gpu_pair.c do against the mocks with the virtual clock, computed a second time from the rules in tests/mocks/fake_cuda.h and fake_nccl.c,
and what docs/specification.md says of that: where each step of the GPU went, and what it did for each layer."""
from collections import namedtuple

CALL_NS, LATENCY_NS, NCCL_LATENCY_NS, NCCL_NS = 1000, 2000, 10000, 90000
COMPUTE, COMMUNICATE, DEFAULT = 8, 9, 7
GEMM, NCCL = "void gemm<float>(float const*, float*)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NCCL_GENERIC = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

Row = namedtuple("Row", "kind name phase layer step stream start_ns duration_ns bytes")  # as in v_gpu; ns since the recorder's begin


class Job:
    """One rank. With `waits` its collectives are NCCL's, and play() stops at each until it is told when the last rank came."""

    def __init__(self, steps, graph=False, rank=0, waits=False):
        self.now, self.ready, self.rows, self.steps = 0, {COMPUTE: 0, COMMUNICATE: 0, DEFAULT: 0}, [], []
        self.launched, self.waited = {}, {}  # by row: when its launch was entered; how long its kernel waited for other ranks
        self.awaited = {}  # by row: end and class of what its stream was told to wait for
        self.inputs = []  # when the host was in layer "load_batch"
        self.phase = self.layer = self.step = None
        self.gemm_ns = 50000 if rank == 0 else 150000
        self.playing = self.play(steps, graph, waits)
        if not waits:
            next(self.playing, None)

    def play(self, steps, graph, waits):
        if graph:
            self.now += 3 * CALL_NS
        for step in range(steps):
            self.step, begin = step, self.now
            self.now += 3000
            self.phase = "forward"
            self.inputs.append((self.now, self.now + CALL_NS))
            self.give("memcpy", "[CUDA memcpy HtoD]", "load_batch", COMPUTE, 20000, 200000)
            layers = [("fc1", GEMM, self.gemm_ns), ("fc1", "relu", 5000), ("fc2", GEMM, 30000)]
            entered = self.now
            for layer, name, ns in layers:
                self.give("kernel", name, layer, COMPUTE, ns, entered=entered if graph else None)
            if graph:
                self.now = entered + CALL_NS
            self.phase = "backward"
            event = self.give("kernel", "backward", "fc2", COMPUTE, 40000)
            self.now += CALL_NS  # the event is recorded
            self.give("kernel", "backward", "fc1", COMPUTE, 70000)
            self.rows.append(Row("sync", "[CUDA synchronisation: stream wait for event]", "backward", "fc1", step, COMMUNICATE, self.now, CALL_NS, None))
            self.now += CALL_NS
            self.ready[COMMUNICATE] = max(self.ready[COMMUNICATE], event)
            if waits:
                start = max(self.now + NCCL_LATENCY_NS, self.ready[COMMUNICATE])
                last = yield start
                self.give("kernel", NCCL_GENERIC, "fc1", COMMUNICATE, last + NCCL_NS - start, start=start)
                self.waited[self.rows[-1]] = last - start
            else:
                self.give("kernel", NCCL, "fc1", COMMUNICATE, NCCL_NS)
            self.phase = "update"
            self.give("memset", "[CUDA memset]", None, COMMUNICATE, 500, 50000)
            self.give("memcpy", "[CUDA memcpy PtoP]", None, COMMUNICATE, 100, 1000)
            end = self.give("memcpy", "[CUDA memcpy DtoH]", None, DEFAULT, 10000, 50000)
            self.now = max(self.now - CALL_NS, end) + CALL_NS  # cudaMemcpy waits
            self.synchronize()
            self.give("kernel", "sgd", None, COMPUTE, 3000)
            self.synchronize()
            self.steps.append((step, begin, self.now - begin))

    def synchronize(self):
        done = max(self.now, *self.ready.values())
        self.rows.append(Row("sync", "[CUDA synchronisation: context]", "update", None, self.step, None, self.now, done - self.now, None))
        self.now = done + CALL_NS

    def give(self, kind, name, layer, stream, duration_ns, count=None, entered=None, start=None):
        launched = self.now if entered is None else entered
        start = max(launched + LATENCY_NS, self.ready[stream]) if start is None else start
        self.ready[stream] = start + duration_ns
        self.rows.append(Row(kind, name, self.phase, layer, self.step, stream, start, duration_ns, count))
        self.launched[self.rows[-1]] = launched
        self.now += CALL_NS
        return start + duration_ns


class Gpu:
    """One of the GPUs of gpu_pair.c: what Job has of its one."""

    def __init__(self):
        self.rows, self.steps, self.inputs = [], [], []
        self.launched, self.waited, self.awaited = {}, {}, {}


class Pair:
    """One process of gpu_pair.c with its two GPUs; play() stops at each collective until it is told when the last rank of all processes came. events_known: CUPTI tells
    which recording of an event was waited for; else nobody knows of a wait across contexts."""

    def __init__(self, steps, threads, events_known, process=0):
        self.gpus, self.host, self.now = (Gpu(), Gpu()), [], 0
        self.streams = {8: 0, 9: 0, 10: 0, 11: 0, 12: 0}  # compute and communicate of GPU 0, of GPU 1, relay: when each is free
        self.gemm_ns = (50000, 150000) if process == 0 else (180000, 180000)
        self.playing = self.play(steps, threads, events_known)

    def give(self, gpu, kind, name, layer, stream, duration_ns, count=None):
        launched, self.now = self.now, self.now + CALL_NS
        start = max(launched + LATENCY_NS, self.streams[stream])
        return self.ran(gpu, Row(kind, name, None, layer, self.step, stream, start, duration_ns, count), launched)

    def ran(self, gpu, row, launched):
        self.streams[row.stream] = row.start_ns + row.duration_ns
        self.gpus[gpu].rows.append(row)
        self.gpus[gpu].launched[row] = launched
        return row

    def wait(self, stream, until, layer):
        self.streams[stream] = max(self.streams[stream], until)
        self.host.append(Row("sync", "[CUDA synchronisation: stream wait for event]", None, layer, self.step, stream, self.now, CALL_NS, None))
        self.now += CALL_NS

    def play(self, steps, threads, events_known):
        for self.step in range(steps):
            begin = self.now
            self.now += 3000
            for gpu in (0, 1):
                self.give(gpu, "kernel", "gemm", "fc1", 8 + 2 * gpu, self.gemm_ns[gpu])
                self.now += CALL_NS  # the event is recorded
                self.wait(9 + 2 * gpu, self.streams[8 + 2 * gpu], "fc1")
            entered = [self.now, self.now if threads else self.now + CALL_NS]  # both at once, or one after the other
            starts = [max(entered[gpu] + NCCL_LATENCY_NS, self.streams[9 + 2 * gpu]) for gpu in (0, 1)]
            last = yield max(starts)
            for gpu in (0, 1):
                row = Row("kernel", NCCL_GENERIC, None, None, self.step, 9 + 2 * gpu, starts[gpu], last + NCCL_NS - starts[gpu], None)
                self.gpus[gpu].waited[self.ran(gpu, row, entered[gpu])] = last - starts[gpu]
            self.now += 2 * CALL_NS
            self.give(1, "memcpy", "[CUDA memcpy DtoH]", "fc2", 11, 150000, 1500000)
            copied, self.now = self.streams[11], self.now + CALL_NS
            self.give(1, "kernel", BROADCAST, "fc2", 11, 120000)
            collected, self.now = self.streams[11], self.now + CALL_NS
            self.wait(8, copied, "fc2")
            after_copy = self.give(0, "kernel", "after_copy", "fc2", 8, 10000)
            self.wait(12, collected, "fc2")
            self.now += CALL_NS  # the relay's event is recorded
            self.wait(8, collected, "fc2")
            after_collective = self.give(0, "kernel", "after_collective", "fc2", 8, 10000)
            if events_known:
                self.gpus[0].awaited[after_copy] = (copied, "copy")
                self.gpus[0].awaited[after_collective] = (collected, "comm")
            for _ in self.gpus:
                done = max(self.now, *self.streams.values())
                self.host.append(Row("sync", "[CUDA synchronisation: context]", None, None, self.step, None, self.now, done - self.now, None))
                self.now = done + CALL_NS
            for gpu in self.gpus:
                gpu.steps.append((self.step, begin, self.now - begin))


def pairs(steps, threads, events_known, processes=1):
    """The processes of one job of gpu_pair.c."""
    return together([Pair(steps, threads, events_known, process) for process in range(processes)])


def ranks(steps, graph=False, count=2):
    """The ranks of a job whose collectives are NCCL's."""
    return together([Job(steps, graph, rank, waits=True) for rank in range(count)])


def together(jobs):
    """Each collective ends when the last rank has come."""
    arrivals = [next(job.playing) for job in jobs]
    while arrivals:
        last = max(arrivals)
        arrivals = [arrival for job in jobs if (arrival := send(job.playing, last)) is not None]
    return jobs


def send(playing, value):
    try:
        return playing.send(value)
    except StopIteration:
        return None


# ---------------------------------------------------------------------------------------------------------------- the specification

ON_DEVICE = ("kernel", "memcpy", "memset")


def is_collective(row):
    return row.name in (NCCL, NCCL_GENERIC, BROADCAST)


def computes(row):
    return row.kind == "kernel" and not is_collective(row)


def length(rows, begin, end, *conditions):
    """For each condition, a function of the rows that run at a moment: how long it holds in [begin, end)."""
    cuts = sorted({begin, end, *(t for row in rows for t in (row.start_ns, row.start_ns + row.duration_ns) if begin < t < end)})
    sums = [0] * len(conditions)
    for left, right in zip(cuts, cuts[1:]):
        running = [row for row in rows if row.start_ns <= left and row.start_ns + row.duration_ns >= right]
        sums = [s + (right - left) * bool(condition(running)) for s, condition in zip(sums, conditions)]
    return sums


def parts(job):
    """Per step: its length, a kernel that computes, one of a collective, a copy or memset, a collective and nothing that computes, nothing."""
    rows = [row for row in job.rows if row.kind in ON_DEVICE]
    result = []
    for step, begin, duration in job.steps:
        result.append((step, duration, *length(
            rows, begin, begin + duration, lambda running: any(map(computes, running)), lambda running: any(map(is_collective, running)),
            lambda running: any(row.kind != "kernel" for row in running), lambda running: any(map(is_collective, running)) and not any(map(computes, running)),
            lambda running: not running)))
    return result


def waits(job):
    """Per step: time in which kernels of collectives only waited for another rank; of that, in which nothing computed (C5)."""
    rows = [row for row in job.rows if row.kind in ON_DEVICE]
    waiting = [row._replace(duration_ns=waited) for row, waited in job.waited.items()]
    moving = [row._replace(start_ns=row.start_ns + waited, duration_ns=row.duration_ns - waited) for row, waited in job.waited.items()]
    only = [row._replace(kind="waiting") for row in waiting] + [row._replace(kind="moving") for row in moving]

    def waits_now(running):
        return any(row.kind == "waiting" for row in running) and not any(row.kind == "moving" for row in running)

    return [(step, *length(only + [row for row in rows if computes(row)], begin, begin + duration, waits_now,
                           lambda running: waits_now(running) and not any(map(computes, running)))) for step, begin, duration in job.steps]


def idling(job):
    """Per step: idle time by specification.md "Idling of GPUs": input, host, launch, kernel, for a collective, for a copy, other."""
    rows = sorted((row for row in job.rows if row.kind in ON_DEVICE), key=lambda row: (row.start_ns, -row.duration_ns))
    result = []
    for step, begin, duration in job.steps:
        end, sums = begin + duration, dict.fromkeys(("input", "host", "launch", "kernel", "comm", "copy", "other"), 0)
        at = begin
        while at < end:
            covered = max((row.start_ns + row.duration_ns for row in rows if row.start_ns <= at < row.start_ns + row.duration_ns), default=at)
            if covered > at:
                at = covered
                continue
            ender = next((row for row in rows if row.start_ns > at), None)
            to = min(end, ender.start_ns) if ender else end
            launched = job.launched[ender] if ender else None
            turn = min(max(at, launched), to) if ender else at  # until here the host was late, or nobody knows

            def loading(left, right):
                return sum(max(0, min(right, i_end) - max(left, i_begin)) for i_begin, i_end in job.inputs)

            sums["input"] += loading(at, to)
            before, after = turn - at - loading(at, turn), to - turn - loading(turn, to)
            sums["host"] += before
            if ender is None:
                sums["other"] += after
            elif launched > at:
                sums["launch" if after < 20000 else "other"] += after
            elif after < 30000:
                sums["kernel"] += after
            else:
                until, what = job.awaited.get(ender, (at, "other"))
                until = min(max(at, until), to)
                awaited = until - at - loading(at, until)
                sums[what] += awaited
                sums["kernel" if after - awaited < 30000 else "other"] += after - awaited
            at = to
        result.append((step, *sums.values()))
    return result


def layers(job):
    """(step, phase, layer): time with its kernels that compute, with its collectives, with its copies and memsets, and with its collectives and nothing of the same step that computes."""
    rows = [row for row in job.rows if row.kind in ON_DEVICE]
    end = max(row.start_ns + row.duration_ns for row in rows)
    result = {}
    for key in {(row.step, row.phase, row.layer) for row in rows}:
        own = [row for row in rows if (row.step, row.phase, row.layer) == key]
        of_step = [row for row in rows if row.step == key[0] and computes(row)]
        sums = length(own, 0, end, lambda running: any(map(computes, running)), lambda running: any(map(is_collective, running)),
                      lambda running: any(row.kind != "kernel" for row in running))
        sums += length([row for row in own if is_collective(row)] + of_step, 0, end,
                       lambda running: any(map(is_collective, running)) and not any(map(computes, running)))
        result[key] = tuple(sums)
    return result
