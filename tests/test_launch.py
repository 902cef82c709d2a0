import signal
from pathlib import Path

import msgspec
import pytest

from repro_audit.errors import LaunchError
from repro_audit.interpreter import Ended
from repro_audit.launch import ProcessLauncher, failure_of, out_of_memory_kills, read_record
from repro_audit.plan import PlannedRun, Zygote
from repro_audit.records import (
    Completed,
    EnvironmentTask,
    Failed,
    FailureKind,
    MeasureTask,
    Mode,
    RunTask,
    WorkerRecord,
    WorkloadSource,
)
from tests.builders import LEAVES, ROLES, Book, digest, ended, refused

SOURCE = WorkloadSource(
    name="mlp",
    summary="",
    path="/nowhere/mlp.py",
    module=None,
    class_name="Workload",
    variant=None,
    sha256=digest("source"),
    refused={},
    bundled=True,
)


def task(folder: Path, *, repeats: int = 1, steps: int = 1) -> RunTask:
    return RunTask(
        run="strict-a",
        source=SOURCE,
        device="cpu",
        mode=Mode.STRICT,
        repeats=repeats,
        steps=steps,
        seed=0,
        record_path=str(folder / "record.json"),
    )


def record(book: Book, outcome: object, **fields: object) -> WorkerRecord:
    defaults: dict[str, object] = {
        "outcome": outcome,
        "states": book.states,
        "roles": ROLES,
        "alerts": (),
        "breaches": (),
        "flags_start": {},
        "flags_end": {},
        "seeded": (),
    }
    return WorkerRecord(**{**defaults, **fields})


class FakeInterpreter:
    """Writes the given bytes as the record, and ends as told."""

    def __init__(self, how: Ended, content: bytes | None = None) -> None:
        self.how = how
        self.content = content

    def start(self) -> None: ...

    def perform(self, task, timeout_seconds: float) -> Ended:
        if self.content is not None:
            Path(task.record_path).write_bytes(self.content)
        return self.how

    def close(self) -> None: ...


def launched(tmp_path: Path, how: Ended, content: bytes | None = None):
    interpreter = FakeInterpreter(how, content)
    launcher = ProcessLauncher({Zygote.A: interpreter, Zygote.B: interpreter}, 3.0)
    return launcher.run(PlannedRun(zygote=Zygote.A, task=task(tmp_path)))


def test_a_good_record_becomes_the_run(tmp_path):
    book = Book()
    content = msgspec.json.encode(record(book, book.completed([LEAVES, LEAVES]), notes=("seen",)))
    made = launched(tmp_path, ended(), content)
    assert isinstance(made.run.outcome, Completed)
    assert made.run.notes == ("seen",)
    assert made.states == book.states
    assert made.roles == ROLES


def test_a_refusal_is_an_outcome_of_its_own(tmp_path):
    assert launched(tmp_path, ended(), msgspec.json.encode(record(Book(), refused()))).run.outcome == refused()


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        (ended(timed_out=True, exit_code=None, signal=9), FailureKind.TIMEOUT, "no end after 3 s"),
        (ended(exit_code=None, signal=signal.SIGSEGV), FailureKind.SIGNAL, "SIGSEGV"),
        (ended(exit_code=None, signal=signal.SIGKILL), FailureKind.SIGNAL, "memory"),
        (ended(exit_code=7), FailureKind.EXIT, "exit code 7"),
        (ended(exit_code=70, stderr=b'File "repro_audit/worker/perform.py"'), FailureKind.RECORD, "failed to record"),
        (ended(exit_code=70), FailureKind.EXIT, "exit code 70"),
        (ended(exit_code=None, lost="interpreter a died"), FailureKind.LAUNCH, "interpreter a died"),
        (ended(exit_code=0), FailureKind.EXIT, "before the run was over"),
    ],
)
def test_every_other_end_is_a_failed_run_with_its_reason(tmp_path, how, kind, words):
    outcome = launched(tmp_path, how).run.outcome
    assert isinstance(outcome, Failed)
    assert outcome.kind is kind
    assert words in outcome.detail


def test_the_end_of_stderr_is_the_detail():
    outcome = failure_of(ended(exit_code=3, stderr=b"x" * 10_000 + b"the end"), 1.0, 0)
    assert outcome is not None
    assert outcome.detail.endswith("the end")
    assert len(outcome.detail) < 5_000


