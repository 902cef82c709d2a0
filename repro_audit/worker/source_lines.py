"""Finds the user's own line in a stack: not PyTorch's, not the standard library's, not this tool's."""

import concurrent.futures.thread
import linecache
import os
import sysconfig
import threading
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

import torch
import torch.utils.checkpoint

from repro_audit.records import SourceLine

_WORKER_FOLDER = str(Path(__file__).resolve().parent) + os.sep
_TORCH_FOLDER = str(Path(torch.__file__).resolve().parent) + os.sep
_PACKAGE_FOLDER = str(Path(__file__).resolve().parent.parent) + os.sep
_LIBRARY_FOLDERS = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)

_THREAD_FILES = (threading.__file__, concurrent.futures.thread.__file__)

ENGINE = "_engine_run_backward"
_CHECKPOINT_FILE = torch.utils.checkpoint.__file__


@lru_cache(maxsize=4096)
def rank_of(path: str) -> int:
    """Whose a file is: 0 for the user's own, 1 for an installed library's, 2 for PyTorch's, Python's or this tool's."""
    if path.startswith("<"):
        return 2  # frozen and generated code
    resolved = str(Path(path).resolve())
    if resolved.startswith((_WORKER_FOLDER, _TORCH_FOLDER)) or _is_compiled(resolved):
        return 2
    if resolved.startswith(_PACKAGE_FOLDER):
        return 0  # bundled workloads and canaries are workloads like any other
    if "site-packages" in resolved or "dist-packages" in resolved:
        return 1
    return 2 if resolved.startswith(_LIBRARY_FOLDERS) else 0


def _is_compiled(path: str) -> bool:
    """Whether a file was written by inductor.

    Source: https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/runtime/cache_dir_utils.py.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return f"{os.sep}torchinductor_" in path or bool(folder and path.startswith(str(Path(folder).resolve()) + os.sep))


def line_of_stack(frame: FrameType | None) -> SourceLine | None:
    """The innermost line of the user in a live stack; of an installed library where there is none of the user."""
    found: tuple[str, int] | None = None
    while frame is not None:
        rank = rank_of(frame.f_code.co_filename)
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
        rank = rank_of(place[0])
        if rank == 0:
            own = place
        elif rank == 1:
            library = place
        trace = trace.tb_next
    place_found = own or library
    return _source_line(*place_found) if place_found else None


def starts_thread(frame: FrameType | None) -> bool:
    """Whether the user's line starts a thread, by itself or through an executor, and not a library for its own ends."""
    while frame is not None:
        path = frame.f_code.co_filename
        if rank_of(path) == 0:
            return True
        if path not in _THREAD_FILES:
            return False
        frame = frame.f_back
    return False


def is_tool_file(path: str) -> bool:
    """Whether a file belongs to the worker, whose frames say nothing about the workload."""
    return str(Path(path).resolve()).startswith(_WORKER_FOLDER)


def recomputed_line(frame: FrameType | None) -> SourceLine | None:
    """The innermost line of the user in a forward that a checkpoint recomputes for autograd's engine.

    None where the engine runs an op by itself, or a custom function's backward.
    """
    found: tuple[str, int] | None = None
    while frame is not None and frame.f_code.co_name != ENGINE:
        place = frame.f_code.co_filename, frame.f_lineno
        if found is None and rank_of(place[0]) == 0:
            found = place
        elif found is not None and place[0] == _CHECKPOINT_FILE:
            return _source_line(*found)
        frame = frame.f_back
    return None


def in_backward(frame: FrameType | None) -> bool:
    """Whether a stack is inside autograd's engine.

    Alerts of backward ops are shown when ``_engine_run_backward`` of ``torch/autograd/graph.py`` ends. Python code that
    the engine calls (a custom function's backward, a recomputed checkpoint) runs below it, or for CUDA in a thread of
    the device, where only the current node tells.
    """
    if torch._C._current_autograd_node() is not None:
        return True
    while frame is not None:
        if frame.f_code.co_name == ENGINE:
            return True
        frame = frame.f_back
    return False


def raised_in_backward(trace: TracebackType | None) -> bool:
    """The same for the traceback of an error; the engine passes errors of device threads on to the caller's."""
    while trace is not None:
        if trace.tb_frame.f_code.co_name == ENGINE:
            return True
        trace = trace.tb_next
    return False


def _source_line(path: str, line: int) -> SourceLine:
    return SourceLine(path=path, line=line, text=linecache.getline(path, line).strip())
