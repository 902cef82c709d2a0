import json
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from repro_audit import cli
from repro_audit.changes import environment_changes
from repro_audit.commands.diff import archived
from repro_audit.difference import Archived, differences
from repro_audit.difference_records import Bits
from repro_audit.errors import EvidenceError
from repro_audit.recording import save_recording
from repro_audit.report import evidence
from repro_audit.report.difference_document import difference_document
from repro_audit.report.html import html_of
from tests import sample_scripts, sample_variations
from tests.builders import LEAVES, alert
from tests.fakes import FakeLauncher, Unseeded, refused_op
from tests.sample_scripts import loss, observation
from tests.small_archive import small_archive


def other_weights(task, zygote, book):
    """Repeats itself, with another parameter from the second step on."""
    moved = {**LEAVES, "model/weight": 7}
    return book.completed(*[[LEAVES, LEAVES, *[moved] * (task.steps - 1)]] * task.repeats)


def other_losses(task, zygote, book):
    return book.completed(*[[LEAVES, *[{**LEAVES, "loss": 0.5}] * task.steps]] * task.repeats)


@pytest.fixture
def two(tmp_path):
    """Makes an archive of the usual audit, and one whose workload ``one`` behaves otherwise."""

    def make(behaviour, devices=("cpu",)):
        first = small_archive(tmp_path / "first")
        second = small_archive(tmp_path / "second", FakeLauncher({"one": behaviour}, devices))
        return first, second

    return make


def difference(folders):
    return differences(*map(archived, folders))


def test_two_audits_that_found_the_same_have_no_difference(tmp_path, capsys):
    folders = [small_archive(tmp_path / name) for name in ("first", "second")]
    found = difference(folders)
    assert found.same_result
    assert {case.bits for case in found.cases} == {Bits.EQUAL}
    assert not any(case.differs for case in found.cases)
    assert found.environment == found.settings == found.subjects == ()
    assert cli.main(["diff", *map(str, folders)]) == 0
    assert "SAME: 0 of 2 cases differ; bits are equal in 2 of 2" in " ".join(capsys.readouterr().out.split())


def test_states_that_part_are_named_by_step_and_leaf_though_losses_agree(two):
    case = difference(two(other_weights)).cases[0]
    assert (case.bits, case.divergence.step, case.divergence.leaf) == (Bits.DIFFER, 2, "model/weight")
    assert case.loss_step is None
    assert (case.first_verdict, case.second_verdict) == ("PASS", "PASS")
    assert case.differs


def test_losses_that_part_are_shown_with_their_step(two):
    folders = two(other_losses)
    case = difference(folders).cases[0]
    assert (case.divergence.kind.value, case.loss_step) == ("loss", 1)
    assert (case.first_loss.text, case.second_loss.text) == ("0", "0.5")
    found = msgspec.structs.replace(difference(folders), cases=(case,))
    lines = [line for section in difference_document(found).sections for part in section.parts for line in part.code]
    assert "  apart by 0.5" in lines


def test_bits_that_do_not_repeat_are_not_compared(two):
    case = difference(two(Unseeded())).cases[0]
    assert (case.bits, case.second_verdict) == (Bits.NOT_COMPARED, "FAIL")
    assert "in the second: its repeats differ among themselves" in case.reason


def test_alerts_gained_and_lost(tmp_path):
    clean = small_archive(tmp_path)
    refusing = small_archive(tmp_path, FakeLauncher({"one": refused_op}))
    report = evidence.load(clean)
    loud = msgspec.structs.replace(
        report,
        cases=tuple(
            msgspec.structs.replace(
                case, runs=tuple(msgspec.structs.replace(run, alerts=(alert(),)) for run in case.runs)
            )
            for case in report.cases
        ),
    )
    gained = differences(Archived(report=report, folder=clean), Archived(report=loud, folder=clean))
    lost = differences(Archived(report=loud, folder=clean), Archived(report=report, folder=clean))
    assert {case.alerts_gained for case in gained.cases} == {(alert().op,)}
    assert {case.alerts_lost for case in lost.cases} == {(alert().op,)}
    case = difference((clean, refusing)).cases[0]
    assert (case.first_verdict, case.second_verdict, case.bits) == ("PASS", "REFUSED", Bits.NOT_COMPARED)


def test_a_case_of_one_audit_alone_is_absent_in_the_other(two):
    found = difference(two(other_weights, devices=("cpu", "cuda:0")))
    absent = [case for case in found.cases if case.case.endswith("cuda:0")]
    assert [(case.first_verdict, case.second_verdict) for case in absent] == [(None, "PASS")] * 2
    assert all("the case is absent" in case.reason for case in absent)


def test_a_workload_of_one_audit_alone_is_no_condition_of_the_others(tmp_path):
    first, second = (archived(small_archive(tmp_path)) for _ in range(2))
    fewer = msgspec.structs.replace(second.report, workloads=second.report.workloads[:1], cases=second.report.cases[:1])
    found = differences(first, Archived(report=fewer, folder=second.folder))
    assert [(one.name, one.second, one.condition) for one in found.subjects] == [("workload two", None, False)]
    assert found.conditions == ()


