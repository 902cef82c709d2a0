from datetime import UTC, datetime

import pytest

from repro_audit.archive import Archive
from repro_audit.audit import audit
from repro_audit.plan import ARM_MODES, Zygote
from repro_audit.records import (
    Cost,
    CublasWorkspace,
    Distance,
    Failed,
    FailureKind,
    Isolation,
    Measurement,
    Mode,
    Pairing,
    Settings,
    Verdict,
)
from repro_audit.report.consistency import contradictions
from tests.fakes import FakeLauncher, RecordingProgress, Unseeded, refused_op, repeatable, source, steps

CANARIES = {name: source(name) for name in ("one_ulp", "unseeded", "refused_op")}


def settings(**fields: object) -> Settings:
    defaults: dict[str, object] = {
        "modes": tuple(Mode),
        "selection": (),
        "workload_paths": (),
        "devices": (),
        "required_devices": (),
        "steps": 2,
        "repeats": 1,
        "seed": 1234,
        "timeout_ms": 1000,
        "isolation": Isolation.FORK,
        "cublas_workspace": CublasWorkspace(value=":4096:8", source="default"),
    }
    return Settings(**{**defaults, **fields})


@pytest.fixture
def audited(tmp_path):
    def audited(launcher, *names, sources=None, **fields):
        archive = Archive.create(tmp_path, datetime.now(UTC))
        return audit(
            settings(**fields),
            sources or [source(name) for name in names],
            CANARIES,
            launcher,
            archive,
            RecordingProgress(),
        )

    return audited


def verdicts(report):
    return {f"{result.case.workload}/{result.case.device}": result.verdict for result in report.cases}


def test_a_repeatable_workload_passes_with_all_canaries_caught(audited):
    report = audited(FakeLauncher(), "mlp")
    assert verdicts(report) == {"mlp/cpu": Verdict.PASS}
    assert [canary.name for canary in report.canaries] == ["one_ulp", "unseeded", "refused_op"]
    assert all(canary.caught for canary in report.canaries), [canary.seen for canary in report.canaries]
    assert report.summary.exit_code == 0


def test_each_case_is_run_twice_in_a_once_in_b_and_once_with_warn_only(audited):
    launcher = FakeLauncher()
    audited(launcher, "mlp", repeats=2)
    assert [made for made in launcher.made if made[0] == "mlp"] == [
        ("mlp", "cpu", "strict-a", Zygote.A),
        ("mlp", "cpu", "strict-b1", Zygote.B),
        ("mlp", "cpu", "strict-b2", Zygote.B),
        ("mlp", "cpu", "warn_only", Zygote.A),
        ("mlp", "cpu", "default", Zygote.A),
        ("mlp", "cpu", "no_fill", Zygote.A),
    ]


def test_a_quick_audit_makes_no_arms(audited):
    launcher = FakeLauncher()
    (result,) = audited(launcher, "mlp", modes=(Mode.STRICT, Mode.WARN_ONLY)).cases
    assert [made[2] for made in launcher.made if made[0] == "mlp"] == ["strict-a", "strict-b1", "warn_only"]
    assert result.arms == ()


@pytest.mark.parametrize("mode", ARM_MODES)
def test_an_arm_that_differs_is_recorded_and_leaves_the_verdict_alone(audited, mode):
    def repaired(task, zygote, book):
        if task.mode is mode:
            return book.completed(*(steps(task, {"extra": repeat}) for repeat in range(task.repeats)))
        return repeatable(task, zygote, book)

    report = audited(FakeLauncher({"index": repaired}), "index", repeats=3)
    (result,) = report.cases
    assert result.verdict is Verdict.PASS
    assert report.summary.exit_code == 0
    differing = {arm.run.mode: [one.divergence is not None for one in arm.comparisons] for arm in result.arms}
    assert differing == {one: [one is mode] * 3 for one in ARM_MODES}
    assert list(contradictions(report)) == []


