"""The audit of one script: run, compare, judge, and where two runs part, look for the op and for the cause."""

import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from repro_audit import __version__
from repro_audit.archive import Archive
from repro_audit.launch import read_environment
from repro_audit.plan import Zygote
from repro_audit.recording import breaches_of, save_recording, without_times
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import (
    EnvironmentTask,
    Location,
    Mode,
    RunTiming,
)
from repro_audit.report.progress import Progress
from repro_audit.script_canary import canary_is_caught
from repro_audit.script_causes import ranked, recorded_causes
from repro_audit.script_hazards import examine
from repro_audit.script_investigation import Investigation
from repro_audit.script_launch import RecordedRun
from repro_audit.script_notes import notes_on
from repro_audit.script_records import (
    RECORDING_SCHEMA_VERSION,
    Cause,
    ScriptComparison,
    ScriptReport,
    ScriptSettings,
    Trace,
)
from repro_audit.script_runs import ScriptRuns
from repro_audit.script_verdict import judge_script, summarize_script
from repro_audit.system import parent_environment, run_timing, volatile

REFERENCE = "strict-a"
REPEATS = ((3.0, 5), (10.0, 3), (float("inf"), 1))
"""How many repeats a script gets whose run takes up to so many seconds."""

HAZARD_REPEATS = 12
"""The same where a short script does what depends on timing by design, and two runs may agree by luck."""

RESTARTS = 3
"""How often the interpreters are started anew because the script sets variables that are read at their start."""


@dataclass(kw_only=True)
class _Audit:
    settings: ScriptSettings
    runs: ScriptRuns
    archive: Archive
    progress: Progress
    made: list[RecordedRun] = field(default_factory=list)
    timings: list[RunTiming] = field(default_factory=list)

    def make(self, name: str, zygote: Zygote, mode: Mode) -> RecordedRun:
        """Makes a run whose recording is kept."""
        self.progress.stage(f"{self.settings.script.name}: {name}")
        made = self.runs.make(name, zygote, mode, self.archive.folder / "recordings" / name)
        if made.restart is None:
            save_recording(made.recorded.recording, made.recorded.folder)
            self.made.append(made)
            self.keep(name, made)
        return made

    def keep(self, name: str, made: RecordedRun) -> None:
        """Keeps what a run printed, and how long it took."""
        ended = made.ended
        self.archive.keep_output(name, "stdout", ended.stdout)
        self.archive.keep_output(name, "stderr", ended.stderr)
        self.timings.append(run_timing(self.settings.script.name, name, ended))


def audit_script(
    settings: ScriptSettings,
    runs: ScriptRuns,
    archive: Archive,
    progress: Progress,
    *,
    repeats: int | None,
    budget_seconds: float,
    steps: tuple[int, int] | None = None,
    module: str | None = None,
) -> ScriptReport:
    """Audits a script.

    Args:
        repeats: Fresh processes to compare with the first; None makes more of a script that is quickly over.
        budget_seconds: What may be spent on looking for op and cause once runs have parted.
        steps: The first and the last optimizer step to trace, from 1; None traces what the runs' own divergence says.
        module: Glob on the paths of the modules to trace.

    Raises:
        LaunchError: No interpreter could be started.
        KeyboardInterrupt: Interrupted before anything was gathered; later, the report says so.
    """
    started = datetime.now(UTC)
    audit = _Audit(settings=settings, runs=runs, archive=archive, progress=progress)
    comparisons: list[ScriptComparison] = []
    notes: list[str] = []
    location: Location | None = None
    causes: list[Cause] = []
    tests: list[str] = []
    complete = True
    progress.started(1)
    try:
        pair = runs.start()
        with tempfile.TemporaryDirectory(prefix="repro-audit-", ignore_cleanup_errors=True) as folder:
            task = EnvironmentTask(record_path=str(Path(folder) / "environment.json"))
            environment = parent_environment(read_environment(pair[Zygote.A], task, runs.timeout_seconds), [])
            canary_caught = canary_is_caught(pair, Path(folder), runs.timeout_seconds)
        first, restarted = _first_run(audit)
        settings = msgspec.structs.replace(settings, variables=restarted)
        wanted = repeats or next(count for limit, count in REPEATS if first.ended.duration_ms <= 1000 * limit)
        settings = msgspec.structs.replace(settings, repeats=wanted)
        try:
            others: list[RecordedRun] = []
            hazards = examine(runs, progress, first)
            notes += [*hazards.by_luck, *hazards.hidden]
            limit = HAZARD_REPEATS if hazards.by_luck and repeats is None and wanted == REPEATS[0][1] else wanted
            while len(others) < wanted or (len(others) < limit and not any(one.divergence for one in comparisons)):
                others.append(audit.make(f"strict-b{len(others) + 1}", Zygote.B, Mode.STRICT))
                comparisons.append(compare_recordings(first.recorded, others[-1].recorded))
            audit.make("warn_only", Zygote.A, Mode.WARN_ONLY)
            diverged = next((one for one in zip(comparisons, others, strict=True) if one[0].divergence), None)
            deadline = time.monotonic() + budget_seconds
            if diverged is not None and diverged[0].divergence is not None:
                causes += recorded_causes(first.recorded, diverged[1].recorded, diverged[0].divergence)
                investigation = Investigation(
                    runs=runs,
                    progress=progress,
                    deadline=deadline,
                    divergence=diverged[0].divergence,
                    first=first.recorded,
                    second=diverged[1].recorded,
                    known=tuple(causes),
                    differing=sum(one.divergence is not None for one in comparisons),
                    compared=len(comparisons),
                    window=Trace(path="", steps=steps, module=module),
                )
                location = investigation.locate()
                causes += investigation.test(location)
                causes = ranked(causes)
                tests += investigation.tests
        except KeyboardInterrupt:
            complete = False
        recorded = [made.recorded for made in audit.made]
        notes += notes_on(recorded, comparisons, settings)
        breaches = tuple(breaches_of(recorded))
    finally:
        progress.finished()
    recordings = tuple(without_times(one.recording) for one in recorded)
    verdict, reason = judge_script(recordings, comparisons, breaches, repeats=wanted)
    return ScriptReport(
        script_schema_version=RECORDING_SCHEMA_VERSION,
        tool={"name": "repro-audit", "version": __version__},
        settings=settings,
        environment=environment,
        recordings=recordings,
        comparisons=tuple(comparisons),
        verdict=verdict,
        reason=reason,
        location=location,
        causes=tuple(causes),
        tests=tuple(tests),
        notes=tuple(dict.fromkeys(notes)),
        breaches=breaches,
        summary=summarize_script(verdict, reason, complete=complete, canary_caught=canary_caught),
        volatile=volatile(archive.folder.name, started, audit.timings),
    )


def _first_run(audit: _Audit) -> tuple[RecordedRun, dict[str, str]]:
    """Makes the reference run, in interpreters that were started as the script wants them to be."""
    variables: dict[str, str] = {}
    for _ in range(RESTARTS):
        made = audit.make(REFERENCE, Zygote.A, Mode.STRICT)
        if made.restart is None:
            break
        variables |= made.restart.variables
        audit.runs.start(made.restart.variables)
        for path in sorted((made.recorded.folder / "streams").glob("*")):
            path.unlink()
    return made, variables
