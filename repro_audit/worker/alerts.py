"""Recognises strict mode's refusals in errors, and collects every alert of a warn_only run."""

import os
import re
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

import msgspec
import torch

from repro_audit.records import Alert, Phase, SourceLine
from repro_audit.wording import encodable
from repro_audit.worker.source_lines import in_backward, line_of_stack, line_of_traceback, raised_in_backward

# Context::alertNotDeterministic, called by ops and extensions alike; the caller's name may hold spaces. What another
# process or thread passed on has a prefix ("RuntimeError: ", "got RuntimeError('"), which is no part of the name.
# Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/Context.cpp
_IMPLEMENTATION = re.compile(
    r"(?:^|\n)(?:[^\n]*(?:: |\w\([\"']))?(?P<op>[^\n]{1,200}?) does not have a deterministic implementation"
    r"[^\n]{0,80}?, but you set 'torch\.use_deterministic_algorithms\(True(?:, warn_only=True)?\)'"
)

# The attention kernels have a text of their own.
# Source: https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/transformers/cuda/attention_backward.cu
_ATTENTION = re.compile(
    r"(?P<op>Flash Attention|Memory Efficient attention|cuDNN Attention) defaults to a non-deterministic algorithm"
)

# One op, which is refused in other words than it is warned of.
# Source: https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/kernel/flex/flex_flash_attention.py
_FLEX = re.compile(
    r"Deterministic backward for flex_attention with block_mask and BACKEND='FLASH' requires"
    r"|flex_attention backward with block_mask and BACKEND='FLASH' does not have a deterministic implementation"
)
FLEX_OP = "flex_attention backward with block_mask and BACKEND='FLASH'"

# Before 2.13, the first cuBLAS call in strict mode without CUBLAS_WORKSPACE_CONFIG.
# Source: https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/Context.cpp, alertCuBLASConfigNotDeterministic
_CUBLAS = re.compile(r"Deterministic behavior was enabled with either .{0,400}?uses CuBLAS", re.DOTALL)
CUBLAS_OP = "cuBLAS without CUBLAS_WORKSPACE_CONFIG"

_SIDE_EFFECT = re.compile(r'"fill_empty_deterministic_" not implemented')


def refused_op(message: str) -> str | None:
    """The op that strict mode refuses in the text of an error or a warning; None where it is no refusal.

    Texts of PyTorch 2.9 to 2.14 are known. An error that another process or thread passed on with its traceback
    (``Caught RuntimeError in replica 0 ...``) is recognised, too, and so is one whose text quotes a refusal: whoever
    raised it had been refused.
    """
    if _FLEX.search(message):
        return FLEX_OP
    if found := _IMPLEMENTATION.search(message) or _ATTENTION.search(message):
        return found["op"].strip()
    return CUBLAS_OP if _CUBLAS.search(message) else None


def is_side_effect(message: str) -> bool:
    """Whether strict mode broke an allocation itself: it fills new memory, and cannot in every dtype."""
    return _SIDE_EFFECT.search(message) is not None


def refusal(error: BaseException, step: int) -> Alert | None:
    """The refusal that an error is, was raised from, or holds in its group; None where it is another error.

    Args:
        step: The step it was raised in.
    """
    links = list(_links(error))
    for link in links:
        message = message_of(link)
        op = refused_op(message)
        if op is not None:
            return Alert(
                op=op,
                message=message,
                phase=Phase.BACKWARD if any(raised_in_backward(one.__traceback__) for one in links) else Phase.FORWARD,
                step=step,
                count=1,
                location=line_of_traceback(link.__traceback__),
                forward_location=None,
            )
    return None


def message_of(error: BaseException) -> str:
    """The text of an error, also of one that cannot say it; lone surrogates, which no JSON can hold, written out."""
    told = encodable("".join(traceback.format_exception_only(error)).strip())
    return told.removeprefix(f"{type(error).__name__}: ")


def _links(error: BaseException) -> Iterator[BaseException]:
    """The error and all that led to it, the root of the chain first: its traceback leads to the refused op."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    for link in waiting:
        if link is None or any(link is before for before in seen):
            continue
        seen.append(link)
        waiting += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions
    yield from reversed(seen)


class AlertLog:
    """Collects every alert while active, whatever the workload does to the warning filters of Python and PyTorch.

    Warnings that are no alerts go their usual way. A process that the workload forks while the log is active, such as a
    DataLoader's worker, leaves its alerts in a file that both have open.
    """

    def __init__(self) -> None:
        self.step = 0
        self._alerts: dict[tuple[str, Phase, SourceLine | None], Alert] = {}
        self._replaced: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._forked: IO[bytes] | None = None

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """What was collected; equal ones are counted together, and stand where the first was seen."""
        self._take_in_forked()
        return tuple(self._alerts.values())

    def _take_in_forked(self) -> None:
        """Counts what forked processes have left so far."""
        if self._forked is None:
            return
        with self._lock:
            self._forked.seek(0)
            for line in self._forked.read().splitlines():
                self._count(msgspec.json.decode(line, type=Alert))
            self._forked.truncate(0)

    def __enter__(self) -> "AlertLog":
        self._forked = tempfile.TemporaryFile(mode="ab+", buffering=0)
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
        # PyTorch shows the alerts of attention once per process, unless told to show all.
        self._warn_always = torch.is_warn_always_enabled(), torch._C._set_warnAlways
        torch.set_warn_always(True)
        vars(torch._C)["_set_warnAlways"] = lambda _: None
        return self

    def __exit__(self, *_: object) -> None:
        self._take_in_forked()
        if self._forked is not None:
            self._forked.close()
            self._forked = None
        before, setter = self._warn_always
        vars(torch._C)["_set_warnAlways"] = setter
        torch.set_warn_always(before)
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
        alert = Alert(
            op=op,
            message=message,
            phase=Phase.BACKWARD if in_backward(frame) else Phase.FORWARD,
            step=self.step,
            count=1,
            location=line_of_stack(frame),
            forward_location=None,
        )
        if os.getpid() != self._process and self._forked is not None:
            os.write(self._forked.fileno(), msgspec.json.encode(alert) + b"\n")  # appended whole: one write, O_APPEND
            return
        with self._lock:
            self._count(alert)

    def _count(self, alert: Alert) -> None:
        key = alert.op, alert.phase, alert.location
        before = self._alerts.get(key)
        self._alerts[key] = msgspec.structs.replace(before, count=before.count + 1) if before else alert


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
    # Where warnings may be filtered per context, from Python 3.14 on, the list in force is told by a function.
    in_force: Callable[[], Any] = getattr(warnings, "_get_filters", lambda: warnings.filters)
    filters: list[Any] = in_force()
    if not filters or filters[0] is not _PINNED:
        filters.insert(0, _PINNED)
        warnings._filters_mutated()  # type: ignore[attr-defined]
