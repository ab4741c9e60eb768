"""Started by the interpreter itself: `ddl record` puts this folder in front of PYTHONPATH, so that an unmodified PyTorch job names its steps and layers.

It waits for torch to be imported, and then _ddl_torch.py does the work. Nothing is imported that the interpreter does not hold itself. The sitecustomize that the job would have had runs as
without us; where there is none, the interpreter hears that there is none. Whatever goes wrong here is dropped: the job is not ours.
"""
import sys


def _write_stacks_on_request(of_rank, done=[]):
    """`ddl record --stall` asks ranks for their stacks by SIGURG, which is ignored where nobody listens, as here until now. They go to a file in memory that it
    finds by its name, in which the number of its descriptor is: it asks nobody who has closed that one. faulthandler needs no lock of the interpreter."""
    import os

    announced = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
    if done or "DDL_STACKS" not in os.environ or not (of_rank or any(name in os.environ for name in announced)):
        return
    done.append(True)
    import _signal

    if _signal.getsignal(_signal.SIGURG) != _signal.SIG_DFL:
        return
    number = os.memfd_create("ddl-stacks")
    os.close(number)
    file = os.memfd_create(f"ddl-stacks-{number}", os.MFD_CLOEXEC)
    if file != number:  # another thread opened something meanwhile
        os.close(file)
        return
    import faulthandler

    faulthandler.register(_signal.SIGURG, file=file, all_threads=True, chain=False)


def _install():
    import os  # the interpreter has imported it for itself

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    class Waiter:
        """First of sys.meta_path until torch is there: it finds nothing itself, and looks at how torch is found by the others."""

        waits_for = {"torch", "torch.utils.data.dataloader", "torch.distributed.distributed_c10d", "torch.distributed.checkpoint.state_dict_saver", "torch.distributed.rpc", "torch._dynamo"}
        busy = False

        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name not in cls.waits_for or cls.busy:
                return None
            cls.busy = True
            try:
                for finder in list(sys.meta_path):
                    find = None if finder is cls else getattr(finder, "find_spec", None)
                    spec = find(name, path, target) if find else None
                    if spec is not None:
                        try:
                            cls.listen(name, spec)
                        except Exception:
                            pass  # a finder of the job's own, whose specs are not the interpreter's
                        return spec
                return None
            finally:
                cls.busy = False

        @classmethod
        def listen(cls, name, spec):
            """The interpreter sets spec._initializing to False when the module has been executed, or has failed and is gone. A wrapped loader would do as well,
            and stand in the traceback of a torch that fails."""
            kind = type(spec)

            class Listening(kind):
                @property
                def _initializing(self):
                    return self.__dict__.get("_initializing", False)

                @_initializing.setter
                def _initializing(self, value):
                    self.__dict__["_initializing"] = value
                    if not value:
                        self.__class__ = kind
                        cls.finished(name)

            spec.__class__ = Listening

        @classmethod
        def finished(cls, name):
            module = sys.modules.get(name)
            if module is None:
                return
            cls.waits_for.discard(name)
            if not cls.waits_for and cls in sys.meta_path:
                sys.meta_path.remove(cls)
            try:
                cls.hooks(here).loaded(name, module)
            except Exception:
                pass

        @staticmethod
        def hooks(folder, loaded=[]):
            if not loaded:
                external = sys.modules["_frozen_importlib_external"]
                module = type(sys)("_ddl_torch")
                module.__file__ = folder + "/_ddl_torch.py"
                loader = external.SourceFileLoader("_ddl_torch", module.__file__)
                sys.modules["_ddl_torch"] = module  # torch.compile looks a hook's module up by its name
                module.write_stacks_on_request = _write_stacks_on_request
                exec(loader.get_code("_ddl_torch"), module.__dict__)
                loaded.append(module)
            return loaded[0]

    sys.meta_path.insert(0, Waiter)


def _chain():
    """The sitecustomize that is hidden by ours, or the error that says that there is none."""
    external = sys.modules["_frozen_importlib_external"]
    spec = external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
    module = type(sys)("sitecustomize")
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    if spec.cached:
        module.__cached__ = spec.cached
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


for _part in (_install, lambda: _write_stacks_on_request(False)):
    try:
        _part()
    except Exception:
        pass
_chain()
