"""One audit: plan, launch, compare, judge. Prints nothing, starts nothing itself, imports no PyTorch."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from repro_audit import __version__
from repro_audit.archive import Archive
from repro_audit.canary import CANARIES, assess
from repro_audit.compare import compare_repeats, compare_runs
from repro_audit.confirm import Confirmation, confirm, locate
from repro_audit.factors import tried_factors
from repro_audit.launch import Launched, Launcher
from repro_audit.plan import PlannedRun, devices_of, plan_arms, plan_case
from repro_audit.records import (
    SCHEMA_VERSION,
    Arm,
    AuditReport,
    CanaryResult,
    Case,
    CaseCost,
    CaseResult,
    Completed,
    Environment,
    EnvironmentTask,
    FactorTest,
    Location,
    Mode,
    Role,
    RunRecord,
    RunTiming,
    Settings,
    States,
    Verdict,
    WorkloadSource,
)
from repro_audit.report.progress import Progress
from repro_audit.system import parent_environment, run_timing, volatile
from repro_audit.verdict import is_inventory, judge, summarize, summarize_inventory

INVENTORY_ONLY = "inventory only: a warn_only run proves nothing about repeatability"


@dataclass(kw_only=True)
class _Auditor:
    """What every case of one audit needs, and the timings that it leaves."""

    settings: Settings
    launcher: Launcher
    archive: Archive
    progress: Progress
    scratch: Path
    flags: dict[str, str]
    """Settings as read back in an armed worker; of a run, only what differs from these is kept."""
    canary: bool = False
    """Whether it makes the runs of canaries."""
    timings: list[RunTiming] = field(default_factory=list)
    costs: list[CaseCost] = field(default_factory=list)

    def make(self, case: Case, planned: Sequence[PlannedRun]) -> list[Launched]:
        """Makes the runs one after the other, with all cores free for each: a busy machine hides races."""
        return [self._make_one(case, run) for run in planned]

    @contextmanager
    def case_folder(self) -> Iterator[Path]:
        """A folder for the records of a case, gone with it: a long audit must not fill the disk."""
        self.scratch.mkdir(parents=True, exist_ok=True)  # a workload may have cleared the folder for temporary files
        with tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def keep_cost(self, case: Case, strict: Launched, arms: Sequence[Launched]) -> None:
        """Keeps what strict mode costs, where the workload ran without it as well."""
        for arm in arms:
            if arm.run.mode is Mode.DEFAULT and isinstance(arm.run.outcome, Completed):
                self.costs.append(
                    CaseCost(
                        case=case.name,
                        time=arm.cost,
                        strict_bytes=strict.peak_bytes,
                        default_bytes=arm.peak_bytes,
                    )
                )

    def _make_one(self, case: Case, planned: PlannedRun) -> Launched:
        self.progress.run_started(case, planned.task.run)
        launched = self.launcher.run(planned)
        ended = launched.ended
        run = msgspec.structs.replace(
            launched.run,
            flags_start=self._deviations(launched.run.flags_start),
            flags_end=self._deviations(launched.run.flags_end),
        )
        self.timings.append(run_timing(case.name, planned.task.run, ended))
        if note := self.archive.keep_logs(case, planned.task, ended):
            run = msgspec.structs.replace(run, notes=(*run.notes, note))
        record = RunRecord(case=case, canary=self.canary, run=run, states=launched.states, roles=launched.roles)
        if note := self.archive.keep_run(record, planned.task):
            run = msgspec.structs.replace(run, notes=(*run.notes, note))
        return replace(launched, run=run)

    def _deviations(self, flags: dict[str, str]) -> dict[str, str]:
        """Settings that were read back otherwise than in the environment; nothing where none was read at all."""
        if not flags:
            return {}
        names = dict.fromkeys((*self.flags, *flags))
        return {name: flags.get(name, "not read") for name in names if flags.get(name) != self.flags.get(name)}


def audit(
    settings: Settings,
    sources: Sequence[WorkloadSource],
    canary_sources: Mapping[str, WorkloadSource],
    launcher: Launcher,
    archive: Archive,
    progress: Progress,
) -> AuditReport:
    """Audits every workload on every device.

    Args:
        canary_sources: Sources of the canaries by name; an inventory needs none.

    Raises:
        LaunchError: No interpreter could be started.
        KeyboardInterrupt: Interrupted before anything was gathered; later, the report says so.
    """
    started = datetime.now(UTC)
    canaries = () if is_inventory(settings) else CANARIES
    with tempfile.TemporaryDirectory(prefix="repro-audit-", ignore_cleanup_errors=True) as folder:
        environment = _environment(launcher, sources, Path(folder))
        auditor = _Auditor(
            settings=settings,
            launcher=launcher,
            archive=archive,
            progress=progress,
            scratch=Path(folder),
            flags=environment.flags,
        )
        present = {device.name for device in environment.devices}
        wanted = devices_of(settings, sorted(present))
        cases = [(Case(workload=source.name, device=device), source) for source in sources for device in wanted]
        progress.started(len(cases) + len(canaries))
        results: list[CaseResult] = []
        caught: list[CanaryResult] = []
        complete = True
        try:
            of_canaries = replace(auditor, canary=True)
            for canary in canaries:
                case = Case(workload=canary.name, device="cpu")
                source = canary_sources[canary.name]
                with of_canaries.case_folder() as scratch:
                    planned = canary.prepare(plan_case(case, source, settings, scratch), settings)
                    result = _judged(of_canaries, case, None, of_canaries.make(case, planned))
                caught.append(assess(canary, result, settings))
                progress.case_finished(None)
            for case, source in cases:
                results.append(_audit_case(auditor, case, source, environment, present))
                progress.case_finished(results[-1])
        except KeyboardInterrupt:
            complete = False
            results += [
                _unaudited(case, Verdict.SKIP, "interrupted before it was audited") for case, _ in cases[len(results) :]
            ]
        finally:
            progress.finished()
    return AuditReport(
        schema_version=SCHEMA_VERSION,
        tool={"name": "repro-audit", "version": __version__},
        settings=settings,
        environment=environment,
        workloads=tuple(sources),
        cases=tuple(results),
        canaries=tuple(caught),
        summary=(
            summarize_inventory(results, complete=complete)
            if is_inventory(settings)
            else summarize(results, caught, complete=complete, canaries_expected=len(canaries))
        ),
        volatile=volatile(archive.folder.name, started, auditor.timings, auditor.costs),
    )


def _environment(launcher: Launcher, sources: Sequence[WorkloadSource], scratch: Path) -> Environment:
    worker = launcher.environment(EnvironmentTask(record_path=str(scratch / "environment.json")))
    return parent_environment(worker, sources)


def _unaudited(case: Case, verdict: Verdict, reason: str) -> CaseResult:
    return CaseResult(
        case=case,
        verdict=verdict,
        reason=reason,
        declared_refusal=None,
        state_carried_over=False,
        runs=(),
        confirmations=(),
        comparisons=(),
        states={},
        roles={},
    )


def _audit_case(
    auditor: _Auditor, case: Case, source: WorkloadSource, environment: Environment, present: set[str]
) -> CaseResult:
    settings = auditor.settings
    if case.device not in present:
        reason = absence(case.device, environment)
        if case.device in settings.required_devices:
            return _unaudited(case, Verdict.ERROR, f"required device is absent: {reason}")
        return _unaudited(case, Verdict.SKIP, reason)
    declared = source.refused.get(case.device.partition(":")[0])
    with auditor.case_folder() as scratch:
        launched = auditor.make(case, plan_case(case, source, settings, scratch))
        if is_inventory(settings):
            return _inventoried(case, declared, launched)
        result = _judged(auditor, case, declared, launched, source, scratch)
        if not isinstance(result.runs[0].outcome, Completed):
            return result  # no strict pair, so that nothing is hidden by one
        arms = auditor.make(case, plan_arms(case, source, settings, scratch))
        auditor.keep_cost(case, launched[0], arms)
        return _with_arms(result, arms)


def _with_arms(result: CaseResult, launched: Sequence[Launched]) -> CaseResult:
    """The result with what repeats in other modes showed; its verdict stays as it is."""
    arms = tuple(
        Arm(run=made.run, comparisons=compare_repeats(made.run.name, made.run.outcome, made.states, made.roles))
        for made in launched
    )
    states, roles = _tables(launched)
    return msgspec.structs.replace(result, arms=arms, states=result.states | states, roles=result.roles | roles)


def absence(device: str, environment: Environment) -> str:
    """Why a device is not there."""
    kind = device.partition(":")[0]
    if kind in environment.absent_devices:
        return f"no {kind} device: {environment.absent_devices[kind]}"
    there = ", ".join(found.name for found in environment.devices)
    return f"no device {device}; there are {there}"


def _inventoried(case: Case, declared: str | None, launched: Sequence[Launched]) -> CaseResult:
    completed = all(isinstance(made.run.outcome, Completed) for made in launched)
    states, roles = _tables(launched)
    return CaseResult(
        case=case,
        verdict=Verdict.SKIP if completed else Verdict.ERROR,
        reason=INVENTORY_ONLY if completed else "the warn_only run did not complete",
        declared_refusal=declared,
        state_carried_over=False,
        runs=tuple(made.run for made in launched),
        confirmations=(),
        comparisons=(),
        states=states,
        roles=roles,
    )


def _judged(
    auditor: _Auditor,
    case: Case,
    declared: str | None,
    launched: Sequence[Launched],
    source: WorkloadSource | None = None,
    scratch: Path | None = None,
) -> CaseResult:
    """Compares and judges the runs of a case; with a source, a divergence is confirmed and measured."""
    states, roles = _tables(launched)
    runs = tuple(made.run for made in launched)
    comparisons = compare_runs(runs, states, roles)
    confirmation = Confirmation(comparisons=comparisons, launched=(), state_carried_over=False)
    location: Location | None = None
    factors: tuple[FactorTest, ...] = ()
    if source is not None and scratch is not None and any(comparison.divergence for comparison in comparisons):
        confirmation = confirm(
            case, source, auditor.settings, scratch, runs, comparisons, auditor.make, auditor.launcher
        )
        states, roles = _tables((*launched, *confirmation.launched))
        location = locate(case, source, auditor.settings, scratch, comparisons, auditor.make)
        if not confirmation.state_carried_over:
            deadline = time.monotonic() + auditor.settings.budget_ms / 1000
            factors = tried_factors(case, source, auditor.settings, scratch, comparisons, auditor.make, deadline)
    verdict, reason = judge(
        runs,
        confirmation.comparisons,
        fresh_processes=auditor.settings.repeats,
        state_carried_over=confirmation.state_carried_over,
    )
    return CaseResult(
        case=case,
        verdict=verdict,
        reason=reason,
        declared_refusal=declared,
        state_carried_over=confirmation.state_carried_over,
        runs=runs,
        confirmations=tuple(made.run for made in confirmation.launched),
        comparisons=confirmation.comparisons,
        states=states,
        roles=roles,
        location=location,
        factors=factors,
    )


def _tables(launched: Sequence[Launched]) -> tuple[States, dict[str, Role]]:
    """The states of several runs in one table, and the roles of their leaves."""
    return (
        {digest: state for made in launched for digest, state in made.states.items()},
        {leaf: role for made in launched for leaf, role in made.roles.items()},
    )
