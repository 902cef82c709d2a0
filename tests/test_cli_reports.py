"""Reports, signatures and step summaries beside an audit, and from its archive later; the audit is real."""

import json
import shutil

import pytest
from junitparser import JUnitXml

from repro_audit import cli
from repro_audit.commands import reports
from repro_audit.signing import write_key_pair
from tests import sample_reports
from tests.small_archive import small_archive

WORKLOAD = """\
\"\"\"Adds one{wrong}.\"\"\"
import time

import torch


class Workload:
    def setup(self, device):
        self.value = torch.zeros(4, device=device)

    def step(self):
        self.value = self.value + {term}
        return self.value.sum()

    def state(self):
        return self.value
"""

FORMS = ("html", "junit", "markdown", "json")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text(WORKLOAD.format(wrong="", term="1"))
    (tmp_path / "bad.py").write_text(WORKLOAD.format(wrong=" and the time", term="time.time_ns() % 100_000"))
    return tmp_path


def run(name, *arguments):
    return cli.main(
        [
            "run",
            "--workloads",
            f"{name}.py",
            "--device",
            "cpu",
            "--quick",
            "--steps",
            "1",
            "--budget",
            "0.001",
            *arguments,
        ]
    )


def only(folder):
    [archive] = folder.iterdir()
    return archive


def test_an_audit_writes_all_reports_and_a_signature_at_once(folder, capsys):
    write_key_pair(folder / "auditor")
    options = [word for form in FORMS for word in (f"--{form}", f"out/report.{form}")]
    assert run("good", *options, "--sign", "auditor", "--responsible", "Ada Lovelace", "--role", "auditor") == 0
    archive = only(folder / "reports")
    assert "evidence: " in capsys.readouterr().out
    made = {form: (folder / "out" / f"report.{form}").read_text() for form in FORMS}
    assert "<strong>VERIFIED</strong>" in made["html"]
    assert JUnitXml.fromstring(made["junit"].encode()).failures == 0
    assert "## Reproducibility audit: VERIFIED" in made["markdown"]
    assert json.loads(made["json"])["volatile"]["audit"] == archive.name
    assert cli.main(["verify", str(archive), "--key", "auditor.pub"]) == 0
    assert "signature:  valid" in capsys.readouterr().out
    assert b"Ada" not in (archive / "evidence.yaml").read_bytes()
    again = [word for form in FORMS for word in (f"--{form}", f"again.{form}")]
    assert cli.main(["report", str(archive), *again]) == 0
    assert {form: (folder / f"again.{form}").read_text() for form in FORMS} == made
    assert cli.main(["report", str(archive / "evidence.yaml"), "--json", "-"]) == 0
    assert capsys.readouterr().out.endswith(made["json"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--html", "."], "is a folder; name a file in it"),
        (["--junit", "good.py/report.xml"], "is no folder that can be written"),
        (["--sign", "gone"], "gone"),
        (["--sign", "good.py"], "holds no private key"),
    ],
)
def test_what_cannot_be_had_is_told_before_anything_runs(folder, capsys, options, message):
    assert run("good", *options) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "reports").exists()


def test_a_report_on_stdout_has_it_for_itself(folder, capsys):
    assert run("good", "--junit", "-") == 0
    out, err = capsys.readouterr()
    assert JUnitXml.fromstring(out.encode()).failures == 0
    assert "evidence: " in err
    assert run("good", "--junit", "-", "--html", "-") == 2
    assert "only one report can go to stdout" in capsys.readouterr().err
    assert len(list((folder / "reports").iterdir())) == 1


def test_a_report_that_fails_to_be_written_costs_neither_table_nor_finding(folder, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reports, "write_whole", full)
    assert run("bad", "--html", "report.html") == 1
    out, err = capsys.readouterr()
    assert "FAIL" in out
    assert "No space left on device; the evidence is whole" in err
    assert run("good", "--html", "report.html") == 2


def test_a_passphrase_is_not_for_the_audited(folder, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_AUDIT_PASSPHRASE", "secret")
    (folder / "asks.py").write_text(
        WORKLOAD.format(wrong="", term="1").replace(
            "import time\n", "import os\nassert 'REPRO_AUDIT_PASSPHRASE' not in os.environ\n"
        )
    )
    assert run("asks") == 0


def test_the_step_summary_is_appended_to_and_lines_are_annotated(folder, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (folder / "summary.md").write_text("before\n")
    (folder / "refused.py").write_text(
        WORKLOAD.format(wrong="", term="1").replace(
            "self.value = self.value + 1", "self.value.put_(torch.tensor([1, 1]), torch.ones(2))"
        )
    )
    assert run("refused") == 1
    summary = (folder / "summary.md").read_text()
    assert summary.startswith("before\n## Reproducibility audit: FINDING")
    assert "::error file=refused.py,line=12,title=refused on cpu%3A REFUSED::" in capsys.readouterr().out
    assert run("good") == 0
    assert (folder / "summary.md").read_text().count("## Reproducibility audit") == 2
    assert "::error" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["full", "folder"])
def test_a_step_summary_that_takes_nothing_costs_no_audit(folder, monkeypatch, capsys, kind):
    summary = folder / "summary.md"
    if kind == "full":
        summary.write_text("x" * ((1 << 20) - 100))
    else:
        summary.mkdir()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run("good") == 0
    assert "cannot append to the step summary" in capsys.readouterr().err


def test_the_step_summary_stays_below_what_github_shows(tmp_path, monkeypatch):
    report = sample_reports.report()
    summary = tmp_path / "summary.md"
    summary.write_text("x" * ((1 << 20) - 5000))
    reports.append_step_summary(report, {"GITHUB_STEP_SUMMARY": str(summary)})
    assert 0 < summary.stat().st_size - ((1 << 20) - 5000) <= 4000
    assert "The rest is left out here" in summary.read_text()


def test_report_wants_a_report_and_evidence(tmp_path, capsys):
    archive = small_archive(tmp_path)
    assert cli.main(["report", str(archive)]) == 2
    assert "name a report to write" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "gone"), "--html", "x.html"]) == 2
    shutil.rmtree(archive)
    archive.mkdir()
    assert cli.main(["report", str(archive), "--html", "x.html"]) == 2
    assert "evidence.yaml" in capsys.readouterr().err
