"""The op where two traced runs part, in words."""

from collections.abc import Iterator

from repro_audit.records import Distance, Location, SourceLine, TracedOp
from repro_audit.report.finding import Finding, Level


def place(line: SourceLine | None) -> str:
    """A line as ``path:number  source``."""
    return f"{line.path}:{line.line}  {line.text}".rstrip() if line is not None else "at no line of the script"


def size_words(distance: Distance) -> str:
    """How large the largest difference is, in a word or two."""
    return f"{distance.max_ulp} ULP" if distance.max_ulp else distance.max_absolute or "NaN"


def location_findings(location: Location | None, name: str = "") -> Iterator[Finding]:
    """One finding, or none where nothing was traced.

    Args:
        name: Whose it is, where a report speaks of several.
    """
    prefix = f"{name}: " if name else ""
    if location is None:
        return
    if location.agreed:
        yield Finding(
            level=Level.NOTE,
            title=prefix + location.statement,
            lines=(f"traced: {location.window}, {location.ops} ops",),
        )
        return
    lines = [place(location.line)]
    first, second = (None if op is None else _op(op) for op in (location.first, location.second))
    if first == second:
        lines.append(f"both runs: {first}")
    else:
        lines += [f"{words}{op}" for words, op in (("first:  ", first), ("second: ", second)) if op is not None]
    if location.distance is not None:
        lines += list(distance_lines(location.distance))
    if location.distance_note:
        lines.append(location.distance_note)
    if location.context:
        lines.append("around it, in the first run:")
        lines += [f"  {_op(op)}" for op in location.context]
    if location.later_count:
        lines.append(f"{location.later_count} later ops part independently, the first of them:")
        lines += [f"  {_op(op)}" for op in location.later]
    lines.append(f"traced: {location.window}, {location.ops} ops compared")
    yield Finding(level=Level.FINDING, title=prefix + location.statement, lines=tuple(lines))


def _op(op: TracedOp) -> str:
    module = f" in {op.module}" if op.module else ""
    line = f" at {op.line}" if op.line else ""
    differs = f"; differs: {op.differs}" if op.differs else ""
    return f"#{op.sequence} {op.op}({op.inputs}) -> {op.outputs}{module}{line}{differs}"


def distance_lines(distance: Distance) -> Iterator[str]:
    """How far two values are apart."""
    share = 100 * distance.differing / distance.elements if distance.elements else 0.0
    yield (
        f"{distance.differing} of {distance.elements} elements differ ({share:.3g} %), {distance.dtype}, "
        f"shape {list(distance.shape)}"
    )
    yield f"largest difference: {distance.max_absolute or 'not finite'}, {distance.max_ulp or 'no'} ULP"
    yield f"first at index {list(distance.first_index)}: {distance.first_value} against {distance.second_value}"
