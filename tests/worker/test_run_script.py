"""A script runs as Python itself would run it."""

import os
import sys
from pathlib import Path

import pytest

from repro_audit.plan import Zygote
from repro_audit.records import Failed, Mode, Refused
from repro_audit.script_records import Finished, Remedy, Script
from tests.scripting import compared, line_of, record, script_of

LOSS = "import torch\ntorch.ones(2, requires_grad=True).sum().backward()\n"


def run(pair, folder: Path, text: str, *arguments: str, **fields: object):
    folder.mkdir(exist_ok=True)
    path = folder / "script.py"
    path.write_text(text)
    return record(pair, Zygote.A, script_of(path, *arguments), folder / "recording", **fields)


def test_it_is_the_main_module_with_its_own_arguments_and_folder(pair, tmp_path):
    (tmp_path / "helper.py").write_text("value = 5\n")
    text = f"""
import os, sys, pickle, inspect, helper
assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()
assert sys.argv == ["script.py", "--epochs", "1"], sys.argv
assert sys.path[0] == os.path.dirname(__file__) == os.getcwd() == {str(tmp_path)!r}
assert sys.orig_argv[1:] == ["script.py", "--epochs", "1"]
assert __spec__ is None and __package__ is None
class Here: pass
assert type(pickle.loads(pickle.dumps(Here()))) is Here
def f(): return 1
assert "return 1" in inspect.getsource(f)
"""
    made = run(pair, tmp_path, text, "--epochs", "1")
    assert made.recording.outcome == Finished(exit_code=0)


def test_a_module_runs_as_python_does_with_m(pair, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "other.py").write_text("value = 7\n")
    (package / "train.py").write_text(
        "from .other import value\nimport sys\n"
        "assert value == 7 and __package__ == 'package' and sys.argv[1:] == ['x']\n"
        "assert __spec__.name == 'package.train' and sys.path[0] == " + repr(str(tmp_path)) + "\n"
    )
    path = package / "train.py"
    script = Script(name="package.train", path=str(path), is_module=True, arguments=("x",), sha256="sha256:" + "0" * 64)
    made = record(pair, Zygote.A, script, tmp_path / "r", working_directory=str(tmp_path), copied_from=str(tmp_path))
    assert made.recording.outcome == Finished(exit_code=0)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('no')", 1),
        ("raise SystemExit(True)", 1),
        ("import argparse; argparse.ArgumentParser().parse_args(['--what'])", 2),
        ("import os; os._exit(4)", 4),
    ],
)
def test_every_way_to_exit_has_the_code_that_python_gives(pair, tmp_path, ending, code):
    assert run(pair, tmp_path, f"import sys\n{ending}").recording.outcome == Finished(exit_code=code)


def test_an_exception_is_a_failure_that_names_the_users_own_line(pair, tmp_path):
    outcome = run(pair, tmp_path, "def f():\n    raise KeyError('gone')\nf()").recording.outcome
    assert isinstance(outcome, Failed)
    assert outcome.kind == "exception"
    assert f'File "{tmp_path}/script.py", line 2, in f' in outcome.detail
    assert "repro_audit" not in outcome.detail


def test_a_syntax_error_is_a_failure(pair, tmp_path):
    outcome = run(pair, tmp_path, "def f(:").recording.outcome
    assert isinstance(outcome, Failed)
    assert "SyntaxError" in outcome.detail


def test_a_refusal_names_op_and_line(pair, tmp_path):
    text = "import torch\nt = torch.zeros(4)\nt.put_(torch.tensor([1, 1]), torch.ones(2))\n"
    outcome = run(pair, tmp_path, text).recording.outcome
    assert isinstance(outcome, Refused)
    assert outcome.alert.op == "put_"
    assert (outcome.alert.location.path, outcome.alert.location.line) == (str(tmp_path / "script.py"), 3)


def test_a_warn_only_run_lists_what_strict_mode_refuses(pair, tmp_path):
    text = "import torch\nt = torch.zeros(4)\nt.put_(torch.tensor([1, 1]), torch.ones(2))\n"
    recording = run(pair, tmp_path, text, mode=Mode.WARN_ONLY).recording
    assert [alert.op for alert in recording.alerts] == ["put_"]
    assert recording.outcome == Finished(exit_code=0)


def test_threads_are_awaited_and_exit_handlers_run_before_the_last_look(pair, tmp_path):
    text = """
import atexit, threading, time, torch
w = torch.ones(2, requires_grad=True)
w.sum().backward()
def late(): w.data += 1; open("atexit", "w").close()
atexit.register(late)
def slow(): time.sleep(0.3); open("thread", "w").close()
threading.Thread(target=slow).start()
"""
    made = run(pair, tmp_path, text)
    assert (tmp_path / "atexit").exists()
    assert (tmp_path / "thread").exists()
    final = list(made.observations("main"))[-1]
    assert final.point == "final"


