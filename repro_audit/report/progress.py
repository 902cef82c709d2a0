"""Shows how far an audit is while it runs."""

import sys
from typing import TYPE_CHECKING, Protocol

from repro_audit.records import Case, CaseResult, Verdict
from repro_audit.report.plain import printable

if TYPE_CHECKING:
    from rich.progress import TaskID


class Progress(Protocol):
    """What an audit tells of its course."""

    def started(self, total_cases: int) -> None:
        """The audit begins; canaries count as cases."""

    def run_started(self, case: Case, run: str) -> None:
        """A run begins."""

    def stage(self, words: str) -> None:
        """Something begins that is no run of a case."""

    def case_finished(self, result: CaseResult | None) -> None:
        """A case is judged; None for a canary, whose verdict says nothing about the machine."""

    def finished(self) -> None:
        """The audit is over, or was interrupted."""


class SilentProgress:
    """Shows nothing."""

    def started(self, total_cases: int) -> None:
        """Nothing."""

    def run_started(self, case: Case, run: str) -> None:
        """Nothing."""

    def stage(self, words: str) -> None:
        """Nothing."""

    def case_finished(self, result: CaseResult | None) -> None:
        """Nothing."""

    def finished(self) -> None:
        """Nothing."""


class LiveProgress:
    """A bar with the current run and the verdicts so far, on stderr, gone when the audit is over."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._progress: RichProgress = RichProgress(
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[tally]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None
        self._counts: dict[Verdict, int] = {}

    def started(self, total_cases: int) -> None:
        """Draws the empty bar."""
        self._task = self._progress.add_task("", total=total_cases, tally="")
        self._progress.start()

    def run_started(self, case: Case, run: str) -> None:
        """Names the run."""
        self.stage(f"{case.workload} on {case.device}: {run}")

    def stage(self, words: str) -> None:
        """Says what is going on."""
        if self._task is not None:
            self._progress.update(self._task, description=printable(words))

    def case_finished(self, result: CaseResult | None) -> None:
        """Moves the bar and counts the verdict."""
        if result is not None:
            self._counts[result.verdict] = self._counts.get(result.verdict, 0) + 1
        if self._task is not None:
            tally = " ".join(f"{count} {verdict.value}" for verdict, count in self._counts.items())
            self._progress.update(self._task, advance=1, tally=tally)

    def finished(self) -> None:
        """Takes the bar away."""
        self._progress.stop()


def make_progress(*, quiet: bool) -> Progress:
    """A live display on a terminal, silence elsewhere."""
    if quiet or not sys.stderr.isatty():
        return SilentProgress()
    return LiveProgress()
