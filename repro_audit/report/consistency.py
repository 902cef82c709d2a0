"""What evidence must hold beyond its types: that it speaks of one and the same thing throughout."""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import date

import msgspec

from repro_audit.canary import CANARIES
from repro_audit.compare import compare_repeats, compare_runs
from repro_audit.digests import state_digest
from repro_audit.plan import ARM_MODES
from repro_audit.records import (
    AuditReport,
    CaseResult,
    Comparison,
    Completed,
    Mode,
    Repeat,
    Run,
    Settings,
    Summary,
    Verdict,
    Volatile,
    Waiver,
)
from repro_audit.script_records import ScriptReport
from repro_audit.script_verdict import judge_script, summarize_script
from repro_audit.variation_records import Expectation, VariationReport, VariedCase
from repro_audit.variation_verdict import claim_of, judge_case, judge_cell, summarize_variations
from repro_audit.verdict import is_inventory, judge, summarize, summarize_inventory
from repro_audit.waivers import case_waivers, day_of, script_waivers, waiver_faults

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BITS = re.compile(r"0x[0-9a-f]+")


def contradictions(report: AuditReport) -> Iterator[str]:
    """What the report says against itself, each as a clause that names the place; none where it is sound."""
    for workload in report.workloads:
        if not _DIGEST.fullmatch(workload.sha256):
            yield f"the file digest of workload {workload.name} is no sha256 digest"
    named = [
        *((f"case {result.case.name}", result) for result in report.cases),
        *((f"canary {canary.name}", canary.result) for canary in report.canaries),
    ]
    seen: set[str] = set()
    for place, result in named:
        if place in seen:
            yield f"{place} is there twice"
        seen.add(place)
        for words in (
            *_in_case(result),
            *_in_arms(result),
            *_in_factors(result),
            *_in_verdict(result, report.settings),
        ):
            yield f"{place}: {words}"
    yield from _in_waivers(report)
    if report.summary != _summary(report):
        yield "the summary is not what the cases and canaries give"


def _in_waivers(report: AuditReport) -> Iterator[str]:
    """Applies the waivers again, as of the day of the audit."""
    day = yield from _day_for(report.waivers, report.volatile)
    if day is None:
        return
    for result in report.cases:
        if case_waivers(result, report.waivers, day) != result.waivers:
            yield f"the waivers of case {result.case.name} do not accept its finding"


def _day_for(waivers: Sequence[Waiver], volatile: Volatile) -> Generator[str, None, date | None]:
    """Yields what keeps waivers from being applied; returns the day that they apply on, or None where that is so."""
    faults = list(waiver_faults(waivers))
    yield from faults
    try:
        day = day_of(volatile.started)
    except ValueError:
        yield "the time when it was started is none"
        return None
    return None if faults else day


def script_contradictions(report: ScriptReport) -> Iterator[str]:
    """The same for the report on a script; its recordings lie beside it, and are not read."""
    if not _DIGEST.fullmatch(report.settings.script.sha256):
        yield "the digest of the script's file is no sha256 digest"
    names = [recording.name for recording in report.recordings]
    if len(set(names)) != len(names):
        yield "two recordings have the same name"
    for comparison in report.comparisons:
        if comparison.first not in names or comparison.second not in names:
            yield f"a comparison names recordings that are not there: {comparison.first}, {comparison.second}"
        if not comparison.losses_equal <= comparison.losses <= comparison.observations >= comparison.results:
            yield f"the comparison with {comparison.second} counts more than it compared"
    verdict, reason = judge_script(
        report.recordings, report.comparisons, report.breaches, repeats=report.settings.repeats
    )
    if (verdict, reason) != (report.verdict, report.reason):
        told = f"{report.verdict.value} ({report.reason})"
        yield f"its recordings give the verdict {verdict.value} ({reason}), not {told}"
    day = yield from _day_for(report.waivers, report.volatile)
    if day is not None and script_waivers(report, report.waivers, day) != report.waived:
        yield "its waivers are not those that accept its finding"
    summary = summarize_script(
        verdict,
        reason,
        complete=report.summary.complete,
        canary_caught=report.summary.canaries_caught,
        waived=bool(report.waived),
    )
    if summary != report.summary:
        yield "the summary is not what the verdict gives"


