"""A recording on disk: whole or refused, by name."""

import json
import os

import msgspec
import pytest

from repro_audit.errors import EvidenceError
from repro_audit.recording import breaches_of, found_streams, load_recording, same_run, save_recording, source_line
from repro_audit.records import Breach, Mode
from repro_audit.script_records import StreamEnd
from tests.sample_scripts import END, LINE, loss, observation, recorded


@pytest.fixture
def folder(tmp_path):
    made = recorded(tmp_path / "made", {"main": [loss(), END], "main/1": [observation(), END]})
    save_recording(made.recording, made.folder)
    return made.folder


def replaced(path, make):
    path.unlink()
    make(path)


def zeros_without_end(path):
    path.symlink_to("/dev/zero")


def test_what_was_saved_is_loaded_by_its_folder_or_its_file(folder):
    loaded = load_recording(folder)
    assert loaded == load_recording(folder / "recording.json")
    assert loaded.stream_names == ["main", "main/1"]
    assert [stream.observations for stream in loaded.recording.streams] == [1, 1]
    assert list(loaded.observations("main")) == [loss()]
    assert loaded.end("main") == END


def test_a_stream_that_was_cut_off_ends_there(folder):
    path = folder / "streams" / "main.jsonl"
    os.truncate(path, path.stat().st_size - 5)
    made = recorded(folder.parent / "other", {"main": [loss(), END]})
    os.truncate(made.folder / "streams" / "main.jsonl", path.stat().st_size)
    assert list(made.observations("main")) == [loss()]
    assert made.end("main") is None


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "streams" / "main.jsonl").write_text("{}\n"), "stream main .* was changed"),
        (lambda folder: (folder / "streams" / "main.1.jsonl").unlink(), "does not exist"),
        (lambda folder: (folder / "recording.json").unlink(), "does not exist"),
        (lambda folder: (folder / "recording.json").write_text("[]"), "is no recording"),
        (lambda folder: (folder / "recording.json").write_text('{"schema_version": 1}'), "is no recording"),
        (lambda folder: (folder / "recording.json").write_bytes(b"\xff\xfe"), "is no recording"),
        (lambda folder: (folder / "recording.json").write_text('{"schema_version": 99}'), "newer repro_audit"),
        (lambda folder: replaced(folder / "recording.json", os.mkfifo), "recording.json is no regular file"),
        (lambda folder: replaced(folder / "streams" / "main.jsonl", os.mkfifo), "main.jsonl is no regular file"),
        (lambda folder: replaced(folder / "streams" / "main.jsonl", zeros_without_end), "main.jsonl is no regular"),
    ],
)
def test_a_damaged_recording_is_refused_by_name(folder, damage, words):
    damage(folder)
    with pytest.raises(EvidenceError, match=words):
        load_recording(folder)


def test_a_stream_that_was_begun_and_never_written_is_no_damage(tmp_path):
    made = recorded(tmp_path / "made", {"main": [loss(), END]})
    (made.folder / "streams" / "main.1.jsonl").touch()
    found = msgspec.structs.replace(made.recording, streams=found_streams(made.folder))
    save_recording(found, made.folder)
    loaded = load_recording(made.folder)
    assert loaded.stream_names == ["main", "main/1"]
    assert list(loaded.items("main/1")) == []


def test_a_copy_is_the_same_run_and_two_killed_runs_are_not(tmp_path):
    def made(name, **fields):
        return recorded(tmp_path / name, {"main": [loss(), END]}, **fields)

    first = made("first", process=7, started="1.5")
    assert same_run(first, made("copy", process=7, started="1.5"))
    assert not same_run(first, made("other", process=7, started="2.5"))
    killed = made("killed")
    assert not same_run(killed, made("killed_too"))
    assert same_run(killed, killed)


def test_a_huge_file_is_refused_unread(folder):
    os.truncate(folder / "recording.json", 2**30)
    with pytest.raises(EvidenceError, match="too large"):
        load_recording(folder)


def test_saving_where_nothing_can_be_written_says_what_to_do(folder):
    made = load_recording(folder)
    with pytest.raises(EvidenceError, match="--output"):
        save_recording(made.recording, folder / "absent")


def test_saving_leaves_no_partial_file(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["recording.json", "streams"]
    assert json.loads((folder / "recording.json").read_text())["name"] == "made"


def test_breaches_of_strict_runs_are_told_once(tmp_path):
    breach = Breach(setting="x", expected="True", found="False", repeat=0, step=1, location=LINE)
    end = StreamEnd(strict=False, armed=True, breaches=(breach,))
    made = [
        recorded(tmp_path / name, {"main": [loss(), end], "main/1": [loss()]}, mode=mode)
        for name, mode in (("a", Mode.STRICT), ("b", Mode.STRICT), ("c", None), ("d", Mode.WARN_ONLY))
    ]
    assert list(breaches_of(made)) == [breach]
    assert list(breaches_of(made[2:])) == []


@pytest.mark.parametrize(
    ("text", "expected"), [("/a/b.py:12", ("/a/b.py", 12)), ("/a:b.py:3", ("/a:b.py", 3)), ("", None), ("x", None)]
)
def test_a_line_is_read_as_it_was_written(text, expected):
    line = source_line(text)
    assert (None if line is None else (line.path, line.line)) == expected


def test_every_item_survives_its_encoding():
    decoder = msgspec.json.Decoder(type(loss()) | StreamEnd)
    for item in (loss(), observation(), END):
        assert decoder.decode(msgspec.json.encode(item)) == item
