"""The command line as a user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from repro_audit import cli
from repro_audit.configuration import KEYS, configure
from repro_audit.report import evidence

KNOWN_BAD = Path(__file__).parent / "known_bad"

GOOD = '''"""Repeats."""

import torch


class Workload:
    def setup(self, device):
        self.value = torch.randn(8, device=device)

    def step(self):
        self.value = self.value.sin()
        return self.value.sum()

    def state(self):
        return {"value": self.value}
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current directory with one workload beside it."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "good.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    return tmp_path


def failure(capsys, *arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a command that must print nothing else."""
    try:
        code = cli.main(arguments)
    except SystemExit as error:  # argparse
        code = int(error.code or 0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return code, captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["rnu"], "rnu"),
        (["run", "--no-such-option"], "--no-such-option"),
        (["run", "--device", "gpu"], "name cpu, cuda or cuda:N"),
        (["run", "--repeats", "0"], "whole number of at least 1"),
        (["run", "--steps", "-1"], "whole number of at least 1"),
        (["run", "--seed", "4294967296"], "from 0 to 4294967295"),
        (["run", "--timeout", "nan"], "number of seconds"),
        (["run", "--timeout", "0"], "number of seconds"),
        (["run", "--cublas-workspace", ":1:1"], "invalid choice"),
        (["run", "goood", "--workloads", "own"], "did you mean good"),
        (["run", "no*such", "--workloads", "own"], "no workload matches"),
        (["run", "--workloads", "nowhere"], "nowhere does not exist"),
        (["run", "no.such.module:Class"], "no module"),
        (["list", "goood", "--workloads", "own"], "did you mean good"),
        (["show", "nowhere"], "nowhere"),
        (["show", "own"], "evidence.yaml"),
    ],
)
def test_bad_input_is_one_message_that_names_it_and_exit_code_2(folder, capsys, arguments, words):
    code, error = failure(capsys, *arguments)
    assert code == 2
    assert words in error
    assert not (folder / "reports").exists()


