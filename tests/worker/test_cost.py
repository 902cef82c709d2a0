import time

import pytest
import torch

from repro_audit.records import Mode
from repro_audit.worker import cost
from repro_audit.worker.cost import measure_cost
from repro_audit.worker.determinism import arm, disarm

CPU = torch.device("cpu")


class Workload:
    """Takes its time where the mode says so."""

    def __init__(self, *, strict: float, default: float) -> None:
        self.seconds = {True: strict, False: default}
        self.modes: list[bool] = []

    def setup(self, device: torch.device) -> None:
        self.modes.append(torch.are_deterministic_algorithms_enabled())

    def step(self) -> float:
        strict = torch.are_deterministic_algorithms_enabled()
        self.modes.append(strict)
        time.sleep(self.seconds[strict])
        return 0.0


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    disarm()


@pytest.mark.parametrize(("strict", "default", "low", "high"), [(0.03, 0.01, 2.0, 4.0), (0.01, 0.03, 0.2, 0.6)])
def test_the_ratio_is_that_of_strict_over_default_steps(strict, default, low, high):
    measured = measure_cost(lambda: Workload(strict=strict, default=default), CPU, 1)
    assert low < float(measured.time_ratio) < high
    assert float(measured.time_low) <= float(measured.time_ratio) <= float(measured.time_high)
    assert measured.pairs == cost.FEWEST_PAIRS


def test_quick_steps_are_timed_more_often():
    assert cost.FEWEST_PAIRS < measure_cost(lambda: Workload(strict=0.0, default=0.0), CPU, 1).pairs <= cost.MOST_PAIRS


def test_each_workload_is_in_its_own_mode_throughout():
    made: list[Workload] = []

    def construct() -> Workload:
        made.append(Workload(strict=0.0, default=0.0))
        return made[-1]

    measure_cost(construct, CPU, 1)
    strict, default = made
    assert set(strict.modes) == {True}
    assert set(default.modes) == {False}
    assert len(strict.modes) == len(default.modes)


def test_slow_steps_are_timed_once(monkeypatch):
    monkeypatch.setattr(cost, "PATIENCE_SECONDS", 0.01)
    measured = measure_cost(lambda: Workload(strict=0.02, default=0.02), CPU, 1)
    assert measured.pairs == 1
    assert measured.time_low == measured.time_ratio == measured.time_high


def test_after_disarming_pytorch_is_as_it_starts():
    arm(Mode.STRICT)
    disarm()
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic
    assert torch._C._get_deterministic_fill_uninitialized_memory()
