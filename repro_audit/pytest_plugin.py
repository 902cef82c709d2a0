"""A fixture for pytest, `repro_audit`: audits a function, a class or a named workload, and fails where it must.

Nothing else of the package is imported until a test asks for the fixture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from repro_audit.pytest_auditor import Audited, Auditor

_OUTPUT = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("repro-audit", "reproducibility audits (fixture repro_audit)")
    group.addoption(
        "--repro-audit-device",
        action="append",
        metavar="DEVICE",
        help="audit on cpu, cuda or cuda:N (repeatable; default: cpu, and cuda where there is one)",
    )
    group.addoption(
        "--repro-audit-repeats",
        metavar="N",
        help="fresh processes to compare with the reference run (default: 1, or as the test says)",
    )
    group.addoption(
        "--repro-audit-output",
        type=Path,
        metavar="DIR",
        help="where archives go (default: repro-audit in pytest's temporary folder)",
    )


@pytest.fixture(scope="session")
def _repro_auditor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Auditor]":
    from repro_audit.errors import ReproAuditError
    from repro_audit.pytest_auditor import Auditor, options

    config = request.config
    output: Path = config.getoption("--repro-audit-output") or tmp_path_factory.getbasetemp() / "repro-audit"
    try:
        devices, repeats = options(config.getoption("--repro-audit-device"), config.getoption("--repro-audit-repeats"))
    except ReproAuditError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_OUTPUT] = output
    with Auditor(output.absolute(), devices, repeats) as auditor:
        yield auditor


@pytest.fixture
def repro_audit(request: pytest.FixtureRequest, _repro_auditor: "Auditor") -> "Audited":
    """Audits what it is called with; see `repro_audit.pytest_auditor.Audited`."""
    from repro_audit.pytest_auditor import Audited

    def keep(path: Path) -> None:
        request.node.user_properties.append(("repro_audit_evidence", str(path)))

    return Audited(_repro_auditor, keep)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says where the evidence lies, where there is any."""
    output = terminalreporter.config.stash.get(_OUTPUT, None)
    if output is not None and output.is_dir():
        terminalreporter.write_line(f"repro-audit: evidence in {output}")
