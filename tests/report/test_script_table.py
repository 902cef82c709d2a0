"""What a user reads about a script, at any width, whatever it is called."""

import io

import pytest
from rich.console import Console

from repro_audit.records import Breach, Failed, FailureKind, Mode, Refused, Verdict
from repro_audit.report.script_table import comparison_text, print_report
from repro_audit.script_records import Finished
from tests.sample_reports import alert
from tests.sample_scripts import END, LINE, comparison, divergence, failing, location, loss, recorded, report


def drawn(content, width: int = 120) -> str:
    stream = io.StringIO()
    print_report(content, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_pass_says_what_was_run_and_how_much_was_compared():
    text = drawn(report())
    assert text.startswith("PASS  train.py --epochs 1")
    assert "PASS: no divergence in 2 fresh processes, at 12 points of each" in text
    assert "4/4" in text
    assert "finding" not in text


def test_a_failure_shows_where_the_op_the_cause_and_what_was_tested():
    text = words(drawn(failing()))
    assert "finding: two runs differ (1 of 1 differ from the first)" in text
    assert "first seen at loss of backward, after 1 optimizer steps" in text
    assert "/home/user/train.py:18 table.add_(rows)" in text
    assert "first (strict-a): 0.5 (0x3f000000)" in text
    assert "aten.add_.Tensor is the first op whose inputs are equal" in text
    assert "first: #5 aten.add_.Tensor(float32[8]) -> float32[8] in Net.encoder" in text
    assert "3 of 2048 elements differ (0.146 %), float32, shape [64, 32]" in text
    assert "2 later ops part independently" in text
    assert "cause: write to a view whose elements share memory: it races" in text
    assert "shown by: two traced runs" in text
    assert "with all seeded: the runs still differ" in text
    assert "note: the program true was not observed" in text


def test_a_traced_pair_that_agrees_is_said_to_have_hidden_it():
    hidden = location(agreed=True, statement="two traced runs agree: tracing hid the divergence", first=None)
    text = drawn(report(comparisons=(comparison(divergence=divergence()),), location=hidden))
    assert "note: two traced runs agree" in text
    assert "is the first op" not in text


OUTCOMES = [
    (Refused(alert=alert(), repeat=0, detail=""), "strict mode refused put_, after 1 optimizer steps"),
    (Failed(kind=FailureKind.EXCEPTION, detail="KeyError: 'gone'"), "KeyError: 'gone'"),
    (Finished(exit_code=3), "incomplete: the script ended with exit code 3"),
]


@pytest.mark.parametrize(("outcome", "expected"), OUTCOMES)
def test_how_runs_ended_is_told_once(outcome, expected):
    text = words(drawn(report(outcomes=(outcome,) * 3)))
    assert text.count(expected) == 1


def test_a_breach_has_its_line():
    breach = Breach(setting="deterministic_algorithms", expected="True", found="False", repeat=0, step=1, location=LINE)
    text = words(drawn(report(breaches=(breach,))))
    assert "the script undid strict mode: deterministic_algorithms was False instead of True" in text
    assert "/home/user/train.py:18" in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_every_width_keeps_the_verdict(width):
    assert "FAIL" in drawn(failing(), width)


def test_markup_and_control_characters_of_a_script_are_shown_and_not_obeyed():
    text = drawn(report(notes=("[bold]x[/bold] \x1b[31m",)))
    assert "[bold]x[/bold]" in text
    assert "\x1b" not in text


# ---------------------------------------------------------------------------------------------- two recordings


def test_two_recordings_are_compared_in_words(tmp_path):
    first, second = (recorded(tmp_path / name, {"main": [loss(), END]}) for name in ("a", "b"))
    lines = list(comparison_text(comparison(), first, second, (Verdict.PASS, "no divergence"), "rank1"))
    assert lines == [f"rank1: PASS: no divergence ({tmp_path}/a, {tmp_path}/b)"]


def test_conditions_that_differ_are_named(tmp_path):
    import msgspec

    from tests.sample_reports import environment

    one = environment()
    other = msgspec.structs.replace(one, torch={**one.torch, "version": "2.14.0"})
    first = recorded(tmp_path / "a", {"main": [loss(), END]}, environment=one)
    second = recorded(tmp_path / "b", {"main": [loss(), END]}, environment=other, mode=None)
    lines = list(comparison_text(comparison(divergence=divergence()), first, second, (Verdict.FAIL, "x"), ""))
    assert "    note: recorded with other modes: strict and none" in lines
    assert "    note: other torch.version: 2.13.0+cpu and 2.14.0" in lines
    assert not [line for line in lines if "other python" in line]


def test_recordings_without_strict_mode_are_said_to_be_no_evidence_for_it(tmp_path):
    first, second = (recorded(tmp_path / name, {"main": [END]}, mode=Mode.WARN_ONLY) for name in ("a", "b"))
    lines = list(comparison_text(comparison(), first, second, (Verdict.PASS, "x"), ""))
    assert "    note: recorded with --mode warn_only: no evidence for strict mode" in lines
