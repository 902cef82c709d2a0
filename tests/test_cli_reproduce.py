"""`reproduce`, with real runs."""

import json
import shutil

import pytest

from repro_audit import cli

WORKLOAD = """\
\"\"\"Scales a vector by what a file says.\"\"\"
from pathlib import Path

import torch


class Workload:
    def setup(self, device):
        self.factor = float(Path({data!r}).read_text())
        self.values = torch.ones(8, device=device)

    def step(self):
        self.values = self.values * self.factor
        return self.values.sum()

    def state(self):
        return self.values
"""

SCRIPT = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
"""


def only(folder):
    [archive] = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A workload, what it reads, and the archive of its audit."""
    folder = tmp_path_factory.mktemp("audited")
    data = folder / "factor.txt"
    data.write_text("1.5")
    workload = folder / "scaling.py"
    workload.write_text(WORKLOAD.format(data=str(data)))
    arguments = ["--device", "cpu", "--quick", "--steps", "1", "--output", str(folder / "reports")]
    assert cli.main(["run", "--workloads", str(workload), *arguments, "-q"]) == 0
    return workload, data, only(folder / "reports")


@pytest.fixture
def again(audited, tmp_path, capsys):
    """Makes the audit again; returns exit code and data."""

    def make(*arguments, path=None):
        code = cli.main(
            ["reproduce", str(path or audited[2]), "--output", str(tmp_path / "new"), "--format", "json", *arguments]
        )
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return make


def test_an_archive_is_reproduced_where_nothing_changed(again, tmp_path):
    code, data, err = again()
    assert code == 0, data
    assert data["cases"] == [{"case": "scaling/cpu", "reproduced": "equal bits", "reason": "the same bits as archived"}]
    assert (data["difference"]["environment"], data["difference"]["settings"]) == ([], [])
    new = only(tmp_path / "new")
    assert str(new) in err
    assert cli.main(["verify", str(new)]) == 0


def test_other_bits_under_the_same_conditions_are_a_finding(again, audited):
    audited[1].write_text("1.25")
    try:
        code, data, _ = again()
    finally:
        audited[1].write_text("1.5")
    assert code == 1
    [case] = data["cases"]
    assert case["reproduced"] == "other bits"
    assert data["difference"]["cases"][0]["divergence"]["step"] == 1


def test_other_bits_of_another_workload_file_are_none(again, audited, tmp_path):
    changed = tmp_path / "scaling.py"
    changed.write_text(audited[0].read_text().replace("* self.factor", "* 3"))
    code, data, _ = again("--workloads", str(changed))
    assert (code, data["cases"][0]["reproduced"]) == (3, "other bits, other conditions")
    assert data["difference"]["subjects"][0]["name"] == "workload scaling"


def test_other_variables_are_other_conditions(again, audited, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    code, data, _ = again()
    assert code == 0  # the bits are equal all the same
    assert "variables.OMP_NUM_THREADS" in [one["name"] for one in data["difference"]["environment"]]


def test_a_workload_that_is_gone_is_named_and_can_be_told_where_it_is(again, audited, tmp_path):
    moved = tmp_path / "elsewhere" / "scaling.py"
    moved.parent.mkdir()
    shutil.move(audited[0], moved)
    try:
        code, data, err = again()
        assert (code, data) == (2, None)
        assert "scaling.py is not there any more" in err
        assert not (tmp_path / "new").exists()
        assert again("--workloads", str(moved.parent))[0] == 0
    finally:
        shutil.move(moved, audited[0])


def test_what_was_tampered_with_is_not_made_again(again, audited, tmp_path):
    copy = shutil.copytree(audited[2], tmp_path / audited[2].name)
    evidence = copy / "evidence.yaml"
    evidence.write_text(evidence.read_text().replace("PASS", "FAIL", 1))
    code, data, err = again(path=copy)
    assert (code, data) == (1, None)
    assert "NOT VERIFIED" in err
    assert not (tmp_path / "new").exists()


def test_an_inventory_has_nothing_to_reproduce(again, audited, tmp_path, capsys):
    output = tmp_path / "inventory"
    arguments = ["--workloads", str(audited[0]), "--device", "cpu", "--output", str(output), "-q"]
    assert cli.main(["inventory", *arguments]) == 0
    capsys.readouterr()
    code, _, err = again(path=only(output))
    assert code == 2
    assert "is an inventory" in err


def test_a_script_is_run_again_in_its_folder_or_in_another(tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "train.py").write_text(SCRIPT)
    assert cli.main(["script", "train.py", "--repeats", "1", "--output", str(tmp_path / "old"), "-q"]) == 0
    old = str(only(tmp_path / "old"))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", old, "-q"]) == 0
    assert len(list((tmp_path / "reports").iterdir())) == 1
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    (tmp_path / "there" / "train.py").write_text(SCRIPT.replace("0.1", "0.2"))
    capsys.readouterr()
    assert cli.main(["reproduce", old, "--folder", "there", "--output", "third"]) == 3
    assert "script train.py" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "here")
    assert cli.main(["reproduce", old]) == 2
    assert "name the folder that it is to run in with --folder" in capsys.readouterr().err


def test_a_vary_is_made_again_with_its_variations(audited, tmp_path, capsys):
    arguments = ["--workloads", str(audited[0]), "--device", "cpu", "--vary=-all,+tz", "--steps", "1"]
    assert cli.main(["vary", *arguments, "--output", str(tmp_path / "old"), "-q"]) == 0
    capsys.readouterr()
    old = only(tmp_path / "old")
    assert cli.main(["reproduce", str(old), "--output", str(tmp_path / "new"), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [case["reproduced"] for case in data["cases"]] == ["equal bits"]
    assert "variation: tz" in (only(tmp_path / "new") / "evidence.yaml").read_text()
