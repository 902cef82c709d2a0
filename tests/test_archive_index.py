import json

import pytest

from repro_audit import cli
from repro_audit.archive_index import Filter, index, surplus
from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.records import Verdict
from repro_audit.report import evidence
from tests import sample_scripts, sample_variations
from tests.fakes import FakeLauncher, Unseeded
from tests.small_archive import small_archive


@pytest.fixture
def reports(tmp_path):
    """Four archives, the oldest first: a run, one that fails, a script, a `vary`; and what is none."""
    output = tmp_path / "reports"
    made = [small_archive(output), small_archive(output, FakeLauncher({"one": Unseeded()}))]
    for number, folder in enumerate(made, 1):
        folder.rename(output / f"2026-01-0{number}T000000Z-00000{number}")
    for number, report in ((3, sample_scripts.report()), (4, sample_variations.report())):
        folder = output / f"2026-01-0{number}T000000Z-00000{number}"
        folder.mkdir()
        evidence.save(report, folder)
        (folder / SUMS).write_text("")
    (output / "notes").mkdir()
    (output / "README.md").write_text("")
    (output / "2026-01-01T000000Z-0000ff").symlink_to(output / "notes")
    return output


def test_the_command_line_knows_all_verdicts():
    assert tuple(Verdict) == cli.VERDICTS


def days(entries):
    return [entry.folder.name[9:10] for entry in entries]


def test_archives_are_listed_by_age_and_nothing_else_is(reports):
    entries = index(reports)
    assert days(entries) == ["1", "2", "3", "4"]
    assert [entry.kind for entry in entries] == ["run", "run", "script", "vary"]
    assert all(entry.is_whole for entry in entries)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(verdict="FAIL"), ["2", "4"]),
        (Filter(verdict="FAIL", workload="o*"), ["2"]),
        (Filter(verdict="PASS", workload="one"), ["1"]),
        (Filter(workload="two", device="cpu"), ["1", "2"]),
        (Filter(workload="train.py"), ["3"]),
        (Filter(device="cuda*"), []),
        (Filter(since="2026-01-02", until="2026-01-03"), ["2", "3"]),
    ],
)
def test_filters_ask_for_one_case_that_is_all_of_it(reports, wanted, expected):
    assert days(index(reports, wanted)) == expected


def test_an_unfinished_or_broken_archive_is_listed_as_such_and_never_pruned(reports):
    first, second, *_ = index(reports)
    (first.folder / SUMS).unlink()
    (second.folder / evidence.FILE_NAME).write_text("schema_version: 2\n...\n")
    assert [entry.trouble[:10] for entry in index(reports)[:2]] == ["unfinished", str(second.folder)[:10]]
    assert days(surplus(reports, 1)) == ["3"]


def test_prune_keeps_the_newest_and_a_dry_run_keeps_all(reports, capsys):
    assert cli.main(["archive", "prune", "--reports", str(reports), "--keep", "1", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("would remove") == 3
    assert len(index(reports)) == 4
    assert cli.main(["archive", "prune", "--reports", str(reports), "--keep", "1"]) == 0
    assert days(index(reports)) == ["4"]
    assert (reports / "notes").is_dir()
    assert (reports / "README.md").is_file()


@pytest.mark.parametrize("keep", [4, 5, 7, 100])
def test_prune_removes_nothing_where_there_are_no_more_than_are_to_be_kept(reports, keep):
    assert surplus(reports, keep) == []


def test_list_prints_a_table_or_data(reports, capsys):
    assert cli.main(["archive", "list", "--reports", str(reports), "--verdict", "fail"]) == 0
    told = capsys.readouterr().out
    assert "2026-01-02T000000Z-000002" in told
    assert "2026-01-01T000000Z-000001" not in told
    assert "2 archives in" in told
    assert cli.main(["archive", "list", "--reports", str(reports), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [entry["kind"] for entry in data] == ["run", "run", "script", "vary"]
    assert data[1]["cases"][0] == {"workload": "one", "device": "cpu", "verdict": "FAIL"}


def test_show_tells_every_file(reports, capsys):
    folder = index(reports)[0].folder
    assert cli.main(["archive", "show", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "no divergence seen" in told
    for path in folder.rglob("*.json"):
        assert str(path.relative_to(folder)) in told
    (folder / SUMS).unlink()
    assert cli.main(["archive", "show", str(folder)]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--reports", "nowhere"], "cannot list nowhere"),
        (["list", "--since", "yesterday"], "write YYYY-MM-DD"),
        (["list", "--verdict", "GOOD"], "invalid choice"),
        (["prune", "--keep", "0"], "at least 1"),
        (["show", "nowhere"], "nowhere does not exist"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(["archive", *arguments])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert words in capsys.readouterr().err
