"""What a divergence comes from, as far as the recordings of the two runs themselves prove it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from repro_audit.recording import Recorded, source_line
from repro_audit.records import Role
from repro_audit.script_records import CAUSE_ORDER, Cause, CauseKind, Observation, Point, ScriptDivergence

_MASK = 2**64 - 1

_CLOCK_SCALES = (1, 10**3, 10**6, 10**9)
"""Seconds, milliseconds, microseconds, nanoseconds: what a seed taken from the clock may count."""

_CLOCK_SLACK_SECONDS = 60.0


def recorded_causes(first: Recorded, second: Recorded, divergence: ScriptDivergence) -> Iterator[Cause]:
    """The causes that need no further run."""
    yield from _seeds(first, second)
    yield from _files(first, second)
    yield from _data(first, second, divergence)
    if divergence.role is Role.RNG:
        yield Cause(
            kind=CauseKind.EXTRA_DRAW,
            statement=f"the runs draw differently from {divergence.leaf.removeprefix('generator/')}'s generator, "
            f"before this line and after the observation before it",
            proof="the generator's state was equal at every observation before, and differs here; nothing else does",
            line=divergence.line,
        )


def ranked(causes: Iterable[Cause]) -> list[Cause]:
    """Causes in the order of `CAUSE_ORDER`; where it is known why other values come from Python, that they do goes."""
    ordered = sorted(causes, key=lambda cause: CAUSE_ORDER.index(cause.kind))
    explained = any(CAUSE_ORDER.index(cause.kind) < CAUSE_ORDER.index(CauseKind.DATA_ORDER) for cause in ordered)
    return [cause for cause in ordered if not (explained and cause.kind in (CauseKind.VALUE, CauseKind.CONTROL_FLOW))]


def _seeds(first: Recorded, second: Recorded) -> Iterator[Cause]:
    for (_, one), (_, other) in zip(seedings(first), seedings(second), strict=False):
        values = one.context.get("value", ""), other.context.get("value", "")
        if one.name != other.name or values[0] == values[1]:
            continue
        source = ""
        if values == (str(first.recording.process), str(second.recording.process)):
            source = ": it is the process id"
        elif _is_clock(values[0], first) and _is_clock(values[1], second):
            source = ": it is taken from the clock"
        yield Cause(
            kind=CauseKind.SEED_DIFFERS,
            statement=f"{one.name}'s generator is seeded differently in each run{source}",
            proof=f"seeded with {values[0]} in {first.recording.name} and with {values[1]} in {second.recording.name}",
            line=source_line(one.line),
        )
        return


def seedings(recorded: Recorded) -> list[tuple[str, Observation]]:
    """Stream and remark of every seeding of a global generator."""
    return [
        (stream, remark)
        for stream, remark in recorded.remarks()
        if remark.point is Point.SEED and remark.name in ("torch", "python", "numpy")
    ]


def own_generators(recorded: Recorded) -> list[Observation]:
    """Remarks on generators that were made without a seed, and on calls for the operating system's entropy."""
    return [
        remark
        for _, remark in recorded.remarks()
        if remark.point is Point.SEED and remark.name not in ("torch", "python", "numpy")
    ]


def _is_clock(value: str, recorded: Recorded) -> bool:
    try:
        number, started, ended = float(value), float(recorded.recording.started), float(recorded.recording.ended)
    except ValueError:
        return False
    return any(
        started - _CLOCK_SLACK_SECONDS <= number / scale <= ended + _CLOCK_SLACK_SECONDS for scale in _CLOCK_SCALES
    )


def _files(first: Recorded, second: Recorded) -> Iterator[Cause]:
    written = {use.path: use.line for use in first.recording.files_written}
    for use in second.recording.files_read:
        if use.path in written:
            yield Cause(
                kind=CauseKind.FILE,
                statement=f"the second run read {use.path}, which lies outside the working directory and which the "
                "first run had written: it was not there, or was another, when the first one ran",
                proof=f"written at {written[use.path]}; both runs' opened files were recorded",
                line=source_line(use.line),
            )
            return


def _data(first: Recorded, second: Recorded, divergence: ScriptDivergence) -> Iterator[Cause]:
    if divergence.point not in (Point.BATCH, Point.INPUT) or divergence.role is not Role.VALUE:
        return
    ours, theirs = (list(_handed(one, divergence)) for one in (first, second))
    line = divergence.line
    loader = _loader(first) if divergence.point is Point.BATCH or _loader(first) is not None else None
    by_time = (
        loader is not None and loader.context.get("in_order") == "False" and int(loader.context.get("workers", "0")) > 1
    )
    if Counter(map(_content, ours)) == Counter(map(_content, theirs)):
        statement = "the same batches come in another order"
        proof = f"all {len(ours)} batches of one run are in the other"
        if by_time and loader is not None:
            yield Cause(
                kind=CauseKind.LOADER_ORDER,
                statement=f"{statement}: the DataLoader was made with in_order=False, so that whichever worker is "
                "ready first is served first",
                proof=proof,
                line=source_line(loader.line),
            )
        else:
            yield Cause(kind=CauseKind.DATA_ORDER, statement=statement, proof=proof, line=line)
    elif _sum(ours) and _sum(ours) == _sum(theirs):
        yield Cause(
            kind=CauseKind.DATA_ORDER,
            statement="the same samples come in another order",
            proof=f"the rows of the {len(ours)} batches of one run, taken together, are those of the other",
            line=line,
        )
    else:
        yield Cause(
            kind=CauseKind.DATA,
            statement="the runs are given other data, not the same in another order",
            proof=f"the digests of what was handed over differ, and so do the sums over its rows ({len(ours)} and "
            f"{len(theirs)} batches)",
            line=line,
        )


def _handed(recorded: Recorded, divergence: ScriptDivergence) -> Iterator[Observation]:
    return (
        one
        for one in recorded.observations(divergence.stream)
        if one.point is divergence.point and one.name == divergence.name and one.line == _text(divergence)
    )


def _text(divergence: ScriptDivergence) -> str:
    return f"{divergence.line.path}:{divergence.line.line}" if divergence.line else ""


def _content(observation: Observation) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(observation.leaves.items()))


def _sum(observations: list[Observation]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in observations:
        if set(one.rows) != set(one.leaves):
            return {}
        for leaf, rows in one.rows.items():
            total[leaf] = (total.get(leaf, 0) + int(rows, 16)) & _MASK
    return total


def _loader(recorded: Recorded) -> Observation | None:
    for _, remark in recorded.remarks():
        if remark.point is Point.LOADER and remark.context.get("in_order") == "False":
            return remark
    return next((remark for _, remark in recorded.remarks() if remark.point is Point.LOADER), None)
