"""Judges a case from its runs and comparisons, and an audit from its cases: pure functions of the evidence."""

from collections.abc import Sequence
from typing import assert_never

from repro_audit.exit_codes import ExitCode
from repro_audit.known_alerts import REROUTED
from repro_audit.records import (
    CanaryResult,
    CaseResult,
    Comparison,
    Completed,
    Failed,
    Mode,
    Pairing,
    Refused,
    Run,
    Settings,
    Summary,
    Verdict,
)
from repro_audit.waivers import is_finding


def judge(
    runs: Sequence[Run], comparisons: Sequence[Comparison], *, fresh_processes: int, state_carried_over: bool
) -> tuple[Verdict, str]:
    """The verdict on a case and the sentence that says why.

    Args:
        runs: The strict and warn_only runs that were made.
        comparisons: All comparisons that could be made of them.
        fresh_processes: How many fresh-process comparisons a PASS needs.
        state_carried_over: See `CaseResult`.
    """
    strict = [run for run in runs if run.mode is Mode.STRICT]
    for run in strict:
        if run.breaches:
            breach = run.breaches[0]
            return Verdict.FAIL, f"the workload undid strict mode: {breach.setting} was {breach.found}"

    diverged = [comparison for comparison in comparisons if comparison.divergence is not None]
    if diverged:
        return Verdict.FAIL, _divergence_reason(diverged, state_carried_over=state_carried_over)

    refused: list[Refused] = []
    failed: list[tuple[Run, Failed]] = []
    for run in runs:
        match run.outcome:
            case Refused():
                refused.append(run.outcome)
            case Failed():
                failed.append((run, run.outcome))
            case Completed():
                pass
            case _:
                assert_never(run.outcome)
    if refused:
        reason = f"strict mode refused {refused[0].alert.op}"
        if len(refused) < len(strict):
            reason += f" in {len(refused)} of {len(strict)} runs: whether it is reached differs between runs"
            if not failed:
                return Verdict.FAIL, reason
        return Verdict.REFUSED, reason
    for run in runs:
        swallowed = [alert for alert in run.alerts if alert.op not in REROUTED]
        if swallowed:
            return Verdict.REFUSED, (
                f"strict mode refuses {swallowed[0].op}, as the {run.name} run shows, "
                "but the workload caught the error in the strict run and went on"
            )
    if failed:
        run, outcome = failed[0]
        return Verdict.ERROR, f"run {run.name} could not be judged: {outcome.kind.value}"

    same = sum(comparison.pairing is Pairing.SAME_PROCESS for comparison in comparisons)
    fresh = sum(comparison.pairing is Pairing.FRESH_PROCESS for comparison in comparisons)
    if same < 1 or fresh < max(fresh_processes, 1):
        return Verdict.ERROR, f"only {same} same-process and {fresh} fresh-process comparisons could be made"
    repeats = f"{same + fresh} repeats" if same + fresh > 1 else "1 repeat"
    return Verdict.PASS, f"no divergence in {repeats}, {fresh + 1} processes"


def _divergence_reason(diverged: Sequence[Comparison], *, state_carried_over: bool) -> str:
    if state_carried_over:
        return "state carried over from the first repeat into the second; fresh processes agree"
    pairings = {comparison.pairing for comparison in diverged}
    if pairings == {Pairing.SAME_PROCESS}:
        return "two repeats in the same process differ"
    if pairings == {Pairing.FRESH_PROCESS}:
        return "fresh processes differ"
    return "repeats in the same process and in fresh processes differ"


def summarize(
    cases: Sequence[CaseResult], canaries: Sequence[CanaryResult], *, complete: bool, canaries_expected: int
) -> Summary:
    """The audit in figures, with its exit code; a finding outranks an incomplete audit.

    Args:
        canaries_expected: How many canaries the audit had to run.
    """
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in Verdict}
    documented = sum(case.verdict is Verdict.REFUSED and not is_finding(case) for case in cases)
    canaries_caught = len(canaries) == canaries_expected and all(canary.caught for canary in canaries)
    findings = sum(is_finding(case) and not case.waivers for case in cases)
    judged = sum(counts.values()) - counts[Verdict.SKIP]
    if not complete:
        code = ExitCode.INTERRUPTED
    elif findings:
        code = ExitCode.FINDING
    elif counts[Verdict.ERROR] or (judged and not canaries_caught):
        code = ExitCode.INCOMPLETE
    elif not judged:
        code = ExitCode.NOTHING
    else:
        code = ExitCode.VERIFIED
    return Summary(
        counts=counts,
        exit_code=int(code),
        complete=complete,
        canaries_caught=canaries_caught,
        statement=_statement(code, _tally(cases), documented=documented, canaries_caught=canaries_caught),
    )


def is_inventory(settings: Settings) -> bool:
    """Whether an audit makes warn_only runs and no others."""
    return Mode.STRICT not in settings.modes


def summarize_inventory(cases: Sequence[CaseResult], *, complete: bool) -> Summary:
    """An inventory in figures: it has no verdicts, so it is complete, incomplete or empty."""
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in Verdict}
    made = [case for case in cases if case.runs]
    alerts = [alert for case in made for run in case.runs for alert in run.alerts]
    if not complete:
        code = ExitCode.INTERRUPTED
    elif counts[Verdict.ERROR]:
        code = ExitCode.INCOMPLETE
    else:
        code = ExitCode.VERIFIED if made else ExitCode.NOTHING
    statement = (
        f"inventory of {len(made)} cases: {sum(alert.count for alert in alerts)} alerts "
        f"of {len({alert.op for alert in alerts})} ops; {counts[Verdict.ERROR]} cases did not complete"
    )
    return Summary(counts=counts, exit_code=int(code), complete=complete, canaries_caught=False, statement=statement)


WAIVED = "WAIVED"
"""What a report shows in the place of the verdict where a finding was accepted."""


def shown_verdict(case: CaseResult) -> str:
    """The verdict as reports show it: a waived finding is none of the verdicts, least of all a PASS."""
    return WAIVED if case.waivers else case.verdict.value


def _tally(cases: Sequence[CaseResult]) -> dict[str, int]:
    counts = dict.fromkeys((*(verdict.value for verdict in Verdict), WAIVED), 0)
    for case in cases:
        counts[shown_verdict(case)] += 1
    return counts


def _statement(code: ExitCode, counts: dict[str, int], *, documented: int, canaries_caught: bool) -> str:
    tally = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    match code:
        case ExitCode.VERIFIED:
            words = "no finding but waived ones" if counts[WAIVED] else "no divergence seen"
            statement = f"{words}: {tally}{f'; {documented} refused as documented' if documented else ''}"
        case ExitCode.FINDING:
            statement = f"findings: {tally}"
            if documented:
                statement += f" ({documented} refused as documented)"
        case ExitCode.INCOMPLETE:
            statement = f"incomplete: {tally}"
        case ExitCode.NOTHING:
            statement = f"nothing was audited: {tally or 'no case selected'}"
        case ExitCode.INTERRUPTED:
            statement = f"interrupted: {tally}"
        case ExitCode.USAGE:  # never the result of an audit
            statement = tally
    if not canaries_caught and code not in (ExitCode.NOTHING, ExitCode.INTERRUPTED):
        statement += "; a canary was not caught, so this audit cannot be trusted"
    return statement
