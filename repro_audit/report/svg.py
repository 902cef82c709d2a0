"""The report as a picture that stands alone: no font or anything else is fetched to show it."""

import io
import re

from rich.console import Console

from repro_audit.records import AuditReport
from repro_audit.report.table import print_report

_FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)


def export_svg(report: AuditReport, width: int = 120) -> str:
    """The report as SVG text, in whatever monospaced font the viewer has.

    Args:
        width: Columns of the terminal that is pictured.
    """
    # Long, and needed for no other report.
    from rich._export_format import CONSOLE_SVG_FORMAT

    console = Console(
        record=True, file=io.StringIO(), width=width, force_terminal=True, color_system="truecolor", highlight=False
    )
    print_report(report, console)
    # Rich's own frame loads a font from a content delivery network, which no README should do to its readers.
    frame = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", "monospace")
    return console.export_svg(title="repro-audit", code_format=frame)
