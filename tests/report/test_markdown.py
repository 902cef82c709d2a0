import re

import msgspec

from repro_audit.report.document import document_of
from repro_audit.report.markdown import MAXIMUM_ROWS, escaped, markdown_of
from repro_audit.report.sections import Document, Section
from tests import sample_reports, sample_scripts, sample_variations


def of(*sections):
    return Document(title="t", verdict="FINDING", statement="s", facts=(), sections=sections)


def test_verdict_and_statement_come_first_and_all_cases_follow():
    report = sample_reports.report()
    lines = markdown_of(document_of(report)).splitlines()
    assert lines[0] == "## Reproducibility audit: FINDING"
    assert escaped(report.summary.statement) in lines[:4]
    rows = [line for line in lines if line.startswith("| ")]
    for case in report.cases:
        assert any(row.startswith(f"| {escaped(case.case.workload)} |") for row in rows)


def test_findings_on_scripts_and_variations_are_told():
    assert "it races" in markdown_of(document_of(sample_scripts.failing()))
    assert "Matrix" in markdown_of(document_of(sample_variations.report()))


def test_text_cannot_be_taken_for_markup():
    hostile = "[x](javascript:alert) <img src=y> | `code` **b** # @somebody\n# title"
    text = escaped(hostile)
    assert "\n" not in text
    assert not re.search(r"(?<!\\)[<\[|`*#@]", text)
    case = msgspec.structs.replace(sample_reports.refused_case(), reason=hostile)
    case = msgspec.structs.replace(case, case=msgspec.structs.replace(case.case, workload=hostile))
    page = markdown_of(document_of(sample_reports.report([case])))
    assert "\\<img" in page
    assert "<img" not in page.replace("\\<img", "")


def test_code_cannot_end_its_own_fence():
    page = markdown_of(of(Section(title="a", code=("```", "<script>"))))
    assert "````text\n```\n<script>\n````" in page


def test_a_page_is_bounded_and_says_what_is_missing():
    sections = [Section(title=f"part {number}", lines=("x" * 900,)) for number in range(50)]
    page = markdown_of(of(*sections), 10_000)
    assert len(page.encode()) <= 10_000
    assert "part 3" in page
    assert "part 40" not in page
    assert "The rest is left out here" in page
    assert "left out" not in markdown_of(of(*sections))


def test_a_table_is_bounded():
    rows = tuple((str(number),) for number in range(MAXIMUM_ROWS + 5))
    page = markdown_of(of(Section(title="a", headers=("n",), rows=rows)))
    assert "5 more rows are left out here" in page


def test_what_is_folded_is_left_out():
    assert "secret" not in markdown_of(of(Section(title="secret", folded=True)))
