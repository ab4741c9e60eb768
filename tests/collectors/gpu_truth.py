"""What programs/gpu_job.c does over the doubles with the virtual clock, computed a second time from the rules in tests/doubles/fake_cuda.h."""

CALL_NS, LATENCY_NS = 1000, 2000
COMPUTE, COMMUNICATE, DEFAULT = 8, 9, 7
GEMM, NCCL = "void gemm<float>(float const*, float*)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Job:
    """rows: (kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes), as in v_gpu; ns since the recorder's begin."""

    def __init__(self, steps, graph=False, rank=0):
        self.now, self.ready, self.rows, self.steps = 0, {COMPUTE: 0, COMMUNICATE: 0, DEFAULT: 0}, [], []
        self.phase = self.layer = self.step = None
        self.gemm_ns = 50000 if rank == 0 else 60000
        captured = []
        if graph:
            self.now += 3 * CALL_NS
        for step in range(steps):
            self.step, begin = step, self.now
            self.now += 3000
            self.phase = "forward"
            self.give("memcpy", "[CUDA memcpy HtoD]", "input", COMPUTE, 20000, 200000)
            layers = [("fc1", GEMM, self.gemm_ns), ("fc1", "relu", 5000), ("fc2", GEMM, 30000)]
            entered = self.now
            for layer, name, ns in layers:
                self.give("kernel", name, layer, COMPUTE, ns, entered=entered if graph else None)
            if graph:
                self.now = entered + CALL_NS
            self.phase = "backward"
            event = self.give("kernel", "backward", "fc2", COMPUTE, 40000)
            self.give("kernel", "backward", "fc1", COMPUTE, 70000)
            self.ready[COMMUNICATE] = max(self.ready[COMMUNICATE], event)
            self.give("kernel", NCCL, "fc1", COMMUNICATE, 90000)
            self.phase = "update"
            self.give("memset", "[CUDA memset]", None, COMMUNICATE, 500, 50000)
            self.give("memcpy", "[CUDA memcpy PtoP]", None, COMMUNICATE, 100, 1000)
            end = self.give("memcpy", "[CUDA memcpy DtoH]", None, DEFAULT, 10000, 50000)
            self.now = max(self.now - CALL_NS, end) + CALL_NS  # cudaMemcpy waits
            done = max(self.now, *self.ready.values())
            self.rows.append(("sync", "[CUDA synchronisation: context]", "update", None, step, None, self.now, done - self.now, None))
            self.now = done + CALL_NS
            self.steps.append((step, begin, self.now - begin))

    def give(self, kind, name, layer, stream, duration_ns, count=None, entered=None):
        start = max((self.now if entered is None else entered) + LATENCY_NS, self.ready[stream])
        self.ready[stream] = start + duration_ns
        self.rows.append((kind, name, self.phase, layer, self.step, stream, start, duration_ns, count))
        self.now += CALL_NS
        return start + duration_ns


def parts(job):
    """Per step: time with a kernel that computes, one of a collective, a copy or memset, with a collective and nothing that computes, and idle."""
    result = []
    for step, begin, length in job.steps:
        end = begin + length
        cuts = sorted({begin, end, *(t for row in job.rows for t in (row[6], row[6] + row[7]) if begin < t < end)})
        sums = [0] * 5
        for left, right in zip(cuts, cuts[1:]):
            running = [row for row in job.rows if row[0] in ("kernel", "memcpy", "memset") and row[6] <= left and row[6] + row[7] >= right]
            computes = any(row[0] == "kernel" and row[1] != NCCL for row in running)
            communicates = any(row[1] == NCCL for row in running)
            flags = (computes, communicates, any(row[0] != "kernel" for row in running), communicates and not computes, not running)
            sums = [s + (right - left) * flag for s, flag in zip(sums, flags)]
        result.append((step, length, *sums))
    return result
