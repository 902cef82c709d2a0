"""Whether an archived audit was reproduced: judges the difference between it and the audit that was made of it again.

Pure: what is compared are two records.
"""

from collections.abc import Iterator
from enum import StrEnum

from repro_audit.difference_records import Bits, CaseDifference, Difference
from repro_audit.exit_codes import ExitCode
from repro_audit.records import Record, Verdict
from repro_audit.verdict import WAIVED

_FAILED = (Verdict.FAIL.value, Verdict.REFUSED.value)


class Reproduced(StrEnum):
    """What became of a case."""

    EQUAL = "equal bits"
    OTHER_BITS = "other bits"
    """Under the conditions of the archive: a finding."""
    OTHER_CONDITIONS = "other bits, other conditions"
    """No finding: nothing was promised beyond the conditions of the archive."""
    LOST = "no longer passes"
    """Passed when it was archived, and fails or is refused now, whatever the conditions are: a finding."""
    SAME_VERDICT = "same verdict, no bits to compare"
    """Did not pass when it was archived, and has no bits that could be compared."""
    NOT_COMPARED = "not compared"


class ReproducedCase(Record, frozen=True, kw_only=True):
    """What became of a case, and why that is said."""

    case: str
    reproduced: Reproduced
    reason: str


class Reproduction(Record, frozen=True, kw_only=True):
    """Of a whole archive."""

    difference: Difference
    """The archived audit first, the new one second."""
    cases: tuple[ReproducedCase, ...]
    exit_code: int
    statement: str


def reproduction(difference: Difference, *, trusted: bool) -> Reproduction:
    """Judges each case, and the whole.

    Args:
        trusted: Whether the new audit is complete and all its canaries were caught.
    """
    cases = tuple(_judged(case, difference) for case in difference.cases)
    found = {case.reproduced for case in cases}
    if found & {Reproduced.OTHER_BITS, Reproduced.LOST}:
        code = ExitCode.FINDING
    elif not trusted or found & {Reproduced.OTHER_CONDITIONS, Reproduced.NOT_COMPARED}:
        code = ExitCode.INCOMPLETE
    elif Reproduced.EQUAL in found:
        code = ExitCode.VERIFIED
    else:
        code = ExitCode.NOTHING
    return Reproduction(
        difference=difference,
        cases=cases,
        exit_code=code,
        statement=". ".join(_statement(difference, cases, trusted=trusted)),
    )


def _judged(case: CaseDifference, difference: Difference) -> ReproducedCase:
    outcome, reason = _outcome(case, conditions=len(difference.conditions_of(case)))
    return ReproducedCase(case=case.case, reproduced=outcome, reason=reason)


def _outcome(case: CaseDifference, *, conditions: int) -> tuple[Reproduced, str]:
    first, second = case.first_verdict, case.second_verdict
    if first == Verdict.PASS and second in _FAILED:
        return Reproduced.LOST, f"archived as {first}, now {second}"
    if case.bits is Bits.DIFFER or (case.bits is Bits.EQUAL and case.cells):
        what = "other bits" if case.bits is Bits.DIFFER else "a variation has another effect"
        if conditions:
            return Reproduced.OTHER_CONDITIONS, f"{what}, which is no finding: the conditions are others, too"
        return Reproduced.OTHER_BITS, f"{what} under the same conditions"
    if case.bits is Bits.EQUAL:
        return Reproduced.EQUAL, "the same bits as archived"
    if first is not None and (first == second or (first == WAIVED and second in _FAILED)):
        if first in (Verdict.ERROR, Verdict.SKIP, Verdict.PASS):
            return Reproduced.NOT_COMPARED, case.reason
        return Reproduced.SAME_VERDICT, case.reason
    return Reproduced.NOT_COMPARED, f"archived as {first or 'absent'}, now {second or 'absent'}: {case.reason}"


def _statement(difference: Difference, cases: tuple[ReproducedCase, ...], *, trusted: bool) -> Iterator[str]:
    conditions = len(difference.conditions)
    if conditions:
        yield f"{conditions} condition{'s differ' if conditions > 1 else ' differs'} from those of the archive"
    else:
        yield "The conditions are those of the archive"
    if not trusted:
        yield "The new audit is incomplete, or a canary was not caught: it shows little"
    counts = [f"{number} {one.value}" for one in Reproduced if (number := sum(one is c.reproduced for c in cases))]
    yield f"{len(cases)} case{'s' if len(cases) != 1 else ''}: {', '.join(counts) or 'none'}"
    if any(case.reproduced is Reproduced.OTHER_CONDITIONS for case in cases):
        yield "Other bits under other conditions are no finding; whether they are as good is for you to judge"
