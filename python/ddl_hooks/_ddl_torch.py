"""What ddl hears of an unmodified PyTorch job: steps, phases, layers, loading, checkpoints, garbage collection, who is in which process group, and messages
over Gloo.

Loaded by sitecustomize.py once torch is imported. Rules: it never raises into the job, keeps no tensor and no module alive, puts nothing into
objects that the job may copy or pickle, and uses no random numbers. Ranges go through include/ddl/annotate.h's functions, by ctypes, which torch has imported.

  step        ends with the optimizer's; begins where the last one ended. The first one, and that after an evaluation, begins when a loader that feeds training
              is asked for a batch, else with the forward of a model that trains. Among several optimizers the one counts that stepped first (another, if that
              one has stopped). A step that a gradient scaler skips counts: the iteration was run. The recorder drops them once the program marks its own
  phase       forward or evaluation (the outermost call of a module), backward, optimizer, input (a loader's next batch), checkpoint (of torch.distributed.checkpoint's
              async_save: what it takes before it writes, as async_save), garbage collection (full ones),
              compilation (torch.compile)
  layer       the path of the module from the outermost one, without what wraps it (DDP, FSDP, torch.compile, checkpointing)
  samples     what the loader's sampler put into the batches of the step
  bytes       checkpoint_bytes: what torch.save wrote; of torch.distributed.checkpoint what all ranks have, told by the first
  messages    send, recv, isend, irecv (batches of these too), the wait that completes one, and monitored_barrier, of groups of Gloo: NCCL's and MPI's are
              recorded where those libraries are called
"""
import ctypes
import gc
import os
import sys
import threading
import time
import weakref

_PHASE, _LAYER = 2, 3
_WRAPPERS = {"module", "_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module", "_forward_module"}
_BUDGET = 0.01
_SHORTEST_NS = 100_000   # layers that take less are not named
_RECORDED_NS = 4_000     # what a named call costs (tests/third_party/pytorch/cost.py), with what torch does for a hook
_UNNAMED_NS = 1_500      # ... and one that is only looked at
_WARM_STEPS = 3

_program = ctypes.PyDLL(None)  # calls are too short to be worth giving up the interpreter's lock for
_push, _pop, _value = _program.ddl_range_push, _program.ddl_range_pop, _program.ddl_value_record
_push.argtypes, _push.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64), None
_pop.argtypes, _pop.restype = (ctypes.c_int,), None
_value.argtypes, _value.restype = (ctypes.c_char_p, ctypes.c_double), None
_begin_step, _end_step = _program.ddl_hooked_step_begin, _program.ddl_hooked_step_end
_begin_step.argtypes, _begin_step.restype = (ctypes.c_uint64, ctypes.c_int), None
_end_step.argtypes, _end_step.restype = (), None
_now = time.perf_counter_ns


def _never_compiles():
    return False


_compiles = _never_compiles


class _Here(threading.local):
    """For a thread."""

    def __init__(self):
        self.calls = []         # (module's id, named, entered) that are open
        self.backward = 0
        self.updating = 0
        self.saving = 0
        self.compiling = 0
        self.collecting = 0


_here = _Here()


def _forget_after_fork():
    # A loader's worker: the recorder is off there, and nothing of the parent's is open.
    global _active
    _active = False


_active = True
_trains = False  # a launcher imports torch too, and may save and collect garbage: that alone starts no recording
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


# ---------------------------------------------------------------------------------------------------------------- steps

class _Steps:
    number = 0
    open = False
    follows = False      # nothing but training has been done since the last one
    optimizer = None     # weak: the one that counts
    others = {}          # ids of others -> steps since it last stepped
    told = False         # that there are others
    samples = 0
    first = 0            # when the first one ended
    asked = None         # id of the data set that gave the last batch
    feeds = set()        # ids of those that training was seen to take batches from


def _begin_recording(of_rank=False):
    global _active, _trains
    _trains = True
    _active = _active or of_rank  # a forked child that joins a group is not a worker of a loader


def _script_marks():
    return "ddl_annotate" in sys.modules


def _open_step():
    if _Steps.open or _script_marks():
        return
    _begin_step(_Steps.number, _Steps.follows)
    _Steps.open = _Steps.follows = True


