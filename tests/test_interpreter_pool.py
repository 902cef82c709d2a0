"""Real interpreters, each started otherwise."""

import os
from pathlib import Path

import msgspec
import pytest

from repro_audit.interpreter_pool import InterpreterPool
from repro_audit.plan import Zygote
from repro_audit.records import Isolation, Mode, RunTask, WorkerRecord
from repro_audit.variations import Start
from tests.fakes import source
from tests.test_cli import GOOD

pytestmark = pytest.mark.slow


@pytest.fixture(params=[Isolation.FORK, Isolation.EXEC])
def pool(request):
    with InterpreterPool(request.param, os.environ) as pool:
        yield pool


def conditions(pool: InterpreterPool, start: Start, folder: Path) -> dict[str, str]:
    """What a run in an interpreter that is started so reads back."""
    import hashlib

    path = folder / "good.py"
    path.write_text(GOOD)
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    task = RunTask(
        run="run",
        source=source("good", path=str(path), sha256=digest),
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
