from pathlib import Path

import pytest

from repro_audit.plan import Zygote, devices_of, plan_case, plan_confirmation
from repro_audit.records import Case, Comparison, Divergence, DivergenceKind, Mode, Pairing, RepeatName
from tests.fakes import source
from tests.test_audit import settings

CASE = Case(workload="mlp", device="cpu")
SCRATCH = Path("/scratch")


def test_a_case_has_two_repeats_in_one_process_of_a_and_one_in_each_process_of_b():
    planned = plan_case(CASE, source("mlp"), settings(repeats=2), SCRATCH)
    assert [(run.task.run, run.zygote, run.task.mode, run.task.repeats) for run in planned] == [
        ("strict-a", Zygote.A, Mode.STRICT, 2),
        ("strict-b1", Zygote.B, Mode.STRICT, 1),
        ("strict-b2", Zygote.B, Mode.STRICT, 1),
        ("warn_only", Zygote.A, Mode.WARN_ONLY, 1),
    ]
    assert len({run.task.record_path for run in planned}) == 4


def test_seed_steps_and_device_reach_every_run():
    for run in plan_case(CASE, source("mlp"), settings(seed=7, steps=5), SCRATCH):
        assert (run.task.seed, run.task.steps, run.task.device) == (7, 5, "cpu")


def comparison(pairing: Pairing, repeat: int, second: str | None = "sha256:b") -> Comparison:
    divergence = Divergence(
        kind=DivergenceKind.PARAMETER,
        step=2,
        leaf="model/weight",
        first="sha256:a",
        second=second,
        differing_leaves=1,
        total_leaves=3,
    )
    return Comparison(
        pairing=pairing,
        first=RepeatName(run="strict-a", repeat=0),
        second=RepeatName(run="any", repeat=repeat),
        loss_equal=True,
        state_equal=False,
        divergence=divergence,
    )


def test_a_confirmation_fetches_both_sides_of_each_divergence_from_different_interpreters():
    diverged = [comparison(Pairing.SAME_PROCESS, 1), comparison(Pairing.FRESH_PROCESS, 0)]
    a, b = plan_confirmation(CASE, source("mlp"), settings(), SCRATCH, diverged)
    assert (a.zygote, a.task.repeats, b.zygote, b.task.repeats) == (Zygote.A, 1, Zygote.B, 2)
    assert [(fetch.repeat, fetch.step, fetch.leaf) for fetch in a.task.fetches] == [(0, 2, "model/weight")] * 2
    assert [fetch.repeat for fetch in b.task.fetches] == [1, 0]
    assert len({fetch.path for run in (a, b) for fetch in run.task.fetches}) == 4


def test_a_leaf_that_is_absent_on_one_side_is_not_fetched():
    a, b = plan_confirmation(
        CASE, source("mlp"), settings(), SCRATCH, [comparison(Pairing.SAME_PROCESS, 1, second=None)]
    )
    assert a.task.fetches == b.task.fetches == ()


@pytest.mark.parametrize(
    ("fields", "present", "expected"),
    [
        ({}, ["cpu"], ("cpu",)),
        ({}, ["cpu", "cuda:0", "cuda:1"], ("cpu", "cuda:0")),
        ({"devices": ("cuda:1",)}, ["cpu", "cuda:0", "cuda:1"], ("cuda:1",)),
        ({"devices": ("cuda:0",)}, ["cpu"], ("cuda:0",)),
        ({"required_devices": ("cuda:0",)}, ["cpu"], ("cpu", "cuda:0")),
        ({"devices": ("cpu",), "required_devices": ("cpu",)}, ["cpu"], ("cpu",)),
    ],
)
def test_the_devices_are_those_asked_for_or_those_that_are_there(fields, present, expected):
    assert devices_of(settings(**fields), present) == expected