def _close_step():
    left = _here.calls  # by an exception that the script caught
    while left:
        if left.pop()[1]:
            _pop(_LAYER)
        if not left:
            _pop(_PHASE)
    if not _Steps.open:
        return
    _end_step()
    _Steps.open = False
    _Steps.number += 1
    if _Steps.number == _WARM_STEPS:
        _Layers.choose(_now() - _Steps.first)
    elif _Steps.number < _WARM_STEPS and not _Steps.first:
        _Steps.first = _now()


def _counts(optimizer):
    """Does the step of this optimizer end the training step?"""
    known = _Steps.optimizer() if _Steps.optimizer else None
    if known is optimizer:
        if _Steps.others and not _Steps.told and not _script_marks():
            _tell_of_steps(b"several optimizers step: a step ends with that of the one that stepped first")
        _Steps.others.clear()
        return True
    again = _Steps.others.get(id(optimizer), 0) + 1
    _Steps.others[id(optimizer)] = again
    if known is None or again > 2:
        _Steps.optimizer = weakref.ref(optimizer)
        _Steps.others.clear()
        return True
    return False


def _tell_of_steps(text):
    _Steps.told = True
    try:
        tell = _program.ddl_hooks_tell_steps
        tell.argtypes, tell.restype = (ctypes.c_char_p,), None
        tell(text)
    except Exception:  # a library that does not know it
        pass


def _begin_update():
    if _compiles():
        return
    _here.updating += 1
    if _here.updating == 1:
        _push(_PHASE, b"optimizer", 0)


def _end_update(optimizer, ends=True):
    if _compiles() or _here.updating == 0:
        return
    _here.updating -= 1
    if _here.updating == 0:
        _pop(_PHASE)
        if ends and threading.current_thread() is threading.main_thread() and _counts(optimizer):
            _close_step()


def _wrapped(function, wrapper):
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(wrapper, name, getattr(function, name))
        except AttributeError:
            pass
    wrapper.__dict__.update(getattr(function, "__dict__", {}))
    wrapper.__wrapped__ = function
    return wrapper


def _around_update(step):
    def marked(self, *arguments, **keywords):
        optimizer = self
        if not _active:
            return step(self, *arguments, **keywords)
        _begin_update()
        try:
            return step(self, *arguments, **keywords)
        finally:
            _end_update(optimizer)

    return _wrapped(step, marked)


def _hook_optimizers(torch):
    def around_scaler(step):
        def marked(self, optimizer, *arguments, **keywords):
            if not _active:
                return step(self, optimizer, *arguments, **keywords)
            _begin_update()
            try:
                return step(self, optimizer, *arguments, **keywords)
            finally:
                _end_update(optimizer)

        return _wrapped(step, marked)

    from_torch = sys.modules["torch.optim.optimizer"]  # torch.optim deletes the name
    pre, post = (getattr(from_torch, f"register_optimizer_step_{when}_hook", None) for when in ("pre", "post"))
    if pre and post:
        pre(lambda optimizer, *_: _begin_update() if _active else None)
        post(lambda optimizer, *_: _end_update(optimizer) if _active else None)
    else:  # before torch 2.0: where torch itself wraps a class's step for its profiler
        hook = from_torch.Optimizer._hook_for_profile

        def hook_for_profile(self):
            hook(self)
            kind = type(self)
            step = kind.step
            if not getattr(step, "_ddl", False):
                kind.step = _around_update(step)
                kind.step._ddl = True

        from_torch.Optimizer._hook_for_profile = _wrapped(hook, hook_for_profile)
    scalers = {getattr(torch.amp, "GradScaler", None) if hasattr(torch, "amp") else None}
    scalers.add(getattr(getattr(getattr(torch, "cuda", None), "amp", None), "GradScaler", None))
    for scaler in scalers - {None}:
        if "step" in scaler.__dict__:
            scaler.step = around_scaler(scaler.step)


# ---------------------------------------------------------------------------------------------------------------- layers

