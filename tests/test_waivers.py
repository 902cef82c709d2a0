from datetime import date

import msgspec
import pytest

from repro_audit.finish import finish
from repro_audit.records import Verdict, Waiver
from repro_audit.report import evidence
from repro_audit.report.consistency import contradictions, script_contradictions
from repro_audit.waivers import accepted_by, case_grounds, case_waivers, script_grounds, waiver_faults
from tests import sample_reports, sample_scripts

DAY = date(2026, 1, 2)
"""That of the sample reports."""


def waiver(**fields: str) -> Waiver:
    defaults = {
        "workload": "put",
        "device": "cpu",
        "op": "put_",
        "reason": "replaced in the next release",
        "who": "Ada",
        "until": "2026-12-31",
    }
    return Waiver(**{**defaults, **fields})


def audited(*waivers, cases=None):
    return finish(sample_reports.report(cases), waivers=waivers)


def case_of(report, name):
    return next(result for result in report.cases if result.case.workload == name)


def test_a_waived_refusal_keeps_its_verdict_and_does_not_fail_the_audit():
    report = audited(waiver(), cases=[sample_reports.completed_case(), sample_reports.refused_case("put")])
    case = case_of(report, "put")
    assert case.verdict is Verdict.REFUSED
    assert case.waivers == (waiver(),)
    assert report.summary.exit_code == 0
    assert report.summary.statement == "no finding but waived ones: 1 PASS, 1 WAIVED"
    assert list(contradictions(report)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"workload": "mlp"},
        {"device": "cuda*"},
        {"op": "index_add_"},
        {"until": "2026-01-01"},
    ],
)
def test_a_waiver_of_something_else_or_of_yesterday_changes_nothing(fields):
    cases = [sample_reports.refused_case("put")]
    report = audited(waiver(**fields), cases=cases)
    assert case_of(report, "put").waivers == ()
    assert report.summary == sample_reports.report(cases).summary


def test_a_waiver_holds_on_its_last_day():
    assert case_waivers(sample_reports.refused_case("put"), [waiver(until="2026-01-02")], DAY)


@pytest.mark.parametrize("name", ["race", "undoes"])
def test_a_failure_can_be_waived_by_what_it_rests_on(name):
    case = case_of(sample_reports.report(), name)
    (ground,) = case_grounds(case)
    assert ground == {"race": "divergence", "undoes": "cudnn.benchmark"}[name]
    assert case_waivers(case, [waiver(workload="*", op=ground)], DAY)
    assert not case_waivers(case, [waiver(workload="*", op="put_")], DAY)


def test_what_comes_behind_a_waived_op_is_not_waived_with_it():
    """The warn_only run goes on where strict mode stopped, and shows what else would be refused."""
    other = sample_reports.alert("index_add_")
    case = sample_reports.refused_case("put")
    runs = tuple(msgspec.structs.replace(run, alerts=(*run.alerts, other)) if run.alerts else run for run in case.runs)
    case = msgspec.structs.replace(case, runs=runs)
    assert case_grounds(case) == ("put_", "index_add_")
    assert not case_waivers(case, [waiver()], DAY)
    both = [waiver(), waiver(op="index_*")]
    assert case_waivers(case, both, DAY) == tuple(both)


@pytest.mark.parametrize("name", ["mlp", "broken", "put-documented"])
def test_what_is_no_finding_cannot_be_waived(name):
    assert case_waivers(case_of(sample_reports.report(), name), [waiver(workload="*", device="*", op="*")], DAY) == ()


def test_a_script_is_waived_by_its_name():
    report = sample_scripts.failing()
    assert script_grounds(report) == ("aten.add_.Tensor",)
    accepted = waiver(workload="train.py", device="*", op="aten.add_*")
    finished = finish(report, waivers=(accepted,))
    assert finished.waived == (accepted,)
    assert finished.summary.exit_code == 0
    assert finished.summary.statement.startswith("WAIVED (FAIL): ")
    assert list(script_contradictions(finished)) == []
    assert finish(report, waivers=(waiver(workload="other.py"),)).summary == report.summary


def test_a_waiver_that_was_slipped_in_afterwards_is_noticed():
    report = audited(cases=[sample_reports.refused_case("put")])
    forged = msgspec.structs.replace(
        report, cases=(msgspec.structs.replace(report.cases[0], waivers=(waiver(),)),), summary=audited().summary
    )
    assert any("do not accept its finding" in words for words in contradictions(forged))


def test_waivers_survive_in_the_evidence():
    report = audited(waiver(), waiver(workload="gone"))
    again = evidence.from_yaml(evidence.to_yaml(report))
    assert again == report
    assert len(again.waivers) == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"who": " "}, "has no who"),
        ({"reason": ""}, "has no reason"),
        ({"until": "soon"}, "no day"),
        ({"until": "20261231"}, "no day"),
        ({"until": "2026-02-30"}, "no day"),
    ],
)
def test_a_waiver_that_is_none_is_told(fields, words):
    (told,) = waiver_faults([waiver(**fields)])
    assert words in told
    assert list(waiver_faults([waiver()])) == []


def test_one_ground_that_is_left_keeps_all():
    assert accepted_by("put", "cpu", ["put_", "x"], [waiver()], DAY) == ()
