"""What a finding is, and the words that all kinds of findings share."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from repro_audit.records import SourceLine


class Level(StrEnum):
    """How much a finding weighs."""

    FINDING = "finding"
    INCOMPLETE = "incomplete"
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


def located(label: str, location: SourceLine | None) -> Iterator[str]:
    """A line that shows a place in the source; none where it is not known."""
    if location is not None:
        yield f"{label}{location.path}:{location.line}  {location.text}"