class _Layers:
    names = {}        # id of a module -> its name as bytes; None: it has none of its own
    alive = {}        # id of a module -> weak reference
    times = {}        # id of a module -> [calls, ns] of the first steps; None: measured
    quiet = set()     # ids of those that are too short to be named
    roots = 0
    handles = []

    @classmethod
    def forget(cls, key):
        cls.names.pop(key, None)
        cls.alive.pop(key, None)
        cls.quiet.discard(key)
        if cls.times:
            cls.times.pop(key, None)

    @classmethod
    def learn(cls, root):
        parts = list(root.named_modules())
        prefix = type(root).__name__
        if len(parts) > 1:
            cls.roots += 1
            if cls.roots == 1:
                prefix = ""
        for path, module in parts:
            key = id(module)
            if key in cls.names:
                continue
            path = ".".join(part for part in path.split(".") if part and part not in _WRAPPERS)
            name = ".".join(part for part in (prefix, path) if part)
            cls.names[key] = name.encode("utf-8", "replace") if name and (path or prefix) else None
            cls.alive[key] = weakref.ref(module, lambda _, key=key: cls.forget(key))

    @classmethod
    def choose(cls, elapsed_ns):
        """Which are named from now on: those that are long enough, and no more than the budget allows."""
        times, cls.times = cls.times, None
        if elapsed_ns <= 0 or not times:
            return
        calls = sum(n for n, _ in times.values())
        means = {key: total / n for key, (n, total) in times.items() if n}
        allowed = _BUDGET * elapsed_ns
        if calls * _UNNAMED_NS > allowed:  # to look at each call is too dear by itself
            for handle in cls.handles:
                handle.remove()
            del cls.handles[:]
            return
        shortest = _SHORTEST_NS
        while calls * _UNNAMED_NS + sum(times[key][0] for key, mean in means.items() if mean >= shortest) * (_RECORDED_NS - _UNNAMED_NS) > allowed:
            shortest *= 2
        cls.quiet = {key for key, mean in means.items() if mean < shortest}


def _before_forward(module, _arguments):
    if _compiles() or not _active:
        return
    key = id(module)
    calls = _here.calls
    if key in _Layers.quiet and calls:
        return
    if key not in _Layers.names:
        _Layers.learn(module)
    if not calls and not _here.backward:
        _begin_recording()
        trains = module.training and _grad_enabled()
        if trains:
            if _Steps.asked is not None:
                _Steps.feeds.add(_Steps.asked)
                _Steps.asked = None
            _open_step()
        else:
            _Steps.follows = False
        _push(_PHASE, b"forward" if trains else b"evaluation", 0)
    name = _Layers.names.get(key)
    # What a wrapper (FSDP) calls has its name: one layer. A checkpointing one's is called alone when it is done again.
    within = calls[-1][0] if calls else key
    named = name is not None and key not in _Layers.quiet and (within == key or _Layers.names.get(within) != name)
    if named:
        _push(_LAYER, name, 0)
    calls.append((key, named, _now() if _Layers.times is not None else 0))


def _after_forward(module, _arguments, _output):
    if _compiles() or not _active:
        return
    calls = _here.calls
    key = id(module)
    if not calls or (key in _Layers.quiet and calls[-1][0] != key):
        return
    while calls:
        opened, named, entered = calls.pop()
        if named:
            _pop(_LAYER)
        if opened == key:
            break
    if entered and _Layers.times is not None and _Steps.first:
        entry = _Layers.times.setdefault(key, [0, 0])
        entry[0] += 1
        entry[1] += _now() - entered
    if not calls and not _here.backward:
        _pop(_PHASE)


def _hook_modules(torch):
    global _grad_enabled, _compiles
    _grad_enabled = torch.is_grad_enabled
    _compiles = getattr(getattr(torch, "compiler", None), "is_compiling", None) or _never_compiles
    from_torch = torch.nn.modules.module
    _Layers.handles = [from_torch.register_module_forward_pre_hook(_before_forward), _hook_after_forward(from_torch)]


def _hook_after_forward(from_torch):
    """Also of a forward that ends by an exception, where torch (2.x) tells of those: checkpoints stop recomputing by one."""
    try:
        return from_torch.register_module_forward_hook(_after_forward, always_call=True)
    except TypeError:
        return from_torch.register_module_forward_hook(_after_forward)


# ---------------------------------------------------------------------------------------------------------------- backward, checkpoints, garbage

def _hook_backward(torch):
    backward = torch.autograd.backward

    def marked(*arguments, **keywords):
        if not _active:
            return backward(*arguments, **keywords)
        if _Steps.samples:
            _value(b"samples", _Steps.samples)
            _Steps.samples = 0
        _here.backward += 1
        _push(_PHASE, b"backward", 0)
        try:
            return backward(*arguments, **keywords)
        finally:
            _pop(_PHASE)
            _here.backward -= 1

    torch.autograd.backward = _wrapped(backward, marked)