def variation_contradictions(report: VariationReport) -> Iterator[str]:
    """The same for the report of a `vary`: its cells, verdicts and claims are derived again from its runs."""
    for workload in report.workloads:
        if not _DIGEST.fullmatch(workload.sha256):
            yield f"the file digest of workload {workload.name} is no sha256 digest"
    if (report.settings is None) == (report.script is None):
        yield "it speaks of neither workloads nor a script, or of both"
    expectations = {one.name: one.expectation for one in report.variations}
    subjects = [case.subject for case in report.cases]
    if len(set(subjects)) < len(subjects):
        yield "two cases have the same name"
    for case in report.cases:
        for words in _in_varied_case(case, expectations, of_script=report.script is not None):
            yield f"case {case.subject}: {words}"
    if report.summary != summarize_variations(report.cases, complete=report.summary.complete):
        yield "the summary is not what the cases give"


def _in_varied_case(case: VariedCase, expectations: Mapping[str, Expectation], *, of_script: bool) -> Iterator[str]:
    names = [run.name for run in case.runs]
    if len(set(names)) < len(names):
        yield "two runs have the same name"
    results: dict[tuple[str, ...], int] = {}
    for run in case.runs:
        diverged = run.divergence is not None or run.script_divergence is not None
        if bool(run.failure) != (run.result < 0) or diverged != (run.result > 0):
            yield f"run {run.name} contradicts itself about its result"
        if run.digests:
            if any(not _DIGEST.fullmatch(digest) for digest in run.digests):
                yield f"run {run.name} has something that is no sha256 digest"
            if results.setdefault(run.digests, len(results)) != run.result:
                yield f"the result of run {run.name} is not what its digests give"
        elif run.result >= 0 and not of_script:
            yield f"run {run.name} has no digests"
    for cell in case.cells:
        if expectations.get(cell.variation) is not cell.expectation:
            yield f"variation {cell.variation} is expected otherwise than it was chosen with"
        if judge_cell(cell, case.runs) != cell:
            yield f"cell {cell.variation}={cell.value} is not what its runs give"
    if not case.runs:
        if case.verdict not in (Verdict.SKIP, Verdict.ERROR):
            yield f"it is {case.verdict.value} without a run"
        return
    verdict, reason = judge_case(case.runs, case.cells)
    if (verdict, reason) != (case.verdict, case.reason):
        yield f"its runs give the verdict {verdict.value} ({reason}), not {case.verdict.value} ({case.reason})"
    if claim_of(verdict, case.cells, case.held) != case.claim:
        yield "its claim is not what its cells give"


def _in_verdict(result: CaseResult, settings: Settings) -> Iterator[str]:
    """Judges the case again, by the same functions as the audit did."""
    if not any(run.mode is Mode.STRICT for run in result.runs):
        if result.verdict not in (Verdict.SKIP, Verdict.ERROR):
            yield f"it is {result.verdict.value} without a strict run"
        return  # skipped, or an inventory, which has no verdicts
    try:
        compared = compare_runs(result.runs, result.states, result.roles)
    except KeyError:
        return  # a state or a role is missing, which has been said
    if [_unmeasured(one) for one in compared] != [_unmeasured(one) for one in result.comparisons]:
        yield "its comparisons are not what its runs give"
    verdict, reason = judge(
        result.runs,
        result.comparisons,
        fresh_processes=settings.repeats,
        state_carried_over=result.state_carried_over,
    )
    if (verdict, reason) != (result.verdict, result.reason):
        yield f"its runs give the verdict {verdict.value} ({reason}), not {result.verdict.value} ({result.reason})"


