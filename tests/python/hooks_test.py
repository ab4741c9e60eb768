#!/usr/bin/env python3
"""python/ddl_hooks: what a job of Python notices of it (nothing), and what is heard of a torch of a few lines that has the real one's public hooks."""
import os
import re
import subprocess
import sys
from pathlib import Path

import job

HOOKS = job.BUILD / "share" / "ddl" / "python" / "ddl_hooks"
PROBE = Path(os.environ.get("PROBE", job.BUILD / "tests" / "workloads" / "librange_probe.so"))

# What the hooks use of torch, and nothing else. Optimizers tell of their steps as torch 1.13 has them, or as 2.x.
TORCH = {
    "__init__.py": "from . import autograd, cuda, nn, optim\nfrom .utils.data import dataloader\ndef is_grad_enabled(): return True\ndef save(obj, f): f.write(obj)\n",
    "autograd.py": "def backward(loss): loss.append('backward')\n",
    "nn/__init__.py": "from .modules import module\n",
    "nn/modules/__init__.py": "",
    "nn/modules/module.py": """
before, after, always = [], [], []
class Handle:
    def __init__(self, hooks, hook): self.hooks, self.hook = hooks, hook
    def remove(self): self.hooks.remove(self.hook)
def register_module_forward_pre_hook(hook): before.append(hook); return Handle(before, hook)
if NEW:
    def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
        if always_call: always.append(hook)
        after.append(hook)
        return Handle(after, hook)
else:
    def register_module_forward_hook(hook): after.append(hook); return Handle(after, hook)
class Module:
    training = True
    def named_modules(self, prefix=''):
        yield prefix, self
        for name, child in vars(self).items():
            if isinstance(child, Module): yield from child.named_modules(f'{prefix}.{name}' if prefix else name)
    def __call__(self, *x):
        for hook in before: hook(self, x)
        try:
            y = self.forward(*x)
        except Exception:
            for hook in always: hook(self, x, None)
            raise
        for hook in after: hook(self, x, y)
        return y
""",
    "optim/__init__.py": "from . import optimizer\n",
    "optim/optimizer.py": """
if NEW:
    pre, post = [], []
    register_optimizer_step_pre_hook, register_optimizer_step_post_hook = pre.append, post.append
class Optimizer:
    def __init__(self): self._hook_for_profile()
    def _hook_for_profile(self): pass
class SGD(Optimizer):
    def step(self):
        if NEW: [hook(self, (), {}) for hook in pre]
        print('updates')
        if NEW: [hook(self, (), {}) for hook in post]
""",
    "cuda/__init__.py": "from . import amp\n",
    "cuda/amp.py": "class GradScaler:\n    def step(self, optimizer): print('overflow: skipped')\n",
    "distributed/__init__.py": "from .distributed_c10d import *\n",
    "distributed/distributed_c10d.py": """
import functools
class Group: pass
world, _group_count = None, 1
def _get_default_group(): return world
def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store): return Group()
def init():
    global world
    world = _new_process_group_helper(4, 0, [], 'gloo', None)
def new_group(ranks): return _new_process_group_helper(len(ranks), 0, ranks, 'gloo', None)
class Work:
    def wait(self, timeout=None): print('waits'); return True
    def _source_rank(self): return 1
class SendWork(Work): pass
class RecvWork(Work): pass
def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments, **keywords): return function(*arguments, **keywords)
    return wrapper
@logged
def send(tensor, dst=None, group=None, tag=0, group_dst=None): print('sends', dst, group_dst, tag)
@logged
def recv(tensor, src=None, group=None, tag=0, group_src=None): print('receives', src, tag); return 6 if src is None else src
def isend(tensor, dst, group=None, tag=0): return SendWork()
def irecv(tensor, src=None, group=None, tag=0): return RecvWork()
def batch(messages): return [op(tensor, peer) for op, tensor, peer in messages]
def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    if timeout == 0: raise RuntimeError('rank 2 did not come')
""",
    "distributed/rpc/__init__.py": "def init_rpc(name): print('rpc', name)\n",
    "distributed/checkpoint/__init__.py": "",
    "distributed/checkpoint/state_dict_saver.py": """
import io, threading, torch
def async_save(state):
    writes = threading.Thread(target=lambda: [torch.save(piece, io.BytesIO()) for piece in state])
    writes.start()
    writes.join()
""",
    "utils/__init__.py": "",
    "utils/data/__init__.py": "",
    "utils/data/dataloader.py": """
class _DatasetKind: Map = 0
class _BaseDataLoaderIter:
    _dataset_kind, _auto_collation, _num_yielded = 0, True, 0
    def __init__(self, batches): self._dataset, self.batches, self.length = batches, list(batches), len(batches)
    def __len__(self): return self.length
    def __iter__(self): return self
    def _next_index(self): return self.batches.pop(0)
    def __next__(self):
        if not self.batches: raise StopIteration
        self._num_yielded += 1
        return self._next_index()
""",
}

