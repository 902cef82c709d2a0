from xml.etree import ElementTree

import msgspec
import pytest
from junitparser import JUnitXml

from repro_audit.finish import finish
from repro_audit.records import Waiver
from repro_audit.report.junit import junit_of
from tests import sample_reports, sample_scripts, sample_variations
from tests.sample_reports import completed_case, failed_case, refused_case, skipped_case

CLAIMS = ("strict_mode", "same_process", "fresh_process")


def outcomes(report, subject):
    """Claim to what became of it, as JUnit says it."""
    [suite] = JUnitXml.fromstring(junit_of(report).encode())
    return {
        case.name: next((type(result).__name__ for result in case.result), "passed")
        for case in suite
        if case.classname == f"repro_audit.{subject}"
    }


def results(report):
    [suite] = JUnitXml.fromstring(junit_of(report).encode())
    return [result for case in suite for result in case.result]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (completed_case(), ("passed", "passed", "passed")),
        (completed_case(weights=(0, 0, 1)), ("passed", "passed", "Failure")),
        (completed_case(weights=(0, 1, 0), carried_over=True), ("passed", "Failure", "passed")),
        (refused_case("mlp"), ("Failure",) * 3),
        (refused_case("mlp", declared="https://docs.pytorch.org"), ("Skipped",) * 3),
        (failed_case(name="mlp"), ("Error",) * 3),
        (skipped_case(), ("Skipped",) * 3),
    ],
)
def test_each_claim_is_a_test_case_with_its_outcome(case, expected):
    report = sample_reports.report([case])
    subject = f"mlp.{case.case.device}"
    assert outcomes(report, subject) == dict(zip(CLAIMS, expected, strict=True))


def test_a_waived_finding_is_skipped_and_never_passed():
    accepted = Waiver(workload="put", device="cpu", op="*", reason="known", who="Ada", until="2999-01-01")
    report = sample_reports.report([refused_case("put")])
    assert "Failure" in outcomes(report, "put.cpu").values()
    waived = finish(report, waivers=[accepted])
    assert set(outcomes(waived, "put.cpu").values()) == {"Skipped"}
    assert any("WAIVED" in one.message and "accepted by Ada until 2999-01-01" in one.message for one in results(waived))


def test_a_canary_that_was_not_caught_is_a_failure():
    report = sample_reports.report([completed_case()], sample_reports.canaries(caught=False))
    assert set(outcomes(report, "canary.unseeded").values()) == {"Failure"}
    assert set(outcomes(sample_reports.report([completed_case()]), "canary.unseeded").values()) == {"passed"}


def test_counts_follow_from_the_cases():
    report = sample_reports.report()
    document = JUnitXml.fromstring(junit_of(report).encode())
    kinds = [type(one).__name__ for one in results(report)]
    assert (document.failures, document.errors, document.skipped) == (
        kinds.count("Failure"),
        kinds.count("Error"),
        kinds.count("Skipped"),
    )
    assert document.failures
    assert document.errors
    assert document.tests == sum(1 for suite in document for _ in suite)


def test_scripts_and_variations_are_told_too():
    assert outcomes(sample_scripts.report(), "train.py.script") == {"fresh_process": "passed"}
    assert outcomes(sample_scripts.failing(), "train.py.script") == {"fresh_process": "Failure"}
    [suite] = JUnitXml.fromstring(junit_of(sample_variations.report()).encode())
    assert any(case.result for case in suite)


def test_a_failure_says_where_the_runs_part():
    report = sample_reports.report([completed_case(weights=(0, 0, 1))])
    [failure] = results(report)
    assert "fresh processes differ" in failure.text
    assert "leaf model/0.weight" in failure.text


def test_what_xml_cannot_hold_is_replaced_and_what_it_can_is_escaped():
    hostile = "a\x00\x1b[31m<b>&]]>\ud800"
    case = msgspec.structs.replace(refused_case("mlp"), reason=hostile)
    text = junit_of(sample_reports.report([case]))
    root = ElementTree.fromstring(text.encode())
    messages = [one.get("message") for one in root.iter("failure")]
    assert messages
    assert all("<b>&]]>" in message and "\x00" not in message for message in messages)
