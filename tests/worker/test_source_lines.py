import json
import sys
import traceback
from pathlib import Path

import pytest
import torch

import repro_audit
from repro_audit.worker.source_lines import in_backward, line_of_stack, line_of_traceback

PACKAGE = Path(repro_audit.__file__).parent

OWN = "/home/somebody/train.py"
LIBRARY = "/home/somebody/.venv/lib/python3.11/site-packages/library/layer.py"
PYTORCH = str(Path(torch.__file__).parent / "nn" / "functional.py")
STANDARD = json.__file__
TOOL = str(PACKAGE / "worker" / "execute.py")
CANARY = str(PACKAGE / "canaries" / "one_ulp.py")
BUNDLED = str(PACKAGE / "bundled_workloads" / "mlp.py")
COMPILED = "/tmp/torchinductor_somebody/ab/cdef.py"
GENERATED = "<eval_with_key>.0"


class Frame:
    """As much of a frame as is looked at."""

    def __init__(self, path, caller):
        self.f_code = compile("", path, "exec")
        self.f_lineno = 7
        self.f_back = caller


class Trace:
    """As much of a traceback as is looked at."""

    def __init__(self, path, inner):
        self.tb_frame = Frame(path, None)
        self.tb_lineno = 7
        self.tb_next = inner


def place_of_stack(paths):
    frame = None
    for path in paths:
        frame = Frame(path, frame)
    return line_of_stack(frame)


def place_of_traceback(paths):
    trace = None
    for path in reversed(paths):
        trace = Trace(path, trace)
    return line_of_traceback(trace)


@pytest.mark.parametrize("place", [place_of_stack, place_of_traceback])
@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((TOOL, OWN), OWN),
        ((TOOL, OWN, PYTORCH), OWN),
        ((TOOL, OWN, LIBRARY, PYTORCH), OWN),
        ((TOOL, LIBRARY, OWN, LIBRARY, PYTORCH), OWN),
        ((TOOL, "/home/somebody/main.py", OWN, STANDARD, PYTORCH), OWN),
        ((TOOL, OWN, GENERATED, PYTORCH), OWN),
        ((TOOL, OWN, COMPILED), OWN),
        ((TOOL, OWN, TOOL), OWN),
        ((TOOL, CANARY, PYTORCH), CANARY),
        ((TOOL, BUNDLED, PYTORCH), BUNDLED),
        ((STANDARD, LIBRARY, PYTORCH), LIBRARY),
        ((STANDARD, "/opt/site-packages/outer.py", LIBRARY), LIBRARY),
    ],
)
def test_the_innermost_line_of_the_user_is_the_place_else_that_of_a_library(place, paths, expected):
    line = place(paths)
    assert line is not None
    assert (line.path, line.line) == (expected, 7)


@pytest.mark.parametrize("place", [place_of_stack, place_of_traceback])
@pytest.mark.parametrize("paths", [(), (TOOL, PYTORCH), (STANDARD, TOOL, GENERATED)])
def test_where_nothing_is_the_users_there_is_no_place(place, paths):
    assert place(paths) is None


def test_code_in_the_folder_that_the_compiler_was_given_is_not_the_users(monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/home/somebody/cache")
    line = place_of_stack((OWN, "/home/somebody/cache/xy/compiled.py"))
    assert line is not None
    assert line.path == OWN


def test_the_text_of_the_line_is_told():
    line = line_of_stack(sys._getframe())  # this very line
    assert line is not None
    assert (line.path, line.text.partition("# ")[2]) == (__file__, "this very line")


def test_a_stack_is_in_backward_only_while_the_engine_runs():
    seen = []
    value = torch.ones(2, requires_grad=True)
    value.register_hook(lambda gradient: seen.append(in_backward(sys._getframe())))
    value.sum().backward()
    assert seen == [True]
    assert not in_backward(sys._getframe())


def test_code_that_the_engine_runs_in_a_thread_of_its_own_is_in_backward():
    # Threads of CUDA devices do not come from the caller's stack; on a CPU, those for deep nesting do not either.
    seen = []

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            frame = sys._getframe()
            names = {entry.name for entry in traceback.extract_stack(frame)}
            seen.append(("_engine_run_backward" in names, in_backward(frame)))
            if len(seen) < 80:
                with torch.enable_grad():
                    Nested.apply(torch.ones(1, requires_grad=True)).sum().backward()
            return gradient

    Nested.apply(torch.ones(1, requires_grad=True)).sum().backward()
    assert (False, True) in seen
    assert all(found for _, found in seen)