def test_variables_that_count_from_the_start_stop_the_run(pair, tmp_path):
    text = "import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\nopen('went on', 'w')\n"
    path = tmp_path / "script.py"
    path.write_text(text)
    from repro_audit.script_launch import run_recorded
    from repro_audit.script_records import ScriptTask

    task = ScriptTask(
        run="r",
        script=script_of(path),
        executed_path=str(path),
        working_directory=str(tmp_path),
        copied_from="/home/user/project",
        mode=Mode.STRICT,
        folder=str(tmp_path),
        record_path=str(tmp_path / "run.json"),
        schedule=None,
    )
    made = run_recorded(pair[Zygote.A], task, 60.0, None)
    assert made.restart.variables == {"OMP_NUM_THREADS": "1"}
    assert made.restart.line == "/home/user/project/script.py:3"
    assert not (tmp_path / "went on").exists()


def test_other_variables_do_not(pair, tmp_path):
    text = "import os\nos.environ['PYTHONHASHSEED'] = os.environ['MY_OWN'] = '1'\nimport torch\nopen('went on', 'w')\n"
    assert run(pair, tmp_path, text).recording.outcome == Finished(exit_code=0)
    assert (tmp_path / "went on").exists()


def test_strict_mode_is_armed_before_the_first_line(pair, tmp_path):
    text = (
        "import torch\nassert torch.are_deterministic_algorithms_enabled()\nassert not torch.backends.cudnn.benchmark\n"
    )
    assert run(pair, tmp_path, text).recording.outcome == Finished(exit_code=0)
    assert (
        not run(pair, tmp_path / "again", "import torch\ntorch.use_deterministic_algorithms(True)").end("main").breaches
    )


def test_switching_it_off_is_a_breach_with_its_line(pair, tmp_path):
    text = "import torch\ntorch.backends.cudnn.benchmark = True\ntorch.use_deterministic_algorithms(False)\n"
    (breach,) = run(pair, tmp_path, text).end("main").breaches  # without CUDA the other setting decides nothing
    assert breach.setting == "deterministic_algorithms"
    assert breach.location.line == line_of(text, "(False)")


def test_without_a_mode_nothing_is_armed(pair, tmp_path):
    text = "import torch\nassert not torch.are_deterministic_algorithms_enabled()\n"
    assert run(pair, tmp_path, text, mode=None).recording.outcome == Finished(exit_code=0)


def test_nothing_is_seeded_unless_a_test_asks_for_it(pair, tmp_path):
    text = "import random, torch\nprint(random.random())\nw = torch.rand(2, requires_grad=True)\nw.sum().backward()\n"
    comparison, _, _ = compared(pair, text, tmp_path)
    assert comparison.divergence is not None
    path = tmp_path / "script.py"
    seeded = [
        record(pair, zygote, script_of(path), tmp_path / f"seeded-{zygote.value}", remedies=(Remedy.SEEDED,))
        for zygote in Zygote
    ]
    losses = [[one.loss.text for one in made.observations("main") if one.loss] for made in seeded]
    assert losses[0] == losses[1]


def test_fixed_entropy_reaches_every_generator_made_without_a_seed(pair, tmp_path):
    text = """
import os, random, secrets, uuid, numpy, torch
values = [numpy.random.default_rng().random(), random.Random().random(), float(secrets.randbits(20)), os.urandom(1)[0],
          numpy.random.RandomState().rand(), uuid.uuid4().int % 1000]
w = torch.tensor(values, dtype=torch.float64, requires_grad=True)
w.sum().backward()
"""
    comparison, first, _ = compared(pair, text, tmp_path)
    assert comparison.divergence is not None
    remarks = [(remark.name, remark.context["value"]) for _, remark in first.remarks()]
    assert ("own generator", "None") in remarks
    fixed = [
        record(
            pair,
            zygote,
            script_of(tmp_path / "script.py"),
            tmp_path / f"fixed-{zygote.value}",
            remedies=(Remedy.ENTROPY,),
        )
        for zygote in Zygote
    ]
    losses = [[one.loss.text for one in made.observations("main") if one.loss] for made in fixed]
    assert losses[0] == losses[1]


def test_files_outside_are_remembered_with_their_lines(pair, tmp_path):
    outside = tmp_path / "outside.txt"
    text = f"open({str(outside)!r}, 'w').write('x')\nopen('inside.txt', 'w').write('x')\n"
    home = tmp_path / "home"
    recording = run(pair, home, text).recording
    assert [(use.path, use.line) for use in recording.files_written] == [(str(outside), f"{home}/script.py:1")]


def test_own_signal_handlers_work(pair, tmp_path):
    text = """
import os, signal
seen = []
signal.signal(signal.SIGTERM, lambda *_: seen.append("term"))
signal.signal(signal.SIGALRM, lambda *_: seen.append("alarm"))
os.kill(os.getpid(), signal.SIGTERM)
signal.setitimer(signal.ITIMER_REAL, 0.01)
while len(seen) < 2: pass
"""
    assert run(pair, tmp_path, text).recording.outcome == Finished(exit_code=0)


def test_it_runs_with_the_interpreter_of_the_audit(pair, tmp_path):
    text = f"import sys\nassert sys.executable == {sys.executable!r}, sys.executable\n"
    assert run(pair, tmp_path, text).recording.outcome == Finished(exit_code=0)
    assert os.getcwd() != str(tmp_path)
