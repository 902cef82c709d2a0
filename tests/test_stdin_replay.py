"""Every run reads the same stdin, and no more of it than it asks for."""

import os
import threading
from contextlib import suppress

import pytest

from repro_audit.stdin_replay import StdinReplay


def read_all(replay: StdinReplay) -> bytes:
    descriptor = replay.next_run()
    try:
        content = b""
        while chunk := os.read(descriptor, 1 << 16):
            content += chunk
        return content
    finally:
        os.close(descriptor)
        replay.finish_run()


@pytest.fixture
def source():
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        with suppress(OSError):
            os.close(descriptor)


@pytest.mark.parametrize("content", [b"", b"one\ntwo\n", bytes(range(256)) * 4096], ids=["empty", "lines", "large"])
def test_every_run_reads_the_same(tmp_path, content):
    path = tmp_path / "source"
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    replay = StdinReplay(tmp_path / "spool", descriptor)
    assert [read_all(replay) for _ in range(3)] == [content] * 3
    os.close(descriptor)


def test_a_run_that_stops_reading_leaves_the_rest_to_the_next(tmp_path, source):
    reader, writer = source
    replay = StdinReplay(tmp_path / "spool", reader)
    os.write(writer, b"first\n")
    descriptor = replay.next_run()
    assert os.read(descriptor, 6) == b"first\n"
    os.close(descriptor)
    replay.finish_run()
    os.write(writer, b"second\n")
    os.close(writer)
    assert read_all(replay) == b"first\nsecond\n"
    assert read_all(replay) == b"first\nsecond\n"


def test_a_run_that_does_not_read_takes_nothing_and_ends(tmp_path, source):
    reader, writer = source
    replay = StdinReplay(tmp_path / "spool", reader)
    descriptor = replay.next_run()
    os.close(descriptor)
    done = threading.Thread(target=replay.finish_run)
    done.start()
    done.join(timeout=10)
    assert not done.is_alive()
    os.write(writer, b"kept")
    assert os.read(reader, 4) == b"kept"


@pytest.mark.parametrize("nothing", ["closed", "absent", "null"])
def test_without_a_stdin_runs_read_its_end(tmp_path, nothing):
    if nothing == "null":
        descriptor = os.open(os.devnull, os.O_RDONLY)
    elif nothing == "closed":
        descriptor, writer = os.pipe()
        os.close(writer)
        os.close(descriptor)
    else:
        descriptor = None
    replay = StdinReplay(tmp_path / "spool", descriptor)
    assert read_all(replay) == b""
    assert read_all(replay) == b""
