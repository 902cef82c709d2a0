"""A document as one HTML file that asks nobody for anything: no script, no network, light and dark, printable."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from repro_audit.report.sections import Document

if TYPE_CHECKING:
    from jinja2 import Template

TEMPLATES = Path(__file__).with_name("templates")


def html_of(document: Document) -> str:
    """The page; everything but our own figures is escaped."""
    return _template().render(document=document)


@cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["word"] = _class_of
    return environment.get_template("document.html.j2")


def _class_of(cell: str) -> str:
    """The cell's first word, as the class that colours a verdict."""
    word = cell.split(" ")[0].split("/")[0].rstrip("*")
    return word if word.isascii() and word.isalpha() and len(word) < 20 else ""
