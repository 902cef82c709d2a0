"""Finds the file of a module without importing it or its packages."""

import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from repro_audit.errors import WorkloadError


def find_module(name: str) -> Path:
    """The source file of a dotted module name, looked for as ``python -m`` would from the current directory.

    Raises:
        WorkloadError: There is no such module, or it has no source file.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
        raise WorkloadError(f"{name!r} is no module name; name a workload as module:Class")
    locations: list[str] | None = [str(Path.cwd()), *sys.path]
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:depth]), locations)
        if spec is None:
            raise WorkloadError(
                f"no module {'.'.join(parts[:depth])} in the current directory or in {sys.executable}'s environment; "
                "check the name in module:Class"
            )
        locations = list(spec.submodule_search_locations or [])
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise WorkloadError(f"module {name} has no Python source file; name the module that defines the class")
    return Path(spec.origin)


def _find_spec(name: str, locations: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if (find := getattr(finder, "find_spec", None)) is not None:
            spec: ModuleSpec | None = find(name, locations)
            if spec is not None:
                return spec
    return None