def test_an_invalid_cublas_setting_stops_before_anything_runs(folder, capsys, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    code, error = failure(capsys, "run", "--workloads", "own")
    assert code == 2
    assert "':0:0'" in error
    assert not (folder / "reports").exists()


def test_an_output_that_cannot_be_written_stops_before_anything_runs(folder, capsys):
    (folder / "file").write_text("")
    code, error = failure(capsys, "run", "--workloads", "own", "--output", "file")
    assert code == 2
    assert "--output" in error


def test_a_broken_workload_file_is_an_error_that_names_file_and_line(folder, capsys):
    (folder / "own" / "broken.py").write_text("class Workload:\n    def setup(self, device:\n")
    code, error = failure(capsys, "run", "--workloads", "own")
    assert code == 2
    assert "broken.py:2" in error


def test_a_fault_of_the_tool_itself_is_reported_without_a_traceback(folder, capsys, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr(cli, "_list", broken)
    code, error = failure(capsys, "list")
    assert code == 3
    assert "internal error, ZeroDivisionError: oh no" in error
    report = Path(error.split()[-1])
    assert "Traceback" in report.read_text()
    report.unlink()


COMMANDS = re.findall(r"^    (\w+)(?: |$)", cli.build_parser().format_help(), re.MULTILINE)

ARCHIVE_COMMANDS = ("archive list", "archive show", "archive prune")


@pytest.mark.parametrize("command", [*COMMANDS, *ARCHIVE_COMMANDS])
def test_every_command_has_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main([*command.split(), "--help"])
    assert exit_.value.code == 0
    assert f"repro-audit {command}" in capsys.readouterr().out.partition("example:")[2]


def test_the_readme_names_every_command():
    assert len(COMMANDS) == 16
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    assert [command for command in COMMANDS if not re.search(rf"repro-audit {command}\b|: {command};", readme)] == []
    assert len(readme.splitlines()) <= 150


def test_the_job_that_the_readme_shows_runs_commands_that_there_are():
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    job = yaml.safe_load(re.search(r"```yaml\n(.*?)```", readme, re.DOTALL)[1])["jobs"]["reproducibility"]
    commands = [step["run"].split() for step in job["steps"] if "repro-audit run" in step.get("run", "")]
    [words] = commands
    assert cli.build_parser().parse_args(words[1:]).junit == Path("reports/audit.xml")


def test_the_configuration_that_the_readme_shows_is_valid(tmp_path, monkeypatch):
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    (tmp_path / "pyproject.toml").write_text(re.search(r"```toml\n(.*?)```", readme, re.DOTALL)[1])
    monkeypatch.chdir(tmp_path)
    arguments = cli.build_parser().parse_args(["run"])
    configure(arguments, {})
    assert (arguments.repeats, arguments.waivers[0].workload) == (5, "encoder")
    for key in KEYS:
        assert re.search(rf"\b{key}\b", readme), key


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.startswith("repro-audit 0.")


def test_list_shows_names_and_summaries(folder, capsys):
    assert cli.main(["list", "--workloads", "own"]) == 0
    shown = capsys.readouterr().out
    assert "good" in shown
    assert "Repeats." in shown


@pytest.mark.slow
def test_run_then_show_print_the_same_report(folder, capsys):
    assert cli.main(["run", "--workloads", "own", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    (archive,) = (folder / "reports").iterdir()
    assert f"evidence: reports/{archive.name}/evidence.yaml" in printed
    assert cli.main(["show", str(archive)]) == 0
    assert capsys.readouterr().out.strip() == printed.partition("evidence: ")[0].strip()
    assert cli.main(["show", str(archive / "evidence.yaml"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["exit_code"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_stdout_is_for_programs_where_asked(folder, capsys, form):
    assert cli.main(["run", "--workloads", "own/good.py", "--device", "cpu", "--format", form]) == 0
    captured = capsys.readouterr()
    content = json.loads(captured.out) if form == "json" else yaml.safe_load(captured.out)
    assert content["cases"][0]["verdict"] == "PASS"
    assert "evidence: " in captured.err


@pytest.mark.slow
def test_quiet_prints_the_statement_and_where_the_evidence_is(folder, capsys):
    assert cli.main(["run", "--workloads", "own", "--device", "cpu", "-q"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("no divergence seen: 1 PASS")
    assert second.startswith("evidence: ")


@pytest.mark.slow
@pytest.mark.parametrize(("options", "arms"), [((), ["default", "no_fill"]), (("--quick",), [])])
def test_only_a_quick_audit_goes_without_the_arms(folder, options, arms):
    assert cli.main(["run", "--workloads", "own", "--device", "cpu", "--quiet", *options]) == 0
    (archive,) = (folder / "reports").iterdir()
    assert [arm.run.name for arm in evidence.load(archive).cases[0].arms] == arms


@pytest.mark.slow
def test_a_class_of_a_local_module_is_audited(folder, capsys):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "models.py").write_text(GOOD.replace("class Workload", "class Mine"))
    assert cli.main(["run", "package.models:Mine", "--device", "cpu", "-q"]) == 0
    (archive,) = (folder / "reports").iterdir()
    assert evidence.load(archive).cases[0].case.workload == "package.models:Mine"


@pytest.mark.slow
def test_a_whole_interpreter_per_run_gives_the_same_verdict(folder):
    arguments = ["run", "good", "--workloads", "own", "--device", "cpu", "-q", "--quick"]
    assert cli.main([*arguments, "--isolation", "exec"]) == 0
    (archive,) = (folder / "reports").iterdir()
    report = evidence.load(archive)
    assert [result.verdict.value for result in report.cases] == ["PASS"]
    assert report.summary.canaries_caught  # what must be caught is, in new interpreters as well


@pytest.mark.slow
def test_an_inventory_lists_every_alert_with_its_line_and_keeps_nothing_unasked(folder, capsys):
    names = ["refused_put", "refused_backward"]
    assert cli.main(["inventory", *names, "--workloads", str(KNOWN_BAD), "--device", "cpu", "--format", "json"]) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    alerts = {case["case"]["workload"]: case["runs"][0].get("alerts", []) for case in cases}
    assert [(alert["op"], alert["count"]) for alert in alerts["refused_put"]] == [("put_", 2)]
    forward, backward = alerts["refused_backward"]
    assert (forward["phase"], backward["phase"], backward["count"]) == ("forward", "backward", 2)
    assert "loss.backward()" in backward["location"]["text"]
    assert "self.target.put(" in backward["forward_location"]["text"]
    assert not (folder / "reports").exists()
    assert cli.main(["inventory", "refused_put", "--workloads", str(KNOWN_BAD), "--output", "kept"]) == 0
    printed = capsys.readouterr().out
    assert "put_" in printed
    assert "never evidence" in printed
    (archive,) = (folder / "kept").iterdir()
    assert evidence.load(archive).cases[0].runs[0].mode == "warn_only"


@pytest.mark.slow
def test_the_users_own_cublas_value_is_kept_and_named_as_theirs(folder, capsys, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    assert cli.main(["run", "--workloads", "own", "--device", "cpu"]) == 0
    assert "CUBLAS_WORKSPACE_CONFIG" in capsys.readouterr().out
    (archive,) = (folder / "reports").iterdir()
    report = evidence.load(archive)
    assert report.settings.cublas_workspace.source == "environment"
    assert report.environment.flags["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert report.cases[0].runs[0].flags_start == {}


@pytest.mark.slow
def test_the_environment_is_printed(folder, capsys):
    assert cli.main(["env", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flags"]["deterministic_algorithms"] == "True"
    assert found["torch"]["version"]
    assert {"cpu"} <= {device["name"] for device in found["devices"]}


SLOW = '''"""Takes its time, and says when it has begun."""

import time
from pathlib import Path

import torch


class Workload:
    def setup(self, device):
        Path("begun").write_text("")
        self.value = torch.zeros(1)

    def step(self):
        time.sleep(60)

    def state(self):
        return {"value": self.value}
'''


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_audit_ends_at_once_with_the_evidence_so_far(folder, number):
    (folder / "own" / "slow.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "repro_audit", "run", "--workloads", "own", "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (folder / "begun").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert "interrupted" in out
    (archive,) = (folder / "reports").iterdir()
    report = evidence.load(archive)
    assert not report.summary.complete
    assert {result.case.workload: result.verdict.value for result in report.cases} == {"good": "PASS", "slow": "SKIP"}


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_early_gets_no_traceback(folder):
    command = f"{sys.executable} -m repro_audit list | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stderr == ""


@pytest.mark.slow
def test_a_reader_that_leaves_early_does_not_turn_a_finding_into_a_success(folder):
    command = [
        sys.executable,
        "-m",
        "repro_audit",
        "run",
        "refused_put",
        "--workloads",
        str(KNOWN_BAD),
        "--device",
        "cpu",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        complaint = process.stderr.read()
    assert (process.wait(), complaint) == (1, "")
    (archive,) = (folder / "reports").iterdir()
    assert evidence.load(archive).summary.exit_code == 1


def test_a_closed_stdout_costs_the_output_and_not_the_exit_code(folder):
    command = f"{sys.executable} -m repro_audit list --workloads own >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_current_folder_that_is_gone_is_named_as_the_trouble(folder, capsys, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, error = failure(capsys, "run", "mlp")
    assert code == 2
    assert "current folder does not exist" in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_stdout_that_cannot_be_written_is_named_as_the_trouble(folder):
    command = f"{sys.executable} -m repro_audit list --workloads own > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
