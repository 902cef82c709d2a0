"""Stands in for the other side of the process boundary and for the terminal."""

from collections.abc import Callable, Sequence

from repro_audit.launch import Launched
from repro_audit.plan import PlannedRun, Zygote
from repro_audit.records import (
    Cost,
    Device,
    EnvironmentTask,
    Measurement,
    MeasureTask,
    Outcome,
    RunTask,
    WorkerEnvironment,
    WorkloadSource,
)
from tests.builders import LEAVES, ROLES, Book, alert, digest, ended, refused, run

Behaviour = Callable[[RunTask, Zygote, Book], Outcome]


def source(name: str, **fields: object) -> WorkloadSource:
    defaults: dict[str, object] = {
        "summary": "",
        "path": f"/nowhere/{name}.py",
        "module": None,
        "class_name": "Workload",
        "variant": None,
        "sha256": digest(name),
        "refused": {},
        "bundled": True,
    }
    return WorkloadSource(name=name, **{**defaults, **fields})


def steps(task: RunTask, last: dict[str, object] | None = None) -> list[dict[str, object]]:
    """Setup and as many steps as asked for, all alike but, where given, the last."""
    return [LEAVES] * task.steps + [{**LEAVES, **(last or {})}]


def repeatable(task: RunTask, zygote: Zygote, book: Book) -> Outcome:
    return book.completed(*[steps(task)] * task.repeats)


def one_ulp(task: RunTask, zygote: Zygote, book: Book) -> Outcome:
    nudged = task.source.variant is not None
    return book.completed(*[steps(task, {"model/weight": int(nudged)})] * task.repeats)


class Unseeded:
    def __init__(self) -> None:
        self.draws = 0

    def __call__(self, task: RunTask, zygote: Zygote, book: Book) -> Outcome:
        repeats = []
        for _ in range(task.repeats):
            self.draws += 1
            repeats.append(steps(task, {"loss": self.draws}))
        return book.completed(*repeats)


def refused_op(task: RunTask, zygote: Zygote, book: Book) -> Outcome:
    return refused() if task.mode == "strict" else repeatable(task, zygote, book)


class FakeLauncher:
    """Answers every run by the behaviour of its workload; canaries are caught unless replaced."""

    def __init__(self, behaviours: dict[str, Behaviour] | None = None, devices: Sequence[str] = ("cpu",)) -> None:
        self.behaviours: dict[str, Behaviour] = {
            "one_ulp": one_ulp,
            "unseeded": Unseeded(),
            "refused_op": refused_op,
            **(behaviours or {}),
        }
        self.devices = devices
        self.made: list[tuple[str, str, str, Zygote]] = []
        self.distance: Measurement | None = None
        self.costs: dict[str, Cost] = {}

    def run(self, planned: PlannedRun) -> Launched:
        task = planned.task
        name = task.source.name
        self.made.append((name, task.device, task.run, planned.zygote))
        book = Book()
        outcome = self.behaviours.get(name, repeatable)(task, planned.zygote, book)
        alerts = (alert(count=task.steps),) if name == "refused_op" and task.run == "warn_only" else ()
        return Launched(
            run=run(task.run, outcome, alerts=alerts),
            states=book.states,
            roles=ROLES,
            ended=ended(stdout=b"hello", stdout_bytes=5),
            cost=self.costs.get(name) if task.measures_cost else None,
            peak_bytes=3000 if task.mode == "strict" else 2000,
        )

    def environment(self, task: EnvironmentTask) -> WorkerEnvironment:
        return WorkerEnvironment(
            torch={"version": "2.13.0"},
            devices=tuple(Device(name=name, description=name) for name in self.devices),
            absent_devices={} if any("cuda" in name for name in self.devices) else {"cuda": "built without CUDA"},
            flags={},
        )

    def measure(self, task: MeasureTask) -> Measurement | None:
        return self.distance


class RecordingProgress:
    """A progress display that only remembers."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def started(self, total_cases: int) -> None:
        self.calls.append(f"started {total_cases}")

    def run_started(self, case, name) -> None:
        self.calls.append(f"{case.workload} {name}")

    def case_finished(self, result) -> None:
        self.calls.append(f"{result.case.workload} {result.verdict}" if result else "canary")

    def finished(self) -> None:
        self.calls.append("finished")