def _in_arms(result: CaseResult) -> Iterator[str]:
    for arm in result.arms:
        if arm.run.mode not in ARM_MODES:
            yield f"arm {arm.run.name} is in mode {arm.run.mode.value}"
        try:
            compared = compare_repeats(arm.run.name, arm.run.outcome, result.states, result.roles)
        except KeyError:
            continue  # a state or a role is missing, which has been said
        if compared != arm.comparisons:
            yield f"the comparisons of arm {arm.run.name} are not what its run gives"


def _in_factors(result: CaseResult) -> Iterator[str]:
    if result.factors and not any(comparison.divergence for comparison in result.comparisons):
        yield "factors were tested although nothing diverged"
    for test in result.factors:
        if not 0 <= test.fixed_agreeing <= test.fixed_pairs or not 0 <= test.free_differing <= test.free_pairs:
            yield f"the test of factor {test.factor.value} counts more pairs than it made"
    if any(test.decides for test in result.factors[:-1]):
        yield "factors were tested after the one that decides"


def _unmeasured(comparison: Comparison) -> Comparison:
    """The comparison without what further runs showed."""
    if comparison.divergence is None:
        return comparison
    plain = msgspec.structs.replace(comparison.divergence, distance=None, distance_note="")
    return msgspec.structs.replace(comparison, divergence=plain)


def _summary(report: AuditReport) -> Summary:
    if is_inventory(report.settings):
        return summarize_inventory(report.cases, complete=report.summary.complete)
    return summarize(report.cases, report.canaries, complete=report.summary.complete, canaries_expected=len(CANARIES))


def _in_case(result: CaseResult) -> Iterator[str]:
    for key, state in result.states.items():
        if state.loss is not None and not _BITS.fullmatch(state.loss.bits):
            yield f"the bits of a loss are no hex digits in state {key}"
        for leaf, digest in state.leaves.items():
            if leaf not in result.roles:
                yield f"leaf {leaf} has no role"
            if not _DIGEST.fullmatch(digest):
                yield f"leaf {leaf} has something that is no sha256 digest"
        if state_digest(state.leaves) != key:
            yield f"state {key} does not hold what its digest says"
    runs = (*result.runs, *result.confirmations, *(arm.run for arm in result.arms))
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        yield "two runs have the same name"
    for run in runs:
        if isinstance(run.outcome, Completed):
            for number, repeat in enumerate(run.outcome.repeats):
                for words in _in_repeat(repeat, result):
                    yield f"run {run.name}, repeat {number}: {words}"
    for comparison in (*result.comparisons, *(one for arm in result.arms for one in arm.comparisons)):
        yield from _in_comparison(comparison, {run.name: run for run in runs}, result)


def _in_repeat(repeat: Repeat, result: CaseResult) -> Iterator[str]:
    for step, digest in enumerate(repeat.states):
        state = result.states.get(digest)
        if state is None:
            yield f"the state after step {step} is missing"
        elif (state.loss is None) != (step == 0):
            yield f"step {step} has {'no' if state.loss is None else 'a'} loss"


def _in_comparison(comparison: Comparison, runs: dict[str, Run], result: CaseResult) -> Iterator[str]:
    for side in (comparison.first, comparison.second):
        run = runs.get(side.run)
        if run is None:
            yield f"a comparison names run {side.run}, which is not there"
        elif not isinstance(run.outcome, Completed) or not 0 <= side.repeat < len(run.outcome.repeats):
            yield f"a comparison names repeat {side.repeat} of run {side.run}, which is not there"
    divergence = comparison.divergence
    if divergence is None:
        if not (comparison.loss_equal and comparison.state_equal):
            yield "a comparison found a difference, but no divergence"
        return
    for digest in (divergence.first, divergence.second):
        if digest is not None and not _DIGEST.fullmatch(digest):
            yield f"the divergence at leaf {divergence.leaf} names something that is no sha256 digest"
