import subprocess

import pytest

from repro_audit.checksums import FILE_NAME, checksum_faults, file_digests, seal
from repro_audit.errors import EvidenceError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    for name in ("evidence.yaml", "logs/one.txt", "logs/deep/é.txt", "logs/line\nbreak", "logs/back\\slash"):
        (tmp_path / name).write_text(name)
    seal(tmp_path)
    return tmp_path


def told(folder):
    return list(checksum_faults(folder, file_digests(folder)))


def test_what_was_sealed_has_no_fault_and_the_common_tool_agrees(folder):
    assert told(folder) == []
    done = subprocess.run(["sha256sum", "--check", "--strict", FILE_NAME], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5


def test_sealing_again_changes_nothing_and_leaves_nothing_else(folder):
    before = (folder / FILE_NAME).read_bytes()
    seal(folder)
    assert (folder / FILE_NAME).read_bytes() == before
    assert not list(folder.rglob("*.partial"))


def test_each_kind_of_fault_is_named(folder):
    (folder / "evidence.yaml").write_text("other")
    (folder / "logs" / "one.txt").unlink()
    (folder / "new").write_text("")
    assert told(folder) == [
        "logs/one.txt is missing, which SHA256SUMS names",
        "new was added: SHA256SUMS does not name it",
        "evidence.yaml has another digest than SHA256SUMS names",
    ]


def test_a_line_twice_or_in_another_place_is_a_fault(folder):
    path = folder / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[0]]))
    assert told(folder)
    path.write_bytes(b"".join(reversed(lines)))
    assert told(folder)


def test_a_pipe_is_refused_and_not_waited_for(folder):
    import os

    os.mkfifo(folder / "pipe")
    with pytest.raises(EvidenceError, match="pipe is neither a file nor a folder"):
        file_digests(folder)
