"""Real interpreters and real processes; what becomes of workloads in them is tested in test_known_bad."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro_audit.cold_interpreter import ColdInterpreter
from repro_audit.errors import LaunchError
from repro_audit.interpreter import Interpreter
from repro_audit.launch import read_record
from repro_audit.records import Completed, Mode, RunTask, WorkerRecord, WorkloadSource
from repro_audit.warm_interpreter import WarmInterpreter
from tests.builders import digest_of_file

pytestmark = pytest.mark.slow

WORKLOAD = '''"""Draws from every generator, and tells where it runs."""

import os
import random

import torch


class Workload:
    def setup(self, device):
        self.value = torch.randn(3) + random.random()

    def step(self):
        return self.value.sum()

    def state(self):
        return {
            "value": self.value,
            "parent": os.getppid(),
            "session": os.getsid(0) == os.getpid(),
            "hash": hash("text"),
            "threads": torch.get_num_threads(),
            "variable": os.environ.get("REPRO_AUDIT_TEST", ""),
        }
'''

SLEEPER = '''"""Sleeps."""

import time


class Workload:
    def setup(self, device):
        open(MARK, "w").close()
        time.sleep(600)

    def step(self): ...

    def state(self): ...
'''


def task(folder: Path, code: str = WORKLOAD, name: str = "task") -> RunTask:
    path = folder / "workload.py"
    path.write_text(code)
    source = WorkloadSource(
        name="workload",
        summary="",
        path=str(path),
        module=None,
        class_name="Workload",
        variant=None,
        sha256=digest_of_file(path),
        refused={},
        bundled=False,
    )
    return RunTask(
        run="strict-a",
        source=source,
        device="cpu",
        mode=Mode.STRICT,
        repeats=1,
        steps=1,
        seed=5,
        record_path=str(folder / f"{name}.json"),
    )


def record(folder: Path, interpreter: Interpreter, name: str = "task") -> WorkerRecord:
    made = task(folder, name=name)
    ended = interpreter.perform(made, 60.0)
    assert ended.exit_code == 0, ended.stderr
    found = read_record(made)
    assert isinstance(found, WorkerRecord)
    assert isinstance(found.outcome, Completed)
    return found


def leaves(found: WorkerRecord) -> dict[str, str]:
    assert isinstance(found.outcome, Completed)
    return found.states[found.outcome.repeats[0].states[-1]].leaves


@pytest.fixture(scope="module")
def zygotes():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    made = [WarmInterpreter(name, environment) for name in "ab"]
    for one in made:
        one.start()
    yield made
    for one in made:
        one.close()


def test_children_of_one_zygote_share_its_hash_seed_and_those_of_two_do_not(zygotes, tmp_path):
    a, b = zygotes
    first, second, other = (leaves(record(tmp_path, one)) for one in (a, a, b))
    assert first["hash"] == second["hash"] != other["hash"]
    assert first["value"] == second["value"] == other["value"]
    assert first["parent"] != other["parent"]
    assert first["session"] == other["session"]


def test_a_warm_child_gives_the_bits_of_a_cold_interpreter(zygotes, tmp_path):
    warm = leaves(record(tmp_path, zygotes[0]))
    cold = leaves(record(tmp_path, ColdInterpreter(os.environ)))
    for leaf in ("value", "threads", "rng/torch", "rng/python"):
        assert warm[leaf] == cold[leaf]


def test_the_flags_of_strict_mode_are_read_back_at_both_ends(zygotes, tmp_path):
    found = record(tmp_path, zygotes[0])
    for flags in (found.flags_start, found.flags_end):
        assert flags["deterministic_algorithms"] == "True"
        assert flags["deterministic_algorithms.warn_only"] == "False"
        assert flags["fill_uninitialized_memory"] == "True"
        assert (flags["cudnn.deterministic"], flags["cudnn.benchmark"]) == ("True", "False")
    assert {"python", "torch"} <= set(found.seeded)


def test_variables_are_set_before_the_interpreter_starts(tmp_path):
    for interpreter in (
        WarmInterpreter("a", {**os.environ, "PYTHONHASHSEED": "7"}),
        ColdInterpreter({**os.environ, "PYTHONHASHSEED": "7"}),
    ):
        try:
            hashed = leaves(record(tmp_path, interpreter))["hash"]
        finally:
            interpreter.close()
        expected = subprocess.run(
            [sys.executable, "-c", "print(hash('text'))"],
            env={**os.environ, "PYTHONHASHSEED": "7"},
            capture_output=True,
            text=True,
            check=True,
        )
        from repro_audit.worker.digest import digest_leaf

        assert hashed == digest_leaf(int(expected.stdout))


@pytest.mark.parametrize("make", [lambda: WarmInterpreter("a", os.environ), lambda: ColdInterpreter(os.environ)])
def test_a_hanging_task_is_ended_by_the_timeout_with_its_stack(make, tmp_path):
    interpreter = make()
    try:
        interpreter.start()
        code = SLEEPER.replace("MARK", repr(str(tmp_path / "mark")))
        ended = interpreter.perform(task(tmp_path, code), 8.0)
    finally:
        interpreter.close()
    assert ended.timed_out
    assert b"workload.py" in ended.stderr
    assert ended.pid is not None
    assert not Path(f"/proc/{ended.pid}").exists()


def test_an_interpreter_that_cannot_come_up_is_a_launch_error_with_its_last_words(tmp_path, monkeypatch):
    broken = tmp_path / "torch.py"
    broken.write_text("raise ImportError('libtorch is broken')")
    interpreter = WarmInterpreter("a", {**os.environ, "PYTHONPATH": str(tmp_path)})
    with pytest.raises(LaunchError, match="libtorch is broken") as caught:
        interpreter.perform(task(tmp_path), 5.0)
    assert "import torch" in str(caught.value)


def test_a_zygote_that_was_killed_is_replaced_for_the_next_task(tmp_path):
    interpreter = WarmInterpreter("a", os.environ)
    try:
        record(tmp_path, interpreter)
        assert interpreter._process is not None
        os.kill(interpreter._process.pid, signal.SIGKILL)
        interpreter._process.wait()
        record(tmp_path, interpreter, "after")
    finally:
        interpreter.close()


def test_when_the_parent_is_killed_nothing_survives_it(tmp_path):
    mark = tmp_path / "mark"
    made = task(tmp_path, SLEEPER.replace("MARK", repr(str(mark))))
    program = (
        "import os, msgspec, sys\n"
        "from repro_audit.warm_interpreter import WarmInterpreter\n"
        "from repro_audit.tasks import Task\n"
        "interpreter = WarmInterpreter('a', os.environ)\n"
        "interpreter.start()\n"
        "print(interpreter._process.pid, flush=True)\n"
        "interpreter.perform(msgspec.json.decode(sys.argv[1], type=Task), 600.0)\n"
    )
    import msgspec

    parent = subprocess.Popen(
        [sys.executable, "-c", program, msgspec.json.encode(made).decode()], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    zygote = int(parent.stdout.readline())
    wait_until(mark.exists)
    (child,) = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not alive(zygote) and not alive(int(child)))


def alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
