"""The audit's proof of its own sense: workloads that must be caught, and what being caught means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from repro_audit.plan import PlannedRun, Zygote
from repro_audit.records import (
    CanaryResult,
    CaseResult,
    Comparison,
    DivergenceKind,
    Pairing,
    Refused,
    Settings,
    Verdict,
)


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A workload in `repro_audit/canaries/` and how it must be caught."""

    name: str
    expectation: str
    missed: Callable[[CaseResult, Settings], str]
    """What was not seen of the expectation; empty where all was."""
    prepare: Callable[[Sequence[PlannedRun], Settings], Sequence[PlannedRun]] = lambda planned, _: planned


def _nudge(planned: Sequence[PlannedRun], settings: Settings) -> Sequence[PlannedRun]:
    """Has the last step of the runs in B end one unit in the last place off."""
    return [
        run
        if run.zygote is Zygote.A
        else PlannedRun(
            zygote=run.zygote,
            task=msgspec.structs.replace(
                run.task, source=msgspec.structs.replace(run.task.source, variant=str(settings.steps))
            ),
        )
        for run in planned
    ]


def _of(result: CaseResult, pairing: Pairing) -> list[Comparison]:
    return [comparison for comparison in result.comparisons if comparison.pairing is pairing]


def _one_ulp_missed(result: CaseResult, settings: Settings) -> str:
    if result.verdict is not Verdict.FAIL:
        return f"its verdict is {result.verdict.value}"
    same, fresh = _of(result, Pairing.SAME_PROCESS), _of(result, Pairing.FRESH_PROCESS)
    if not same or any(comparison.divergence for comparison in same):
        return "the two equal repeats in one process were not found equal"
    if not fresh:
        return "no fresh processes were compared"
    for comparison in fresh:
        seen = comparison.divergence
        if seen is None or not comparison.loss_equal:
            return "the nudged parameter was not told from the losses, which are equal"
        where = (seen.kind, seen.step, seen.leaf, seen.differing_leaves)
        if where != (DivergenceKind.PARAMETER, settings.steps, "model/weight", 1):
            return f"the difference was placed at step {seen.step}, {seen.leaf}, {seen.differing_leaves} leaves"
    return ""


def _unseeded_missed(result: CaseResult, settings: Settings) -> str:
    if result.verdict is not Verdict.FAIL:
        return f"its verdict is {result.verdict.value}"
    for pairing in Pairing:
        compared = _of(result, pairing)
        if not compared or not all(comparison.divergence for comparison in compared):
            return f"the {pairing.value} repeats were not found to differ"
    return ""


def _refused_op_missed(result: CaseResult, settings: Settings) -> str:
    if result.verdict is not Verdict.REFUSED:
        return f"its verdict is {result.verdict.value}"
    if not all(isinstance(run.outcome, Refused) for run in result.runs if run.name.startswith("strict")):
        return "a strict run was not refused"
    alerts = [alert for run in result.runs if run.name == "warn_only" for alert in run.alerts]
    if [alert.op for alert in alerts] != ["put_"] or alerts[0].count != settings.steps:
        return f"the inventory holds {len(alerts)} alerts instead of put_ once per step"
    return ""


CANARIES = (
    Canary(
        name="one_ulp",
        expectation="one element, one ULP off in one parameter in the last step of one process",
        missed=_one_ulp_missed,
        prepare=_nudge,
    ),
    Canary(
        name="unseeded", expectation="unseeded randomness differs in every pair of repeats", missed=_unseeded_missed
    ),
    Canary(
        name="refused_op",
        expectation="put_ without accumulate is refused, and counted in the inventory",
        missed=_refused_op_missed,
    ),
)


def assess(canary: Canary, result: CaseResult, settings: Settings) -> CanaryResult:
    """Whether a canary was caught the way it must be."""
    missed = canary.missed(result, settings)
    return CanaryResult(
        name=canary.name,
        caught=not missed,
        expectation=canary.expectation,
        seen=missed or "as expected",
        result=result,
    )
