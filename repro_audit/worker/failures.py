"""Says what kind of failure an error is, and shows it without the frames of this tool."""

import traceback

import torch

from repro_audit.records import Failed, FailureKind, Mode, Refused
from repro_audit.wording import DETAIL_CHARACTERS, encodable
from repro_audit.worker.alerts import is_side_effect, message_of, refusal
from repro_audit.worker.leaves import LeafError
from repro_audit.worker.losses import LossError
from repro_audit.worker.source_lines import is_tool_file

MEMORY_MARKS = (
    "can't allocate memory",
    "std::bad_alloc",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
)
"""What allocators say; on the CPU, and in libraries on CUDA, the error is a plain RuntimeError."""


class EmptyError(Exception):
    """`state()` held nothing but the loss and generators after the last step."""


def classified(error: BaseException, mode: Mode | None, *, repeat: int, step: int) -> Refused | Failed:
    """What an error that ended a run says of it.

    Args:
        mode: None where nothing was armed; only strict mode refuses.
    """
    alert = refusal(error, step)
    if alert is not None and mode in (Mode.STRICT, Mode.NO_FILL):
        return Refused(alert=alert, repeat=repeat, detail=_detail(error))
    match error:
        case LeafError():
            return failed(FailureKind.LEAF, error)
        case LossError():
            return failed(FailureKind.LOSS, error)
        case EmptyError():
            return failed(FailureKind.EMPTY, error)
        case SystemExit():
            return failed(FailureKind.EXIT, error)
        case MemoryError() | torch.OutOfMemoryError():
            return failed(FailureKind.OUT_OF_MEMORY, error)
        case RuntimeError() if any(mark in message_of(error) for mark in MEMORY_MARKS):
            return failed(FailureKind.OUT_OF_MEMORY, error)
        case _:
            return failed(FailureKind.EXCEPTION, error)


def failed(kind: FailureKind, error: BaseException) -> Failed:
    """A failure of that kind, with the end of the traceback."""
    detail = _detail(error)
    if is_side_effect(message_of(error)):
        detail = (
            "a side effect of strict mode, not a refusal: it fills uninitialised memory and cannot in this dtype\n"
            + detail
        )
    return Failed(kind=kind, detail=detail)


def _detail(error: BaseException) -> str:
    """The end of the traceback, without the frames of this tool."""
    shown = traceback.TracebackException.from_exception(error)
    links: list[traceback.TracebackException | None] = [shown]
    for link in links:
        if link is not None:
            own = [frame for frame in link.stack if not is_tool_file(frame.filename)]
            link.stack = traceback.StackSummary.from_list(own)
            links += [link.__cause__, link.__context__]
    text = "".join(shown.format())[-DETAIL_CHARACTERS:].strip()
    return encodable(text)
