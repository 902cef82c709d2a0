"""Audits for tests: interpreters that are shared by a whole session, and one archive for each audit."""

import inspect
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from repro_audit.archive import Archive
from repro_audit.audit import audit
from repro_audit.commands.output import keep_evidence
from repro_audit.commands.run import QUICK
from repro_audit.discovery import canary_folder, discover, discover_folder, sources_of_object
from repro_audit.errors import UsageError, WorkloadError
from repro_audit.exit_codes import ExitCode
from repro_audit.finish import finish
from repro_audit.interpreter import Interpreter
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.interpreters import interpreter_pair
from repro_audit.launch import ProcessLauncher
from repro_audit.option_types import DEFAULT_ISOLATION, device, positive
from repro_audit.plan import Zygote
from repro_audit.records import AuditReport, Isolation, Settings, WorkloadSource
from repro_audit.report.finding import Level
from repro_audit.report.findings import findings
from repro_audit.report.plain import printable
from repro_audit.report.progress import SilentProgress
from repro_audit.settings import require_current_folder, resolve_cublas_workspace, worker_environment

Subject = str | type | Callable[..., object]


def options(devices: Sequence[str] | None, repeats: str | None) -> tuple[tuple[str, ...], int | None]:
    """What the command line of pytest asks for.

    Raises:
        UsageError: It is not valid.
    """
    try:
        return tuple(map(device, devices or ())), positive(repeats) if repeats is not None else None
    except ArgumentTypeError as error:
        raise UsageError(f"repro-audit: {error}") from error


class Auditor:
    """Audits one subject after the other in the same two interpreters, from which every run is forked afresh."""

    def __init__(self, output: Path, devices: Sequence[str], repeats: int | None) -> None:
        """Starts nothing yet.

        Args:
            output: The folder of the archives.
            devices: Empty: those that the test names, or else what there is.
            repeats: Outranks what a test asks for; None where it is for the test to say.
        """
        self._output = output
        self._devices = tuple(devices)
        self._repeats = repeats
        self._stack = ExitStack()
        self._isolation = Isolation(DEFAULT_ISOLATION)
        self._interpreters: dict[Zygote, Interpreter] = {}
        self._variables: dict[str, str] = {}

    def __enter__(self) -> "Auditor":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def audit(
        self,
        subject: Subject,
        *,
        devices: Sequence[str],
        steps: int,
        seed: int,
        repeats: int,
        timeout: float,
        budget: float,
    ) -> tuple[AuditReport, Path]:
        """The report on a subject, and its evidence file. Arguments are as for `Audited`."""
        require_current_folder()
        sources = _sources(subject)
        cublas_workspace = resolve_cublas_workspace(None, os.environ)
        settings = Settings(
            modes=QUICK,
            selection=tuple(source.name for source in sources),
            workload_paths=(),
            devices=tuple(dict.fromkeys(self._devices or map(device, devices))),
            required_devices=(),
            steps=steps,
            repeats=self._repeats or repeats,
            seed=seed,
            timeout_ms=round(timeout * 1000),
            isolation=self._isolation,
            cublas_workspace=cublas_workspace,
            budget_ms=round(budget * 1000),
        )
        # What the test can import, so can the runs.
        path = os.pathsep.join(dict.fromkeys(entry for entry in sys.path if entry))
        variables = {**worker_environment(os.environ, cublas_workspace), "PYTHONPATH": path}
        variables.pop("PYTEST_CURRENT_TEST", None)  # which is another one in each test
        canaries = {source.name: source for source in discover_folder(canary_folder(), bundled=True)}
        with Archive.fresh(self._output) as archive, InterpreterPool(self._isolation, variables) as pool:
            launcher = ProcessLauncher(self._pair(variables), timeout, pool)
            report = finish(audit(settings, sources, canaries, launcher, archive, SilentProgress()))
            return report, keep_evidence(report, archive.folder)

    def _pair(self, variables: dict[str, str]) -> dict[Zygote, Interpreter]:
        """Two interpreters of this environment; those of another one are closed."""
        if variables != self._variables:
            self._stack.close()
            self._interpreters = self._stack.enter_context(interpreter_pair(self._isolation, variables))
            self._variables = variables
        return self._interpreters


class Audited:
    """What the fixture `repro_audit` is: call it with what is to be audited."""

    def __init__(self, auditor: Auditor, keep: Callable[[Path], None]) -> None:
        """Takes an auditor that stays the caller's.

        Args:
            keep: Is told the path of each evidence file.
        """
        self._auditor = auditor
        self._keep = keep

    def __call__(
        self,
        subject: Subject,
        *,
        devices: Sequence[str] = (),
        steps: int = 2,
        seed: int = 1234,
        repeats: int = 1,
        timeout: float = 300.0,
        budget: float = 30.0,
    ) -> Path:
        """Audits in strict mode, as ``repro-audit run --quick`` does, and fails the test where that has a finding.

        Args:
            subject: A function or a class at the level of its module, or the name of a workload as for
                ``repro-audit run``. A function is called once per step, with the device where it takes a parameter,
                and returns its loss, or a mapping with its ``loss`` and everything else that must be equal.
            devices: ``cpu``, ``cuda`` or ``cuda:N``; empty: ``cpu``, and ``cuda`` where there is one. The option
                ``--repro-audit-device`` outranks it.
            steps: Steps of each repeat.
            seed: Of every repeat.
            repeats: Fresh processes to compare with the reference run; the option outranks it.
            timeout: Seconds for one run.
            budget: Seconds that may be spent on finding what decides a divergence.

        Returns:
            The evidence file, in an archive that ``repro-audit verify`` accepts.

        Raises:
            AssertionError: There is a finding, or a case could not be judged; the message shows the first divergence.
            WorkloadError: The subject is nothing that a fresh interpreter could import.
        """
        __tracebackhide__ = True
        report, path = self._auditor.audit(
            subject, devices=devices, steps=steps, seed=seed, repeats=repeats, timeout=timeout, budget=budget
        )
        self._keep(path)
        if not report.summary.complete:
            raise KeyboardInterrupt
        if report.summary.exit_code == ExitCode.NOTHING:
            pytest.skip(f"{report.summary.statement}: {'; '.join(result.reason for result in report.cases)}")
        if report.summary.exit_code != ExitCode.VERIFIED:
            raise AssertionError(_message(report, path))
        return path


def _message(report: AuditReport, path: Path) -> str:
    lines = [report.summary.statement]
    for finding in findings(report):
        if finding.level is not Level.NOTE:
            lines += ["", f"{finding.level.value}: {finding.title}", *(f"    {line}" for line in finding.lines)]
            lines += [f"    next: {finding.next_step}"] if finding.next_step else []
    return printable("\n".join([*lines, "", f"evidence: {path}"]))


def _sources(subject: Subject) -> tuple[WorkloadSource, ...]:
    """The workloads that a subject stands for.

    Raises:
        WorkloadError: It is nothing that a fresh interpreter could import.
    """
    if isinstance(subject, str):
        return discover([subject], [])
    name, module = getattr(subject, "__qualname__", ""), getattr(subject, "__module__", "")
    if not name.isidentifier() or not module:
        raise WorkloadError(
            f"{subject!r} is no function and no class at the level of a module, so that a fresh interpreter cannot "
            "import it; define it there, or name a workload"
        )
    try:
        file = inspect.getsourcefile(inspect.unwrap(subject))
    except TypeError:
        file = None
    if file is None:
        raise WorkloadError(f"{subject!r} has no source file; audit one that has")
    return sources_of_object(module, name, Path(file))
