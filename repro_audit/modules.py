"""Finds the file of a module without importing it or its packages."""

import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from repro_audit.errors import WorkloadError


def find_module(name: str) -> Path:
    """The source file of a dotted module name, looked for as ``python -m`` would from the current directory.

    Raises:
        WorkloadError: There is no such module, or it has no source file.
    """
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise WorkloadError(f"{name!r} is no module name; name a workload as module:Class, a script as package.module")
    locations: Sequence[str] = [str(Path.cwd()), *sys.path]
    spec: ModuleSpec | None = None
    for depth in range(1, len(parts) + 1):
        spec = _find_spec(parts[:depth], locations)
        if spec is None:
            raise WorkloadError(
                f"no module {name}: {'.'.join(parts[:depth])} is neither in the current directory nor in "
                f"{sys.executable}'s environment; check the name"
            )
        locations = list(spec.submodule_search_locations or [])
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise WorkloadError(f"module {name} has no Python source file; name one that has")
    return Path(spec.origin)


def _find_spec(parts: Sequence[str], locations: Sequence[str]) -> ModuleSpec | None:
    """Asks every finder in turn, those of editable installs included, as the import system would."""
    for finder in sys.meta_path:
        if (find := getattr(finder, "find_spec", None)) is None:
            continue
        # The path finder looks for the last part alone; given more, it demands that a namespace package's parent
        # has been imported.
        name = parts[-1] if finder is importlib.machinery.PathFinder else ".".join(parts)
        spec: ModuleSpec | None = find(name, locations)
        if spec is not None:
            return spec
    return None
