import os
import time

from repro_audit.pump import HEAD_BYTES, TAIL_BYTES, Pump


def pumped(*chunks: bytes) -> tuple[bytes, int]:
    reader, writer = os.pipe()
    pump = Pump(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream:
        for chunk in chunks:
            stream.write(chunk)
    content = pump.finish(5.0)
    return content, pump.total


def test_a_short_stream_is_kept_whole():
    assert pumped(b"one ", b"two\n") == (b"one two\n", 8)


def test_an_empty_stream_is_empty():
    assert pumped() == (b"", 0)


def test_of_an_endless_stream_head_and_tail_are_kept_with_the_missing_bytes_counted():
    content, total = pumped(b"first", *[b"x" * 100_000] * 30, b"last")
    assert total == 3_000_009
    assert content.startswith(b"first")
    assert content.endswith(b"last")
    missing = total - HEAD_BYTES - TAIL_BYTES
    assert f"[... {missing} bytes left out ...]".encode() in content
    assert len(content) < HEAD_BYTES + TAIL_BYTES + 100


def test_a_stream_just_at_the_bound_loses_nothing():
    content, total = pumped(b"a" * HEAD_BYTES, b"b" * TAIL_BYTES)
    assert content == b"a" * HEAD_BYTES + b"b" * TAIL_BYTES
    assert total == len(content)


def test_a_writer_that_outlives_the_run_is_not_waited_for():
    reader, writer = os.pipe()
    pump = Pump(reader)
    os.write(writer, b"still open")
    start = time.monotonic()
    content = pump.finish(0.2)
    assert time.monotonic() - start < 5
    assert content == b"still open"
    os.close(writer)
