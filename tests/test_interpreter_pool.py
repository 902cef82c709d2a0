"""Real interpreters, each started otherwise."""

import os
from pathlib import Path

import msgspec
import pytest

from repro_audit.discovery import discover
from repro_audit.errors import LaunchError
from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.plan import Zygote
from repro_audit.records import EnvironmentTask, Isolation, Mode, RunTask, WorkerRecord
from repro_audit.variations import Start
from repro_audit.warm_interpreter import WarmInterpreter
from tests.test_cli import GOOD

pytestmark = pytest.mark.slow


@pytest.fixture(params=[Isolation.FORK, Isolation.EXEC])
def pool(request):
    with InterpreterPool(request.param, os.environ) as pool:
        yield pool


def conditions(pool: InterpreterPool, start: Start, folder: Path) -> dict[str, str]:
    """What a run in an interpreter that is started so reads back."""
    path = folder / "good.py"
    path.write_text(GOOD)
    (source,) = discover([], [path])
    task = RunTask(
        run="run",
        source=source,
        device="cpu",
        mode=Mode.STRICT,
        repeats=1,
        steps=1,
        seed=1,
        record_path=str(folder / "record.json"),
        conditions={},
    )
    ended = pool.interpreter(start, Zygote.A).perform(task, 60.0)
    assert ended.exit_code == 0, ended.stderr
    return msgspec.json.decode(Path(task.record_path).read_bytes(), type=WorkerRecord).conditions


def test_each_start_has_an_interpreter_of_its_own(pool, tmp_path):
    first = Start(variables={"PYTHONHASHSEED": "0"}, fixed_addresses=True)
    second = Start(variables={"PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "1"}, fixed_addresses=False)
    pool.warm([first])
    one, other = (conditions(pool, start, tmp_path) for start in (first, second))
    assert (one["hashseed"], other["hashseed"]) == ("0", "5")
    assert other["threads"] == "1"
    assert one["aslr"] in ("fixed", "random")  # a container may deny it
    assert pool.interpreter(first, Zygote.A) is pool.interpreter(first, Zygote.A)
    assert pool.interpreter(first, Zygote.A) is not pool.interpreter(first, Zygote.B)
    pool.close()


def test_an_interpreter_that_cannot_be_started_is_told_by_its_first_run_and_not_before(monkeypatch):
    def fails(self: WarmInterpreter) -> None:
        raise LaunchError("no memory for another process")

    monkeypatch.setattr(WarmInterpreter, "start", fails)
    start = Start(variables={}, fixed_addresses=False)
    with InterpreterPool(Isolation.FORK, os.environ) as pool:
        pool.warm([start])
        with pytest.raises(LaunchError):
            pool.interpreter(start, Zygote.A).perform(EnvironmentTask(record_path="/nowhere"), 1.0)
