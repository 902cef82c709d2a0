import msgspec
import pytest

from repro_audit.finish import finish
from repro_audit.records import Waiver
from repro_audit.report import evidence
from repro_audit.result_digest import canonical, digest_of, has_result_digest, result_digest, result_of
from tests import sample_reports, sample_scripts, sample_variations
from tests.fakes import FakeLauncher, one_ulp, refused_op, repeatable
from tests.small_archive import small_archive


def found(output, **behaviours):
    launcher = FakeLauncher(behaviours)
    return evidence.load(small_archive(output, launcher)).result_digest


def test_two_audits_that_found_the_same_have_the_same_digest(tmp_path):
    first, second = (found(tmp_path) for _ in range(2))
    assert first == second != ""


def test_what_was_found_of_a_diverging_workload_does_not_hang_on_its_random_bits(tmp_path):
    class Random:
        draws = 0

        def __call__(self, task, zygote, book):
            repeats = []
            for _ in range(task.repeats):
                Random.draws += 1
                repeats.append([{"loss": Random.draws, "model/weight": Random.draws}] * (task.steps + 1))
            return book.completed(*repeats)

    assert found(tmp_path, one=Random()) == found(tmp_path, one=Random())


def test_other_findings_have_other_digests(tmp_path):
    def other_bits(task, zygote, book):
        return book.completed(*[[{"loss": 7, "model/weight": 7}] * (task.steps + 1)] * task.repeats)

    digests = {found(tmp_path, one=behaviour) for behaviour in (repeatable, one_ulp, refused_op, other_bits)}
    assert len(digests) == 3  # without a variant, the second does as the first


@pytest.mark.parametrize("whole", [sample_reports.report, sample_scripts.report, sample_variations.report])
def test_times_hosts_and_where_the_values_came_from_do_not_count_and_all_else_does(whole):
    report = whole()
    later = msgspec.structs.replace(
        report, volatile=msgspec.structs.replace(report.volatile, host="other", duration_ms=1, finished="later")
    )
    assert finish(later).result_digest == report.result_digest
    moved = msgspec.structs.replace(report, environment=msgspec.structs.replace(report.environment, git={}))
    assert finish(moved).result_digest != report.result_digest


def test_a_waiver_counts(tmp_path):
    waiver = Waiver(workload="*", device="*", op="*", reason="known", who="Ada", until="2036-01-01")
    report = sample_reports.report()
    assert finish(report, waivers=(waiver,)).result_digest != report.result_digest


def test_bits_of_a_script_count_where_its_runs_agree():
    def with_results(report, digest):
        recordings = tuple(
            msgspec.structs.replace(
                one,
                streams=tuple(msgspec.structs.replace(stream, results_sha256=digest) for stream in STREAMS),
            )
            for one in report.recordings
        )
        return finish(msgspec.structs.replace(report, recordings=recordings)).result_digest

    from repro_audit.script_records import Stream

    STREAMS = (Stream(name="main", observations=3, sha256=sample_reports.digest(1)),)
    assert with_results(sample_scripts.report(), "sha256:1") != with_results(sample_scripts.report(), "sha256:2")
    assert with_results(sample_scripts.failing(), "sha256:1") == with_results(sample_scripts.failing(), "sha256:2")


def test_nothing_volatile_is_in_the_result():
    result = result_of(msgspec.to_builtins(sample_reports.report()))
    assert "4242" not in str(canonical(result))
    assert "workstation" not in str(canonical(result))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, "é\n"]}, '{"a":[true,null,"é\\n"],"b":1}'),
        ({"\u20ac": 1, "\U0001f600": 2, "\ufb33": 3}, '{"€":1,"\U0001f600":2,"\ufb33":3}'),
    ],
)
def test_canonical_json_is_that_of_the_standard(value, text):
    assert canonical(value).decode() == text


def test_what_canonical_json_cannot_hold_is_an_error():
    with pytest.raises(ValueError, match=r"."):
        digest_of({"a": 2**53})


def test_a_lone_surrogate_counts_as_what_the_evidence_has_in_its_place():
    assert canonical(["\udc80"]) == canonical(["\\udc80"])


@pytest.mark.parametrize("text", ["plain", "\u00e9\u20ac\U0001f600", '\x00\x1f\x7f"\\/\n\t', "\ud800"])
def test_the_quick_way_to_accept_a_digest_agrees_with_canonical_json(text):
    data = msgspec.to_builtins(sample_reports.report())
    data["tool"] = {text: text, "\ufb33": "1", "\U0001f600": "2"}  # UTF-16 sorts these two the other way round
    assert has_result_digest(data, result_digest(data))
    assert not has_result_digest(data | {"tool": {text: "another"}}, result_digest(data))
    assert not has_result_digest(data, "sha256:" + 64 * "0")


def test_the_quick_way_writes_ascii_as_canonical_json_does():
    text = "".join(map(chr, range(128)))
    assert msgspec.json.encode({text: text, "a": 2**53 - 1}, order="sorted") == canonical({text: text, "a": 2**53 - 1})
