import io

from rich.console import Console

from repro_audit.records import Case
from repro_audit.report.progress import LiveProgress, SilentProgress, make_progress
from tests.sample_reports import completed_case


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def course(progress) -> None:
    """An audit of one case and one canary, as `audit` tells of it."""
    progress.started(2)
    progress.run_started(Case(workload="one_ulp", device="cpu"), "strict-a")
    progress.case_finished(None)
    result = completed_case("[bold]mlp\x1b[31m")
    progress.run_started(result.case, "strict-b1")
    progress.case_finished(result)
    progress.finished()


def test_nothing_is_shown_where_stderr_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    progress = make_progress(quiet=False)
    course(progress)
    assert isinstance(progress, SilentProgress)
    assert capsys.readouterr() == ("", "")


def test_nothing_is_shown_when_quiet_was_asked_for(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    assert isinstance(make_progress(quiet=True), SilentProgress)


def terminal(monkeypatch) -> Terminal:
    # Called by the test itself: pytest puts its own stream there again between a fixture and a test.
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return stream


def test_a_terminal_shows_the_run_and_the_verdicts_so_far(monkeypatch):
    stream = terminal(monkeypatch)
    progress = make_progress(quiet=False)
    assert isinstance(progress, LiveProgress)
    course(progress)
    shown = Console(file=io.StringIO(), width=120).render_str(stream.getvalue(), markup=False).plain
    assert "1 PASS" in shown
    assert "strict-b1" in shown


def test_a_name_cannot_steer_the_terminal_while_it_runs(monkeypatch):
    stream = terminal(monkeypatch)
    course(make_progress(quiet=False))
    assert "[bold]mlp\\x1b[31m" in stream.getvalue()
