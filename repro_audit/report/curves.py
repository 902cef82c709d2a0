"""Figures of a case as SVG: the losses of all repeats laid over each other, and how they part, step by step."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from repro_audit.compare import LOSS_LEAF
from repro_audit.records import CaseResult, Completed, Mode

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
        _Series(name=name, values=tuple(_loss(result, digest) for digest in states[1:])) for name, states in repeats
    ]
    if any(value is not None for one in losses for value in one.values):
        yield _plot(losses, "loss", log=False), f"loss of {len(losses)} repeats over {len(losses[0].values)} steps"
    if len({states for _, states in repeats}) == 1:
        return
    reference = losses[0]
    gaps = [_Series(name=one.name, values=tuple(map(_gap, reference.values, one.values))) for one in losses[1:]]
    if any(value for one in gaps for value in one.values):
        yield (
            _plot(gaps, "|loss - first|", log=True),
            "distance of the losses from those of the first repeat, log scale",
        )
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
    yield _plot(counts, "differing leaves", log=False), "leaves that differ from those of the first repeat"


def _loss(result: CaseResult, digest: str) -> float | None:
    state = result.states.get(digest)
    if state is None or state.loss is None:
        return None
    try:
        value = float(state.loss.text)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _gap(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else abs(first - second)


def _differing(result: CaseResult, first: str, second: str) -> int:
    if first == second:
        return 0
    one, other = result.states[first].leaves, result.states[second].leaves
    return sum(one.get(leaf) != other.get(leaf) for leaf in {*one, *other} if leaf != LOSS_LEAF) or 1


def _plot(series: Sequence[_Series], label: str, *, log: bool) -> str:
    """Lines over steps. Of many steps, so many are drawn as there is room for."""
    steps = max(len(one.values) for one in series)
    stride = max(1, math.ceil(steps / MAXIMUM_POINTS))
    shown = [value for one in series for value in one.values if value is not None and (value > 0 or not log)]
    low, high = min(shown), max(shown)
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
        words = f"1e{value:.4g}" if log else f"{value:.4g}"
        height = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * fraction
        parts.append(f'<text class="end" x="{LEFT - 6}" y="{height + 4:.1f}">{words}</text>')
        parts.append(f'<path class="grid" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>')
    parts += [
        f'<text class="middle" x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 15}">{step}</text>'
        for step in sorted({1, (steps + 1) // 2, steps})
    ]
    parts.append(f'<text class="middle" x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}">step</text>')
    for number, one in enumerate(series):
        points = [
            (x(step), y(value))
            for step, value in enumerate(one.values, 1)
            if value is not None and (value > 0 or not log) and ((step - 1) % stride == 0 or step == steps)
        ]
        title, color = f"<title>{escape(one.name)}</title>", f"c{number % COLORS}"
        # Later lines are drawn thinner, so that equal ones show as one line with a core.
        width = max(1.0, 5.0 - 1.5 * number)
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            parts.append(
                f'<polyline class="c{number % COLORS}" stroke-width="{width}" points="{path}">{title}</polyline>'
            )
        if len(points) <= 40:
            parts += [
                f'<circle class="{color}" cx="{a:.1f}" cy="{b:.1f}" r="{1.5 + width / 2:.2f}">{title}</circle>'
                for a, b in points
            ]
    parts.append("</svg>")
    return "".join(parts)
