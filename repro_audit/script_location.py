"""The op where two traced runs part, as a report shows it."""

from dataclasses import dataclass
from pathlib import Path

from repro_audit.errors import EvidenceError
from repro_audit.recording import source_line
from repro_audit.records import Location, TracedOp
from repro_audit.trace_compare import Origin, OriginKind, TraceComparison, compare_traces, differing_tensors
from repro_audit.trace_file import EXTERNAL, UNINITIALISED, OpRecord, TensorSeen

_STATEMENTS = {
    OriginKind.KERNEL: "{op} is the first op whose inputs are equal, bit for bit, and whose outputs differ",
    OriginKind.UNINITIALISED: "{op} reads memory that was allocated and never written, and gives other bits",
    OriginKind.EXTERNAL_INPUT: "{op} is the first op that is given something else, which no traced op has made so",
    OriginKind.OTHER_TENSOR: "{op} is the first op that is given another tensor, though all ops before agree",
    OriginKind.GENERATOR: "{op} is the first op that draws from a generator whose state differs",
    OriginKind.ARGUMENTS: "{op} is the first op that is given another value besides its tensors",
    OriginKind.CONTROL_FLOW: "control flow differs: the runs execute other ops from here on",
}


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A value that a run was to store."""

    path: Path
    there: bool


def locate_origin(first: Path, second: Path, window: str) -> Location | None:
    """Compares two traces; None where one of them was not written.

    Args:
        window: What was traced, in words.
    """
    try:
        comparison = compare_traces(first, second)
    except EvidenceError:
        return None
    if comparison.equal or not comparison.origins:
        return _agreement(comparison, window)
    origin = comparison.origins[0]
    op = origin.first or origin.second
    assert op is not None
    return Location(
        agreed=False,
        kind=origin.kind.value,
        statement=_STATEMENTS[origin.kind].format(op=op.op),
        first=None if origin.first is None else _shown(origin, origin.first),
        second=None if origin.second is None else _shown(origin, origin.second),
        line=source_line(op.line),
        context=tuple(_shown(None, record) for record in (*origin.before, *origin.after)),
        overlap=origin.overlapping,
        later=tuple(_shown(one, there) for one in comparison.origins[1:] if (there := one.first or one.second)),
        later_count=comparison.origin_count - 1,
        ops=comparison.ops,
        window=window,
    )


def _agreement(comparison: TraceComparison, window: str) -> Location:
    if comparison.differing:
        statement = "the traced runs differ, but in no op whose inputs are known to be equal"
    else:
        statement = (
            "two traced runs agree in every op: the difference arises outside of PyTorch's ops, or tracing, which "
            "makes each op wait for the one before it, hid it; it was seen untraced only"
        )
    return Location(agreed=True, kind="", statement=statement, ops=comparison.ops, window=window)


def _shown(origin: Origin | None, record: OpRecord) -> TracedOp:
    return TracedOp(
        sequence=record.sequence,
        op=record.op,
        module=record.module,
        line=record.line,
        inputs=", ".join([*map(_tensor, record.inputs), *filter(None, [record.arguments[:200]])]),
        outputs=", ".join(map(_tensor, record.outputs)) or "nothing",
        differs=_differs(origin) if origin is not None else "",
    )


def _tensor(tensor: TensorSeen) -> str:
    words = [tensor.kind]
    if tensor.flags & EXTERNAL:
        words.append("from outside")
    if tensor.flags & UNINITIALISED:
        words.append("never written")
    return " ".join(words)


def _differs(origin: Origin) -> str:
    one, other = origin.first, origin.second
    if one is None or other is None or origin.kind is OriginKind.CONTROL_FLOW:
        return ""
    parts = [f"input {n + 1}" for n in differing_tensors(one.inputs, other.inputs)]
    parts += [f"output {n + 1}" for n in differing_tensors(one.outputs, other.outputs)]
    if one.arguments != other.arguments:
        parts.append("arguments")
    if one.generator != other.generator:
        parts.append("generator state")
    return ", ".join(parts)
