"""Finds the user's own line in a stack: not PyTorch's, not the standard library's, not this tool's."""

import linecache
import os
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

import torch

from repro_audit.records import SourceLine

_WORKER_FOLDER = str(Path(__file__).resolve().parent) + os.sep
_TORCH_FOLDER = str(Path(torch.__file__).resolve().parent) + os.sep
_PACKAGE_FOLDER = str(Path(__file__).resolve().parent.parent) + os.sep
_LIBRARY_FOLDERS = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


@lru_cache(maxsize=4096)
def _rank(path: str) -> int:
    """0 for the user's own files, 1 for installed libraries, 2 for PyTorch, Python and this tool."""
    if path.startswith("<"):
        return 2  # frozen and generated code
    resolved = str(Path(path).resolve())
    if resolved.startswith((_WORKER_FOLDER, _TORCH_FOLDER)):
        return 2
    if resolved.startswith(_PACKAGE_FOLDER):
        return 0  # bundled workloads and canaries are workloads like any other
    if "site-packages" in resolved or "dist-packages" in resolved:
        return 1
    return 2 if resolved.startswith(_LIBRARY_FOLDERS) else 0


def line_of_stack(frame: FrameType | None) -> SourceLine | None:
    """The innermost line of the user in a live stack; of an installed library where there is none of the user."""
    found: tuple[str, int] | None = None
    while frame is not None:
        rank = _rank(frame.f_code.co_filename)
        if rank == 0:
            return _source_line(frame.f_code.co_filename, frame.f_lineno)
        if rank == 1 and found is None:
            found = frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return _source_line(*found) if found else None


def line_of_traceback(trace: TracebackType | None) -> SourceLine | None:
    """The innermost line of the user in the traceback of an error, as `line_of_stack`."""
    own: tuple[str, int] | None = None
    library: tuple[str, int] | None = None
    while trace is not None:
        place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        rank = _rank(place[0])
        if rank == 0:
            own = place
        elif rank == 1:
            library = place
        trace = trace.tb_next
    place_found = own or library
    return _source_line(*place_found) if place_found else None


def is_tool_file(path: str) -> bool:
    """Whether a file belongs to the worker, whose frames say nothing about the workload."""
    return str(Path(path).resolve()).startswith(_WORKER_FOLDER)


def in_backward(frame: FrameType | None) -> bool:
    """Whether a stack is inside autograd's engine.

    Alerts of backward ops are raised in ``_engine_run_backward`` of ``torch/autograd/graph.py``; Python code that the
    engine calls (a custom function's backward, a recomputed checkpoint) runs below it.
    """
    while frame is not None:
        if frame.f_code.co_name == "_engine_run_backward":
            return True
        frame = frame.f_back
    return False


def _source_line(path: str, line: int) -> SourceLine:
    return SourceLine(path=path, line=line, text=linecache.getline(path, line).strip())
