import msgspec
import pytest

from repro_audit.bounds import upper_bound
from repro_audit.records import FailureKind
from repro_audit.report.finding import Level
from repro_audit.report.findings import findings
from tests.sample_reports import (
    breached_case,
    canaries,
    completed_case,
    distance,
    failed_case,
    non_finite_case,
    refused_case,
    report,
    skipped_case,
)


def found(*cases, **fields):
    return findings(report(cases, **fields))


def text(finding) -> str:
    return "\n".join((finding.title, *finding.lines, finding.next_step))


def test_nothing_is_said_of_a_case_that_passed():
    assert found(completed_case()) == []


def test_the_reason_of_a_skip_is_said_once_for_all_its_cases():
    (finding,) = found(skipped_case("mlp"), skipped_case("conv"))
    assert finding.level is Level.NOTE
    assert finding.title == "skipped: no cuda device: built without CUDA"
    assert finding.lines == ("mlp on cuda:0, conv on cuda:0",)


def test_documented_refusals_are_one_note_with_their_source():
    source = "https://docs.pytorch.org/docs/stable/"
    (finding,) = found(refused_case("put", declared=source), refused_case("other", declared=source))
    assert finding.level is Level.NOTE
    assert finding.title == "2 cases refused, as declared by the workload"
    assert finding.lines[-1] == f"source: {source}"
    assert len(finding.lines) == 3


def test_a_divergence_names_place_repeats_and_both_digests_aligned():
    result = completed_case("race", (0, 0, 1))
    (finding,) = found(result)
    divergence = next(one.divergence for one in result.comparisons if one.divergence)
    assert finding.level is Level.FINDING
    assert finding.title == "race on cpu: fresh processes differ"
    assert "after step 2, parameter, leaf model/0.weight" in text(finding)
    start = finding.lines.index("sha256 of strict-a, repeat 1 (first) and strict-b1, repeat 1 (second):")
    assert [f"sha256:{line.split()[1]}" for line in finding.lines[start + 1 : start + 3]] == [
        divergence.first,
        divergence.second,
    ]
    assert [len(line) for line in finding.lines[start + 1 : start + 3]] == [72, 72]
    assert finding.next_step


def test_each_pairing_that_diverged_has_a_finding():
    titles = [finding.title for finding in found(completed_case("race", (0, 1, 2)))]
    assert titles == ["race on cpu: repeats in the same process differ", "race on cpu: fresh processes differ"]


def test_a_distance_is_told_with_number_share_size_and_place():
    words = text(found(completed_case("race", (0, 0, 1), distance=distance()))[0])
    assert "3 of 2048 elements differ (0.146 %), float32, shape [64, 32]" in words
    assert "largest difference: 1.1920929e-07, 1 ULP" in words
    assert "first at index [0, 5]: 0.25 against 0.25000003" in words


def test_state_that_was_carried_over_is_not_called_nondeterminism():
    (finding,) = found(completed_case("cache", (0, 1, 0), carried_over=True))
    assert finding.title == "cache on cpu: state is carried over from the first repeat into the second"
    assert "this is no nondeterminism" in finding.next_step


def test_a_breach_names_setting_both_values_and_line_once():
    (finding,) = found(breached_case())
    assert "cudnn.benchmark, in repeat 1, after step 1" in text(finding)
    assert "/home/user/put.py:12" in text(finding)


def test_an_undeclared_refusal_is_a_finding_with_op_line_and_what_to_do():
    (finding,) = found(refused_case())
    assert finding.level is Level.FINDING
    assert "op: put_, forward, after step 1" in finding.lines
    assert "line: /home/user/put.py:12  self.table.put_(index, values)" in finding.lines
    assert "torch.use_deterministic_algorithms" in finding.next_step


def test_a_declared_refusal_is_a_note_with_its_source():
    (finding,) = found(refused_case(declared="https://docs.pytorch.org/docs/stable/"))
    assert finding.level is Level.NOTE
    assert "source: https://docs.pytorch.org/docs/stable/" in finding.lines


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_shows_its_detail_and_a_next_step(kind):
    (finding,) = found(failed_case(kind))
    assert finding.level is Level.INCOMPLETE
    assert "ValueError: no" in finding.lines
    assert finding.next_step


def test_a_long_detail_shows_its_end():
    detail = "".join(f"line {number}\n" for number in range(1000)) + "RuntimeError: the point"
    (finding,) = found(failed_case(detail=detail))
    assert finding.lines[-1] == "RuntimeError: the point"
    assert len(finding.lines) < 30


def test_a_loss_that_is_not_finite_is_noted_although_its_bits_agree():
    (finding,) = found(non_finite_case())
    assert finding.level is Level.NOTE
    assert "the loss is nan after step 1" in finding.title


def test_a_missed_canary_comes_first():
    first = findings(report([refused_case()], canaries(caught=False)))[0]
    assert first.title == "canary unseeded was not caught: this audit cannot be trusted"


def test_no_wording_claims_more_than_was_seen():
    assert "deterministic." not in " ".join(text(finding) for finding in findings(report()))


@pytest.mark.parametrize(("repeats", "bound"), [(1, 0.95), (2, 0.7764), (59, 0.0495), (299, 0.00997)])
def test_the_bound_is_the_rate_at_which_so_many_repeats_agree_one_time_in_twenty(repeats, bound):
    assert upper_bound(repeats) == pytest.approx(bound, rel=1e-3)
    assert (1 - upper_bound(repeats)) ** repeats == pytest.approx(0.05)


def test_a_setting_that_the_workload_left_changed_is_noted_once():
    result = completed_case("changes")
    runs = tuple(msgspec.structs.replace(one, flags_end={"num_threads": "1"}) for one in result.runs)
    (finding,) = found(msgspec.structs.replace(result, runs=runs))
    assert finding.level is Level.NOTE
    assert finding.title == "settings after the last op: num_threads is 1"
    assert finding.lines == ("changes on cpu",)
