"""Recognises strict mode's refusals in errors, and collects every alert of a warn_only run."""

import re
import sys
import warnings
from types import FrameType, TracebackType
from typing import Any

from repro_audit.records import Alert, Phase, SourceLine
from repro_audit.worker.source_lines import in_backward, line_of_stack, line_of_traceback

# Context::alertNotDeterministic, called by ops and extensions alike; the caller's name may hold spaces.
# Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/Context.cpp
_IMPLEMENTATION = re.compile(
    r"(?:^|(?<=\n)|(?<=Error: )|(?<=Warning: ))(?P<op>[^\n]{1,200}?) does not have a deterministic implementation, "
    r"but you set 'torch\.use_deterministic_algorithms\(True(?:, warn_only=True)?\)'"
)

# The attention kernels have a text of their own.
# Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/transformers/sdp_utils_cpp.h
_ATTENTION = re.compile(
    r"(?P<op>Flash Attention|Memory Efficient attention|cuDNN Attention) defaults to a non-deterministic algorithm"
)

# Before 2.13, the first cuBLAS call in strict mode without CUBLAS_WORKSPACE_CONFIG.
# Source: https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/Context.cpp, alertCuBLASConfigNotDeterministic
_CUBLAS = re.compile(r"Deterministic behavior was enabled with either .{0,400}?uses CuBLAS", re.DOTALL)
CUBLAS_OP = "cuBLAS without CUBLAS_WORKSPACE_CONFIG"

_SIDE_EFFECT = re.compile(r'"fill_empty_deterministic_" not implemented')


def refused_op(message: str) -> str | None:
    """The op that strict mode refuses in the text of an error or a warning; None where it is no refusal.

    Texts of PyTorch 2.9 to 2.14 are known. An error that another process or thread passed on with its traceback
    (``Caught RuntimeError in replica 0 ...``) is recognised, too.
    """
    if found := _IMPLEMENTATION.search(message) or _ATTENTION.search(message):
        return found["op"].strip()
    return CUBLAS_OP if _CUBLAS.search(message) else None


def is_side_effect(message: str) -> bool:
    """Whether strict mode broke an allocation itself: it fills new memory, and cannot in every dtype."""
    return _SIDE_EFFECT.search(message) is not None


def refusal(error: BaseException, step: int) -> Alert | None:
    """The refusal that an error is, or was raised from; None where it is another error.

    Args:
        step: The step it was raised in.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        message = str(link)
        if isinstance(link, RuntimeError) and (op := refused_op(message)) is not None:
            return Alert(
                op=op,
                message=message,
                phase=Phase.BACKWARD if _raised_in_backward(link.__traceback__) else Phase.FORWARD,
                step=step,
                count=1,
                location=line_of_traceback(link.__traceback__),
                forward_location=None,
            )
        link = link.__cause__ or link.__context__
    return None


def _raised_in_backward(trace: TracebackType | None) -> bool:
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "_engine_run_backward":
            return True
        trace = trace.tb_next
    return False


class AlertLog:
    """Collects every alert while active, whatever the workload does to Python's warning filters.

    PyTorch's own once-filter has to be lifted with `torch.set_warn_always`, as arming a warn_only run does. Warnings
    that are no alerts go their usual way.
    """

    def __init__(self) -> None:
        self.step = 0
        self._alerts: dict[tuple[str, Phase, SourceLine | None], Alert] = {}
        self._replaced: dict[str, Any] = {}

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """What was collected; equal ones are counted together, and stand where the first was seen."""
        return tuple(self._alerts.values())

    def __enter__(self) -> "AlertLog":
        # Every shown warning passes `_showwarnmsg`, also inside a `catch_warnings` of the workload, which replaces
        # what that calls. Filters come before it, so ours has to stay the first of them.
        for name in ("_showwarnmsg", "_add_filter", "resetwarnings"):
            self._replaced[name] = getattr(warnings, name)
        self._context = warnings.catch_warnings()
        self._context.__enter__()
        vars(warnings)["_showwarnmsg"] = self._show
        vars(warnings)["_add_filter"] = self._repinning("_add_filter")
        vars(warnings)["resetwarnings"] = self._repinning("resetwarnings")
        _pin()
        return self

    def __exit__(self, *_: object) -> None:
        vars(warnings).update(self._replaced)
        self._context.__exit__(None, None, None)

    def _repinning(self, name: str) -> Any:
        original = self._replaced[name]

        def repinned(*arguments: Any, **keywords: Any) -> None:
            original(*arguments, **keywords)
            _pin()

        return repinned

    def _show(self, shown: warnings.WarningMessage) -> None:
        message = str(shown.message)
        op = refused_op(message)
        if op is None:
            self._replaced["_showwarnmsg"](shown)
            return
        frame = sys._getframe(1)
        self._count(op, message, Phase.BACKWARD if in_backward(frame) else Phase.FORWARD, frame)

    def _count(self, op: str, message: str, phase: Phase, frame: FrameType) -> None:
        location = line_of_stack(frame)
        before = self._alerts.get((op, phase, location))
        self._alerts[op, phase, location] = Alert(
            op=op,
            message=before.message if before else message,
            phase=phase,
            step=before.step if before else self.step,
            count=before.count + 1 if before else 1,
            location=location,
            forward_location=None,
        )


_PINNED = (
    "always",
    re.compile(
        r"(?s).*(does not have a deterministic implementation|defaults to a non-deterministic algorithm|uses CuBLAS)"
    ),
    Warning,
    None,
    0,
)


def _pin() -> None:
    """Puts the filter for alerts before all others."""
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    if not filters or filters[0] is not _PINNED:
        filters.insert(0, _PINNED)
        warnings._filters_mutated()  # type: ignore[attr-defined]
