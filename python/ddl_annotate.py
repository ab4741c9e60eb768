"""Tell ddl where steps, phases and layers of a Python program begin and end, and let ddl tune change values between steps: ddl/annotate.h for Python.

    import ddl_annotate as ddl

    for k, batch in enumerate(loader):
        with ddl.step(k):
            with ddl.phase("forward"):
                loss = model(batch)
            ddl.value("samples", len(batch))

    @ddl.layer("encoder")          # or @ddl.layer: by the function's own name
    def encoder(x): ...

A job that can change a value between two steps is tuned while it runs (ddl tune --in-run) with two lines more, before each step, on every rank:

        ddl.tune(k)
        cycle_ms = ddl.tuned("cycle_ms", cycle_ms)

One file, standard library only: put it on PYTHONPATH or beside the program. Under `ddl record`, or wherever libddl.so is preloaded, marks are recorded; without it
they do nothing, and a decorated function is the function itself.

Ranges nest per thread, and an exception closes those that it leaves. Names: cut at 255 bytes and kept for the life of the process, so use a bounded set of them, no counters in
them. A mark never raises because of what it is given: what cannot be recorded (a step without a number, a value that is none) is not.
"""
import ctypes
import functools
import inspect
import os

__all__ = ["RECORDED", "layer", "phase", "step", "tune", "tuned", "value"]

_STEP, _PHASE, _LAYER = 1, 2, 3  # enum ddl_range_kind


def _recorder():
    """(push, pop, value) of the preloaded library, None without it. PyDLL: the calls are too short to be worth giving up the interpreter's lock for."""
    try:
        program = ctypes.PyDLL(None)
        push, pop, record = program.ddl_range_push, program.ddl_range_pop, program.ddl_value_record
    except (AttributeError, OSError, TypeError):
        return None
    push.argtypes, push.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64), None
    pop.argtypes, pop.restype = (ctypes.c_int,), None
    record.argtypes, record.restype = (ctypes.c_char_p, ctypes.c_double), None
    return push, pop, record


def _schedule():
    """(follow, value) of the preloaded library, None without it."""
    try:
        program = ctypes.PyDLL(None)
        follow, tuned_value = program.ddl_tune_follow, program.ddl_tune_value
    except (AttributeError, OSError, TypeError):
        return None
    follow.argtypes, follow.restype = (ctypes.c_uint64,), None
    tuned_value.argtypes, tuned_value.restype = (ctypes.c_char_p,), ctypes.c_char_p
    return follow, tuned_value


_tuner = _schedule()
_library = _recorder()
RECORDED = _library is not None
"""Whether anybody listens: for programs that compute a value only to report it."""


def _refuse_what_suspends(function):
    # Its calls return before its body has run, and its range would have closed.
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"ddl_annotate: {function.__qualname__} is a coroutine or a generator: mark what it does inside, by 'with'")


class _Nothing:
    """A range that nobody hears of."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __call__(self, function):
        _refuse_what_suspends(function)
        return function


class _Range:
    """A range for a `with` statement or a function. It holds no state of its own: it can be made once and entered again and again, by any thread."""

    __slots__ = ("_kind", "_name", "_number")

    def __init__(self, kind, name, number=0):
        self._kind, self._name, self._number = kind, name, number

    def __enter__(self):
        _library[0](self._kind, self._name, self._number)
        return self

    def __exit__(self, *_):
        _library[1](self._kind)

    def __call__(self, function):
        _refuse_what_suspends(function)

        @functools.wraps(function)
        def marked(*arguments, **keywords):
            with self:
                return function(*arguments, **keywords)

        return marked


_NOTHING = _Nothing()


def _bytes(name):
    return str(name).encode("utf-8", "replace")


def _named(kind, name):
    if callable(name) and not isinstance(name, str):  # used as a decorator without a name
        return _named(kind, getattr(name, "__name__", type(name).__name__))(name)
    return _Range(kind, _bytes(name)) if _library else _NOTHING


def step(number):
    """One iteration of the training loop. `number` is the same on every rank."""
    if not _library:
        return _NOTHING
    try:
        number = int(number)
    except (TypeError, ValueError, OverflowError):
        return _NOTHING
    return _Range(_STEP, None, number) if 0 <= number < 1 << 64 else _NOTHING


def phase(name):
    """forward, backward, update, input, ... of a step."""
    return _named(_PHASE, name)


def layer(name):
    """A layer or block of the network, or a bucket of gradients."""
    return _named(_LAYER, name)


def value(name, number):
    """A number of the step: "samples" gives the throughput; include/ddl/annotate.h names the others that metrics are made of. A tensor on a GPU is waited for."""
    if not _library:
        return
    try:
        number = float(number)
    except (TypeError, ValueError, OverflowError):
        return
    _library[2](_bytes(name), number)


def tune(number):
    """Step `number` is the next one on this rank: from here on tuned() gives the values that hold in it, the same on every rank. By one thread, which also calls tuned(). It
    reads a file where a value may change, and does nothing where DDL_TUNE_FILE, which ddl tune --in-run sets, is not set."""
    try:
        number = int(number)
    except (TypeError, ValueError, OverflowError):
        return
    if _tuner and 0 <= number < (1 << 64) - 1:
        _tuner[0](number)


def tuned(name, otherwise):
    """The value of a knob: what the tuner tries now; else the environment variable of that name, as tuned.env and ddl tune --apply set it; else `otherwise`, whose type (bool, int,
    float, str) the result has. `otherwise` also where the text is nothing of that type."""
    text = _tuner[1](_bytes(name)) if _tuner else None
    text = os.environ.get(str(name)) if text is None else text.decode("utf-8", "surrogateescape")
    if text is None:
        return otherwise
    try:
        if isinstance(otherwise, bool):
            return {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}[text.lower()]
        if isinstance(otherwise, (int, float)):
            return type(otherwise)(text)
    except (KeyError, ValueError):
        return otherwise
    return text
