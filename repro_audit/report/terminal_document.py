"""A document on a terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from repro_audit.report.plain import text
from repro_audit.report.sections import Document, Section

_INDENT = 4


def print_document(document: Document, console: Console) -> None:
    """Prints the whole document, its statement last: that is what stays in sight."""
    parts: list[RenderableType] = [text(f"{document.verdict}  {document.title}", "bold")]
    parts += [text(f"  {name}: {value}") for name, value in document.facts]
    for section in document.sections:
        parts += [Text(""), *_section(section)]
    console.print(Group(*parts, Text(""), text(f"{document.verdict}: {document.statement}", "bold")))


def _section(section: Section) -> Iterator[RenderableType]:
    yield text(f"{section.kind}: {section.title}" if section.kind else section.title, "bold")
    if section.rows:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for header in section.headers:
            table.add_column(header, overflow="fold")
        for row in section.rows:
            table.add_row(*map(text, row))
        yield table
    for line in (*section.code, *section.lines):
        yield Padding(text(line), (0, 0, 0, _INDENT))
    for part in section.parts:
        yield Padding(Group(*_section(part)), (0, 0, 0, _INDENT))