def test_an_arm_that_crashes_leaves_the_verdict_alone(audited):
    def crashes(task, zygote, book):
        if task.mode is Mode.NO_FILL:
            return Failed(kind=FailureKind.SIGNAL, detail="SIGSEGV")
        return repeatable(task, zygote, book)

    (result,) = audited(FakeLauncher({"index": crashes}), "index").cases
    assert result.verdict is Verdict.PASS
    assert [len(arm.comparisons) for arm in result.arms] == [1, 0]


def test_the_warn_only_run_is_made_although_the_strict_run_failed(audited):
    def crashes(task, zygote, book):
        if task.mode is Mode.STRICT:
            return Failed(kind=FailureKind.SIGNAL, detail="SIGSEGV")
        return repeatable(task, zygote, book)

    launcher = FakeLauncher({"mlp": crashes})
    report = audited(launcher, "mlp", "conv")
    assert ("mlp", "cpu", "warn_only", Zygote.A) in launcher.made
    assert verdicts(report) == {"mlp/cpu": Verdict.ERROR, "conv/cpu": Verdict.PASS}
    assert report.summary.exit_code == 3


def test_a_divergence_fails_and_is_measured_in_further_runs(audited):
    launcher = FakeLauncher({"noisy": Unseeded()})
    distance = Distance(
        dtype="float32",
        shape=(),
        elements=1,
        differing=1,
        max_absolute="1.0",
        max_ulp="8",
        first_index=(),
        first_value="1.0",
        second_value="2.0",
    )
    launcher.distance = Measurement(distance=distance)
    report = audited(launcher, "noisy")
    (result,) = report.cases
    assert result.verdict is Verdict.FAIL
    assert [run.name for run in result.confirmations] == ["confirm-a", "confirm-b"]
    for comparison in result.comparisons:
        assert comparison.divergence is not None
        assert comparison.divergence.distance == distance
        assert "second pair of runs" in comparison.divergence.distance_note
    assert not result.state_carried_over
    assert report.summary.exit_code == 1


def test_state_that_leaks_into_the_second_repeat_is_named_as_that(audited):
    def leaky(task, zygote, book):
        return book.completed(*(steps(task, {"extra": repeat}) for repeat in range(task.repeats)))

    (result,) = audited(FakeLauncher({"leaky": leaky}), "leaky").cases
    assert result.verdict is Verdict.FAIL
    assert result.state_carried_over
    assert [comparison.pairing for comparison in result.comparisons if comparison.divergence] == [Pairing.SAME_PROCESS]


def test_a_second_repeat_that_differs_anew_each_time_is_not_called_state_carried_over(audited):
    unseeded = Unseeded()

    def unstable(task, zygote, book):
        outcome = unseeded(task, zygote, book)
        first = book.repeat(*steps(task))
        return type(outcome)(repeats=(first, *outcome.repeats[1:]))

    (result,) = audited(FakeLauncher({"unstable": unstable}), "unstable").cases
    assert result.verdict is Verdict.FAIL
    assert not result.state_carried_over


def test_a_divergence_that_does_not_come_back_is_said_to_come_and_go(audited):
    def once(task, zygote, book):
        return book.completed(*[steps(task, {"extra": int(task.run == "strict-b1")})] * task.repeats)

    (result,) = audited(FakeLauncher({"once": once}), "once").cases
    divergence = result.comparisons[1].divergence
    assert divergence is not None
    assert divergence.distance is None
    assert "comes and goes" in divergence.distance_note


def test_cuda_is_audited_by_default_where_it_is_present(audited):
    report = audited(FakeLauncher(devices=("cpu", "cuda:0", "cuda:1")), "mlp")
    assert verdicts(report) == {"mlp/cpu": Verdict.PASS, "mlp/cuda:0": Verdict.PASS}


def test_a_requested_device_that_is_absent_is_skipped_with_the_reason(audited):
    report = audited(FakeLauncher(), "mlp", devices=("cuda:0",))
    (result,) = report.cases
    assert result.verdict is Verdict.SKIP
    assert "built without CUDA" in result.reason
    assert report.summary.exit_code == 5


def test_an_index_beyond_the_present_devices_is_skipped_naming_them(audited):
    (result,) = audited(FakeLauncher(devices=("cpu", "cuda:0")), "mlp", devices=("cuda:3",)).cases
    assert result.verdict is Verdict.SKIP
    assert "there are cpu, cuda:0" in result.reason