TRAINS = """
import io, sys, time
import torch
from torch.nn.modules.module import Module
class Linear(Module):
    def forward(self, x): time.sleep(0.001); return x
class Net(Module):
    def __init__(self): self.encoder, self._orig_mod = Linear(), Linear()
    def forward(self, x): return self._orig_mod(self.encoder(x))
class DDP(Module):
    def __init__(self): self.module = Net()
    def forward(self, x): return self.module(x)
model, sgd, file = DDP(), torch.optim.optimizer.SGD(), io.BytesIO()
for i, batch in enumerate(torch.utils.data.dataloader._BaseDataLoaderIter([[1, 2, 3], [4, 5], [6], [7]])):
    loss = model(batch)
    torch.autograd.backward(loss)
    if i == 0: continue          # accumulates
    if i == 2:
        try:
            model.module._orig_mod.forward = lambda x: 1 / 0
            model(batch)
        except ZeroDivisionError:
            del model.module._orig_mod.forward
    if i == 3: torch.cuda.amp.GradScaler().step(sgd)
    else: sgd.step()
    if i == 1: torch.save(b'12345', file)
model.training = False
model([8])
print(loss, file.getvalue(), sgd.step.__name__, torch.save.__name__, [p for p in sys.path if 'ddl_hooks' in p])
"""

