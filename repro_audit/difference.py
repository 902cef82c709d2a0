"""Compares two audits: environments and settings fact by fact, cases by verdict, alerts and bits."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repro_audit.changes import changes, environment_changes
from repro_audit.compare import LOSS_LEAF, REFERENCE_RUN, Side, compare
from repro_audit.difference_records import Bits, CaseDifference, Difference
from repro_audit.errors import EvidenceError
from repro_audit.flattened import flattened
from repro_audit.records import AuditReport, CaseResult, Completed, Mode, Pairing, States
from repro_audit.report.evidence import Report
from repro_audit.script_records import ScriptReport
from repro_audit.script_verdict import shown_script_verdict
from repro_audit.variation_records import VariationReport, VariedCase
from repro_audit.verdict import shown_verdict


@dataclass(frozen=True, kw_only=True)
class Archived:
    """An audit and where its archive lies."""

    report: Report
    folder: Path

    @property
    def name(self) -> str:
        """As it was written."""
        return self.report.volatile.audit


_FREE_SETTINGS = (
    "workload_paths",
    "selection",
    "timeout_ms",
    "budget_ms",
    "repeats",
    "required_devices",
    "devices",
    "modes",
    "isolation",
    "working_directory",
    "copied",
    "linked",
    "script.path",
)
"""Settings that say what to run and how often, and not under which conditions."""


def differences(first: Archived, second: Archived) -> Difference:
    """What differs between two audits of one kind.

    Raises:
        EvidenceError: They are of two kinds, or a recording beside them is damaged.
    """
    one, other = first.report, second.report
    match one, other:
        case AuditReport(), AuditReport():
            cases = _audit_cases(one, other)
        case ScriptReport(), ScriptReport():
            cases = iter([_script_case(first, second, one, other)])
        case VariationReport(), VariationReport():
            cases = _varied_cases(one, other)
        case _:
            raise EvidenceError(
                f"{first.name} and {second.name} are audits of two kinds ({_kind(one)} and {_kind(other)}), which "
                "have nothing to compare. Name two of one kind."
            )
    return Difference(
        first=first.name,
        second=second.name,
        first_digest=one.result_digest,
        second_digest=other.result_digest,
        environment=environment_changes(one.environment, other.environment),
        settings=tuple(changes(_settings(one), _settings(other), _FREE_SETTINGS)),
        subjects=tuple(
            # One that is not there in both has no bits that could depend on it.
            msgspec.structs.replace(change, condition=None not in (change.first, change.second))
            for change in changes(_subjects(one), _subjects(other), ())
        ),
        cases=tuple(cases),
    )


def _kind(report: Report) -> str:
    match report:
        case AuditReport():
            return "of workloads"
        case ScriptReport():
            return "of a script"
        case VariationReport():
            return "under variations"


def _settings(report: Report) -> dict[str, str]:
    data = msgspec.to_builtins(report)
    settings = data.get("settings") or data.get("script") or {}
    facts = flattened(settings)
    for name in ("script.sha256", "cublas_workspace.source"):  # it is a subject; and whose value it is changes nothing
        facts.pop(name, None)
    if "variations" in data:
        facts |= {f"variation {one['name']}": ":".join(one["values"]) for one in data["variations"]}
    return facts


def _subjects(report: Report) -> dict[str, str]:
    match report:
        case ScriptReport():
            return {f"script {report.settings.script.name}": report.settings.script.sha256}
        case VariationReport() if report.script is not None:
            return {f"script {report.script.script.name}": report.script.script.sha256}
        case _:
            return {f"workload {source.name}": source.sha256 for source in report.workloads}


# ------------------------------------------------------------------------------------------- workloads


def _audit_cases(first: AuditReport, second: AuditReport) -> Iterator[CaseDifference]:
    ours, theirs = _by_name(first), _by_name(second)
    for name in dict.fromkeys((*ours, *theirs)):
        yield _case(name, ours.get(name), theirs.get(name))


def _by_name(report: AuditReport) -> dict[str, CaseResult]:
    return {result.case.name: result for result in report.cases}


def _case(name: str, first: CaseResult | None, second: CaseResult | None) -> CaseDifference:
    alerts_first, alerts_second = _alerts(first), _alerts(second)
    difference = CaseDifference(
        case=name,
        first_verdict=shown_verdict(first) if first is not None else None,
        second_verdict=shown_verdict(second) if second is not None else None,
        bits=Bits.NOT_COMPARED,
        alerts_gained=tuple(sorted(alerts_second - alerts_first)) if first is not None else (),
        alerts_lost=tuple(sorted(alerts_first - alerts_second)) if second is not None else (),
    )
    sides = [_reference(result) for result in (first, second)]
    words = [side for side in sides if isinstance(side, str)]
    if words:
        reasons = [
            f"in the {place}: {side}"
            for place, side in zip(("first", "second"), sides, strict=True)
            if isinstance(side, str)
        ]
        return msgspec.structs.replace(difference, reason="; ".join(reasons))
    assert first is not None
    assert second is not None
    one, other = (
        Side(run=place, outcome=side, repeat=0)
        for place, side in zip(("first", "second"), sides, strict=True)
        if isinstance(side, Completed)
    )
    states = first.states | second.states
    compared = compare(Pairing.FRESH_PROCESS, one, other, states, first.roles | second.roles)
    if compared.divergence is None:
        return msgspec.structs.replace(difference, bits=Bits.EQUAL)
    step = _loss_step(one, other, states)
    return msgspec.structs.replace(
        difference,
        bits=Bits.DIFFER,
        divergence=compared.divergence,
        loss_step=step,
        first_loss=states[one.states[step]].loss if step is not None else None,
        second_loss=states[other.states[step]].loss if step is not None else None,
    )


def _reference(result: CaseResult | None) -> Completed | str:
    """The run that stands for a case, or why none does."""
    if result is None:
        return "the case is absent"
    reference = next((run for run in result.runs if run.name == REFERENCE_RUN and run.mode is Mode.STRICT), None)
    if reference is None:
        return f"there is no strict run ({result.verdict.value}: {result.reason})"
    if not isinstance(reference.outcome, Completed):
        return result.reason
    if any(comparison.divergence for comparison in result.comparisons):
        return "its repeats differ among themselves"
    return reference.outcome


def _loss_step(first: Side, second: Side, states: States) -> int | None:
    for step, (one, other) in enumerate(zip(first.states, second.states, strict=False)):
        if states[one].leaves.get(LOSS_LEAF) != states[other].leaves.get(LOSS_LEAF):
            return step
    return None


def _alerts(result: CaseResult | None) -> set[str]:
    return {alert.op for run in result.runs for alert in run.alerts} if result is not None else set()


# ------------------------------------------------------------------------------------------- scripts


def _script_case(first: Archived, second: Archived, one: ScriptReport, other: ScriptReport) -> CaseDifference:
    alerts_first, alerts_second = (
        {alert.op for recording in report.recordings for alert in recording.alerts} for report in (one, other)
    )
    difference = CaseDifference(
        case=other.settings.script.name,
        first_verdict=shown_script_verdict(one),
        second_verdict=shown_script_verdict(other),
        bits=Bits.NOT_COMPARED,
        alerts_gained=tuple(sorted(alerts_second - alerts_first)),
        alerts_lost=tuple(sorted(alerts_first - alerts_second)),
    )
    unlike = [
        f"in the {place}: its runs differ among themselves"
        for place, report in (("first", one), ("second", other))
        if any(comparison.divergence for comparison in report.comparisons)
    ]
    if unlike:
        return msgspec.structs.replace(difference, reason="; ".join(unlike))
    places = [archived.folder / "recordings" / REFERENCE_RUN for archived in (first, second)]
    absent = [str(place) for place in places if not place.is_dir()]
    if absent:
        return msgspec.structs.replace(difference, reason=f"there is no recording {' and no '.join(absent)}")
    # Only whoever compares scripts waits for these.
    from repro_audit.recording import load_recording
    from repro_audit.recording_compare import compare_recordings

    compared = compare_recordings(*(load_recording(place) for place in places))
    if compared.divergence is None and compared.results:
        return msgspec.structs.replace(difference, bits=Bits.EQUAL)
    if compared.divergence is None:
        return msgspec.structs.replace(difference, reason="nothing that the script computes could be compared")
    return msgspec.structs.replace(
        difference,
        bits=Bits.DIFFER,
        script_divergence=compared.divergence,
        first_loss=compared.divergence.first_loss,
        second_loss=compared.divergence.second_loss,
    )


# ------------------------------------------------------------------------------------------- variations


def _varied_cases(first: VariationReport, second: VariationReport) -> Iterator[CaseDifference]:
    ours, theirs = ({case.subject: case for case in report.cases} for report in (first, second))
    for name in dict.fromkeys((*ours, *theirs)):
        yield _varied_case(name, ours.get(name), theirs.get(name))


def _varied_case(name: str, first: VariedCase | None, second: VariedCase | None) -> CaseDifference:
    difference = CaseDifference(
        case=name,
        first_verdict=first.verdict.value if first is not None else None,
        second_verdict=second.verdict.value if second is not None else None,
        bits=Bits.NOT_COMPARED,
        cells=tuple(changes(_effects(first), _effects(second), ())),
    )
    digests = [case.runs[0].digests if case is not None and case.runs else () for case in (first, second)]
    if not all(digests):
        return msgspec.structs.replace(difference, reason="there are no bits of an unvaried run in both")
    if digests[0] == digests[1]:
        return msgspec.structs.replace(difference, bits=Bits.EQUAL)
    step = next((n for n, (a, b) in enumerate(zip(*digests, strict=False)) if a != b), min(map(len, digests)))
    return msgspec.structs.replace(difference, bits=Bits.DIFFER, reason=f"the states part after step {step}")


def _effects(case: VariedCase | None) -> dict[str, str]:
    return {f"{cell.variation}={cell.value}": cell.effect.value for cell in case.cells} if case is not None else {}
