"""Workloads that must be caught, audited for real: each kind of divergence and failure has one, by construction."""

import tempfile
from pathlib import Path

import pytest

from repro_audit.records import (
    AuditReport,
    CaseResult,
    Completed,
    DivergenceKind,
    Factor,
    Failed,
    FailureKind,
    Mode,
    Pairing,
    Refused,
    Verdict,
)
from repro_audit.report.findings import findings
from tests.real import audit_folder

pytestmark = [pytest.mark.slow, pytest.mark.serial]

FOLDER = Path(__file__).parent / "known_bad"

APART = {"failure_timeout", "clears_temporary_files"}
"""Audited by themselves: one needs a short timeout, one harms whatever else runs on this machine."""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> AuditReport:
    names = sorted(path.stem for path in FOLDER.glob("[!_]*.py") if path.stem not in APART)
    return audit_folder(FOLDER, names, tmp_path_factory.mktemp("reports"))


def result(report: AuditReport, name: str) -> CaseResult:
    (found,) = [case for case in report.cases if case.case.workload == name]
    return found


def outcome(report: AuditReport, name: str, run: str = "strict-a"):
    (found,) = [one for one in result(report, name).runs if one.name == run]
    return found.outcome


def comparison(report: AuditReport, name: str, pairing: Pairing):
    return next(one for one in result(report, name).comparisons if one.pairing is pairing)


def test_the_canaries_are_caught_beside_all_this(report):
    assert report.summary.canaries_caught


@pytest.mark.parametrize("kind", list(DivergenceKind))
def test_every_kind_of_divergence_is_caught_and_placed(report, kind):
    name = f"divergence_{kind.value}"
    divergence = comparison(report, name, Pairing.SAME_PROCESS).divergence
    assert divergence is not None
    assert divergence.kind is kind
    assert divergence.step == 2
    assert result(report, name).verdict is Verdict.FAIL


LOCATIONS = {
    "aliasing_view_race": ("kernel", "aten.add_.Tensor", "as_strided"),
    "divergence_parameter": ("control_flow", None, "weight.view(torch.int32)"),
    "divergence_rng": ("control_flow", None, "torch.rand(1)"),
    "operating_system_entropy": ("external_input", "aten.lift_fresh.default", "torch.from_numpy"),
    "process_id_seed": ("generator", "aten.randn.default", "torch.randn(8"),
    "string_hash_order": ("external_input", "aten.lift_fresh.default", "torch.tensor("),
}


@pytest.mark.parametrize("name", LOCATIONS)
def test_the_op_where_two_repeats_part_is_named_with_its_line(report, name):
    kind, op, text = LOCATIONS[name]
    location = result(report, name).location
    assert (location.kind, location.first.op if location.first else None) == (kind, op)
    assert text in location.line.text
    assert Path(location.line.path).name == f"{name}.py"


def test_a_difference_outside_of_all_ops_is_not_put_on_one(report):
    location = result(report, "divergence_structure").location
    assert location.agreed
    assert location.first is None


def test_repeats_that_agree_are_not_traced(report):
    assert result(report, "uninitialised_memory").location is None


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind is not FailureKind.TIMEOUT])
def test_every_kind_of_failure_is_an_error_of_that_kind(report, kind):
    name = f"failure_{kind.value}"
    failed = outcome(report, name)
    assert isinstance(failed, Failed)
    assert failed.kind is kind, failed.detail
    assert result(report, name).verdict is Verdict.ERROR


def test_a_hanging_run_is_killed_and_says_where_it_hung(tmp_path):
    report = audit_folder(FOLDER, ["failure_timeout"], tmp_path, timeout=1.0)
    failed = outcome(report, "failure_timeout")
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.TIMEOUT
    assert "failure_timeout.py" in failed.detail
    assert result(report, "failure_timeout").verdict is Verdict.ERROR


def test_one_ulp_in_one_element_is_measured_as_that(report):
    divergence = comparison(report, "divergence_parameter", Pairing.SAME_PROCESS).divergence
    assert divergence is not None
    distance = divergence.distance
    assert distance is not None, divergence.distance_note
    assert (distance.differing, distance.max_ulp, distance.first_index) == (1, "1", (1, 2))
    assert divergence.leaf == "model/0.weight"


