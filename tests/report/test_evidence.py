import os
from pathlib import Path

import msgspec
import pytest
import ruamel.yaml
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_audit.errors import EvidenceError
from repro_audit.records import SCHEMA_VERSION, FailureKind
from repro_audit.report import evidence
from repro_audit.signing import load_public_key
from repro_audit.verification import verify_archive
from tests import sample_reports, sample_scripts, sample_variations

GOLDEN = Path(__file__).with_name("golden_evidence.yaml")


@pytest.fixture
def text():
    return evidence.to_yaml(sample_reports.report())


def test_what_was_written_reads_back_equal():
    report = sample_reports.report()
    assert evidence.from_yaml(evidence.to_yaml(report)) == report


@pytest.mark.parametrize(
    "report",
    [sample_scripts.report(), sample_scripts.failing(), sample_variations.report(), sample_variations.of_script()],
    ids=["passing script", "failing script", "varied workloads", "varied script"],
)
def test_other_reports_read_back_equal_by_us_and_by_others(report):
    text = evidence.to_yaml(report)
    assert evidence.from_yaml(text) == report
    assert yaml.safe_load(text) == msgspec.json.decode(msgspec.json.encode(report))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("verdict: FAIL", "verdict: PASS", "give the verdict FAIL"),
        ("script_schema_version: 2", "script_schema_version: 99", "newer"),
        ("losses_equal: 1", "losses_equal: many", "losses_equal"),
    ],
)
def test_a_changed_report_on_a_script_is_refused_with_the_reason(old, new, words):
    text = evidence.to_yaml(sample_scripts.failing())
    assert old in text
    with pytest.raises(EvidenceError, match=words):
        evidence.from_yaml(text.replace(old, new))


def test_the_golden_file_is_what_is_written():
    """A change of this file is a change of the schema: raise `SCHEMA_VERSION` if an old reader could misread it."""
    assert evidence.to_yaml(sample_reports.report()) == GOLDEN.read_text(encoding="utf-8")


def test_the_golden_file_reads_back_equal():
    assert evidence.load(GOLDEN) == sample_reports.report()


def test_evidence_of_the_first_schema_can_still_be_read():
    report = evidence.load(Path(__file__).with_name("evidence_of_schema_1.yaml"))
    assert report.cases == sample_reports.report().cases
    assert (report.schema_version, report.result_digest, report.scope) == (1, "", None)


def test_a_digest_of_the_result_that_is_another_is_noticed(text):
    digest = sample_reports.report().result_digest
    assert "its result has the digest" in refusal(text.replace(digest, sample_reports.digest("other")))


def test_a_reader_of_yaml_1_2_gets_the_same_data_from_every_evidence():
    reader = ruamel.yaml.YAML(typ="safe", pure=True)
    assert reader.version is None or reader.version > (1, 1)
    reports = (
        sample_reports.report(),
        sample_scripts.report(),
        sample_scripts.failing(),
        sample_variations.report(),
        sample_variations.of_script(),
    )
    for report in reports:
        text = evidence.to_yaml(report)
        assert reader.load(text) == yaml.safe_load(text) == msgspec.json.decode(msgspec.json.encode(report))


def test_an_ordinary_reader_gets_the_same_data(text):
    assert yaml.safe_load(text) == msgspec.json.decode(msgspec.json.encode(sample_reports.report()))


def test_keys_stand_in_the_order_of_the_records(text):
    assert list(yaml.safe_load(text)) == list(sample_reports.report().__struct_fields__)


def test_every_digest_carries_its_algorithm_and_stands_in_quotes(text):
    digests = [line for line in text.splitlines() if "sha256:" in line]
    assert digests
    assert all('"sha256:' in line for line in digests)


def test_the_environment_alone_can_be_written():
    environment = sample_reports.environment()
    assert yaml.safe_load(evidence.to_yaml(environment)) == msgspec.json.decode(msgspec.json.encode(environment))


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_detail_of_a_failure_survives(detail):
    report = sample_reports.report([sample_reports.failed_case(FailureKind.EXCEPTION, detail=detail)])
    assert evidence.from_yaml(evidence.to_yaml(report)) == report


# ------------------------------------------------------------------------------------------- saving


def test_saving_leaves_the_file_and_nothing_else(tmp_path):
    path = evidence.save(sample_reports.report(), tmp_path)
    assert [path] == list(tmp_path.iterdir())
    assert evidence.load(tmp_path) == evidence.load(path) == sample_reports.report()


def test_others_may_read_the_file_as_the_umask_says(tmp_path):
    mask = os.umask(0o022)
    try:
        assert evidence.save(sample_reports.report(), tmp_path).stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)


def test_saving_again_replaces_the_file(tmp_path):
    evidence.save(sample_reports.report(), tmp_path)
    evidence.save(sample_reports.report([]), tmp_path)
    assert evidence.load(tmp_path).cases == ()


def test_saving_into_a_folder_that_is_gone_says_what_to_do(tmp_path):
    with pytest.raises(EvidenceError, match=r"gone: No such file or directory\. .*--output"):
        evidence.save(sample_reports.report(), tmp_path / "gone")


