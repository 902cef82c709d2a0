"""Processes and threads that a script starts: faults in them are seen, and order that does not matter is not."""

import gc
import sys
import weakref

import pytest
import torch

from repro_audit.script_records import Finished, Point
from repro_audit.worker.observation.observer import Observer, Paths
from tests.scripting import compared, line_of

WORK = """
import os, sys, threading, torch
import torch.multiprocessing as mp

def work(rank, seeded):
    if seeded:
        torch.manual_seed(rank)
    else:
        torch.seed()
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = net(torch.ones(2, 4)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
"""

FORK = (
    WORK
    + """
pid = os.fork()
if pid == 0:
    work(0, SEEDED)
    os._exit(0)
os.waitpid(pid, 0)
"""
)

FORK_CONTEXT = (
    WORK
    + """
if __name__ == "__main__":
    mp.start_processes(work, args=(SEEDED,), nprocs=2, start_method="fork")
"""
)

SPAWN = (
    WORK
    + """
if __name__ == "__main__":
    mp.start_processes(work, args=(SEEDED,), nprocs=1, start_method="spawn")
"""
)


@pytest.mark.parametrize("text", [FORK, FORK_CONTEXT, SPAWN], ids=["fork", "fork_context", "spawn"])
def test_a_child_that_trains_unseeded_is_seen(pair, tmp_path, text):
    comparison, first, _ = compared(pair, text.replace("SEEDED", "False"), tmp_path)
    assert comparison.divergence is not None
    assert comparison.divergence.stream != "main"
    assert comparison.divergence.stream in first.stream_names


@pytest.mark.parametrize("text", [FORK, FORK_CONTEXT, SPAWN], ids=["fork", "fork_context", "spawn"])
def test_a_child_that_seeds_itself_repeats(pair, tmp_path, text):
    comparison, first, _ = compared(pair, text.replace("SEEDED", "True"), tmp_path)
    assert comparison.divergence is None
    assert comparison.losses >= 3
    assert all(first.end(name) is not None for name in first.stream_names)


def test_a_spawned_child_runs_without_strict_mode_and_a_forked_one_with_it(pair, tmp_path):
    text = SPAWN.replace("SEEDED", "True")
    _, spawned, _ = compared(pair, text, tmp_path / "s")
    (child,) = (name for name in spawned.stream_names if name != "main")
    end = spawned.end(child)
    assert not end.strict
    assert not end.armed
    assert all(one.relaxed for one in spawned.observations(child))
    (start,) = (remark for _, remark in spawned.remarks() if remark.context.get("stream") == child)
    assert start.line.endswith(f"script.py:{line_of(text, 'start_method')}")
    _, forked, _ = compared(pair, FORK.replace("SEEDED", "True"), tmp_path / "f")
    assert forked.end("main/1").strict
    assert not any(one.relaxed for one in forked.observations("main/1"))


def test_a_forked_child_that_drops_strict_mode_has_a_breach(pair, tmp_path):
    text = FORK.replace("work(0, SEEDED)", "torch.use_deterministic_algorithms(False)\n    work(0, True)")
    _, first, _ = compared(pair, text, tmp_path)
    (breach,) = first.end("main/1").breaches
    assert breach.setting == "deterministic_algorithms"
    assert breach.location.line == line_of(text, "use_deterministic_algorithms(False)")
    assert not first.end("main").breaches


