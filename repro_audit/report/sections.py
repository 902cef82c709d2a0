"""The parts of a document, from which HTML, Markdown and the terminal draw."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A drawing, and in words what is to be seen in it."""

    svg: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a document."""

    title: str
    lines: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    code: tuple[str, ...] = ()
    """Shown with all its spaces."""
    figures: tuple[Figure, ...] = ()
    parts: tuple["Section", ...] = ()
    kind: str = ""
    """``finding``, ``incomplete``, ``waived`` or ``note`` where it is a finding."""
    folded: bool = False
    """Of use to few: HTML shows its title alone until it is opened, Markdown leaves it out."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    verdict: str
    """A word."""
    statement: str
    facts: tuple[tuple[str, str], ...]
    """When, where, with what: names and values."""
    sections: tuple[Section, ...]