def test_a_kill_while_the_kernel_ran_out_of_memory_is_named_as_that():
    outcome = failure_of(ended(exit_code=None, signal=9), 1.0, 1)
    assert outcome is not None
    assert outcome.kind is FailureKind.OUT_OF_MEMORY


def test_the_kernels_counter_is_read_or_zero():
    assert out_of_memory_kills() >= 0


def test_a_record_left_by_a_crashed_process_is_not_used(tmp_path):
    book = Book()
    content = msgspec.json.encode(record(book, book.completed([LEAVES, LEAVES])))
    outcome = launched(tmp_path, ended(exit_code=None, signal=11), content).run.outcome
    assert isinstance(outcome, Failed)


def damaged_records():
    book = Book()
    good = record(book, book.completed([LEAVES, LEAVES]))
    encoded = msgspec.json.encode(good)
    tampered = {
        key: msgspec.structs.replace(state, leaves={**state.leaves, "extra": digest(99)})
        for key, state in book.states.items()
    }
    no_loss = Book()
    without_loss = no_loss.completed([LEAVES, {leaf: 0 for leaf in LEAVES if leaf != "loss"}])
    return {
        "empty": b"",
        "truncated": encoded[:-5],
        "not JSON": b"\xff\x00",
        "another shape": b'{"outcome": {"outcome": "completed"}}',
        "an unknown field": encoded[:-1] + b',"more":1}',
        "too few repeats": msgspec.json.encode(record(book, Completed(repeats=()))),
        "too many repeats": msgspec.json.encode(record(book, book.completed([LEAVES, LEAVES], [LEAVES, LEAVES]))),
        "too few steps": msgspec.json.encode(record(book, book.completed([LEAVES]))),
        "a state that is not there": msgspec.json.encode(record(Book(), good.outcome)),
        "a state that is not its digest": msgspec.json.encode(record(book, good.outcome, states=tampered)),
        "a leaf without a role": msgspec.json.encode(record(book, good.outcome, roles={})),
        "no loss": msgspec.json.encode(record(no_loss, without_loss)),
    }


@pytest.mark.parametrize("damage", list(damaged_records()))
def test_a_record_that_is_not_what_was_asked_for_is_never_compared(tmp_path, damage):
    outcome = launched(tmp_path, ended(), damaged_records()[damage]).run.outcome
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.RECORD


def test_a_state_of_nothing_but_loss_and_generators_is_empty(tmp_path):
    book = Book()
    nothing = {"loss": 0, "rng/torch": 0}
    outcome = launched(
        tmp_path, ended(), msgspec.json.encode(record(book, book.completed([nothing, nothing])))
    ).run.outcome
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.EMPTY


def test_an_unreadable_record_is_a_failure(tmp_path):
    (tmp_path / "record.json").mkdir()
    outcome = read_record(task(tmp_path))
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.RECORD


def test_an_interpreter_that_cannot_be_started_again_costs_the_run_and_not_the_audit(tmp_path):
    class Gone(FakeInterpreter):
        def perform(self, task, timeout_seconds):
            raise LaunchError("no more processes")

    gone = Gone(ended())
    launcher = ProcessLauncher({Zygote.A: gone, Zygote.B: gone}, 1.0)
    outcome = launcher.run(PlannedRun(zygote=Zygote.A, task=task(tmp_path))).run.outcome
    assert outcome == Failed(kind=FailureKind.LAUNCH, detail="no more processes")
    measure = MeasureTask(first_path="", second_path="", record_path=str(tmp_path / "distance.json"))
    assert launcher.measure(measure) is None


def test_an_environment_that_does_not_answer_is_a_launch_error(tmp_path):
    interpreter = FakeInterpreter(ended(exit_code=1, stderr=b"libcudart is missing"))
    launcher = ProcessLauncher({Zygote.A: interpreter, Zygote.B: interpreter}, 1.0)
    with pytest.raises(LaunchError, match="libcudart is missing"):
        launcher.environment(EnvironmentTask(record_path=str(tmp_path / "environment.json")))


def test_a_failed_measurement_is_none(tmp_path):
    interpreter = FakeInterpreter(ended(exit_code=1))
    launcher = ProcessLauncher({Zygote.A: interpreter, Zygote.B: interpreter}, 1.0)
    measured = launcher.measure(MeasureTask(first_path="", second_path="", record_path=str(tmp_path / "distance.json")))
    assert measured is None
