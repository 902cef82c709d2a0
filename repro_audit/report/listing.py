"""The workloads that there are, on a terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from repro_audit.records import WorkloadSource
from repro_audit.report.plain import text


def print_listing(sources: Sequence[WorkloadSource], console: Console) -> None:
    """Prints name, summary and the devices on which a refusal is declared."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("workload", overflow="fold")
    table.add_column("summary", overflow="fold")
    table.add_column("refused on", overflow="fold")
    for source in sources:
        table.add_row(text(source.name), text(source.summary), text(", ".join(source.refused)))
    console.print(table)
    console.print(text(f"{len(sources)} workloads"))
