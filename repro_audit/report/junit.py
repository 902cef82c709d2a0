"""A report as JUnit XML: a test case for each claim of each case."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from repro_audit.attestation import test_outcomes
from repro_audit.records import AuditReport, Verdict, Waiver
from repro_audit.report.evidence import Report
from repro_audit.report.finding import Finding, Level
from repro_audit.report.findings import findings
from repro_audit.report.script_findings import script_findings
from repro_audit.report.variation_matrix import variation_findings
from repro_audit.script_records import ScriptReport
from repro_audit.script_verdict import shown_script_verdict
from repro_audit.verdict import shown_verdict
from repro_audit.waivers import is_finding

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped (https://www.w3.org/TR/xml/#charsets)."""


def junit_of(report: Report) -> str:
    """The XML. FAIL and an undeclared REFUSED are failures, ERROR an error; SKIP, a waived finding and a documented
    refusal are skipped with the reason, never passed.
    """
    suite = TestSuite("repro-audit")
    suite.timestamp = report.volatile.started[:19]
    suite.hostname = _valid(report.volatile.host)
    reasons = dict(_reasons(report))
    durations = _durations(report)
    outcomes = list(test_outcomes(report))
    claims = Counter(name.rpartition("/")[0] for name, _ in outcomes)
    for name, outcome in outcomes:
        subject, _, claim = name.rpartition("/")
        test = TestCase(_valid(claim), classname=_valid(f"repro_audit.{subject.replace('/', '.')}"))
        test.time = durations.get(subject, 0) / 1000 / claims[subject]
        kind, words, detail = reasons.get(subject, ("", report.summary.statement, ""))
        if outcome == "failed":
            result = Error(_valid(words)) if kind == Verdict.ERROR.value else Failure(_valid(words), kind or "finding")
            result.text = _valid(detail)
            test.result = [result]
        elif outcome in ("warned", "skipped"):
            test.result = [Skipped(_valid(f"{kind}: {words}" if outcome == "warned" else words))]
        suite.add_testcase(test)
    document = JUnitXml("repro-audit")
    document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]
    return str(document.tostring().decode())  # type: ignore[no-untyped-call]


def _durations(report: Report) -> dict[str, int]:
    durations: dict[str, int] = {}
    for timing in report.volatile.runs:
        name = f"{timing.case}/script" if isinstance(report, ScriptReport) else timing.case
        durations[name] = durations.get(name, 0) + timing.duration_ms
    return durations


def _reasons(report: Report) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Subject to the verdict or what stands in its place, the reason, and the findings in words."""
    match report:
        case AuditReport():
            found = findings(report)
            for result in report.cases:
                name = result.case.name
                words = shown_verdict(result)
                if result.verdict is Verdict.REFUSED and not is_finding(result):
                    words = "REFUSED as documented"
                whose = f"{result.case.workload} on {result.case.device}:"
                own = _detail(one for one in found if one.title.startswith(whose))
                yield name, (words, result.reason + _accepted(result.waivers), own)
            for canary in report.canaries:
                yield f"canary/{canary.name}", ("canary", f"expected: {canary.expectation}; {canary.seen}", "")
        case ScriptReport():
            name = f"{report.settings.script.name}/script"
            reason = report.reason + _accepted(report.waived)
            yield name, (shown_script_verdict(report), reason, _detail(script_findings(report)))
        case _:
            for case in report.cases:
                yield case.subject, (case.verdict.value, case.reason, _detail(variation_findings(case)))


def _accepted(waivers: Iterable[Waiver]) -> str:
    return "".join(f"; accepted by {one.who} until {one.until}: {one.reason}" for one in waivers)


def _detail(found: Iterable[Finding]) -> str:
    return "\n".join(
        "\n".join((f"{one.level.value}: {one.title}", *(f"    {line}" for line in one.lines)))
        for one in found
        if one.level is not Level.NOTE
    )


def _valid(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
