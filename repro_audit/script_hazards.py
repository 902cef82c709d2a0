"""What may make runs agree by luck, or only because strict mode hides it: told although no two runs differ."""

import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repro_audit.errors import EvidenceError
from repro_audit.plan import Zygote
from repro_audit.recording import Recorded
from repro_audit.records import Mode
from repro_audit.report.progress import Progress
from repro_audit.script_launch import RecordedRun
from repro_audit.script_notes import first_non_finite
from repro_audit.script_records import THREADS_SUFFIX, Finished, Point, Trace
from repro_audit.script_runs import ScriptRuns
from repro_audit.trace_file import OVERLAPPING, UNINITIALISED, OpRecord, TensorSeen, TraceReader

TRACED_SECONDS = 3.0
"""A script whose run takes no longer is traced once, to see what it does with memory."""

TRACED_FACTOR = 20.0
"""How much longer a traced run may take than the limit of one that is not."""

PARALLEL_ELEMENTS = 32768
"""Smaller tensors are worked on by one thread, for which elements that share memory are no race.

Source: ``GRAIN_SIZE`` in https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/Parallel.h
"""

_SHAPE = re.compile(r"\[([\d, ]*)\]")


@dataclass(frozen=True, kw_only=True)
class Hazards:
    """Sentences for a report."""

    by_luck: tuple[str, ...]
    """Results depend on timing by design: two runs may agree by luck."""
    hidden: tuple[str, ...]
    """Strict mode hides what other runs will show."""


def examine(runs: ScriptRuns, progress: Progress, first: RecordedRun) -> Hazards:
    """Looks at what a run has shown, and once more at what a short one does with memory."""
    overlapping, unwritten = None, None
    finished = isinstance(first.recorded.recording.outcome, Finished)
    if finished and first.ended.duration_ms <= 1000 * TRACED_SECONDS:
        overlapping, unwritten = _traced(runs, progress)
    by_luck = [_timing(first.recorded)]
    if overlapping is not None:
        by_luck.append(
            f"{overlapping.op} at {overlapping.line} writes to a view whose elements share memory: threads may race "
            "for it, which PyTorch neither detects nor prevents, and runs may agree by luck"
        )
    return Hazards(
        by_luck=tuple(filter(None, by_luck)), hidden=tuple(_hidden(runs, progress, first.recorded, unwritten))
    )


def _timing(one: Recorded) -> str:
    """What in a script depends on timing by design, as a sentence; empty where nothing was seen to."""
    for _, remark in one.remarks():
        if (
            remark.point is Point.LOADER
            and remark.context.get("in_order") == "False"
            and int(remark.context.get("workers", "0")) > 1
        ):
            return (
                f"the DataLoader made at {remark.line} has in_order=False and several workers: which batch comes first "
                "depends on timing, and runs may agree by luck"
            )
        if remark.point is Point.CHILD and remark.name == "thread":
            return (
                f"the script starts threads at {remark.line}: in which order they do what they do depends on timing, "
                "and runs may agree by luck"
            )
    for name in one.stream_names:
        if name.endswith(THREADS_SUFFIX) and any(item.point is Point.STEP for item in one.observations(name)):
            return "the script trains in several threads, whose order depends on timing: runs may agree by luck"
    return ""


def _traced(runs: ScriptRuns, progress: Progress) -> tuple[OpRecord | None, OpRecord | None]:
    """The first op that writes to a large view whose elements share memory; the first that reads unwritten memory."""
    progress.stage("what it does with memory")
    overlapping: OpRecord | None = None
    unwritten: OpRecord | None = None
    with tempfile.TemporaryDirectory(prefix="repro-audit-memory-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "memory.trace"
        runs.make(
            "memory",
            Zygote.A,
            Mode.STRICT,
            Path(folder) / "recording",
            trace=Trace(path=str(path)),
            timeout_factor=TRACED_FACTOR,
        )
        try:
            for record in TraceReader(path):
                if not isinstance(record, OpRecord):
                    continue
                if unwritten is None and any(one.flags & UNINITIALISED for one in record.inputs):
                    unwritten = record
                if overlapping is None and any(_races(one) for one in record.inputs):
                    overlapping = record
        except EvidenceError:
            return None, None
    return overlapping, unwritten


def _races(tensor: TensorSeen) -> bool:
    """Whether threads may write to the same element of it."""
    if not tensor.flags & OVERLAPPING:
        return False
    shape = _SHAPE.search(tensor.kind)
    sizes = [int(size) for size in shape.group(1).split(",") if size.strip()] if shape else []
    return " on " in tensor.kind or math.prod(sizes) >= PARALLEL_ELEMENTS


def _hidden(runs: ScriptRuns, progress: Progress, first: Recorded, unwritten: OpRecord | None) -> Iterator[str]:
    """What is said of memory that was read before it was written, and of a loss that is no number."""
    where = (
        "" if unwritten is None else f"{unwritten.op} at {unwritten.line} reads memory that was allocated and never "
    )
    found = first_non_finite(first)
    if found is not None:
        number, text, line = found
        seen = f"the loss is {text} from backward {number} on, at {line}"
        if not _finite_without_fill(runs, progress, number):
            yield f"{seen}, also without strict mode's fill of uninitialised memory; bits were compared all the same"
        else:
            yield (
                f"{seen}. NaN appears only under strict mode, which fills uninitialised memory with it: uninitialised "
                f"memory is read{f': {where}written' if where else ''}. Without strict mode the result depends on what "
                "that memory held before"
            )
            return
    if where:
        yield (
            f"{where}written. Strict mode fills it, always with the same; without, the result may depend on what that "
            "memory held before"
        )


def _finite_without_fill(runs: ScriptRuns, progress: Progress, number: int) -> bool:
    """Whether losses are numbers up to one's position where uninitialised memory is left as it is."""
    progress.stage("without the fill of uninitialised memory")
    with tempfile.TemporaryDirectory(prefix="repro-audit-fill-", ignore_cleanup_errors=True) as folder:
        made = runs.make("no-fill", Zygote.A, Mode.NO_FILL, Path(folder) / "run")
        other = first_non_finite(made.recorded)
    return other is None or other[0] > number
