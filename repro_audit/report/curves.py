"""Figures of a case as SVG: the losses of all repeats laid over each other, and how they part, step by step."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from repro_audit.compare import LOSS_LEAF
from repro_audit.errors import EvidenceError
from repro_audit.recording import Recorded
from repro_audit.records import CaseResult, Completed, Loss, Mode
from repro_audit.script_records import Observation, Point, ScriptReport

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 12, 34

COLORS = 6
"""Classes ``c0`` to ``c5``, whose colours the page sets, one set for light and one for dark."""

MAXIMUM_SERIES = 24
MAXIMUM_POINTS = 400


@dataclass(frozen=True, kw_only=True)
class _Series:
    name: str
    values: tuple[float | None, ...]
    """One for each step, from 1; None where there is nothing to draw."""


def case_figures(result: CaseResult) -> Iterator[tuple[str, str]]:
    """SVG and caption of each figure of a case; none where no strict repeat was completed."""
    repeats = [
        (f"{run.name}, repeat {number + 1}", repeat.states)
        for run in result.runs
        if run.mode is Mode.STRICT and isinstance(run.outcome, Completed)
        for number, repeat in enumerate(run.outcome.repeats)
    ][:MAXIMUM_SERIES]
    if not repeats or len(repeats[0][1]) < 2:
        return
    losses = [
        _Series(name=name, values=tuple(_loss_of(result, digest) for digest in states[1:])) for name, states in repeats
    ]
    first = repeats[0][1]
    counts = [
        _Series(
            name=name,
            values=tuple(
                float(_differing(result, one, other)) for one, other in zip(first[1:], states[1:], strict=False)
            ),
        )
        for name, states in repeats[1:]
    ]
    yield from _figures(losses, counts, "leaves that differ from those of the first repeat")


def script_figures(report: ScriptReport, folder: Path) -> Iterator[tuple[str, str]]:
    """The same of the runs of a script, from the recordings in its archive; none where these are not there."""
    losses: list[_Series] = []
    steps: list[tuple[str, list[Observation]]] = []
    for recording in [one for one in report.recordings if one.mode is Mode.STRICT][:MAXIMUM_SERIES]:
        recorded = Recorded(recording=recording, folder=folder / "recordings" / recording.name)
        try:
            observed = [one for name in recorded.stream_names for one in recorded.observations(name)]
        except (OSError, EvidenceError):
            return  # `verify` says what is wrong with the archive
        values = tuple(_finite(one.loss) for one in observed if one.point is Point.LOSS)
        losses.append(_Series(name=recording.name, values=values))
        steps.append((recording.name, [one for one in observed if one.point is Point.STEP]))
    if not steps or not steps[0][1]:
        return
    first = steps[0][1]
    counts = [
        _Series(
            name=name, values=tuple(float(_unlike(a.leaves, b.leaves)) for a, b in zip(first, observed, strict=False))
        )
        for name, observed in steps[1:]
    ]
    yield from _figures(losses, counts, "leaves that differ from those of the first run, at each optimizer step")


def _figures(losses: Sequence[_Series], counts: Sequence[_Series], what: str) -> Iterator[tuple[str, str]]:
    """Losses laid over each other; where anything differs, how far they are apart, and how many leaves differ.

    Args:
        counts: Of all repeats but the first.
        what: Says what is counted.
    """
    if any(value is not None for one in losses for value in one.values):
        steps = max(len(one.values) for one in losses)
        words = f"loss of {len(losses)} repeats over {steps} steps, the first as the thick grey line"
        yield _plot(losses, "loss"), words
    gaps = [_Series(name=one.name, values=tuple(map(_gap, losses[0].values, one.values))) for one in losses[1:]]
    if any(value for one in gaps for value in one.values):
        yield (
            _plot(gaps, "|loss - first|", log=True, color=1),
            "distance of the losses from those of the first repeat, log scale",
        )
    if any(value for one in counts for value in one.values):
        yield _plot(counts, "differing leaves", from_zero=True, color=1), what


def _loss_of(result: CaseResult, digest: str) -> float | None:
    state = result.states.get(digest)
    return _finite(state.loss) if state is not None else None


def _finite(loss: Loss | None) -> float | None:
    if loss is None:
        return None
    try:
        value = float(loss.text)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _gap(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else abs(first - second)


def _differing(result: CaseResult, first: str, second: str) -> int:
    if first == second:
        return 0
    one, other = result.states[first].leaves, result.states[second].leaves
    return _unlike(_without_loss(one), _without_loss(other)) or 1  # the loss alone


def _without_loss(leaves: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in leaves.items() if name != LOSS_LEAF}


def _unlike(first: Mapping[str, str], second: Mapping[str, str]) -> int:
    return sum(first.get(leaf) != second.get(leaf) for leaf in {*first, *second})


def _plot(series: Sequence[_Series], label: str, *, log: bool = False, from_zero: bool = False, color: int = 0) -> str:
    """Lines over steps. Of many steps, so many are drawn as there is room for.

    Args:
        color: That of the first series, so that a repeat has one colour in all figures.
    """
    steps = max(len(one.values) for one in series)
    stride = max(1, math.ceil(steps / MAXIMUM_POINTS))
    shown = [value for one in series for value in one.values if value is not None and (value > 0 or not log)]
    low, high = 0.0 if from_zero else min(shown), max(shown)
    if log:
        low, high = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if low == high:
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin

    def x(step: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((step - 1) / (steps - 1) if steps > 1 else 0.5)

    def y(value: float) -> float:
        scaled = math.log10(value) if log else value
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (scaled - low) / (high - low)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{escape(label)}</title>",
        f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>',
    ]
    for fraction in (0.0, 0.5, 1.0):
        value = low + (high - low) * fraction
        words = f"{10**value:.1e}" if log else f"{value:.4g}"
        height = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * fraction
        parts.append(f'<text class="end" x="{LEFT - 6}" y="{height + 4:.1f}">{words}</text>')
        parts.append(f'<path class="grid" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>')
    parts += [
        f'<text class="middle" x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 15}">{step}</text>'
        for step in sorted({1, (steps + 1) // 2, steps})
    ]
    parts.append(f'<text class="middle" x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}">step</text>')
    for number, one in enumerate(series, color):
        points = [
            (x(step), y(value))
            for step, value in enumerate(one.values, 1)
            if value is not None and (value > 0 or not log) and ((step - 1) % stride == 0 or step == steps)
        ]
        title = f"<title>{escape(one.name)}</title>"
        # Later lines are drawn thinner, so that equal ones show as one line with a core.
        width = max(1.0, 5.0 - 1.5 * number)
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(
                f'<polyline class="c{number % COLORS}" stroke-width="{width}" points="{path}">{title}</polyline>'
            )
        if len(points) <= 40:
            parts += [
                f'<circle class="c{number % COLORS}" cx="{a:.1f}" cy="{b:.1f}" r="{1.5 + width / 2}">{title}</circle>'
                for a, b in points
            ]
    parts.append("</svg>")
    return "".join(parts)
