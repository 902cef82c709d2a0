"""``script``, ``record`` and ``compare`` as a user meets them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repro_audit import cli
from repro_audit.report import evidence
from tests.scripting import line_of

TRAIN = """
import argparse, os, sys, torch
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
epochs = parser.parse_args().epochs
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(epochs):
    loss = net(torch.rand(2, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("loss", loss.item(), os.getpid())
"""

UNSEEDED = TRAIN.replace("torch.manual_seed(0)\n", "")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with a script that repeats and one that does not."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "unseeded.py").write_text(UNSEEDED)
    monkeypatch.chdir(tmp_path)
    for name in ("CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def command(*arguments: str, **fields) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "repro_audit", *arguments], capture_output=True, text=True, check=False, **fields
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["script"], "name a script, or a module with -m"),
        (["script", "nowhere.py"], "cannot read the script nowhere.py"),
        (["script", "."], ". is a folder; name the Python file"),
        (["script", "-m", "no.such.module"], "no.such.module"),
        (["script", "train.py", "--repeats", "0"], "whole number of at least 1"),
        (["script", "train.py", "--steps", "9"], "9"),
        (["script", "train.py", "--steps", "5:2"], "5:2"),
        (["script", "train.py", "--output", "train.py/x"], "--output"),
        (["script", "train.py", "--isolation", "thread"], "invalid choice"),
        (["record", "--", "train.py"], "--output"),
        (["record", "--output", "train.py", "--", "train.py"], "train.py"),
        (["record", "--output", ".", "--", "train.py"], "is not empty"),
        (["record", "--output", "new", "--like", "nowhere", "--", "train.py"], "nowhere"),
        (["compare", "nowhere"], "RECORDING"),
        (["compare", "nowhere", "nowhere"], "nowhere is no folder"),
        (["compare", ".", "."], "does not exist"),
    ],
)
def test_bad_input_is_one_message_that_names_it_and_exit_code_2(folder, capsys, arguments, words):
    try:
        code = cli.main(arguments)
    except SystemExit as error:  # argparse
        code = int(error.code or 0)
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert not (folder / "reports").exists()
    assert not (folder / "new").exists()


@pytest.mark.parametrize("name", ["script", "record", "compare"])
def test_every_command_has_help_with_an_example(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    assert f"repro-audit {name}" in capsys.readouterr().out.partition("example:")[2]


@pytest.mark.slow
def test_a_script_is_audited_with_its_arguments_and_shown_again(folder, capsys):
    assert cli.main(["script", "train.py", "--repeats", "1", "--", "--epochs", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("PASS  train.py --epochs 2")
    (archive,) = (folder / "reports").iterdir()
    report = evidence.load(archive)
    assert report.settings.script.arguments == ("--epochs", "2")
    assert report.comparisons[0].losses == 2
    assert "loss" in (archive / "logs" / "strict-a.stdout.txt").read_text()
    assert cli.main(["show", str(archive)]) == 0
    assert capsys.readouterr().out.strip() == printed.partition("evidence: ")[0].strip()
    assert sorted(path.name for path in folder.iterdir()) == ["reports", "train.py", "unseeded.py"]


@pytest.mark.slow
def test_a_script_that_does_not_repeat_fails_with_line_and_cause(folder, capsys):
    assert cli.main(["script", "--repeats", "1", "--format", "json", "unseeded.py"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "FAIL"
    assert found["causes"][0]["kind"] == "unseeded"
    assert found["causes"][0]["line"]["line"] == line_of(UNSEEDED, "net =")


@pytest.mark.slow
@pytest.mark.parametrize("form", [["-m", "package.train"], ["-m", "package"]])
def test_a_module_is_audited(folder, form):
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("seed = 0\n")
    text = TRAIN.replace("torch.manual_seed(0)", "from .helper import seed\ntorch.manual_seed(seed)")
    (package / "train.py").write_text(text)
    (package / "__main__.py").write_text(text)
    assert cli.main(["script", "-q", "--repeats", "1", *form, "--", "--epochs", "1"]) == 0


@pytest.mark.slow
def test_a_hash_order_is_found_by_fixing_the_hash_seed(folder):
    text = TRAIN.replace("torch.rand(2, 4)", "torch.tensor([[float(hash(w) % 97) for w in 'abcd']])")
    (folder / "train.py").write_text(text)
    assert cli.main(["script", "-q", "--repeats", "1", "train.py"]) == 1
    (archive,) = (folder / "reports").iterdir()
    cause = evidence.load(archive).causes[0]
    assert cause.kind == "string hash order"
    assert cause.line.line == line_of(text, "hash(w)")


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["fork", "exec"])
def test_variables_that_the_script_sets_before_torch_count(folder, isolation):
    text = "import os\nos.environ['OMP_NUM_THREADS'] = '1'\n" + TRAIN + "assert torch.get_num_threads() == 1\n"
    (folder / "train.py").write_text(text)
    assert cli.main(["script", "-q", "--repeats", "1", "--isolation", isolation, "train.py"]) == 0
    (archive,) = (folder / "reports").iterdir()
    assert evidence.load(archive).settings.variables == {"OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_every_run_reads_the_same_stdin(folder):
    (folder / "train.py").write_text(TRAIN + "assert sys.stdin.read() == 'lr 0.1\\n'\n")
    done = command("script", "-q", "--repeats", "2", "train.py", input="lr 0.1\n")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_runs_that_share_the_folder_see_each_others_files_and_the_report_says_so(folder):
    (folder / "train.py").write_text(TRAIN + "with open('count', 'a') as file: file.write('x')\n")
    done = command("script", "--repeats", "1", "--working-directory", "share", "train.py")
    assert done.returncode == 0
    assert "the runs shared the working directory" in " ".join(done.stdout.split())
    assert len((folder / "count").read_text()) >= 3


@pytest.mark.slow
def test_a_copy_is_made_of_what_is_there_and_the_own_folder_is_left_alone(folder):
    (folder / "data.txt").write_text("0.5")
    (folder / "train.py").write_text(
        TRAIN + "assert open('data.txt').read() == '0.5'\nopen('data.txt', 'w').write('gone')\nos.mkdir('out')\n"
    )
    assert command("script", "-q", "--repeats", "1", "train.py").returncode == 0
    assert (folder / "data.txt").read_text() == "0.5"
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_a_spawned_child_without_strict_mode_is_told_with_its_line(folder):
    text = """
import torch, torch.multiprocessing as mp
def work(rank):
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    net(torch.ones(2, 4)).sum().backward()
if __name__ == "__main__":
    mp.spawn(work, nprocs=1)
"""
    (folder / "train.py").write_text(text)
    done = command("script", "--repeats", "1", "train.py")
    assert done.returncode == 0, done.stdout
    told = "".join(done.stdout.split())  # a long path is folded
    assert f"aprocessthatthescriptstartedat{folder}/train.py:8ranwithoutstrictmode" in told


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_audit_ends_at_once_with_the_evidence_so_far(folder, number):
    (folder / "train.py").write_text(
        TRAIN + f"import time\nif os.path.exists({str(folder / 'again')!r}): time.sleep(60)\n"
        f"open({str(folder / 'again')!r}, 'w')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "repro_audit", "script", "train.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (folder / "again").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1.5)
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert "interrupted" in out
    (archive,) = (folder / "reports").iterdir()
    report = evidence.load(archive)
    assert not report.summary.complete
    assert report.recordings[0].name == "strict-a"


@pytest.mark.slow
def test_an_output_folder_that_is_read_only_is_named(folder):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (folder / "locked").mkdir(mode=0o500)
    done = command("script", "train.py", "--output", "locked/reports")
    assert done.returncode == 2
    assert "--output" in done.stderr


# ---------------------------------------------------------------------------------------------- recordings


@pytest.mark.slow
def test_recordings_are_made_in_sight_and_compared_later(folder):
    made = command("record", "--output", "monday", "--", "train.py", "--epochs", "3")
    assert made.returncode == 0
    assert made.stdout.count("loss") == 3
    assert (
        command("record", "--output", "tuesday", "--like", "monday", "--", "train.py", "--epochs", "3").returncode == 0
    )
    assert command("record", "--output", "other", "--", "unseeded.py", "--epochs", "3").returncode == 0
    same = command("compare", "monday", "tuesday")
    assert (same.returncode, same.stdout.split(":")[0]) == (0, "PASS")
    different = command("compare", "monday", "tuesday", "other")
    assert different.returncode == 1
    assert "FAIL" in different.stdout
    assert "the script was changed between the recordings" in different.stdout
    shutil.copytree("monday", "copy")
    itself = command("compare", "monday", "copy")
    assert itself.returncode == 2
    assert "monday and copy are recordings of one and the same run" in itself.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", "warn_only"])
def test_recordings_can_be_made_without_strict_mode_and_say_so(folder, mode):
    for name in ("a", "b"):
        assert command("record", "--mode", mode, "--output", name, "--", "train.py").returncode == 0
    done = command("compare", "a", "b")
    assert done.returncode == 0, done.stdout
    assert f"recorded with --mode {mode}: no evidence for strict mode" in done.stdout


@pytest.mark.slow
def test_a_script_that_fails_leaves_a_recording_and_a_code_that_says_so(folder):
    (folder / "train.py").write_text(TRAIN + "raise KeyError('gone')\n")
    done = subprocess.run(
        [sys.executable, "-m", "repro_audit", "record", "--output", "a", "--", "train.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "KeyError: 'gone'" in done.stderr
    assert (folder / "a" / "recording.json").exists()


@pytest.mark.slow
def test_every_rank_of_a_distributed_job_makes_its_own_recording(folder):
    (folder / "job.py").write_text(
        """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(int(os.environ.get("SEED", "0")) * rank)
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.rand(2, 4)).square().mean().backward()
    opt.step()
dist.destroy_process_group()
"""
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        done = subprocess.run(
            [*torchrun, sys.executable, "-m", "repro_audit", "record", "--output", name, "--", "job.py"],
            env={**os.environ, "SEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in Path(name).iterdir()) == ["rank0", "rank1"]
    same = command("compare", "a", "b")
    assert same.returncode == 0, same.stdout
    assert [line.split(":")[:2] for line in same.stdout.splitlines()[:2]] == [["rank0", " PASS"], ["rank1", " PASS"]]
    different = command("compare", "a", "c")
    assert different.returncode == 1
    assert "rank1: FAIL" in different.stdout
    fewer = Path("fewer")
    (fewer / "rank0").mkdir(parents=True)
    refused = command("compare", "a", "fewer")
    assert refused.returncode == 2
    assert "other ranks" in refused.stderr