def test_a_required_device_that_is_absent_is_an_error_beside_the_others(audited):
    report = audited(FakeLauncher(), "mlp", required_devices=("cuda:0",))
    assert verdicts(report) == {"mlp/cpu": Verdict.PASS, "mlp/cuda:0": Verdict.ERROR}
    assert report.summary.exit_code == 3


def test_a_refusal_counts_as_declared_only_on_the_device_it_is_declared_for(audited):
    def refused_op(task, zygote, book):
        from tests.fakes import refused_op

        return refused_op(task, zygote, book)

    declared = source("put", refused={"cuda": "https://docs.pytorch.org"})
    launcher = FakeLauncher({"put": refused_op}, devices=("cpu", "cuda:0"))
    report = audited(launcher, sources=[declared])
    assert [result.declared_refusal for result in report.cases] == [None, "https://docs.pytorch.org"]
    assert report.summary.exit_code == 1


@pytest.mark.parametrize("canary", ["one_ulp", "unseeded", "refused_op"])
def test_a_canary_that_behaves_well_makes_the_audit_untrustworthy(audited, canary):
    report = audited(FakeLauncher({canary: repeatable}), "mlp")
    assert [one.name for one in report.canaries if not one.caught] == [canary]
    assert report.summary.exit_code == 3


def test_an_interrupted_audit_keeps_what_it_has_and_says_what_is_missing(audited):
    def interrupted(task, zygote, book):
        raise KeyboardInterrupt

    report = audited(FakeLauncher({"second": interrupted}), "first", "second", "third")
    assert verdicts(report) == {"first/cpu": Verdict.PASS, "second/cpu": Verdict.SKIP, "third/cpu": Verdict.SKIP}
    assert not report.summary.complete
    assert report.summary.exit_code == 130


def test_an_inventory_makes_only_warn_only_runs_and_no_canaries(audited):
    launcher = FakeLauncher()
    report = audited(launcher, "mlp", modes=(Mode.WARN_ONLY,))
    assert [made[2] for made in launcher.made] == ["warn_only"]
    assert report.canaries == ()
    assert verdicts(report) == {"mlp/cpu": Verdict.SKIP}
    assert report.summary.exit_code == 0


def test_what_runs_print_is_kept_and_measured(audited, tmp_path):
    report = audited(FakeLauncher(), "mlp")
    (folder,) = (tmp_path / report.volatile.audit / "logs").glob("mlp.cpu.*")
    assert (folder / "strict-a.stdout.txt").read_bytes() == b"hello"
    assert (folder / "strict-a.stderr.txt").read_bytes() == b"last words\n"
    (timing,) = [one for one in report.volatile.runs if (one.case, one.run) == ("mlp/cpu", "strict-a")]
    assert (timing.pid, timing.duration_ms, timing.stdout_bytes) == (1, 5, 5)


def test_a_log_that_cannot_be_kept_is_noted_and_costs_no_verdict(audited, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Archive, "keep_log", full)
    (result,) = audited(FakeLauncher(), "mlp").cases
    assert result.verdict is Verdict.PASS
    assert "No space left on device" in result.runs[0].notes[0]


def test_what_strict_mode_costs_is_kept_for_what_ran_without_it_too(audited):
    launcher = FakeLauncher({"put": refused_op})
    launcher.costs["good"] = Cost(pairs=3, time_ratio="1.50", time_low="1.40", time_high="1.60")
    report = audited(launcher, "good", "other", "put")
    costs = {one.case: one for one in report.volatile.costs}
    assert set(costs) == {"good/cpu", "other/cpu"}
    assert costs["good/cpu"].time.time_ratio == "1.50"
    assert costs["other/cpu"].time is None
    assert (costs["good/cpu"].strict_bytes, costs["good/cpu"].default_bytes) == (3000, 2000)


def test_a_quick_audit_knows_no_costs(audited):
    report = audited(FakeLauncher(), "good", modes=(Mode.STRICT, Mode.WARN_ONLY))
    assert report.volatile.costs == ()
