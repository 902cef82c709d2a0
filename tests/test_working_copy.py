"""Each run sees the working directory as it was, and nothing of the run before."""

import os
import stat

import pytest

from repro_audit import working_copy
from repro_audit.errors import UsageError
from repro_audit.working_copy import WorkingCopies


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "project"
    (home / "data").mkdir(parents=True)
    (home / "train.py").write_text("print(1)")
    (home / "data" / "x.txt").write_text("one")
    return home


@pytest.fixture
def copies(home, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    copies = WorkingCopies(home, scratch)
    yield copies
    copies.close()


def test_a_copy_holds_what_is_there_at_one_and_the_same_path(copies, home):
    first = copies.prepare()
    assert (first / "data" / "x.txt").read_text() == "one"
    assert first.name == home.name
    assert copies.prepare() == first == copies.path
    assert copies.inside(home / "train.py") == first / "train.py"
    assert str(copies.inside(home.parent / "other")) == str(home.parent / "other")
    assert not copies.linked


def test_what_a_run_leaves_the_next_does_not_see(copies, home):
    copy = copies.prepare()
    (copy / "left").write_text("x")
    (copy / "data" / "x.txt").write_text("two")
    (copy / "train.py").unlink()
    copies.prepare()
    assert sorted(path.name for path in copy.iterdir()) == ["data", "train.py"]
    assert (copy / "data" / "x.txt").read_text() == (home / "data" / "x.txt").read_text() == "one"


def test_what_the_user_changes_meanwhile_is_not_seen_either(copies, home):
    copies.prepare()
    (home / "data" / "x.txt").write_text("changed")
    assert (copies.prepare() / "data" / "x.txt").read_text() == "one"


def test_folders_that_a_run_made_read_only_go_as_well(copies):
    copy = copies.prepare()
    (copy / "locked").mkdir()
    (copy / "locked" / "file").write_text("x")
    (copy / "locked").chmod(0o500)
    assert not (copies.prepare() / "locked").exists()


@pytest.mark.parametrize("name", [".git", ".venv", "node_modules"])
def test_folders_of_tools_are_linked_and_said_to_be(copies, home, name):
    (home / name).mkdir()
    (home / name / "x").write_text("x")
    copy = copies.prepare()
    assert (copy / name).is_symlink()
    assert copies.linked == {name: "a folder of tools or caches"}


def test_an_environment_is_known_by_what_is_in_it(copies, home):
    (home / "mine").mkdir()
    (home / "mine" / "pyvenv.cfg").write_text("")
    assert (copies.prepare() / "mine").is_symlink()


def test_large_files_are_linked_and_said_to_be(copies, home, monkeypatch):
    monkeypatch.setattr(working_copy, "LARGE_FILE_BYTES", 2**20)
    (home / "data" / "big.bin").write_bytes(bytes(3 * 2**20))
    copy = copies.prepare()
    assert (copy / "data" / "big.bin").is_symlink()
    assert not (copy / "data" / "x.txt").is_symlink()
    assert copies.linked == {"data/big.bin": "a file of 3 MiB"}


def test_the_largest_folders_are_linked_where_there_are_too_many_files(copies, home, monkeypatch):
    monkeypatch.setattr(working_copy, "FILE_COUNT", 20)
    (home / "many").mkdir()
    for number in range(30):
        (home / "many" / str(number)).write_text("x")
    copy = copies.prepare()
    assert (copy / "many").is_symlink()
    assert not (copy / "data").is_symlink()
    assert copies.linked == {"many": "a folder of 30 files and 0 MiB"}


def test_a_link_that_stays_inside_leads_into_the_copy_and_any_other_where_it_led(copies, home, tmp_path):
    (tmp_path / "outside").write_text("out")
    (home / "inner").symlink_to("data/x.txt")
    (home / "outer").symlink_to("../outside")
    (home / "full").symlink_to(home / "data" / "x.txt")
    copy = copies.prepare()
    assert (copy / "inner").resolve() == copy / "data" / "x.txt"
    assert (copy / "outer").read_text() == "out"
    assert (copy / "full").resolve() == home / "data" / "x.txt"
    assert copies.linked == {"full": "a link to a full path"}


def test_deleting_a_copy_leaves_what_is_behind_its_links(copies, home):
    (home / ".git").mkdir()
    (home / ".git" / "head").write_text("x")
    copies.prepare()
    copies.close()
    assert (home / ".git" / "head").read_text() == "x"
    assert not copies.path.exists()


def test_a_pipe_in_the_folder_does_not_stop_it(copies, home):
    os.mkfifo(home / "pipe")
    copies.prepare()
    assert copies.linked == {"pipe": "no regular file"}


def test_permissions_and_times_are_kept(copies, home):
    (home / "run.sh").write_text("x")
    (home / "run.sh").chmod(0o755)
    os.utime(home / "run.sh", (1000, 1000))
    status = (copies.prepare() / "run.sh").stat()
    assert stat.S_IMODE(status.st_mode) == 0o755
    assert status.st_mtime == 1000


def test_folders_that_are_excluded_are_absent(home, tmp_path):
    (home / "reports").mkdir()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    copies = WorkingCopies(home, scratch, exclude=(home / "reports",))
    assert not (copies.prepare() / "reports").exists()
    copies.close()


def test_without_room_the_error_says_what_to_do(home, tmp_path):
    copies = WorkingCopies(home, tmp_path / "scratch")
    (tmp_path / "scratch").write_text("a file in the way")
    with pytest.raises(UsageError, match="TMPDIR to another folder, or let the runs share it"):
        copies.prepare()
