"""An archived audit and the one that was made of it again, as a document."""

from repro_audit.exit_codes import ExitCode
from repro_audit.report.difference_document import case_parts, changed_section
from repro_audit.report.plain import printable
from repro_audit.report.sections import Document, Section
from repro_audit.reproduction import Reproduction

WORDS = {
    ExitCode.VERIFIED: "REPRODUCED",
    ExitCode.FINDING: "NOT REPRODUCED",
    ExitCode.INCOMPLETE: "INCONCLUSIVE",
    ExitCode.NOTHING: "NOTHING TO COMPARE",
}
"""The whole in a word, by exit code."""


def reproduction_document(found: Reproduction) -> Document:
    """The document: the conditions first, for what other bits mean depends on them; then the cases."""
    difference = found.difference
    return Document(
        title="An archived audit, made again",
        verdict=WORDS[ExitCode(found.exit_code)],
        statement=found.statement,
        facts=(
            ("archived", printable(difference.first)),
            ("made again as", printable(difference.second)),
        ),
        sections=(
            changed_section("Environment", difference.environment),
            changed_section("Settings", difference.settings),
            changed_section("Workloads and scripts", difference.subjects),
            Section(
                title="Cases",
                headers=("case", "archived", "now", "reproduced", "because"),
                rows=tuple(
                    (
                        printable(case.case),
                        case.first_verdict or "absent",
                        case.second_verdict or "absent",
                        judged.reproduced.value,
                        printable(judged.reason),
                    )
                    for case, judged in zip(difference.cases, found.cases, strict=True)
                ),
            ),
            *case_parts(difference),
        ),
    )
