"""A script under variations, from first run to report."""

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from repro_audit.archive import Archive, file_name
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.launch import read_environment
from repro_audit.plan import Zygote
from repro_audit.recording import Recorded, breaches_of, save_recording
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import Distance, EnvironmentTask, Failed, Refused, RunTiming, WorkloadSource
from repro_audit.report.progress import Progress
from repro_audit.script_audit import RESTARTS
from repro_audit.script_launch import RecordedRun
from repro_audit.script_records import Finished, ScriptDivergence, ScriptSettings
from repro_audit.script_runs import ScriptRuns
from repro_audit.system import parent_environment, run_timing, volatile
from repro_audit.variation_choice import Chosen
from repro_audit.variation_records import VariationReport, VariedCase, VariedRun
from repro_audit.variations import HELD, VARIATIONS, Conditions, Start
from repro_audit.vary import Made, Varying


@dataclass(kw_only=True)
class _ScriptSubject:
    """A script, as a subject."""

    runs: ScriptRuns
    pool: InterpreterPool
    archive: Archive
    progress: Progress
    device_types: tuple[str, ...]
    timings: list[RunTiming]
    variables: dict[str, str] = field(default_factory=dict)
    """What the script sets before it imports PyTorch."""
    device: str = "cpu"
    source: WorkloadSource | None = None
    _count: int = 0
    _results: list[Recorded] = field(default_factory=list)
    """A recording of each distinct result so far, the reference first."""

    @property
    def name(self) -> str:
        return self.runs.script.name

    def prepare(self, starts: Iterable[Start]) -> None:
        """Warms interpreters up."""
        self.progress.stage("starting interpreters")
        self.pool.warm(self._own(start) for start in starts)

    def make(self, name: str, zygote: Zygote, conditions: Conditions, variation: str, value: str) -> Made:
        """Makes a run and compares its recording with the first one's."""
        self.progress.stage(f"{self.name}: {name}")
        self._count += 1
        folder = self.archive.folder / "recordings" / f"{self._count:03d}-{file_name(name)}"
        for _ in range(RESTARTS):
            start = self._own(conditions.start)
            made = self.runs.make(
                folder.name,
                zygote,
                conditions.mode,
                folder,
                pair={one: self.pool.interpreter(start, one) for one in Zygote},
                conditions=conditions.in_process,
            )
            if made.restart is None:
                break
            self.variables |= made.restart.variables
            shutil.rmtree(folder, ignore_errors=True)
        run = VariedRun(name=name, variation=variation, value=value, note=self._keep(name, folder.name, made))
        divergence: ScriptDivergence | None = None
        failure = _failure_words(made.recorded)
        if not failure and self._results:
            comparison = compare_recordings(self._results[0], made.recorded)
            divergence = comparison.divergence
            failure = "" if comparison.results else "nothing that the script computes could be observed"
        if failure:
            return Made(run=msgspec.structs.replace(run, failure=failure, result=-1), conditions=made.conditions)
        run = msgspec.structs.replace(run, result=self._result(made.recorded, divergence), script_divergence=divergence)
        return Made(run=run, conditions=made.conditions)

    def how_far(self, run: VariedRun, _: Conditions) -> tuple[Distance | None, str]:
        """Of a script only losses are known as numbers."""
        divergence = run.script_divergence
        if divergence is None or divergence.first_loss is None or divergence.second_loss is None:
            return None, ""
        return None, f"the loss there is {divergence.second_loss.text}, unvaried {divergence.first_loss.text}"

    def _own(self, start: Start) -> Start:
        """A start with what the script sets itself, which counts for more."""
        return replace(start, variables={**start.variables, **self.variables})

    def _result(self, recorded: Recorded, divergence: ScriptDivergence | None) -> int:
        """Which of the distinct results a recording is; one that is new is kept.

        Args:
            divergence: From the reference.
        """
        for number, known in enumerate(self._results):
            if (divergence if number == 0 else compare_recordings(known, recorded).divergence) is None:
                shutil.rmtree(recorded.folder, ignore_errors=True)
                return number
        save_recording(recorded.recording, recorded.folder)
        self._results.append(recorded)
        return len(self._results) - 1

    def _keep(self, name: str, file: str, made: RecordedRun) -> str:
        """Keeps what a run printed, and how long it took; says why the first could not be."""
        ended = made.ended
        self.timings.append(run_timing(self.name, name, ended))
        try:
            self.archive.keep_output(file, "stdout", ended.stdout)
            self.archive.keep_output(file, "stderr", ended.stderr)
        except OSError as error:
            return f"what the run printed could not be kept: {error.strerror or error}"
        return ""


def _failure_words(recorded: Recorded) -> str:
    """Why a run cannot be compared; empty where it can."""
    breach = next(iter(breaches_of([recorded])), None)
    if breach is not None:
        return f"the script undid strict mode: {breach.setting} was {breach.found}"
    match recorded.recording.outcome:
        case Finished(exit_code=code):
            return f"the script ended with exit code {code}" if code else ""
        case Refused(alert=alert):
            return f"strict mode refused {alert.op}"
        case Failed(kind=kind, detail=detail):
            return f"{kind.value}: {(detail.strip().splitlines() or [''])[-1]}"


def vary_script(
    settings: ScriptSettings,
    runs: ScriptRuns,
    chosen: Chosen,
    pool: InterpreterPool,
    archive: Archive,
    progress: Progress,
) -> VariationReport:
    """Puts a script under the chosen variations.

    Args:
        settings: `repeats` is how many runs each variation gets.

    Raises:
        LaunchError: No interpreter could be started.
        KeyboardInterrupt: Interrupted; of a script there is nothing to keep before its case is judged.
    """
    started = datetime.now(UTC)
    timings: list[RunTiming] = []
    cases: list[VariedCase] = []
    complete = True
    runs.apart_seconds = 0.0  # the clock is held, or varied on purpose
    progress.started(1)
    try:
        pool.warm([HELD.start])
        with tempfile.TemporaryDirectory(prefix="repro-audit-", ignore_cleanup_errors=True) as folder:
            task = EnvironmentTask(record_path=str(Path(folder) / "environment.json"))
            first = pool.interpreter(HELD.start, Zygote.A)
            environment = parent_environment(read_environment(first, task, runs.timeout_seconds), [])
        kinds = {device.name.partition(":")[0]: None for device in environment.devices}
        subject = _ScriptSubject(
            runs=runs,
            pool=pool,
            archive=archive,
            progress=progress,
            device_types=tuple(kinds),
            timings=timings,
        )
        varying = Varying(chosen=chosen, table=VARIATIONS, repeats=settings.repeats, environment=environment)
        try:
            cases.append(varying.case(subject))
        except KeyboardInterrupt:
            complete = False
    finally:
        progress.finished()
    return varying.report(
        cases,
        complete=complete,
        volatile=volatile(archive.folder.name, started, timings),
        script=msgspec.structs.replace(settings, variables=subject.variables),
    )
