from datetime import UTC, datetime
from pathlib import Path

import pytest

from repro_audit.archive import Archive, file_name
from repro_audit.errors import UsageError
from repro_audit.plan import plan_case
from repro_audit.records import Case
from tests.builders import digest, ended
from tests.fakes import source
from tests.test_audit import settings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_the_folder_is_named_after_the_time_and_two_at_once_do_not_meet(tmp_path):
    first, second = (Archive.create(tmp_path / "reports", NOW) for _ in range(2))
    assert first.folder != second.folder
    assert first.folder.name.startswith("2026-01-02T030405Z-")
    assert first.folder.is_dir()


def test_a_place_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file.*--output"):
        Archive.create(tmp_path / "file", NOW)


def test_logs_lie_by_case_and_run_and_empty_ones_are_left_out(tmp_path):
    archive = Archive(tmp_path)
    case = Case(workload="my.module:Class/../x", device="cuda:0")
    task = plan_case(case, source("any"), settings(), tmp_path)[0].task
    archive.keep_log(case, task, "stderr", b"words")
    archive.keep_log(case, task, "stdout", b"")
    (kept,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept == tmp_path / "logs" / f"my.module_Class_.._x.cuda_0.{digest('any')[7:15]}" / "strict-a.stderr.txt"
    assert kept.read_bytes() == b"words"


def test_no_name_leads_out_of_the_archive():
    assert Path(file_name("../../etc/passwd")).parts == (".._.._etc_passwd",)


def test_an_audit_is_not_lost_over_a_log(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    archive = Archive.create(tmp_path, datetime.now(UTC))
    monkeypatch.setattr(Archive, "keep_log", full)
    words = archive.keep_logs(None, None, ended(stdout=b"words"))
    assert words == "what the run printed could not be kept: No space left on device"


def test_an_archive_that_an_error_leaves_empty_is_gone_and_another_stays(tmp_path):
    with pytest.raises(ValueError, match="no"), Archive.fresh(tmp_path) as archive:
        raise ValueError("no")
    assert not archive.folder.exists()
    with pytest.raises(ValueError, match="no"), Archive.fresh(tmp_path) as archive:
        archive.keep_output("run", "stdout", b"words")
        raise ValueError("no")
    assert archive.folder.exists()
