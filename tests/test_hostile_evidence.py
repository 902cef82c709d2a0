"""Evidence that was made to do harm, met by every command that reads it, in a process with little memory and time."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.report.evidence import FILE_NAME
from tests.small_archive import small_archive

MEMORY_BYTES = 1 << 30
SECONDS = 60

LAUGHS = "\n".join(
    ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    + [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
)

HOSTILE = {
    "billion laughs": LAUGHS.encode(),
    "a tag that runs code": b'!!python/object/apply:os.system ["touch /tmp/owned"]\n...\n',
    "a tag on a value": b"schema_version: !!binary aGVsbG8=\n...\n",
    "a key twice": b"schema_version: 2\nschema_version: 2\n...\n",
    "NaN": b"schema_version: .nan\n...\n",
    "a float": b"schema_version: 1e3\n...\n",
    "a deep nest of lists": b"a: " + b"[" * 1_000_000,
    "a deep nest of blocks": b"\n".join(b" " * n + b"a:" for n in range(2000)),
    "a merge": b"a: &a {b: 1}\n<<: *a\n...\n",
    "many documents": b"--- {}\n" * 100_000,
    "many values": b"schema_version: 2\na: [" + b"1," * 20_000_000 + b"1]\n...\n",
    "many keys": b"".join(b"k%d: 1\n" % n for n in range(200_000)),
    "one long line": b'schema_version: "' + b"x" * (60 << 20) + b'"\n...\n',
    "more bytes than any evidence": b"#" * (100 << 20),
    "UTF-16": "schema_version: 2\n...\n".encode("utf-16"),
    "UTF-32": "schema_version: 2\n...\n".encode("utf-32"),
    "UTF-7": b"+AHMAYwBoAGUAbQBh: 2\n...\n",
    "Latin-1": "schema_version: 2 # \xe9\n...\n".encode("latin-1"),
    "a null character": b"schema_version: 2\x00\n...\n",
    "nothing": b"",
    "a list": b"- 1\n...\n",
}

COMMANDS = {
    "show": ["show", "{hostile}"],
    "verify": ["verify", "{hostile}"],
    "diff": ["diff", "{good}", "{hostile}"],
    "report": ["report", "{hostile}", "--html", "-"],
    "reproduce": ["reproduce", "{hostile}"],
}


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return small_archive(tmp_path_factory.mktemp("good"))


def run(arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "repro_audit", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=limited,
    )


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_evidence_is_refused_in_bounded_time_and_memory(kind, good, tmp_path):
    folder = tmp_path / good.name
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(HOSTILE[kind])
    (folder / SUMS).write_text("")
    names = list(COMMANDS) if kind in ("billion laughs", "a tag that runs code") else ["show", "verify"]
    for name in names:
        ended = run([word.format(hostile=folder, good=good) for word in COMMANDS[name]], tmp_path)
        assert ended.returncode == (1 if name in ("verify", "reproduce") else 2), (name, ended.stderr)
        assert len(ended.stderr + ended.stdout) < 6000
        assert "Traceback" not in ended.stderr
        assert "internal error" not in ended.stderr
        assert FILE_NAME in ended.stderr + ended.stdout
    assert not Path("/tmp/owned").exists()


def test_good_evidence_is_read_within_the_same_bounds(good, tmp_path):
    for name in ("show", "verify", "report"):
        ended = run([word.format(hostile=good, good=good) for word in COMMANDS[name]], tmp_path)
        assert ended.returncode == 0, ended.stderr
