"""Judges a script from its recordings and their comparisons: pure functions of the evidence."""

from collections.abc import Sequence
from typing import assert_never

from repro_audit.exit_codes import ExitCode
from repro_audit.known_alerts import REROUTED
from repro_audit.records import Breach, Failed, Mode, Refused, Summary, Verdict
from repro_audit.script_records import Finished, Recording, ScriptComparison, ScriptDivergence, ScriptReport
from repro_audit.verdict import WAIVED


def judge_script(
    recordings: Sequence[Recording],
    comparisons: Sequence[ScriptComparison],
    breaches: Sequence[Breach],
    *,
    repeats: int,
) -> tuple[Verdict, str]:
    """The verdict on a script and the sentence that says why.

    Args:
        recordings: The runs: strict ones and one with ``warn_only``, or two that were recorded alike.
        comparisons: All comparisons that could be made of them, those with ``warn_only`` aside.
        breaches: Settings that a strict run undid.
        repeats: How many comparisons a PASS needs.
    """
    strict = [recording for recording in recordings if recording.mode is not Mode.WARN_ONLY]
    if breaches:
        breach = breaches[0]
        return Verdict.FAIL, f"the script undid strict mode: {breach.setting} was {breach.found}"
    for comparison in comparisons:
        if comparison.divergence is not None:
            diverged = sum(one.divergence is not None for one in comparisons)
            return (
                Verdict.FAIL,
                f"{diverged} of {len(comparisons)} runs differ from the first: {_where(comparison.divergence)}",
            )
    if (mixed := _outcomes_differ(strict)) is not None:
        return Verdict.FAIL, mixed
    for recording in recordings:
        match recording.outcome:
            case Refused() as refused:
                return Verdict.REFUSED, f"strict mode refused {refused.alert.op}"
            case Failed() as failed:
                return Verdict.ERROR, f"run {recording.name} could not be judged: {failed.kind.value}"
            case Finished(exit_code=code):
                if code:
                    return Verdict.ERROR, f"the script ended with exit code {code} in run {recording.name}"
            case _:
                assert_never(recording.outcome)
    for recording in recordings:
        swallowed = [alert for alert in recording.alerts if alert.op not in REROUTED]
        if swallowed:
            caught = ", but the script caught the error in the strict run and went on" if strict else ""
            return Verdict.REFUSED, f"strict mode refuses {swallowed[0].op}, as the {recording.name} run shows{caught}"
    if len(comparisons) < max(repeats, 1):
        return Verdict.ERROR, f"only {len(comparisons)} comparisons could be made"
    observations = min(comparison.observations for comparison in comparisons)
    if not observations:
        return Verdict.ERROR, (
            "nothing could be observed: no loss, no optimizer step, no module call and no saved tensor"
        )
    if not min(comparison.results for comparison in comparisons):
        return Verdict.ERROR, (
            "nothing that the script computes could be observed, only the data it is given: no loss, no optimizer "
            "step, no output of a module and no saved tensor"
        )
    return Verdict.PASS, f"no divergence in {len(comparisons) + 1} fresh processes, at {observations} points of each"


def _where(divergence: ScriptDivergence) -> str:
    place = f"{divergence.point.value} of {divergence.name}"
    return f"first at {place} after {divergence.step} steps" if divergence.step else f"first at {place}"


def _outcomes_differ(strict: Sequence[Recording]) -> str | None:
    """How runs that showed the same until their ends ended differently."""
    kinds = {describe_outcome(recording) for recording in strict}
    if len(kinds) < 2 or any(isinstance(one.outcome, Failed) and one.outcome.kind.value == "timeout" for one in strict):
        return None
    return "the runs ended differently: " + ", ".join(f"{one.name} {describe_outcome(one)}" for one in strict)


def describe_outcome(recording: Recording) -> str:
    """How a run ended, in a word or two."""
    match recording.outcome:
        case Finished(exit_code=code):
            return f"ended with exit code {code}" if code else "completed"
        case Refused(alert=alert):
            return f"was refused {alert.op}"
        case Failed(kind=kind):
            return f"failed: {kind.value}"
        case _:
            assert_never(recording.outcome)


def shown_script_verdict(report: ScriptReport) -> str:
    """The verdict as reports show it, see `verdict.shown_verdict`."""
    return WAIVED if report.waived else report.verdict.value


def summarize_script(
    verdict: Verdict, reason: str, *, complete: bool, canary_caught: bool, waived: bool = False
) -> Summary:
    """The audit of one script in figures, with its exit code.

    Args:
        waived: Its finding was accepted.
    """
    counts = {one: int(one is verdict) for one in Verdict}
    if not complete:
        code = ExitCode.INTERRUPTED
    elif verdict in (Verdict.FAIL, Verdict.REFUSED) and not waived:
        code = ExitCode.FINDING
    elif (verdict is Verdict.PASS or waived) and canary_caught:
        code = ExitCode.VERIFIED
    else:
        code = ExitCode.INCOMPLETE
    shown = f"{WAIVED} ({verdict.value})" if waived else verdict.value
    statement = f"{shown}: {reason}" if complete else "interrupted"
    if not canary_caught and complete:
        statement += "; the canary was not caught, so this audit cannot be trusted"
    return Summary(
        counts=counts, exit_code=int(code), complete=complete, canaries_caught=canary_caught, statement=statement
    )
