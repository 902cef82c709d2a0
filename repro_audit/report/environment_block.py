"""What the runs would run on, on a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from repro_audit.records import Environment
from repro_audit.report.plain import text


def print_environment(environment: Environment, console: Console) -> None:
    """Prints every fact, a section for each kind."""
    sections: dict[str, dict[str, str]] = {
        "python": environment.python,
        "packages": environment.packages,
        "torch": environment.torch,
        "system": environment.system,
        "devices": {
            device.name: ", ".join([device.description, *(f"{name} {fact}" for name, fact in device.details.items())])
            for device in environment.devices
        },
        "absent devices": environment.absent_devices,
        "flags in strict mode": environment.flags,
        "environment variables": environment.variables,
        "git": environment.git,
    }
    for title, facts in sections.items():
        table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, fact in facts.items():
            table.add_row(text(name), text(fact))
        console.print(text(title, "bold"))
        console.print(table if facts else text("    none"))