def test_facts_that_bits_may_depend_on_stand_apart_from_those_they_do_not(tmp_path):
    environment = evidence.load(small_archive(tmp_path)).environment
    changed = msgspec.structs.replace(
        environment,
        torch={**environment.torch, "version": "2.14.0"},
        packages={**environment.packages, "rich": "99", "torch": "2.14.0"},
        flags={"num_threads": "4"},
        variables={**environment.variables, "OMP_NUM_THREADS": "4"},
    )
    changes = {one.name: one for one in environment_changes(environment, changed)}
    assert {name for name, one in changes.items() if one.condition} == {
        "torch.version",
        "packages.torch",
        "flags.num_threads",
        "variables.OMP_NUM_THREADS",
    }
    assert not changes["packages.rich"].condition
    assert changes["flags.num_threads"].first is None
    assert environment_changes(environment, environment) == ()


def test_settings_and_the_files_of_workloads_are_compared(tmp_path):
    found = difference((small_archive(tmp_path), small_archive(tmp_path, steps=4, timeout_ms=7000)))
    assert {one.name: one.condition for one in found.settings} == {"steps": True, "timeout_ms": False}
    assert found.cases[0].bits is Bits.DIFFER  # a step is absent
    assert found.cases[0].divergence.kind.value == "structure"


def test_evidence_of_the_first_schema_is_compared_and_has_no_digest(tmp_path, capsys):
    old = tmp_path / "old"
    old.mkdir()
    shutil.copy(Path(__file__).parent / "report" / "evidence_of_schema_1.yaml", old / "evidence.yaml")
    assert cli.main(["diff", str(old), str(old)]) == 0
    assert "evidence of schema 1 has none" in capsys.readouterr().out


def test_audits_of_two_kinds_have_nothing_to_compare(tmp_path, capsys):
    folder = small_archive(tmp_path)
    (other := tmp_path / "script").mkdir()
    evidence.save(sample_scripts.report(), other)
    with pytest.raises(EvidenceError, match="audits of two kinds"):
        difference((folder, other))
    assert cli.main(["diff", str(folder), str(other)]) == 2
    assert cli.main(["diff", str(folder), str(tmp_path / "nowhere")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err


def script_archive(folder, value):
    (folder / "recordings").mkdir(parents=True)
    recorded = sample_scripts.recorded(folder / "recordings" / "strict-a", {"a": [observation(), loss(value)]})
    save_recording(recorded.recording, recorded.folder)
    return Archived(report=sample_scripts.report(), folder=folder)


def test_scripts_are_compared_by_what_was_recorded_of_them(tmp_path):
    first, same, other = (
        script_archive(tmp_path / name, value) for name, value in (("a", "1"), ("b", "1"), ("c", "2"))
    )
    [case] = differences(first, same).cases
    assert (case.bits, case.differs) == (Bits.EQUAL, False)
    [case] = differences(first, other).cases
    assert (case.bits, case.script_divergence.role.value) == (Bits.DIFFER, "loss")
    [case] = differences(first, Archived(report=other.report, folder=tmp_path / "gone")).cases
    assert case.bits is Bits.NOT_COMPARED
    assert "there is no recording" in case.reason


def test_variations_are_compared_by_their_effects(tmp_path):
    good, bad = (
        Archived(report=sample_variations.report([case]), folder=tmp_path)
        for case in (sample_variations.good(), sample_variations.depends_on_the_time_zone())
    )
    [case] = differences(good, good).cases
    assert (case.bits, case.cells, case.differs) == (Bits.EQUAL, (), False)
    renamed = msgspec.structs.replace(
        bad.report, cases=(msgspec.structs.replace(bad.report.cases[0], subject=good.report.cases[0].subject),)
    )
    [case] = differences(good, Archived(report=renamed, folder=tmp_path)).cases
    assert case.differs
    assert any("tz" in cell.name for cell in case.cells)


@pytest.mark.parametrize("form", ["table", "json", "markdown", "html"])
def test_every_form_tells_where_bits_part(two, capsys, form):
    assert cli.main(["diff", *map(str, two(other_weights)), "--format", form]) == 1
    out = capsys.readouterr().out
    if form == "json":
        case = json.loads(out)["cases"][0]
        assert (case["case"], case["bits"], case["divergence"]["leaf"]) == ("one/cpu", "differ", "model/weight")
        return
    words = " ".join(re.sub(r"<[^>]*>", " ", out).split())
    assert "states part after step 2, leaf model/weight" in words
    assert "losses are equal at every step" in words
    assert "1 of 2 cases differ" in words


def test_what_an_archive_says_cannot_command_a_page(two, capsys):
    first, second = two(other_weights)
    hostile = "<script>alert(1)</script>"
    report = evidence.load(second)
    report = msgspec.structs.replace(
        report, environment=msgspec.structs.replace(report.environment, flags={"x": hostile})
    )
    page = html_of(difference_document(differences(archived(first), Archived(report=report, folder=second))))
    assert "&lt;script&gt;" in page
    assert "<script" not in page
