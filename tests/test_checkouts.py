import os
import subprocess

import pytest

from repro_audit.checkouts import git_facts


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Runs git in a new checkout with one commit, which nothing of this machine's settings reaches."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    top = tmp_path / "checkout"
    (top / "deeper").mkdir(parents=True)

    def run(*arguments: str) -> str:
        named = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        try:
            done = subprocess.run(
                ["git", "-C", str(top), *named, *arguments], capture_output=True, text=True, check=True
            )
        except FileNotFoundError:
            pytest.skip("git is not installed")
        return done.stdout.strip()

    run("init", "--quiet")
    (top / "deeper" / "tracked.py").write_text("1\n")
    run("add", ".")
    return run


def test_a_checkout_is_named_by_its_commit_and_whether_files_differ_from_it(git, tmp_path):
    top = tmp_path / "checkout"
    assert git_facts([top]) == {str(top): "no commit yet (dirty)"}
    git("commit", "--quiet", "--message", "x")
    commit = git("rev-parse", "HEAD")
    assert git_facts([top / "deeper", top]) == {str(top): commit}
    (top / "new.py").write_text("2\n")
    assert git_facts([top]) == {str(top): f"{commit} (untracked files)"}
    (top / "deeper" / "tracked.py").write_text("2\n")
    assert git_facts([top]) == {str(top): f"{commit} (dirty)"}


def test_a_folder_outside_any_checkout_has_no_git_facts(git, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    assert git_facts([outside, tmp_path / "missing"]) == {}


def test_variables_of_a_git_hook_do_not_lead_elsewhere(git, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "checkout" / ".git"))
    assert git_facts([outside]) == {}


def test_a_checkout_cannot_start_a_program_by_being_looked_at(git, tmp_path):
    git("commit", "--quiet", "--message", "x")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git("config", "core.fsmonitor", str(trap))
    assert list(git_facts([tmp_path / "checkout"])) == [str(tmp_path / "checkout")]
    assert not (tmp_path / "sprung").exists()


def test_a_state_that_git_did_not_tell_is_not_called_clean(git, tmp_path):
    git("commit", "--quiet", "--message", "x")
    (tmp_path / "checkout" / ".git" / "index").write_text("damaged")
    (fact,) = git_facts([tmp_path / "checkout"]).values()
    assert fact.endswith(" (not known whether dirty)")


def test_without_git_there_are_no_git_facts(git, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_facts([tmp_path / "checkout"]) == {}


def test_a_git_that_hangs_is_given_up(tmp_path, monkeypatch):
    hanging = tmp_path / "git"
    hanging.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_facts([tmp_path], timeout_s=0.2) == {}
