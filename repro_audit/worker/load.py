"""Imports the class of a workload, as late as possible: nothing of it runs before the process is armed."""

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from repro_audit.records import WorkloadSource
from repro_audit.worker.function_workload import workload_of


class ChangedSourceError(Exception):
    """The file is not the one the audit began with."""


def load_class(source: WorkloadSource, folder: str | None = None) -> type[Any]:
    """The class that makes the workload.

    Args:
        folder: Where `module` is looked for; None is the current folder, as for `python -m`.

    Raises:
        ChangedSourceError: The file has another digest than when it was discovered.
        BaseException: Whatever importing it raises.
    """
    content = Path(source.path).read_bytes()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if digest != source.sha256:
        raise ChangedSourceError(f"{source.path} changed while the audit ran: {source.sha256} became {digest}")
    if source.module is not None:
        sys.path.insert(0, folder or os.getcwd())
        module = importlib.import_module(source.module)
    else:
        sys.path.insert(0, str(Path(source.path).parent))  # as `python FILE` does: a workload may have helpers
        name = _module_name(Path(source.path).stem)
        spec = importlib.util.spec_from_file_location(name, source.path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{source.path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # pickling and dataclasses look a class's module up here
        spec.loader.exec_module(module)
    found: Any = getattr(module, source.class_name)
    return found if isinstance(found, type) else workload_of(found)


def _module_name(stem: str) -> str:
    """The file's own name, by which a spawned process of the workload can import it again to unpickle its classes."""
    taken = stem in sys.modules or stem in sys.builtin_module_names or not stem.isidentifier()
    return f"repro_audit_workload_{stem}" if taken else stem
