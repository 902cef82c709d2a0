import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_archive import small_archive

PACKAGE = Path(__file__).resolve().parent.parent / "repro_audit"

WORKER_SIDE = ("repro_audit.worker", "repro_audit.canaries", "repro_audit.bundled_workloads")
"""The packages that run in a worker."""

FORBIDDEN = ("torch", "numpy")

PROBE = f"""
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*(name for name in {FORBIDDEN!r} if name in sys.modules))
"""


def parent_modules() -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name.startswith(WORKER_SIDE) or name.endswith("__main__"):
            continue
        found.append(name)
    return found


def imported_with(*names: str) -> list[str]:
    """The forbidden packages that a new interpreter has imported after these modules."""
    probe = subprocess.run([sys.executable, "-c", PROBE, *names], capture_output=True, text=True, check=True)
    return probe.stdout.split()


def test_no_module_of_the_parent_imports_torch_or_numpy():
    modules = parent_modules()
    assert {"repro_audit.cli", "repro_audit.audit", "repro_audit.report.evidence"} <= set(modules)
    assert imported_with(*modules) == []


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["--version"]])
def test_a_command_that_only_informs_imports_neither(arguments):
    code = (
        "import sys\n"
        "from repro_audit import cli\n"
        "try:\n"
        f"    cli.main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        f"sys.stderr.write(' '.join(name for name in {FORBIDDEN!r} if name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout


READING = [
    ["show", "{archive}"],
    ["verify", "{archive}"],
    ["diff", "{archive}", "{archive}"],
    ["report", "{archive}", "--html", "-", "--junit", "{folder}/a", "--markdown", "{folder}/b", "--json", "{folder}/c"],
    ["archive", "list", "--reports", "{folder}"],
    ["archive", "show", "{archive}"],
]


@pytest.mark.parametrize("arguments", READING, ids=lambda arguments: arguments[0])
def test_a_command_that_reads_an_archive_imports_neither(arguments, tmp_path):
    archive = small_archive(tmp_path)
    words = [word.format(archive=archive, folder=tmp_path) for word in arguments]
    code = (
        "import sys\n"
        "from repro_audit import cli\n"
        f"code = cli.main({words!r})\n"
        f"sys.stderr.write(' '.join(name for name in {FORBIDDEN!r} if name in sys.modules))\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_probe_can_fail():
    assert "torch" in imported_with("repro_audit.worker.environment")
