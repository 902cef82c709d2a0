import msgspec
import pytest

from repro_audit.records import Arm, Failed, FailureKind, Mode, Verdict
from repro_audit.report.arm_findings import arm_findings
from repro_audit.report.consistency import contradictions
from repro_audit.report.findings import arms_statement
from tests.sample_reports import completed_case, report


def arm(mode: Mode, *, differs: bool) -> Arm:
    """Two repeats in one process, as a sample case has them, under another name and mode."""
    made = completed_case("sample", (0, 1, 0) if differs else (0, 0, 0))
    run = msgspec.structs.replace(made.runs[0], name=mode.value, mode=mode)
    (comparison,) = [one for one in made.comparisons if one.second.run == made.runs[0].name]
    sides = {side: msgspec.structs.replace(getattr(comparison, side), run=mode.value) for side in ("first", "second")}
    return Arm(run=run, comparisons=(msgspec.structs.replace(comparison, **sides),))


def found(*arms: Arm, verdict: Verdict = Verdict.PASS):
    case = msgspec.structs.replace(completed_case("sample"), arms=arms, verdict=verdict)
    return list(arm_findings("sample on cpu", case))


def test_arms_that_agree_are_not_mentioned():
    assert found(arm(Mode.DEFAULT, differs=False), arm(Mode.NO_FILL, differs=False)) == []


def test_what_only_strict_mode_repeats_asks_to_keep_the_flag():
    (finding,) = found(arm(Mode.DEFAULT, differs=True), arm(Mode.NO_FILL, differs=False))
    assert finding.title == "sample on cpu: repeats only under strict mode: keep the flag in production"
    assert finding.lines[0].startswith("the run in default mode: 1 of 1 repeats in its process differ from the first")


@pytest.mark.parametrize("default_differs", [True, False])
def test_masked_memory_is_said_once_and_never_answered_with_the_flag_that_masks_it(default_differs):
    (finding,) = found(arm(Mode.DEFAULT, differs=default_differs), arm(Mode.NO_FILL, differs=True))
    assert finding.title == "sample on cpu: masked: reads uninitialised memory; strict mode's fill hides it"
    assert len(finding.lines) == 1 + default_differs
    assert "torch.zeros" in finding.next_step


def test_nothing_is_hidden_where_the_strict_runs_differ_themselves():
    assert found(arm(Mode.NO_FILL, differs=True), verdict=Verdict.FAIL) == []


def test_an_arm_that_failed_is_not_taken_for_one_that_agreed():
    run = arm(Mode.NO_FILL, differs=False).run
    failed = msgspec.structs.replace(run, outcome=Failed(kind=FailureKind.SIGNAL, detail="SIGSEGV"))
    (finding,) = found(Arm(run=failed, comparisons=()))
    assert "not wholly known" in finding.title
    assert "no_fill" in finding.next_step


def words(*arms: Arm) -> str:
    made = completed_case("sample")
    states = dict(made.states)
    for differs in (True, False):
        states |= completed_case("sample", (0, 1, 0) if differs else (0, 0, 0)).states
    return " ".join(contradictions(report([msgspec.structs.replace(made, arms=arms, states=states)])))


def test_evidence_with_sound_arms_does_not_contradict_itself():
    assert words(arm(Mode.DEFAULT, differs=True), arm(Mode.NO_FILL, differs=False)) == ""


def test_evidence_whose_arm_was_made_to_agree_contradicts_itself():
    differing = arm(Mode.NO_FILL, differs=True)
    agreeing = arm(Mode.NO_FILL, differs=False)
    assert "not what its run gives" in words(Arm(run=differing.run, comparisons=agreeing.comparisons))


def test_evidence_whose_arm_lacks_its_states_is_refused_as_that():
    differing = arm(Mode.DEFAULT, differs=True)
    case = msgspec.structs.replace(completed_case("sample"), arms=(differing,))
    assert any(
        "run default, repeat 1: the state after step 2 is missing" in one for one in contradictions(report([case]))
    )


def test_evidence_whose_arm_claims_to_be_strict_contradicts_itself():
    strict = arm(Mode.NO_FILL, differs=False)
    run = msgspec.structs.replace(strict.run, mode=Mode.STRICT)
    assert "is in mode strict" in words(Arm(run=run, comparisons=strict.comparisons))


def test_arms_that_agree_support_a_bound():
    arms = (arm(Mode.DEFAULT, differs=True), arm(Mode.NO_FILL, differs=False))
    whole = report([msgspec.structs.replace(completed_case("sample"), arms=arms)])
    assert arms_statement(whole).startswith("1 of 2 repeats in default mode or without the fill showed no divergence")
    assert arms_statement(whole).endswith("a rate below 95 %")
    assert arms_statement(report([completed_case("sample")])) == ""
