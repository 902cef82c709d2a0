"""Workloads under variations, from plan to report."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from repro_audit.archive import Archive, file_name
from repro_audit.audit import absence
from repro_audit.compare import Side, compare
from repro_audit.interpreter import Interpreter
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.launch import Launched, make_run, read_environment, read_measurement
from repro_audit.plan import Zygote, devices_of
from repro_audit.records import (
    Case,
    Completed,
    Distance,
    Environment,
    EnvironmentTask,
    Fetch,
    MeasureTask,
    Pairing,
    Refused,
    Role,
    Run,
    RunRecord,
    RunTask,
    RunTiming,
    Settings,
    States,
    Verdict,
    WorkloadSource,
)
from repro_audit.report.progress import Progress
from repro_audit.system import parent_environment, run_timing, volatile
from repro_audit.variation_choice import Chosen
from repro_audit.variation_records import (
    VariationReport,
    VariedCase,
    VariedRun,
)
from repro_audit.variations import HELD, VARIATIONS, Conditions, Start, Variation
from repro_audit.vary import Made, Varying


@dataclass(kw_only=True)
class _Workload:
    """A workload on a device, as a subject."""

    case: Case
    source: WorkloadSource
    settings: Settings
    pool: InterpreterPool
    archive: Archive
    progress: Progress
    scratch: Path
    timings: list[RunTiming]
    _count: int = 0
    _results: list[tuple[str, ...]] = field(default_factory=list)
    """The distinct results so far, the reference's first."""
    _reference: Completed | None = None
    _states: States = field(default_factory=dict)
    _roles: dict[str, Role] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def device(self) -> str:
        return self.case.device

    @property
    def device_types(self) -> tuple[str, ...]:
        return (self.case.device.partition(":")[0],)

    def prepare(self, starts: Iterable[Start]) -> None:
        """Warms interpreters up."""
        self.progress.stage("starting interpreters")
        self.pool.warm(starts)

    def make(self, name: str, zygote: Zygote, conditions: Conditions, variation: str, value: str) -> Made:
        """Makes a run and compares it with the first."""
        launched, note = self._launched(name, zygote, conditions, ())
        run = VariedRun(name=name, variation=variation, value=value, note=note)
        outcome = launched.run.outcome
        failure = failure_words(launched.run)
        if failure or not isinstance(outcome, Completed):
            return Made(run=msgspec.structs.replace(run, failure=failure, result=-1), conditions=launched.conditions)
        self._states.update(launched.states)
        self._roles.update(launched.roles)
        digests = outcome.repeats[0].states
        if digests not in self._results:
            self._results.append(digests)
        self._reference = self._reference or outcome
        first = Side(run="reference", outcome=self._reference, repeat=0)
        second = Side(run=name, outcome=outcome, repeat=0)
        comparison = compare(Pairing.FRESH_PROCESS, first, second, self._states, self._roles)
        return Made(
            run=msgspec.structs.replace(
                run, result=self._results.index(digests), digests=digests, divergence=comparison.divergence
            ),
            conditions=launched.conditions,
        )

    def how_far(self, run: VariedRun, conditions: Conditions) -> tuple[Distance | None, str]:
        """Runs both again, stores the leaf in which they differ, and has the two values measured."""
        divergence = run.divergence
        if divergence is None or divergence.first is None or divergence.second is None:
            return None, "the leaf is absent on one side"
        paths: list[Path] = []
        for name, one in (("again-unvaried", HELD), ("again-varied", conditions)):
            paths.append(self.scratch / f"{self._count}.pt")
            fetch = Fetch(repeat=0, step=divergence.step, leaf=divergence.leaf, path=str(paths[-1]))
            self._launched(name, Zygote.A, one, (fetch,))
        task = MeasureTask(
            first_path=str(paths[0]), second_path=str(paths[1]), record_path=str(self.scratch / "distance.json")
        )
        Path(task.record_path).unlink(missing_ok=True)
        measured = read_measurement(self._interpreter(HELD, Zygote.B), task, self.settings.timeout_ms / 1000)
        for path in paths:
            path.unlink(missing_ok=True)
        if measured is None:
            return None, "the distance could not be measured"
        return measured.distance, "" if measured.distance else "a second pair of runs has no distance there"

    def _interpreter(self, conditions: Conditions, zygote: Zygote) -> Interpreter:
        return self.pool.interpreter(conditions.start, zygote)

    def _launched(
        self, name: str, zygote: Zygote, conditions: Conditions, fetches: tuple[Fetch, ...]
    ) -> tuple[Launched, str]:
        self.progress.run_started(self.case, name)
        self.scratch.mkdir(parents=True, exist_ok=True)  # a workload may have cleared the folder for temporary files
        self._count += 1
        task = RunTask(
            run=f"{self._count:03d}-{file_name(name)}",
            source=self.source,
            device=conditions.device or self.case.device,
            mode=conditions.mode,
            repeats=1,
            steps=self.settings.steps,
            seed=self.settings.seed,
            record_path=str(self.scratch / f"{self._count}.json"),
            fetches=fetches,
            conditions=dict(conditions.in_process),
        )
        launched = make_run(self._interpreter(conditions, zygote), task, self.settings.timeout_ms / 1000)
        Path(task.record_path).unlink(missing_ok=True)
        ended = launched.ended
        self.timings.append(run_timing(self.name, name, ended))
        record = RunRecord(
            case=self.case,
            canary=False,
            run=msgspec.structs.replace(launched.run, name=name),
            states=launched.states,
            roles=launched.roles,
        )
        notes = (self.archive.keep_logs(self.case, task, ended), self.archive.keep_run(record, task))
        return launched, "; ".join(note for note in notes if note)