THREADS = (
    WORK
    + """
import time
torch.manual_seed(0)
models = [torch.nn.Linear(4, 1) for _ in range(4)]
def use(model):
    time.sleep(int.from_bytes(os.urandom(1), "little") / 5000)
    loss = (model(torch.ones(2, 4)) * FACTOR).square().mean()
    loss.backward()
threads = [threading.Thread(target=use, args=(model,)) for model in models]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
)


def test_threads_in_another_order_are_the_same(pair, tmp_path):
    comparison, first, _ = compared(pair, THREADS.replace("FACTOR", "2"), tmp_path)
    assert "main+threads" in first.stream_names
    assert comparison.divergence is None


def test_a_thread_that_computes_something_else_is_seen(pair, tmp_path):
    text = THREADS.replace("FACTOR", "int.from_bytes(os.urandom(3), 'little')")
    comparison, _, _ = compared(pair, text, tmp_path)
    assert comparison.divergence.stream == "main+threads"


def test_workers_that_share_their_work_out_differently_are_the_same(pair, tmp_path):
    text = (
        WORK
        + """
import time
def task(number):
    time.sleep(int.from_bytes(os.urandom(1), "little") / 3000)
    work(number, True)
if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool:
        pool.map(task, range(6), chunksize=1)
        pool.close()
        pool.join()
"""
    )
    comparison, _, _ = compared(pair, text, tmp_path)
    assert comparison.divergence is None


def test_of_a_large_model_in_a_child_the_whole_state_is_looked_at_now_and_then(pair, tmp_path):
    text = FORK.replace("SEEDED", "True").replace("Linear(4, 1)", "Linear(600, 600)")
    text = text.replace("torch.ones(2, 4)", "torch.ones(2, 600)").replace("range(3)", "range(40)")
    comparison, first, _ = compared(pair, text, tmp_path)
    assert comparison.divergence is None
    looks = [one.complete for one in first.observations("main/1") if one.point == "step"]
    assert len(looks) == 40
    assert sum(looks) < 20


def test_the_end_of_a_large_model_in_a_spawned_process_is_seen(pair, tmp_path):
    text = SPAWN.replace("SEEDED", "True").replace("Linear(4, 1)", "Linear(1500, 1500)")
    text = text.replace("torch.ones(2, 4)", "torch.ones(2, 1500)")
    text = text.replace("        opt.step()\n", "        opt.step()\n    net.bias.data[0] = NOISE\n", 1)
    comparison, first, _ = compared(pair, text.replace("NOISE", "1.0"), tmp_path / "same")
    (child,) = (name for name in first.stream_names if name != "main")
    assert comparison.divergence is None
    assert not first.end(child).notes
    noisy = text.replace("NOISE", "int.from_bytes(os.urandom(3), 'little')")
    comparison, _, _ = compared(pair, noisy, tmp_path / "unlike")
    assert comparison.divergence.point is Point.FINAL


def test_a_spawned_process_ends_as_it_would_unobserved(pair, tmp_path):
    text = """
import atexit, pathlib, sys, threading, time
import torch.multiprocessing as mp
def write(name):
    pathlib.Path(name).touch()
def work(code):
    atexit.register(write, "at_exit")
    threading.Thread(target=lambda: (time.sleep(0.3), write("in_thread"))).start()
    print("in a buffer", end="")
    sys.exit(code)
if __name__ == "__main__":
    children = [mp.get_context("spawn").Process(target=work, args=(code,)) for code in (0, 3, "a message")]
    for child in children:
        child.start()
    for child in children:
        child.join()
    codes = [child.exitcode for child in children]
    files = [pathlib.Path(name).exists() for name in ("at_exit", "in_thread")]
    print(codes, files)
    sys.exit(codes != [0, 3, 1] or files != [True, True])
"""
    _, first, _ = compared(pair, text, tmp_path)
    assert first.recording.outcome == Finished(exit_code=0)


def test_at_the_end_nothing_of_the_script_is_held_any_more(tmp_path):
    observer = Observer(tmp_path, Paths("copy", "original"), None, mode=None)
    model = torch.nn.Linear(2, 1)
    observer.module_begins(model, (torch.ones(1, 2),), sys._getframe())
    observer.module_ends(model, model(torch.ones(1, 2)), sys._getframe())
    freed = weakref.ref(model)
    del model
    gc.collect()
    assert freed() is not None
    observer.end()
    assert freed() is None


def test_threads_of_a_pool_are_its_own_and_those_of_an_executor_the_scripts(pair, tmp_path):
    text = (
        WORK
        + """
from concurrent.futures import ThreadPoolExecutor
if __name__ == "__main__":
    with mp.get_context("fork").Pool(1) as pool:
        pool.map(abs, [1])
    with ThreadPoolExecutor(1) as executor:
        executor.submit(print).result()
"""
    )
    _, first, _ = compared(pair, text, tmp_path)
    (thread,) = (remark for _, remark in first.remarks() if remark.name == "thread")
    assert thread.line.endswith(f":{line_of(text, 'executor.submit')}")


def test_an_exit_without_ceremony_leaves_a_whole_recording(pair, tmp_path):
    text = (
        "import os, torch\ntorch.manual_seed(0)\nw = torch.ones(2, requires_grad=True)\nw.sum().backward()\nos._exit(0)"
    )
    comparison, first, _ = compared(pair, text, tmp_path)
    assert first.end("main") is not None
    assert first.recording.outcome.exit_code == 0
    assert comparison.divergence is None
    assert comparison.observations == 2


def test_a_killed_process_has_left_what_it_showed(pair, tmp_path):
    text = "import os, torch\nw = torch.ones(2, requires_grad=True)\nw.sum().backward()\nos.kill(os.getpid(), 9)"
    comparison, first, _ = compared(pair, text, tmp_path)
    assert first.end("main") is None
    assert first.recording.outcome.kind == "signal"
    assert comparison.observations == 1
    assert "ended from outside" not in str(comparison.divergence)


def test_a_program_is_remarked_and_not_observed(pair, tmp_path):
    text = "import subprocess\nsubprocess.run(['true'])"
    _, first, _ = compared(pair, text, tmp_path)
    (remark,) = (remark for _, remark in first.remarks())
    assert (remark.point, remark.name, remark.context) == ("child", "program", {"program": "true"})
    assert remark.line.endswith("script.py:2")