def shape(text):
    """Each line with its depth."""
    return [re.sub(r"^( *)", lambda m: " " * (len(m[1]) // 2), line) for line in text.splitlines()]


def fake_torch(folder, new):
    for name, text in TORCH.items():
        path = folder / ("new" if new else "old") / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("NEW", str(new)))
    return folder / ("new" if new else "old")


def python(program, *options, path=(), hooks=True, **env):
    folders = ([HOOKS] if hooks else []) + list(path)
    extra = {"PYTHONPATH": ":".join(map(str, folders))} if folders else {}
    clean = {k: v for k, v in job.environment().items() if k != "PYTHONPATH"}
    done = subprocess.run([sys.executable, *options, "-c", program], env={**clean, **extra, **env}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def same(program, *options, path=(), what="", **env):
    plain, hooked = python(program, *options, path=path, hooks=False, **env), python(program, *options, path=path, **env)
    job.check(plain == hooked, f"{what or program} {options}: {plain} without, {hooked} with the hooks")
    return hooked


ALTERNATES = """
import time
import torch
from torch.nn.modules.module import Module
class Net(Module):
    def forward(self, x): time.sleep(0.002); return x
critic, generator = torch.optim.optimizer.SGD(), torch.optim.optimizer.SGD()
model = Net()
for i in range(6):
    for optimizer in (critic, critic, generator)[:3 if SEVERAL else 1]:
        torch.autograd.backward(model([i]))
        optimizer.step()
"""


def several_optimizers(folder):
    """A GAN: each step is one of the optimizer that stepped first, and the recording says so, once."""
    for new in (False, True):
        for several in (False, True):
            heard = folder / f"heard{new}{several}"
            done = python(f"SEVERAL = {several}\n" + ALTERNATES, path=[fake_torch(folder, new)], LD_PRELOAD=str(PROBE), PROBE_OUT=str(heard))
            lines = [line.strip() for line in heard.read_text().splitlines()]
            told = [line for line in lines if line.startswith("told")]
            job.check(done[0] == 0 and told == ["told several optimizers step: a step ends with that of the one that stepped first"] * several, f"{several}: {told}, {done}")
            job.check(sum(line.startswith("step") for line in lines) == (12 if several else 6) + several, f"{several}: {lines}")


def it_is_not_noticed(folder):
    tells = "import sys; print(sorted(sys.modules), [p for p in sys.path], 'sitecustomize' in sys.modules)"
    for options in [(), ("-I",), ("-S",), ("-I", "-S"), ("-E",), ("-s",)]:
        same(tells.replace("[p for p in sys.path]", "0") if options == ("-S",) else tells, *options)  # without site nobody takes our folder off the path
    their = folder / "their"
    their.mkdir()
    (their / "sitecustomize.py").write_text("import sys\nprint('theirs', __name__, __file__[-17:])\nmark = 1\n")
    done = same("import sitecustomize, sys; print(sitecustomize.mark, sitecustomize.__spec__.name)", path=[their])
    job.check(done[1].startswith("theirs sitecustomize /sitecustomize.py"), f"theirs was not run: {done}")
    (their / "sitecustomize.py").write_text("raise SystemExit(3)\n")
    plain, hooked = python("print('never')", path=[their], hooks=False), python("print('never')", path=[their])
    job.check(plain[:2] == hooked[:2] == (1, "") and hooked[2].endswith("SystemExit: 3\n"), f"theirs ends the program: {plain} without, {hooked} with the hooks")
    torch = fake_torch(folder, False)
    env = {"LD_PRELOAD": str(PROBE), "PROBE_OUT": str(folder / "replaced")}
    same("import sys\nsys.meta_path[:] = [f for f in sys.meta_path if f.__module__.startswith('_frozen')]\nimport torch; print(len(torch.nn.module.before))", path=[torch],
         what="a job that replaces sys.meta_path", **env)
    broken = folder / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch" / "__init__.py").write_text("raise ImportError('libtorch.so: no such file')\n")
    done = same("import torch", path=[broken], what="a broken torch", LD_PRELOAD=str(PROBE), PROBE_OUT=str(folder / "broken.txt"))
    job.check(done[0] == 1 and "no such file" in done[2], f"{done}")
    same("try:\n import torch\nexcept ImportError as e: print(repr(e))", what="no torch", path=[their / "none"])


def unfamiliar_torches(folder):
    """One that has none of what the hooks look for is imported as it is."""
    bare = folder / "bare"
    (bare / "torch").mkdir(parents=True)
    (bare / "torch" / "__init__.py").write_text("answer = 42\n")
    done = same("import torch; print(torch.answer, torch.__loader__.__class__.__name__, hasattr(torch, 'save'))", path=[bare], LD_PRELOAD=str(PROBE), PROBE_OUT=str(folder / "bare.txt"))
    job.check(done[0] == 0, f"{done}")


def steps_and_layers(folder):
    for new in (False, True):
        torch = fake_torch(folder, new)
        same(TRAINS, path=[torch], what="training without the recorder")
        heard = folder / f"heard{new}"
        plain = python(TRAINS, path=[torch], hooks=False)
        hooked = python(TRAINS, path=[torch], LD_PRELOAD=str(PROBE), PROBE_OUT=str(heard))
        job.check(plain == hooked and plain[0] == 0, f"{plain} without, {hooked} with the hooks and the recorder")
        lines = shape(heard.read_text())
        steps = [line for line in lines if line.startswith("step")]
        job.check(steps == ["step 0", "step 1 follows", "step 2 follows"], f"steps {steps}")
        text = "\n".join(lines)
        first = text[text.index("step 0"):text.index("step 1")]
        job.check(first.count("phase forward") == 2 and first.count("phase backward") == 2 and first.count("phase optimizer") == 1, f"step 0:\n{first}")
        job.check("value samples 3" in first and "value samples 2" in first, f"step 0:\n{first}")
        second = text[text.index("step 1"):text.index("step 2")]
        job.check("phase input" in second and "value samples 1" in second and "MISMATCH" not in text, f"step 1:\n{second}")
        job.check({"phase checkpoint", "phase evaluation", "value checkpoint_bytes 5"} <= {line.strip() for line in lines}, f"{text}")
        layers = {line.strip() for line in lines if "layer" in line}
        job.check(layers == {"layer encoder"}, f"layers {layers}")


WRAPPED = """
import io, threading, time
import torch
import torch.distributed.rpc
from torch.distributed.checkpoint import state_dict_saver
from torch.nn.modules.module import Module
class Linear(Module):
    def forward(self, x): time.sleep(0.001); return x
class FSDP(Module):
    def __init__(self, inner): self._fsdp_wrapped_module = inner
    def forward(self, x): return self._fsdp_wrapped_module(x)
class Net(Module):
    def __init__(self): self.enc, self.head = FSDP(FSDP(Linear())), Linear()
    def forward(self, x): return self.head(self.enc(x))
model, sgd = FSDP(Net()), torch.optim.optimizer.SGD()
for i in range(2):
    model(i)
    torch.autograd.backward([])
    model._fsdp_wrapped_module.enc._fsdp_wrapped_module(i)     # as a checkpointing wrapper does in the backward pass
    sgd.step()
    saves = threading.Thread(target=torch.save, args=(b'12345', io.BytesIO()))
    saves.start()
    saves.join()
    if i == 0: state_dict_saver.async_save([b'123', b'4'])
    if i == 1: torch.distributed.rpc.init_rpc('worker')
"""


def wrapped_layers_and_other_threads(folder):
    """A layer and what wraps it are one; what other threads save holds nobody up; the report hears that there is RPC."""
    torch = fake_torch(folder, True)
    heard = folder / "wrapped"
    plain = python(WRAPPED, path=[torch], hooks=False)
    hooked = python(WRAPPED, path=[torch], LD_PRELOAD=str(PROBE), PROBE_OUT=str(heard))
    job.check(plain == hooked and plain[0] == 0, f"{plain} without, {hooked} with the hooks and the recorder")
    lines = [line.strip() for line in heard.read_text().splitlines()]
    counts = {what: lines.count(what) for what in ("layer enc", "layer head", "phase checkpoint", "phase async_save")}
    job.check(counts == {"layer enc": 4, "layer head": 2, "phase checkpoint": 0, "phase async_save": 1}, f"{counts} in {lines}")
    job.check(not any("checkpoint_bytes" in line for line in lines), f"{lines}")
    told = [line for line in lines if line.startswith("hooks ")]
    job.check(told[-1].endswith("; without its RPC") and "RPC" not in told[0], f"{told}")


STOPS = """
import time
import torch
from torch.nn.modules.module import Module
class Stop(Exception): pass
class Linear(Module):
    stops = False
    def forward(self, x):
        time.sleep(0.002)
        if self.stops: raise Stop
        return x
class Net(Module):
    def __init__(self): self.enc, self.head = Linear(), Linear()
    def forward(self, x): return self.head(self.enc(x))
class Loss:
    def append(self, text):
        model.enc.stops = True
        try: model.enc(1)
        except Stop: model.enc.stops = False
        model.head(1)
model, sgd = Net(), torch.optim.optimizer.SGD()
for i in range(2):
    model(i)
    torch.autograd.backward(Loss())
    sgd.step()
"""


def recomputing_that_stops(folder):
    """torch.utils.checkpoint(use_reentrant=False) leaves a forward by an exception as soon as it has what it needs: the layer ends there."""
    heard = folder / "stops"
    done = python(STOPS, path=[fake_torch(folder, True)], LD_PRELOAD=str(PROBE), PROBE_OUT=str(heard))
    lines = shape(heard.read_text())
    backward = [line for line in lines[lines.index(" phase backward") + 1:] if "layer" in line][:2]
    job.check(done[0] == 0 and backward == ["  layer enc", "  layer head"], f"{backward} in {lines}, {done}")


MESSAGES = """
import torch
import torch.distributed as dist
class Device:
    def __init__(self, type): self.type = type
class Tensor:
    def __init__(self, n, device='cpu'): self.n, self.device = n, Device(device)
    def numel(self): return self.n
    def element_size(self): return 4
dist.distributed_c10d.init()
pair = dist.distributed_c10d.new_group([3, 6])
print(dist.send(Tensor(10), 2), dist.send(Tensor(11), 6, pair, 5), dist.send(Tensor(12), group=pair, group_dst=1))
print(dist.recv(Tensor(13), 3), dist.recv(Tensor(14), group=pair), dist.send(Tensor(15, 'cuda'), 2))
for work in dist.distributed_c10d.batch([(dist.isend, Tensor(16), 1), (dist.irecv, Tensor(17), 3)]): print(work.wait())
work = dist.irecv(Tensor(18), group=pair, tag=9)
print(work.wait(), work.wait(), dist.isend(Tensor(19), 0) is None)
try: dist.send(Tensor(20), 5)
except KeyError as error: print(error)
dist.monitored_barrier()
try: dist.monitored_barrier(timeout=0)
except RuntimeError as error: print(error)
dist.monitored_barrier(pair)
print(dist.send.__name__, dist.recv.__doc__, dist.distributed_c10d.Work.wait.__name__)
"""

TOLD = """
group 1 default_pg 4
group 2 group 1 2
send 1 2 0 40 ends -1
send 2 1 5 44 ends -1
send 2 1 0 48 ends -1
recv 1 3 0 52 ends -1
recv 2 -1 0 56 ends 1
isend 1 1 0 64 ends -1 posted 1
irecv 1 3 0 68 ends -1 posted 2
wait 1 1 0 0 ends -1 done 1
wait 1 3 0 0 ends -1 done 2
irecv 2 -1 9 72 ends -1 posted 3
wait 2 -1 0 0 ends 1 done 3
isend 1 0 0 76 ends -1 posted 4
monitored_barrier 1 -1 1 0 ends -1
monitored_barrier 1 -1 2 0 ends -1
monitored_barrier 2 -1 1 0 ends -1
"""


def messages(folder):
    """Of groups of Gloo: who sent what to whom, and what a wait completes. A tensor on a GPU is not Gloo's, a rank that is not in the group is not told."""
    torch = fake_torch(folder, True)
    heard = folder / "messages"
    plain = python(MESSAGES, path=[torch], hooks=False)
    hooked = python(MESSAGES, path=[torch], LD_PRELOAD=str(PROBE), PROBE_OUT=str(heard))
    job.check(plain == hooked and plain[0] == 0, f"{plain} without, {hooked} with the hooks and the recorder")
    told = "\n".join(line for line in heard.read_text().splitlines() if not line.startswith("hooks "))
    job.check(told == TOLD.strip(), f"told:\n{told}")


def children(folder):
    torch = fake_torch(folder, True)
    program = "import os, sys\nfrom multiprocessing import get_context\nimport torch\nfrom torch.nn.modules.module import Module\n" \
              "class M(Module):\n  def forward(self): return 7\n" \
              "def work(q): q.put(M()())\n" \
              "if __name__ == '__main__':\n" \
              "  for how in ('fork', 'spawn'):\n    c = get_context(how); q = c.Queue(); p = c.Process(target=work, args=(q,)); p.start(); print(how, q.get()); p.join(); print(p.exitcode)\n"
    script = folder / "children.py"
    script.write_text(program)
    clean = {k: v for k, v in job.environment().items() if k != "PYTHONPATH"}
    results = []
    for hooks in ([], [HOOKS]):
        env = {**clean, "PYTHONPATH": ":".join(map(str, [*hooks, torch]))}
        if hooks:
            env.update(LD_PRELOAD=str(PROBE), PROBE_OUT=str(folder / "children.txt"))
        done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=60)
        results.append((done.returncode, done.stdout, done.stderr))
    job.check(results[0] == results[1] and results[0][1] == "fork 7\n0\nspawn 7\n0\n", f"{results}")


def cost(_folder):
    program = f"import time, runpy, sys\ncode = compile(open({str(HOOKS / 'sitecustomize.py')!r}).read(), {str(HOOKS / 'sitecustomize.py')!r}, 'exec')\n" \
              "best = 1\nfor _ in range(30):\n  begin = time.perf_counter()\n  try: exec(code, {'__file__': code.co_filename, '__name__': 'sitecustomize'})\n" \
              "  except ModuleNotFoundError: pass\n  best = min(best, time.perf_counter() - begin)\n  sys.meta_path.pop(0)\nprint(best)"
    code, out, error = python(program, hooks=False)
    job.check(code == 0 and float(out) < 0.001, f"{out}{error}")
    print(f"without torch the hooks cost {float(out) * 1e3:.3f} ms")


job.main(it_is_not_noticed, unfamiliar_torches, steps_and_layers, several_optimizers, wrapped_layers_and_other_threads, recomputing_that_stops, messages,
         children, cost)