def test_the_sign_of_zero_is_a_difference(report):
    divergence = comparison(report, "divergence_value", Pairing.SAME_PROCESS).divergence
    assert divergence is not None
    assert divergence.leaf == "zero"


def test_equal_losses_do_not_hide_other_parameters(report):
    same = comparison(report, "divergence_parameter", Pairing.SAME_PROCESS)
    states = result(report, "divergence_parameter").states
    first, second = (states[repeat.states[2]] for repeat in outcome(report, "divergence_parameter").repeats)
    assert first.loss == second.loss
    assert same.loss_equal
    assert not same.state_equal


@pytest.mark.parametrize("kind", list(DivergenceKind))
def test_what_only_the_second_execution_does_is_named_state_carried_over(report, kind):
    found = result(report, f"divergence_{kind.value}")
    assert found.state_carried_over
    assert comparison(report, found.case.workload, Pairing.FRESH_PROCESS).divergence is None


@pytest.mark.parametrize("name", ["process_id_seed", "string_hash_order"])
def test_what_depends_on_the_process_shows_between_fresh_processes_only(report, name):
    assert comparison(report, name, Pairing.SAME_PROCESS).divergence is None
    assert comparison(report, name, Pairing.FRESH_PROCESS).divergence is not None
    assert result(report, name).verdict is Verdict.FAIL
    assert not result(report, name).state_carried_over


def test_a_state_named_like_the_loss_is_compared_beside_it(report):
    found = result(report, "state_named_loss")
    assert found.verdict is Verdict.FAIL
    divergence = comparison(report, "state_named_loss", Pairing.SAME_PROCESS).divergence
    assert divergence is not None
    assert divergence.leaf == "state/loss"
    assert {"loss", "state/loss", "rng/torch", "state/rng/torch"} <= found.roles.keys()


def test_entropy_from_the_system_shows_in_both_pairings_and_is_no_state_carried_over(report):
    found = result(report, "operating_system_entropy")
    assert all(one.divergence is not None for one in found.comparisons)
    assert found.verdict is Verdict.FAIL
    assert not found.state_carried_over


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("breach_strict_off", "deterministic"),
        ("breach_toggled_inside_step", "deterministic"),
        ("breach_warn_only", "warn_only"),
        ("breach_cudnn_benchmark", "benchmark"),
        ("breach_no_fill", "fill"),
        ("breach_environment", "CUBLAS_WORKSPACE_CONFIG"),
    ],
)
def test_a_workload_that_undoes_strict_mode_fails_with_the_setting_and_the_line(report, name, setting):
    found = result(report, name)
    assert found.verdict is Verdict.FAIL
    breaches = found.runs[0].breaches
    assert any(setting in breach.setting for breach in breaches), breaches
    if name != "breach_environment":  # no setter is called for a variable
        assert any(breach.location and breach.location.path.endswith(f"{name}.py") for breach in breaches)


def test_a_refused_op_is_named_with_its_line(report):
    refused = outcome(report, "refused_put")
    assert isinstance(refused, Refused)
    assert refused.alert.op == "put_"
    assert refused.alert.location is not None
    assert "put_" in refused.alert.location.text
    assert result(report, "refused_put").verdict is Verdict.REFUSED
    (alert,) = result(report, "refused_put").runs[-1].alerts
    assert (alert.op, alert.count) == ("put_", 2)


@pytest.mark.parametrize("name", ["refused_and_swallowed", "refused_and_swallowed_in_worker"])
def test_a_refused_op_whose_error_was_swallowed_is_refused_all_the_same(report, name):
    assert isinstance(outcome(report, name), Completed)
    assert result(report, name).verdict is Verdict.REFUSED


