"""What changes a process is tried in a process of its own, forked for the purpose."""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro_audit.factors import CONDITIONS
from repro_audit.variations import HELD, VARIATIONS
from repro_audit.worker.conditions import _CHANGES, _READERS

SERVER = """
import json, os, sys, tempfile, time
from pathlib import Path
import torch
from repro_audit.worker.conditions import Place, apply_conditions, read_conditions
for line in sys.stdin:
    conditions, place, expression = json.loads(line)
    if os.fork() == 0:
        os.setsid()
        apply_conditions(conditions, Place(device=torch.device("cpu"), scratch=Path(place)))
        read = read_conditions(conditions)
        print(repr(eval(expression)), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def server():
    """Imports PyTorch once, and forks for each request."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as one:
        yield one
        one.stdin.close()


@pytest.fixture
def seen(server, tmp_path):
    """What an expression gives in a new process that is under conditions."""

    def ask(conditions: dict[str, str], expression: str) -> object:
        server.stdin.write(json.dumps([conditions, str(tmp_path / "place"), expression]) + "\n")
        server.stdin.flush()
        return ast.literal_eval(server.stdout.readline())

    return ask


def test_every_variation_is_made_by_the_parent_or_by_the_process_itself():
    for variation in VARIATIONS:
        changed = variation.change(HELD, variation.values[0])
        assert changed != HELD
        assert set(changed.in_process) <= set(_CHANGES)


def test_nothing_can_be_changed_that_no_variation_is_named_after_and_no_factor():
    fixed = {name for conditions in CONDITIONS.values() for name in conditions.in_process}
    assert {variation.name for variation in VARIATIONS} | fixed >= {*_CHANGES, *_READERS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "expression", "value"),
    [
        ({"tz": "UTC-14"}, "time.localtime(0).tm_hour", 14),
        ({"umask": "077"}, 'read["umask"]', "077"),
        ({"cwd": "fresh"}, "os.listdir()", []),
        ({"home": "fresh"}, "Path.home().name", "home"),
        ({"tmpdir": "fresh"}, "Path(tempfile.gettempdir()).name", "tmp"),
        ({"cpu-capability": "default"}, 'read["cpu-capability"]', "default"),
        ({"sdpa-backend": "efficient"}, 'read["sdpa-backend"]', "math mem_efficient"),
        ({"cudnn-benchmark": "on"}, 'read["cudnn-benchmark"]', "on"),
        ({"tf32": "on"}, 'read["tf32"]', "on"),
        ({"tf32": "off"}, 'read["tf32"]', "off"),
        ({}, 'read["autotune"]', "nothing compiled"),
        ({}, '(read["malloc"], read["fill"])', ("as it is", "on")),
        ({"malloc": "filled"}, 'read["malloc"]', "filled"),
    ],
)
def test_a_condition_is_there_and_is_read_back(seen, conditions, expression, value):
    assert seen(conditions, expression) == value


@pytest.mark.slow
def test_a_hash_seed_that_the_process_sets_itself_is_none(seen):
    expression = '(os.environ.update(PYTHONHASHSEED="7"), read_conditions({})["hashseed"])[1]'
    assert seen({}, expression) == os.environ.get("PYTHONHASHSEED", "not set")


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "os.listdir({})",
        "[entry.name for entry in os.scandir({})]",
        "[path.name for path in Path({}).iterdir()]",
        "[path.name for path in Path({}).glob('*')]",
        "next(os.walk({}))[2]",
        "[os.path.basename(path) for path in __import__('glob').glob({} + '/*')]",
    ],
)
def test_folders_are_listed_from_the_last_to_the_first(seen, tmp_path, expression):
    for name in "abcdefgh":
        (tmp_path / name).touch()
    listing = expression.format(repr(str(tmp_path)))
    assert seen({"file-order": "reversed"}, listing) == seen({}, listing)[::-1]


@pytest.mark.slow
def test_other_work_takes_the_cores_and_ends_with_its_parent(seen):
    times = (
        "(time.sleep(0.5), {int(path.name): int(words[11]) for path in Path('/proc').glob('[0-9]*') "
        "if (words := (path / 'stat').read_text().rpartition(')')[2].split())[1] == str(os.getpid())}, "
        "torch.get_num_threads())[1:]"
    )
    ticks, threads = seen({"contention": "busy"}, times)
    assert len(ticks) == threads
    assert all(used > 5 for used in ticks.values())
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{process}").exists() for process in ticks):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_the_kernel_of_attention_is_another_and_not_only_its_setting(seen):
    expression = (
        "(torch.manual_seed(0), __import__('hashlib').sha256(torch.nn.functional.scaled_dot_product_attention("
        "*torch.randn(3, 2, 4, 64, 32)).numpy().tobytes()).hexdigest())[1]"
    )
    assert seen({"sdpa-backend": "flash"}, expression) != seen({"sdpa-backend": "math"}, expression)
