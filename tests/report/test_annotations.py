import msgspec
import pytest

from repro_audit.finish import finish
from repro_audit.records import SourceLine, Waiver
from repro_audit.report.annotations import annotations
from tests import sample_reports, sample_scripts
from tests.sample_reports import completed_case, refused_case

CODE = "first\n    self.table.put_(index, values)\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "put.py").write_text(CODE)
    return tmp_path


def refused_at(path, number=2, text="self.table.put_(index, values)"):
    case = refused_case("put")
    line = SourceLine(path=str(path), line=number, text=text)
    runs = []
    for run in case.runs:
        if hasattr(run.outcome, "alert"):
            alert = msgspec.structs.replace(run.outcome.alert, location=line, forward_location=None)
            run = msgspec.structs.replace(run, outcome=msgspec.structs.replace(run.outcome, alert=alert))
        runs.append(run)
    return msgspec.structs.replace(case, runs=tuple(runs))


def lines(case):
    return list(annotations(sample_reports.report([case])))


def test_a_finding_is_shown_at_its_line(checkout):
    [line] = lines(refused_at(checkout / "put.py"))
    assert line.startswith("::error file=put.py,line=2,title=put on cpu%3A REFUSED::")


@pytest.mark.parametrize(
    ("path", "number", "text"),
    [
        ("gone.py", 2, "self.table.put_(index, values)"),
        ("put.py", 1, "self.table.put_(index, values)"),
        ("put.py", 9, "self.table.put_(index, values)"),
        ("put.py", 0, "self.table.put_(index, values)"),
        ("put.py", 2, "self.table.get(index)"),
    ],
)
def test_a_line_that_does_not_read_so_any_more_is_not_shown(checkout, path, number, text):
    assert lines(refused_at(checkout / path, number, text)) == []


def test_a_line_outside_the_checkout_is_not_shown(checkout, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "put.py"
    other.write_text(CODE)
    assert lines(refused_at(other)) == []


def test_no_finding_no_line(checkout):
    documented = refused_case("put", declared="https://docs.pytorch.org")
    assert lines(completed_case()) == lines(documented) == []
    waiver = Waiver(workload="put", device="cpu", op="*", reason="known", who="Ada", until="2999-01-01")
    report = sample_reports.report([refused_at(checkout / "put.py")])
    assert list(annotations(finish(report, waivers=[waiver]))) == []


def test_a_name_cannot_add_another_command(checkout):
    case = refused_at(checkout / "put.py")
    named = msgspec.structs.replace(case.case, workload="put\n::set-env name=X::y")
    [line] = lines(msgspec.structs.replace(case, case=named, reason="a\n::error::b"))
    assert "\n" not in line
    assert line.count("::error") == 2  # the second is text, in the midst of a line
    assert "%0A" in line


def test_of_a_script_the_line_of_the_op_is_shown(checkout):
    location = sample_scripts.location()
    line = SourceLine(path=str(checkout / "put.py"), line=2, text="self.table.put_(index, values)")
    report = msgspec.structs.replace(sample_scripts.failing(), location=msgspec.structs.replace(location, line=line))
    [found] = annotations(report)
    assert found.startswith("::error file=put.py,line=2,title=train.py%3A FAIL::")
    assert list(annotations(sample_scripts.report())) == []