def test_a_workload_that_clears_the_auditors_files_costs_only_itself(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    report = audit_folder(FOLDER, ["clears_temporary_files", "divergence_loss"], tmp_path / "reports")
    assert result(report, "clears_temporary_files").verdict is Verdict.ERROR
    assert result(report, "divergence_loss").verdict is Verdict.FAIL
    assert report.summary.canaries_caught


def test_strict_modes_own_side_effect_is_an_error_that_says_so(report):
    failed = outcome(report, "side_effect_of_strict_mode")
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.EXCEPTION
    assert "side effect" in failed.detail


def test_an_error_that_cannot_say_its_text_is_an_exception_like_any_other(report):
    failed = outcome(report, "speechless_error")
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.EXCEPTION
    assert "broken \\udc80 name" in failed.detail


@pytest.mark.parametrize(("name", "code"), [("exit_with_code", 7), ("failure_exit", 0)])
def test_a_process_that_ends_itself_keeps_its_exit_code(report, name, code):
    failed = outcome(report, name)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.exit_code) == (FailureKind.EXIT, code)


def test_leaving_through_sys_exit_is_an_exit_not_a_success(report):
    failed = outcome(report, "system_exit")
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.EXIT


def test_a_crash_names_its_signal_and_line(report):
    failed = outcome(report, "failure_signal")
    assert isinstance(failed, Failed)
    assert failed.signal == "SIGSEGV"
    assert "failure_signal.py" in failed.detail


def test_uninitialised_memory_repeats_under_strict_mode_but_the_losses_are_shown_as_not_finite(report):
    found = result(report, "uninitialised_memory")
    assert found.verdict is Verdict.PASS
    (repeat,) = outcome(report, "uninitialised_memory", "strict-b1").repeats
    losses = [found.states[digest].loss for digest in repeat.states[1:]]
    assert all(loss is not None and not loss.finite for loss in losses)


MASKED = "masked"
REPAIRED = "only under strict mode"


@pytest.mark.parametrize(
    ("name", "differing", "words"),
    [
        ("uninitialised_memory", {Mode.DEFAULT, Mode.NO_FILL}, MASKED),
        ("uninitialised_large_memory", {Mode.NO_FILL}, MASKED),
        ("repaired_by_strict_mode", {Mode.DEFAULT}, REPAIRED),
        ("process_left_behind", set(), None),
    ],
)
def test_the_arms_show_what_a_strict_pair_hides(report, name, differing, words):
    found = result(report, name)
    assert found.verdict is Verdict.PASS
    seen = {arm.run.mode for arm in found.arms if any(one.divergence for one in arm.comparisons)}
    # Whether memory that nobody fills happens to be the same twice is nothing that default mode promises.
    assert seen - {Mode.DEFAULT} == differing - {Mode.DEFAULT}
    assert words == MASKED or seen == differing
    titles = [finding.title for finding in findings(report) if finding.title.startswith(f"{name} on")]
    for one in (MASKED, REPAIRED):
        assert any(one in title for title in titles) == (one == words)


def test_an_output_flood_is_bounded_and_counted(report):
    assert result(report, "output_flood").verdict is Verdict.PASS
    timings = [one for one in report.volatile.runs if one.case == "output_flood/cpu" and one.run == "strict-a"]
    assert timings[0].stdout_bytes == timings[0].stderr_bytes == 10_000 * 300 * 2 * 2


@pytest.mark.parametrize("name", ["process_left_behind", "forks_into_the_auditor"])
def test_processes_that_a_workload_makes_cost_nothing_but_themselves(report, name):
    assert result(report, name).verdict is Verdict.PASS


def test_no_process_is_left(report):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        assert b"sleep\x00600" not in command


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("aliasing_view_race", Factor.THREADS),
        ("string_hash_order", Factor.HASH_SEED),
        ("address_order", Factor.ADDRESSES),
        ("process_id_seed", Factor.PROCESS),
        ("clock_seed", Factor.CLOCK),
        ("operating_system_entropy", Factor.ENTROPY),
    ],
)
def test_what_decides_a_divergence_is_found_by_fixing_it_and_letting_it_go(report, name, factor):
    assert [test.factor for test in result(report, name).factors if test.decides] == [factor]


def test_state_that_is_carried_over_is_put_down_to_no_factor(report):
    carried = [one for one in report.cases if one.state_carried_over]
    assert carried
    assert not any(one.factors for one in carried)