def failure_words(run: Run) -> str:
    """Why a run cannot be compared; empty where it can."""
    match run.outcome:
        case Refused(alert=alert):
            return f"strict mode refused {alert.op}"
        case Completed():
            if run.breaches:
                return f"the workload undid strict mode: {run.breaches[0].setting} was {run.breaches[0].found}"
            return ""
        case failed:
            lines = failed.detail.strip().splitlines() or [""]
            return f"{failed.kind.value}: {lines[-1] if failed.kind.value == 'exception' else lines[0]}"


def vary_workloads(
    settings: Settings,
    sources: Sequence[WorkloadSource],
    chosen: Chosen,
    pool: InterpreterPool,
    archive: Archive,
    progress: Progress,
    table: Sequence[Variation] = VARIATIONS,
) -> VariationReport:
    """Puts every workload on every device under the chosen variations.

    Args:
        settings: `repeats` is how many runs each variation gets.
        chosen: Names of variations of the table.

    Raises:
        LaunchError: No interpreter could be started.
        KeyboardInterrupt: Interrupted before anything was gathered; later, the report says so.
    """
    started = datetime.now(UTC)
    timings: list[RunTiming] = []
    cases: list[VariedCase] = []
    complete = True
    with tempfile.TemporaryDirectory(prefix="repro-audit-", ignore_cleanup_errors=True) as folder:
        task = EnvironmentTask(record_path=str(Path(folder) / "environment.json"))
        progress.stage("starting interpreters")
        first = pool.interpreter(HELD.start, Zygote.A)
        environment = parent_environment(read_environment(first, task, settings.timeout_ms / 1000), sources)
        present = sorted(device.name for device in environment.devices)
        wanted = devices_of(settings, present)
        varying = Varying(chosen=chosen, table=table, repeats=settings.repeats, environment=environment)
        pairs = [(source, device) for source in sources for device in wanted]
        progress.started(len(pairs))
        try:
            pool.warm([HELD.start])
            for number, (source, device) in enumerate(pairs):
                case = Case(workload=source.name, device=device)
                if device not in present:
                    cases.append(_unvaried(case, settings, environment))
                    continue
                subject = _Workload(
                    case=case,
                    source=source,
                    settings=settings,
                    pool=pool,
                    archive=archive,
                    progress=progress,
                    scratch=Path(folder) / str(number),
                    timings=timings,
                )
                cases.append(varying.case(subject))
                progress.case_finished(None)
        except KeyboardInterrupt:
            complete = False
        finally:
            progress.finished()
    return varying.report(
        cases,
        complete=complete,
        volatile=volatile(archive.folder.name, started, timings),
        settings=settings,
        workloads=tuple(sources),
    )


def _unvaried(case: Case, settings: Settings, environment: Environment) -> VariedCase:
    required = case.device in settings.required_devices
    return VariedCase(
        subject=case.name,
        verdict=Verdict.ERROR if required else Verdict.SKIP,
        reason=absence(case.device, environment),
        claim="",
        held={},
        runs=(),
        cells=(),
    )
