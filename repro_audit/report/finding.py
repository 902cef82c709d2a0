"""What a finding is, and the words that all kinds of findings share."""

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from repro_audit.records import Comparison, Completed, Repeat, Run, SourceLine


class Level(StrEnum):
    """How much a finding weighs."""

    FINDING = "finding"
    INCOMPLETE = "incomplete"
    WAIVED = "waived"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a reader should know."""

    level: Level
    title: str
    lines: tuple[str, ...] = ()
    next_step: str = ""


def step_name(step: int) -> str:
    """A step in words; step 0 is what `setup` left."""
    return f"after step {step}" if step else "after setup"


def distinct_words(runs: Iterable[Run], comparisons: Iterable[Comparison]) -> str:
    """How many distinct results the compared repeats gave, to follow how many differ; empty where that says it all.

    Args:
        runs: Those that the comparisons name.
    """
    outcomes = {run.name: run.outcome for run in runs}
    sides = {(side.run, side.repeat) for comparison in comparisons for side in (comparison.first, comparison.second)}
    results: set[Repeat] = set()
    for name, number in sides:
        outcome = outcomes.get(name)
        if isinstance(outcome, Completed) and number < len(outcome.repeats):
            results.add(outcome.repeats[number])
    return f" ({len(results)} distinct of {len(sides)})" if len(sides) > 2 else ""


def located(label: str, location: SourceLine | None) -> Iterator[str]:
    """A line that shows a place in the source; none where it is not known."""
    if location is not None:
        yield f"{label}{location.path}:{location.line}  {location.text}"
