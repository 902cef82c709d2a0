"""What repeats outside strict mode showed of a case whose strict runs agree."""

from collections.abc import Iterator

from repro_audit.records import Arm, CaseResult, Completed, Mode, Verdict
from repro_audit.report.finding import Finding, Level, distinct_words, step_name

_TITLES = {
    Mode.DEFAULT: "repeats only under strict mode: keep the flag in production",
    Mode.NO_FILL: "masked: reads uninitialised memory; strict mode's fill hides it",
}

_NEXT_STEPS = {
    Mode.DEFAULT: "call torch.use_deterministic_algorithms(True) wherever the result has to repeat",
    Mode.NO_FILL: "write to what torch.empty returns before it is read, or ask for torch.zeros",
}


def arm_findings(name: str, result: CaseResult) -> Iterator[Finding]:
    """The arms that differ or failed, where the strict claim holds: what does not repeat at all is hidden by nothing.

    Args:
        name: What to call the case.
    """
    if result.verdict is not Verdict.PASS:
        return
    lines = {arm.run.mode: line for arm in result.arms if (line := _difference(arm))}
    if lines:
        # Without the fill strict mode alone does not repeat: to advise the flag would be to advise hiding it.
        cause = Mode.NO_FILL if Mode.NO_FILL in lines else Mode.DEFAULT
        yield Finding(
            level=Level.NOTE,
            title=f"{name}: {_TITLES[cause]}",
            lines=tuple(lines.values()),
            next_step=_NEXT_STEPS[cause],
        )
    for arm in result.arms:
        if not isinstance(arm.run.outcome, Completed):
            yield Finding(
                level=Level.NOTE,
                title=f"{name}: what strict mode hides is not wholly known, {_words(arm)} did not complete",
                next_step=f"logs of {arm.run.name} lie in the archive",
            )


def _difference(arm: Arm) -> str:
    """How many repeats of an arm differ, and where; empty where none does."""
    diverged = [one.divergence for one in arm.comparisons if one.divergence is not None]
    if not diverged:
        return ""
    first = diverged[0]
    return (
        f"{_words(arm)}: {len(diverged)} of {len(arm.comparisons)} repeats in its process differ from the first"
        f"{distinct_words([arm.run], arm.comparisons)}, {step_name(first.step)}, at {first.leaf}"
    )


def _words(arm: Arm) -> str:
    return "the run in default mode" if arm.run.mode is Mode.DEFAULT else "the strict run without the fill"