def _hook_checkpoints(torch):
    save = torch.save

    def marked(obj, f, *arguments, **keywords):
        if not _saves_here():
            return save(obj, f, *arguments, **keywords)
        start = _place(f)
        _begin_saving()
        try:
            return save(obj, f, *arguments, **keywords)
        finally:
            end = _place(f)
            if end is not None and _here.saving == 1:
                _value(b"checkpoint_bytes", end - (start or 0) if hasattr(f, "tell") else end)
            _end_saving()

    torch.save = _wrapped(save, marked)


def _saves_here():
    """What another thread writes, as that of async_save, holds nobody up."""
    return _active and _trains and threading.current_thread() is threading.main_thread()


def _begin_saving(phase=b"checkpoint"):
    _here.saving += 1
    if _here.saving == 1:
        _push(_PHASE, phase, 0)


def _end_saving():
    if _here.saving == 1:
        _pop(_PHASE)
    _here.saving -= 1


def _hook_sharded_checkpoints(module):
    """torch.distributed.checkpoint. Of async_save what it takes before it writes: to plan, and to copy the state."""
    def around(function, phase):
        def marked(*arguments, **keywords):
            if not _saves_here():
                return function(*arguments, **keywords)
            _begin_saving(phase)
            try:
                saved = function(*arguments, **keywords)
                if _here.saving == 1:
                    _tell_sharded_bytes(saved)
                return saved
            finally:
                _end_saving()

        return _wrapped(function, marked)

    for name, phase in (("save", b"checkpoint"), ("save_state_dict", b"checkpoint"), ("async_save", b"async_save")):
        if hasattr(module, name):
            setattr(module, name, around(getattr(module, name), phase))


def _tell_sharded_bytes(metadata):
    """Every rank is handed what all have written: the first one tells."""
    try:
        group = sys.modules["torch.distributed.distributed_c10d"]
        if not group.is_initialized() or group.get_rank() == 0:
            _value(b"checkpoint_bytes", sum(piece.length for piece in metadata.storage_data.values()))
    except Exception:  # a future, or a storage that does not tell
        pass


def _begin_compiling(*_):
    if _active and _trains:
        _here.compiling += 1
        if _here.compiling == 1:
            _push(_PHASE, b"compilation", 0)


def _end_compiling(*_):
    if _here.compiling:
        _here.compiling -= 1
        if _here.compiling == 0:
            _pop(_PHASE)


def _codes():
    """Of every function of this file."""
    function = type(_codes)
    holders = [value for value in globals().values() if isinstance(value, type) and value.__module__ == __name__]
    members = [member for holder in [globals(), *map(vars, holders)] for member in holder.values()]
    found = [member.__code__ for member in (getattr(member, "__func__", member) for member in members) if isinstance(member, function) and member.__module__ == __name__]
    for code in found:  # grows
        found.extend(inner for inner in code.co_consts if isinstance(inner, type(code)))
    return found


def _hook_compiler(module):
    """Since torch 2.5; reset() of the compiler forgets them. Where the program's own frames are not compiled, as those of DDP, hooks would be: they are left alone."""
    for code in _codes():
        module.eval_frame.skip_code(code)
    module.on_compile_start(_begin_compiling)
    module.on_compile_end(_end_compiling)


def _place(f):
    try:
        return f.tell() if hasattr(f, "tell") else os.stat(f).st_size
    except (OSError, TypeError, ValueError):
        return None


_ends = sys.is_finalizing


def _on_collection(phase, info):
    if not (_active and _trains) or info.get("generation") != 2 or _ends():
        return
    if phase == "start":
        _push(_PHASE, b"garbage collection", 0)
        _here.collecting += 1
    elif _here.collecting:
        _here.collecting -= 1
        _pop(_PHASE)


# ---------------------------------------------------------------------------------------------------------------- loaders

