import pytest

from repro_audit.discovery import discover
from repro_audit.records import Completed, Mode, RunTask, WorkerRecord
from repro_audit.worker import execute as executing
from repro_audit.worker.determinism import disarm
from repro_audit.worker.execute import execute
from tests.test_cli import GOOD

LARGE = GOOD.replace("torch.randn(8,", "torch.randn(16 * 2**20,")
"""Its 64 MiB come from the kernel each time, whatever this process has freed before."""


@pytest.fixture
def executed(tmp_path):
    """The record of a workload's run in default mode that was to measure the cost of strict mode."""

    def executed(text: str = GOOD, **fields: object) -> WorkerRecord:
        path = tmp_path / "measured.py"
        path.write_text(text)
        (source,) = discover([], [path])
        task = RunTask(
            run="default",
            source=source,
            device="cpu",
            mode=Mode.DEFAULT,
            repeats=2,
            steps=1,
            seed=1,
            record_path=str(tmp_path / "record.json"),
            **{"measures_cost": True, **fields},
        )
        return execute(task)

    yield executed
    disarm()


def test_the_cost_is_measured_once_the_repeats_are_over(executed):
    record = executed(LARGE)
    assert record.cost is not None
    assert record.peak_bytes > 64 * 2**20
    assert record.notes == ()
    assert record.flags_end["deterministic_algorithms"] == "False"


def test_a_run_that_is_not_asked_measures_nothing(executed):
    assert executed(measures_cost=False).cost is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PATIENCE_SECONDS", -1.0, "the steps take too long"),
        ("available_bytes", lambda device: 0, "two such workloads may not fit into memory"),
    ],
)
def test_what_would_cost_the_run_itself_is_not_measured(executed, monkeypatch, name, value, words):
    monkeypatch.setattr(executing, name, value)
    record = executed(LARGE)
    assert record.cost is None
    assert len(record.notes) == 1
    assert words in record.notes[0]
    assert isinstance(record.outcome, Completed)


def test_a_workload_that_fails_when_it_is_measured_loses_nothing_but_that(executed):
    counting = """def step(self):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps > 1:
            raise ValueError("over")"""
    text = GOOD.replace("def step(self):", counting)
    record = executed(text)
    assert record.cost is None
    assert record.notes == ("what strict mode costs in time is unknown: ValueError: over",)
    assert isinstance(record.outcome, Completed)