def test_a_failure_on_the_way_leaves_nothing_behind(tmp_path):
    (tmp_path / "evidence.yaml").mkdir()  # cannot be replaced by a file
    with pytest.raises(EvidenceError, match="cannot be written into"):
        evidence.save(sample_reports.report(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["evidence.yaml"]


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_a_disk_that_fills_up_leaves_the_old_file_whole_and_no_partial_one(tmp_path):
    import resource

    old = sample_reports.report([])
    evidence.save(old, tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(EvidenceError, match="File too large"):
            evidence.save(sample_reports.report(), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["evidence.yaml"]
    assert evidence.load(tmp_path) == old


# ------------------------------------------------------------------------------------------- refusing


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(EvidenceError, match=r"absent does not exist\. Name the archive folder"):
        evidence.load(tmp_path / "absent")


def test_a_folder_without_evidence_is_named(tmp_path):
    with pytest.raises(EvidenceError, match=r"evidence\.yaml does not exist\. Name the archive folder"):
        evidence.load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EvidenceError, match="no regular file"):
        evidence.load(tmp_path / "pipe")


def test_a_file_without_end_is_refused(tmp_path):
    with pytest.raises(EvidenceError, match="no regular file"):
        evidence.load(Path("/dev/zero"))


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "evidence.yaml"
    with path.open("wb") as file:
        file.truncate(evidence.MAXIMUM_BYTES + 1)
    with pytest.raises(EvidenceError, match="more than the 67108864"):
        evidence.load(path)


def test_bytes_that_are_no_utf_8_are_refused(tmp_path):
    (tmp_path / "evidence.yaml").write_bytes(b"a: \xff\n...\n")
    with pytest.raises(EvidenceError, match="not UTF-8 at byte 3"):
        evidence.load(tmp_path)


def test_a_byte_order_mark_of_an_editor_does_no_harm(tmp_path, text):
    (tmp_path / "evidence.yaml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert evidence.load(tmp_path) == sample_reports.report()


def refusal(content: str) -> str:
    with pytest.raises(EvidenceError) as caught:
        evidence.from_yaml(content, "some/evidence.yaml")
    words = str(caught.value)
    assert words.startswith("some/evidence.yaml ")
    assert len(words.splitlines()) == 1
    assert words.isprintable()
    return words


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("schema_version: 2", f"schema_version: {SCHEMA_VERSION + 1}", "newer repro_audit"),
        ("schema_version: 2", 'schema_version: "1"', "no positive number"),
        ("schema_version: 2", "schema_version: true", "no positive number"),
        ("schema_version: 2", "schema_version: 0", "no positive number"),
        ("schema_version: 2\n", "", "schema_version is missing"),
        ("  seed: 1234", "  seed: 1234\n  sead: 1", "unknown field `sead`"),
        ("  seed: 1234\n", "", "missing required field `seed`"),
        ("  seed: 1234", "  seed: many", "`int`"),
        ("  seed: 1234", "  seed: .nan", "plain text '.nan'"),
        ("verdict: PASS", "verdict: FINE", "Invalid enum value"),
        ("  seed: 1234", "  seed: 1234\n  seed: 1234", "for the second time"),
        ("outcome: completed", "outcome: finished", "Invalid value 'finished'"),
        ('model/0.weight: "sha256:', 'model/0.weight: "md5:', "no sha256 digest"),
        ('- "sha256:', '- "sha256:0', "is missing"),
        ("bits: ", 'bits: "3f" #', "no hex digits"),
        ("run: strict-b1", "run: strict-b9", "run strict-b9, which is not there"),
        ("          repeat: 1", "          repeat: 7", "repeat 7 of run strict-a, which is not there"),
        ("model/0.weight: parameter", "model/1.weight: parameter", "leaf model/0.weight has no role"),
    ],
)
def test_a_changed_file_is_refused_with_the_reason(text, old, new, words):
    assert old in text
    assert words in refusal(text.replace(old, new, 1))


def test_a_digest_that_was_changed_by_one_digit_is_noticed(text):
    leaf = next(line for line in text.splitlines() if "model/0.weight: " in line and "sha256:" in line)
    changed = leaf[:-2] + ("0" if leaf[-2] != "0" else "1") + '"'
    assert "does not hold what its digest says" in refusal(text.replace(leaf, changed, 1))


def test_a_truncated_file_is_refused_wherever_it_ends(text):
    for kept in range(0, len(text) - 2, len(text) // 150):
        refusal(text[:kept])


@pytest.mark.parametrize("content", ["- a\n...\n", "a\n...\n", "null\n...\n", "{}\n...\n"])
def test_what_is_no_evidence_at_all_is_refused(content):
    refusal(content)


def test_an_error_shows_no_control_character_of_a_hostile_file():
    assert "\\x1b" in refusal('schema_version: 1\n"\\e]0;owned\\a": 1\n...\n')


def test_an_error_stays_short_whatever_the_file_holds():
    assert len(refusal(f"schema_version: 1\n? {'a' * 100_000}\n: 1\n...\n")) < 1000


def test_the_archived_example_is_whole_signed_and_of_an_audit_that_caught_its_canaries():
    place = Path(__file__).parents[2] / "reports" / "example"
    [folder] = [path for path in place.iterdir() if path.is_dir()]
    verified = verify_archive(folder, load_public_key(place / "auditor.pub", folder))
    assert verified.faults == ()
    assert verified.signers
    assert verified.report.summary.canaries_caught
    assert verified.report.summary.exit_code == 0
    assert len(verified.report.cases) > 5