def _hook_loaders(module):
    base = module._BaseDataLoaderIter
    following = base.__next__
    index_of = base._next_index
    put = {}  # per iterator, sizes of batches that were asked for

    def next_index(self):
        index = index_of(self)
        try:
            if self._dataset_kind == module._DatasetKind.Map and self._auto_collation:
                sizes = put.get(id(self))
                if sizes is None:
                    sizes = put[id(self)] = []
                    weakref.finalize(self, put.pop, id(self), None)
                sizes.append(len(index))
        except Exception:
            pass
        return index

    def ended(self):
        """Is it known to have no batch left? Then no step begins."""
        try:
            return self._dataset_kind == module._DatasetKind.Map and self._num_yielded >= len(self)
        except Exception:
            return False

    def marked(self):
        if not _active:
            return following(self)
        _begin_recording()
        source = id(getattr(self, "_dataset", None))
        if source in _Steps.feeds and not _Steps.open and not ended(self) and threading.current_thread() is threading.main_thread():
            _open_step()
        _Steps.asked = source
        _push(_PHASE, b"input", 0)
        try:
            batch = following(self)
        finally:
            _pop(_PHASE)
        sizes = put.get(id(self))
        if sizes:
            _Steps.samples += sizes.pop(0)
        return batch

    base._next_index = _wrapped(index_of, next_index)
    base.__next__ = _wrapped(following, marked)


# ---------------------------------------------------------------------------------------------------------------- process groups

class _Group:
    """One of Gloo."""
    known = weakref.WeakKeyDictionary()

    def __init__(self, number, ranks):
        self.number = number                                    # the recorder's
        self.places = {rank: i for i, rank in enumerate(ranks)}  # of the job's ranks
        self.barriers = 0


def _names_of(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function.__code__.co_varnames[:function.__code__.co_argcount]


def _hook_groups(module):
    begin, end = _program.ddl_group_begin, _program.ddl_group_end
    begin.argtypes, begin.restype = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.c_int), None
    end.argtypes, end.restype = (), ctypes.c_uint32
    make = module._new_process_group_helper
    names = _names_of(make)

    def marked(*arguments, **keywords):
        told, made = False, None
        try:
            given = {**dict(zip(names, arguments)), **keywords}
            ranks = list(given.get("global_ranks_in_group") or range(given["group_size"]))
            is_world = not given.get("global_ranks_in_group")
            name = "default_pg" if is_world else str(given.get("group_desc") or given.get("group_name") or f"group {module._group_count}")
            if not is_world and given.get("group_desc") in (None, "undefined"):
                name = f"group {given.get('group_name') or module._group_count}"
            array = (ctypes.c_int * len(ranks))(*ranks)
            text = name.encode("utf-8", "replace")
            begin(text, array, len(ranks))
            told = True
            _begin_recording(True)
            write_stacks_on_request(True)  # given by sitecustomize.py
        except Exception:
            pass
        try:
            made = make(*arguments, **keywords)
            return made
        finally:
            number = end() if told else 0
            try:
                if number:
                    _Group.known[made[0] if isinstance(made, tuple) else made] = _Group(number, ranks)
            except Exception:
                pass

    module._new_process_group_helper = _wrapped(make, marked)


# ---------------------------------------------------------------------------------------------------------------- messages over Gloo

_POSTED_BYTES = 40  # ddl_posted in interpose/gloo.h
_posted = weakref.WeakKeyDictionary()  # what isend and irecv returned, and nobody has waited for -> (group's number, peer, facts of the recorder's)


