"""``vary`` as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from repro_audit import cli
from repro_audit.report import evidence
from repro_audit.variation_records import Effect
from tests.test_cli import GOOD

HASH_ORDER = """
import os, sys, torch
os.environ["PYTHONHASHSEED"] = "0"  # too late
torch.manual_seed(0)
words = list({f"word{n}" for n in range(64)})
net = torch.nn.Linear(64, 1)
loss = net(torch.tensor([[float(len(word) + ord(word[-1])) for word in words]])).sum()
loss.backward()
print("loss", loss.item())
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with a good workload and a script that depends on the hash seed."""
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "hash_order.py").write_text(HASH_ORDER)
    monkeypatch.chdir(tmp_path)
    for name in ("CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["vary", "mlp", "--vary=+thread"], "did you mean threads?"),
        (["vary", "mlp", "--vary", "-all"], "--vary leaves no variation"),
        (["vary", "mlp", "--script", "hash_order.py"], "vary one script"),
        (["vary", "--script", "hash_order.py", "--device", "cpu"], "vary one script"),
        (["vary", "--script", "absent.py"], "cannot read the script absent.py"),
        (["vary", "mlp", "--", "--epochs", "1"], "name it with --script"),
        (["vary", "no_such"], "no_such"),
    ],
)
def test_what_is_not_valid_is_said_and_nothing_is_left(folder, capsys, arguments, words):
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert not (folder / "reports").exists() or not list((folder / "reports").iterdir())


@pytest.mark.slow
def test_a_workload_is_varied_and_its_evidence_can_be_shown(folder, capsys):
    assert cli.main(["vary", "--workloads", "good.py", "--vary", "-all,+tz,threads=1", "--quiet"]) == 0
    statement, place = capsys.readouterr().out.splitlines()
    assert statement == "nothing that must not matter changed a bit: 1 PASS"
    (archive,) = (folder / "reports").iterdir()
    assert archive.name in place
    report = evidence.load(archive)
    assert [(cell.variation, cell.effect) for cell in report.cases[0].cells if cell.variation == "tz"] == [
        ("tz", Effect.SAME)
    ]
    assert "hash seed (0)" in report.cases[0].claim
    assert cli.main(["show", str(archive)]) == 0
    assert "good/cpu: PASS" in capsys.readouterr().out
    assert cli.main(["show", str(archive), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["subject"] == "good/cpu"


@pytest.mark.slow
def test_a_script_is_varied_with_what_is_given_to_it(folder, capsys):
    arguments = ["vary", "--vary", "-all,+hashseed,+tz", "--script", "hash_order.py", "--"]
    assert cli.main([*arguments, "0"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "hash_order.py: FAIL bits depend on what must not matter: hash seed" in text
    assert "tz=UTC-14 same same" in text
    (archive,) = (folder / "reports").iterdir()
    report = evidence.load(archive)
    assert report.script.script.arguments == ("0",)
    kept = sorted(path.name for path in (archive / "recordings").iterdir())
    assert len(kept) == len({run.result for run in report.cases[0].runs})
    assert cli.main([*arguments, "3"]) == 3
    assert "the script ended with exit code 3" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_case_that_was_interrupted_is_not_there_and_the_evidence_says_so(folder):
    waiting = f"(open({str(folder / 'begun')!r}, 'w').close(), __import__('time').sleep(60), self.value)[-1]"
    (folder / "slow.py").write_text(GOOD.replace("self.value.sin()", waiting))
    process = subprocess.Popen(
        [sys.executable, "-m", "repro_audit", "vary", "--workloads", "slow.py", "--vary=-all,+tz"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + 60
    while not (folder / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    (archive,) = folder.glob("reports/*")
    report = evidence.load(archive)
    assert not report.summary.complete
    assert report.cases == ()
