"""Two audits side by side, as a document."""

from collections.abc import Iterator, Sequence

from repro_audit.difference_records import Bits, CaseDifference, Changed, Difference
from repro_audit.records import Loss
from repro_audit.report.divergence_findings import hex_digits
from repro_audit.report.finding import step_name
from repro_audit.report.plain import printable
from repro_audit.report.script_findings import divergence_lines
from repro_audit.report.sections import Document, Section

ABSENT = "absent"

CASE_HEADERS = ("case", "first", "second", "bits")

CHANGED_HEADERS = ("fact", "first", "second", "bits may depend on it")


def difference_document(difference: Difference) -> Document:
    """The document: what differs in the cases first, then what differs around them."""
    differing = [case for case in difference.cases if case.differs]
    return Document(
        title="Two audits side by side",
        verdict="DIFFERENT" if differing else "SAME",
        statement=difference_statement(difference),
        facts=(
            ("first", printable(difference.first)),
            ("second", printable(difference.second)),
            ("digests of the results", _digests(difference)),
        ),
        sections=tuple(difference_sections(difference)),
    )


def _digests(difference: Difference) -> str:
    if not (difference.first_digest and difference.second_digest):
        return "not in both: evidence of schema 1 has none"
    return "equal" if difference.same_result else "not equal, as settings and whatever was found are part of them"


def difference_statement(difference: Difference) -> str:
    """What differs, in a sentence."""
    differing = sum(case.differs for case in difference.cases)
    compared = sum(case.bits is not Bits.NOT_COMPARED for case in difference.cases)
    equal = sum(case.bits is Bits.EQUAL for case in difference.cases)
    conditions = len(difference.conditions)
    facts = "1 fact that bits may depend on differs" if conditions == 1 else "facts that bits may depend on differ"
    return (
        f"{differing} of {len(difference.cases)} cases differ; bits are equal in {equal} of {compared} that have bits "
        f"to compare; {facts if conditions == 1 else f'{conditions} {facts}'}"
    )


def difference_sections(difference: Difference) -> Iterator[Section]:
    """Cases, what they differ in, and what differs around them."""
    yield Section(
        title="Cases",
        headers=CASE_HEADERS,
        rows=tuple(tuple(map(printable, _case_row(case))) for case in difference.cases),
    )
    yield from case_parts(difference)
    for title, changes in (
        ("Environment", difference.environment),
        ("Settings", difference.settings),
        ("Workloads and scripts", difference.subjects),
    ):
        yield changed_section(title, changes)


def case_parts(difference: Difference) -> Iterator[Section]:
    """A section that holds a part for each case that there is more to say of; none where there is none."""
    parts = tuple(
        Section(title=printable(case.case), code=tuple(map(printable, lines)))
        for case in difference.cases
        if (lines := list(_case_lines(case)))
    )
    if parts:
        yield Section(title="What differs in them, and what could not be compared", parts=parts)


def changed_section(title: str, changes: Sequence[Changed]) -> Section:
    """A table of facts that differ."""
    if not changes:
        return Section(title=title, lines=("Nothing differs.",))
    rows = tuple(
        (
            printable(one.name),
            printable(one.first if one.first is not None else ABSENT),
            printable(one.second if one.second is not None else ABSENT),
            "yes" if one.condition else "no",
        )
        for one in sorted(changes, key=lambda one: not one.condition)
    )
    return Section(title=title, headers=CHANGED_HEADERS, rows=rows)


def _case_row(case: CaseDifference) -> tuple[str, ...]:
    bits = f"NO, {_parting(case)}" if case.bits is Bits.DIFFER else case.bits.value
    return (case.case, case.first_verdict or ABSENT, case.second_verdict or ABSENT, bits)


def _parting(case: CaseDifference) -> str:
    """Where the bits of the two part, in a few words."""
    if case.divergence is not None:
        return f"{case.divergence.kind.value} {step_name(case.divergence.step)}"
    if case.script_divergence is not None:
        return f"after {case.script_divergence.step} optimizer steps"
    return case.reason


def _case_lines(case: CaseDifference) -> Iterator[str]:
    if case.bits is Bits.NOT_COMPARED:
        yield f"bits were not compared: {case.reason}"
    if case.divergence is not None:
        one = case.divergence
        yield f"states part {step_name(one.step)}, leaf {one.leaf}, {one.kind.value}; " + (
            f"{one.differing_leaves} of {one.total_leaves} leaves differ"
        )
        yield f"  first:  {hex_digits(one.first)}"
        yield f"  second: {hex_digits(one.second)}"
        if case.loss_step is None:
            yield "losses are equal at every step"
        else:
            yield f"losses part {step_name(case.loss_step)}"
            yield from _loss_lines(case)
    if case.script_divergence is not None:
        yield from divergence_lines(case.script_divergence, "first", "second")
    for words, ops in (("gained", case.alerts_gained), ("lost", case.alerts_lost)):
        if ops:
            yield f"alerts {words}: {', '.join(ops)}"
    for cell in case.cells:
        yield f"{cell.name}: {cell.first or ABSENT}, now {cell.second or ABSENT}"


def _loss_lines(case: CaseDifference) -> Iterator[str]:
    first, second = case.first_loss, case.second_loss
    yield f"  first:  {_loss(first)}"
    yield f"  second: {_loss(second)}"
    if first is not None and second is not None and first.finite and second.finite:
        yield f"  apart by {abs(float(first.text) - float(second.text)):.3g}"


def _loss(loss: Loss | None) -> str:
    return f"{loss.text}  ({loss.bits})" if loss is not None else ABSENT