def _hook_messages(module):
    begin, end = _program.ddl_told_begin, _program.ddl_told_end
    begin.argtypes, begin.restype = (ctypes.c_char_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64), None
    end.argtypes, end.restype = (ctypes.c_int, ctypes.c_char_p), None

    def group_of(group):
        return _Group.known.get(module._get_default_group() if group is None else group)

    def around_message(name, other, posts):
        function = getattr(module, name)
        names = _names_of(function)

        def facts(arguments, keywords):
            """Group and peer; None: not a message over Gloo."""
            given = {**dict(zip(names, arguments)), **keywords}
            tensor, group = given["tensor"], group_of(given.get("group"))
            if group is None or tensor.device.type != "cpu":
                return None
            peer, rank = given.get("group_" + other), given.get(other)
            if peer is None:
                peer = -1 if rank is None else group.places[rank]
            begin(name.encode(), group.number, peer, given.get("tag", 0), tensor.numel() * tensor.element_size())
            return group, peer

        def marked(*arguments, **keywords):
            message, returned = None, None
            if _active and not _compiles():
                try:
                    message = facts(arguments, keywords)
                except Exception:
                    pass
            if message is None:
                return function(*arguments, **keywords)
            try:
                returned = function(*arguments, **keywords)
                return returned
            finally:
                _end_message(message, returned, posts)

        setattr(module, name, _wrapped(function, marked))

    def _end_message(message, returned, posts):
        group, peer = message
        facts = ctypes.create_string_buffer(_POSTED_BYTES) if posts and returned is not None else None
        end(group.places.get(returned, -1) if peer < 0 and not posts else -1, facts)
        try:
            if facts is not None:
                _hook_wait(type(returned))
                _posted[returned] = group.number, peer, facts
        except Exception:
            pass

    def _hook_wait(kind):
        """The class that has it, once."""
        holder = next(base for base in kind.__mro__ if "wait" in base.__dict__)
        wait = holder.wait
        if getattr(wait, "_ddl", False):
            return

        def marked(self, *arguments, **keywords):
            message = _posted.pop(self, None) if _active else None
            if message is None:
                return wait(self, *arguments, **keywords)
            number, peer, facts = message
            begin(b"wait", number, peer, 0, 0)
            done = None
            try:
                done = wait(self, *arguments, **keywords)
                return done
            finally:
                end(source_of(self) if peer < 0 and done else -1, facts if done else None)

        holder.wait = _wrapped(wait, marked)
        holder.wait._ddl = True

    def source_of(work):
        try:
            return work._source_rank()
        except Exception:
            return -1

    for name, other, posts in (("send", "dst", False), ("recv", "src", False), ("isend", "dst", True), ("irecv", "src", True)):
        around_message(name, other, posts)

    barrier = module.monitored_barrier

    def marked(*arguments, **keywords):
        group = None
        if _active:
            try:
                group = group_of(arguments[0] if arguments else keywords.get("group"))
            except Exception:
                pass
        if group is None:
            return barrier(*arguments, **keywords)
        group.barriers += 1
        begin(b"monitored_barrier", group.number, -1, group.barriers, 0)
        try:
            return barrier(*arguments, **keywords)
        finally:
            end(-1, None)

    module.monitored_barrier = _wrapped(barrier, marked)


# ---------------------------------------------------------------------------------------------------------------- what is not recorded

def _hook_rpc(module):
    """The report says that there is something which it does not know of."""
    start = getattr(module, "init_rpc", None)
    if start is None:  # a torch without it
        return

    def marked(*arguments, **keywords):
        if _active and "its RPC" not in _missing:
            _missing.append("its RPC")
            _tell(sys.modules.get("torch"))
        return start(*arguments, **keywords)

    module.init_rpc = _wrapped(start, marked)


# ---------------------------------------------------------------------------------------------------------------- all of it

_missing = []  # parts that are not hooked


def _try(part, hook, *arguments):
    try:
        hook(*arguments)
    except Exception:  # another version of torch
        _missing.append(part)


def _tell(torch):
    """The report says what could not be hooked."""
    try:
        tell = _program.ddl_hooks_tell
        tell.argtypes, tell.restype = (ctypes.c_char_p,), None
        version = str(getattr(torch, "__version__", "of unknown version"))
        tell((version + ("; without " + ", ".join(_missing) if _missing else "")).encode("ascii", "replace"))
    except Exception:
        pass


_seen = set()
_PARTS = {
    "torch.utils.data.dataloader": [("loaders", _hook_loaders)],
    "torch.distributed.distributed_c10d": [("process groups", _hook_groups), ("messages", _hook_messages)],
    "torch.distributed.checkpoint.state_dict_saver": [("torch.distributed.checkpoint", _hook_sharded_checkpoints)],
    "torch.distributed.rpc": [("RPC", _hook_rpc)],
    "torch._dynamo": [("compilations", _hook_compiler)],
}


def loaded(name, module):
    """`module` has been imported; what is not there yet is heard of later."""
    if name == "torch":
        for part, hook in (("steps", _hook_optimizers), ("layers", _hook_modules), ("backward", _hook_backward), ("checkpoints", _hook_checkpoints)):
            _try(part, hook, module)
        gc.callbacks.append(_on_collection)
        for part in _PARTS:
            if part in sys.modules:
                loaded(part, sys.modules[part])
        _tell(module)
        return
    if name in _seen:
        return
    _seen.add(name)
    for part, hook in _PARTS[name]:
        _try(part, hook, module)
    if _missing:
        _tell(sys.modules.get("torch"))
