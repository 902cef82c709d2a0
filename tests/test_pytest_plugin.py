"""The fixture for pytest, in sessions of their own."""

import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from repro_audit import cli
from repro_audit.errors import WorkloadError
from repro_audit.pytest_auditor import _sources
from repro_audit.verification import verify_archive

TESTS = '''\
import os
import time

import pytest
import torch

from helper import FACTOR


def train(device):
    """Fits a line."""
    model = torch.nn.Linear(4, 1).to(device)
    loss = model(torch.randn(8, 4, device=device) * FACTOR).square().mean()
    loss.backward()
    return {"loss": loss, "model": model}


def clock():
    return {"loss": 1.0, "value": torch.tensor([time.time_ns()])}


def no_loss(device):
    return {"value": 1}


def thread_count():
    return float(os.environ.get("MARK", 0))


class Workload:
    def setup(self, device):
        self.value = torch.zeros(3, device=device)

    def step(self):
        self.value.put_(torch.tensor([1, 1]), torch.ones(2))
        return self.value.sum()

    def state(self):
        return self.value


def test_repeats(repro_audit):
    assert repro_audit(train).name == "evidence.yaml"


def test_differs(repro_audit):
    repro_audit(clock, steps=1, repeats=2, budget=0.001)


def test_is_refused(repro_audit):
    repro_audit(Workload)


def test_returns_no_loss(repro_audit):
    repro_audit(no_loss)


def test_named(repro_audit):
    repro_audit("cumsum", devices=["cpu"])


def test_absent(repro_audit):
    repro_audit("cumsum", devices=["cuda:7"])


def test_environment(repro_audit, monkeypatch):
    monkeypatch.setenv("MARK", "3")
    evidence = repro_audit(thread_count, steps=1)
    assert 'text: "3.0"' in evidence.read_text()


def test_local(repro_audit):
    def inner():
        return 1.0

    with pytest.raises(Exception, match="define it there"):
        repro_audit(inner)
'''


def session(folder, *arguments):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "tmp"), *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A whole session."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tests").mkdir()
    (folder / "tests" / "helper.py").write_text("FACTOR = 2.0\n")
    (folder / "tests" / "test_training.py").write_text(TESTS)
    options = ["--repro-audit-device", "cpu", "--junitxml", str(folder / "junit.xml"), "-rs"]
    return folder, session(folder, "-k", "not absent", *options), session(folder, "-k", "absent", "-rs")


def test_each_test_ends_as_its_audit_does(finished):
    folder, ended, _ = finished
    cases = ElementTree.parse(folder / "junit.xml").getroot().iter("testcase")
    failed = {case.get("name") for case in cases if case.find("failure") is not None}
    assert failed == {"test_differs", "test_is_refused", "test_returns_no_loss"}, ended.stdout
    assert "3 failed, 4 passed" in ended.stdout


def test_the_message_shows_the_first_divergence_and_where_the_evidence_is(finished):
    out = finished[1].stdout
    assert "findings: 1 FAIL" in out
    assert "test_training:clock on cpu: fresh processes differ" in out
    assert re.search(r"first seen after step 1, value, leaf value", out)
    assert "test_training:Workload on cpu" in out
    assert "no_loss() returned dict without a loss" in out
    assert "repro_audit(clock, steps=1" in out  # the line of the test
    assert "pytest_auditor.py" not in out  # and none of ours


def test_evidence_lies_under_the_output_of_pytest_and_is_whole(finished):
    folder, _, _ = finished
    cases = list(ElementTree.parse(folder / "junit.xml").getroot().iter("testcase"))
    named = {
        case.get("name"): property_.get("value")
        for case in cases
        for property_ in case.iter("property")
        if property_.get("name") == "repro_audit_evidence"
    }
    assert len(named) == 6
    # The second session made its own folder in the place of the first one's.
    assert all(str(folder / "tmp" / "repro-audit") in value for value in named.values())
    assert f"repro-audit: evidence in {folder / 'tmp' / 'repro-audit'}" in finished[1].stdout


def test_a_device_that_is_absent_skips(finished):
    assert "1 skipped" in finished[2].stdout
    assert "nothing was audited" in finished[2].stdout.lower()


def test_options_outrank_the_test_and_the_archive_is_verified(tmp_path):
    (tmp_path / "test_one.py").write_text("def test_one(repro_audit):\n    repro_audit('cumsum', devices=['cuda:7'])\n")
    output = tmp_path / "evidence"
    options = ["--repro-audit-device", "cpu", "--repro-audit-repeats", "3", "--repro-audit-output", str(output)]
    ended = session(tmp_path, *options)
    assert "1 passed" in ended.stdout, ended.stdout
    [archive] = output.iterdir()
    verified = verify_archive(archive, None)
    assert verified.faults == ()
    assert (verified.report.settings.repeats, verified.report.settings.devices) == (3, ("cpu",))


def test_what_a_test_audited_can_be_made_again(finished, tmp_path, monkeypatch, capsys):
    folder, _, _ = finished
    (tmp_path / "test_one.py").write_text(
        "def train():\n    return 1.0\n\n\ndef test_one(repro_audit):\n    repro_audit(train, steps=1)\n"
    )
    ended = session(tmp_path, "--repro-audit-output", str(tmp_path / "evidence"), "--repro-audit-device", "cpu")
    assert "1 passed" in ended.stdout, ended.stdout
    [archive] = (tmp_path / "evidence").iterdir()
    monkeypatch.chdir(folder)  # where no module of that name is found
    assert cli.main(["reproduce", str(archive), "--output", str(tmp_path / "again"), "-q"]) == 0
    assert "1 equal bits" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--repro-audit-device", "gpu"], ["--repro-audit-repeats", "0"]])
def test_options_that_are_not_valid_are_told(tmp_path, option):
    (tmp_path / "test_one.py").write_text("def test_one(repro_audit):\n    repro_audit('cumsum')\n")
    ended = session(tmp_path, *option)
    assert ended.returncode != 0
    assert "repro-audit: " in ended.stdout + ended.stderr


def test_a_session_that_does_not_use_it_imports_nothing_of_it(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import json, sys\n"
        "def test_one():\n"
        "    print(json.dumps([name for name in sys.modules if name.split('.')[0] in "
        "('repro_audit', 'torch', 'rich', 'msgspec', 'yaml')]))\n"
    )
    ended = session(tmp_path, "-s", "-p", "no:xdist", "-p", "no:hypothesispytest")
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("[")]
    assert set(json.loads(line.rstrip("."))) <= {"repro_audit", "repro_audit.pytest_plugin"}


class Level:
    def setup(self, device): ...
    def step(self): ...
    def state(self): ...


def test_what_a_fresh_interpreter_cannot_import_is_refused():
    [source] = _sources(Level)
    assert (source.class_name, source.name.rpartition(":")[2]) == ("Level", "Level")
    for subject in (lambda: 1, Level().setup, len, 3):
        with pytest.raises(WorkloadError):
            _sources(subject)


async def coroutine(device): ...


def greedy(device, other): ...


def keyword(*, other): ...


def fine(device, other=3, *, more=1): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [(coroutine, "is a coroutine"), (greedy, "asks for more than the device"), (keyword, "asks for more")],
)
def test_functions_that_cannot_be_called_are_refused(function, message):
    with pytest.raises(WorkloadError, match=message):
        _sources(function)
    assert _sources(fine)
