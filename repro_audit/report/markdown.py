"""A document as Markdown: short enough for the page that a CI system shows of a job."""

import re
from collections.abc import Iterator

from repro_audit.report.sections import Document, Section

MAXIMUM_BYTES = 900 * 1024
"""GitHub takes no step summary over 1 MiB
(https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits)."""

MAXIMUM_ROWS = 200

_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|~&@!])")


def markdown_of(document: Document, maximum_bytes: int = MAXIMUM_BYTES) -> str:
    """The page; what would not fit is left out, and that is said.

    Args:
        maximum_bytes: Of the page, as UTF-8.
    """
    head = [f"## {escaped(document.title)}: {escaped(document.verdict)}", "", escaped(document.statement), ""]
    head += [f"- {escaped(name)}: {escaped(value)}" for name, value in document.facts]
    text = "\n".join(head) + "\n"
    for section in document.sections:
        if section.folded:
            continue
        part = "\n" + "\n".join(_section(section, 3)) + "\n"
        if len((text + part).encode()) > maximum_bytes - 200:
            return text + "\nThe rest is left out here, to keep the page short; the archive has all of it.\n"
        text += part
    return text


def _section(section: Section, level: int) -> Iterator[str]:
    kind = f"**{section.kind}**: " if section.kind else ""
    yield f"{'#' * level} {kind}{escaped(section.title)}"
    yield ""
    if section.rows:
        yield f"| {' | '.join(escaped(header) for header in section.headers)} |"
        yield f"|{'---|' * len(section.headers)}"
        for row in section.rows[:MAXIMUM_ROWS]:
            yield f"| {' | '.join(escaped(cell) for cell in row)} |"
        if len(section.rows) > MAXIMUM_ROWS:
            yield ""
            yield f"{len(section.rows) - MAXIMUM_ROWS} more rows are left out here."
        yield ""
    if section.code:
        fence = "`" * max(3, 1 + max((len(run) for line in section.code for run in re.findall("`+", line)), default=0))
        yield from (f"{fence}text", *section.code, fence, "")
    for line in section.lines:
        yield f"- {escaped(line)}" if len(section.lines) > 1 else escaped(line)
    for part in section.parts:
        if not part.folded:
            yield ""
            yield from _section(part, min(level + 1, 6))


def escaped(text: str) -> str:
    """Text on one line that Markdown takes for nothing but text."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))
