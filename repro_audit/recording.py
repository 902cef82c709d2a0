"""A recording in a folder: written whole, read with suspicion, its streams line by line."""

import hashlib
import linecache
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repro_audit.digests import ALGORITHM, state_digest
from repro_audit.errors import EvidenceError
from repro_audit.records import Breach, Mode, SourceLine
from repro_audit.script_records import (
    MAIN_STREAM,
    RECORDING_SCHEMA_VERSION,
    THREADS_SUFFIX,
    Observation,
    Point,
    Recording,
    Stream,
    StreamEnd,
    StreamItem,
    stream_decoder,
)
from repro_audit.whole_files import write_whole

FILE_NAME = "recording.json"
STREAMS = "streams"
SUFFIX = ".jsonl"
MAXIMUM_BYTES = 64 * 2**20
"""Of ``recording.json``."""
LINE_LIMIT = 64 * 2**20
"""Of one line of a stream."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recording and the folder that holds its streams."""

    recording: Recording
    folder: Path

    @property
    def stream_names(self) -> list[str]:
        """Its streams, the main one first."""
        return [stream.name for stream in self.recording.streams]

    def items(self, stream: str) -> Iterator[StreamItem]:
        """The items of a stream, one after the other; a line that was cut off ends it.

        Raises:
            EvidenceError: The stream is absent, or damaged before its last line.
        """
        return read_stream(stream_path(self.folder, stream))

    def observations(self, stream: str) -> Iterator[Observation]:
        """What two runs have to agree on, in order."""
        return (item for item in self.items(stream) if isinstance(item, Observation) and item.point.is_compared)

    def remarks(self) -> Iterator[tuple[str, Observation]]:
        """Stream and observation of everything that explains and is not compared."""
        for name in self.stream_names:
            for item in self.items(name):
                if isinstance(item, Observation) and not item.point.is_compared:
                    yield name, item

    def end(self, stream: str) -> StreamEnd | None:
        """How a stream ended; None where it was cut off."""
        return next((item for item in self.items(stream) if isinstance(item, StreamEnd)), None)


def stream_path(folder: Path, name: str) -> Path:
    """Where a recording keeps a stream."""
    return folder / STREAMS / f"{name.replace('/', '.')}{SUFFIX}"


def read_stream(path: Path) -> Iterator[StreamItem]:
    """See `Recorded.items`."""
    decoder = stream_decoder()
    try:
        with path.open("rb") as file:
            while line := file.readline(LINE_LIMIT):
                try:
                    yield decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    if not line.endswith(b"\n") and not file.read(1):
                        return  # the process was killed while it wrote
                    raise EvidenceError(
                        f"{path} is damaged: {error}. Take an undamaged copy of the recording."
                    ) from error
    except OSError as error:
        raise EvidenceError(f"{path} cannot be read: {error.strerror or error}. Name a whole recording.") from error


def found_streams(folder: Path) -> tuple[Stream, ...]:
    """The streams that a run has left in a folder, the main one first, then in the order of their names."""
    streams: list[Stream] = []
    for path in sorted((folder / STREAMS).glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX).replace(".", "/")
        count = 0
        results = hashlib.sha256()
        for item in read_stream(path):
            if isinstance(item, Observation) and item.point.is_compared:
                count += 1
                if item.point in (Point.LOSS, Point.SAVE, Point.FINAL):
                    results.update(f"{item.point.value} {state_digest(item.leaves)}\n".encode())
        ordered = not name.endswith(THREADS_SUFFIX)
        streams.append(
            Stream(
                name=name,
                observations=count,
                sha256=_digest(path),
                results_sha256=f"{ALGORITHM}:{results.hexdigest()}" if ordered else "",
            )
        )
    return tuple(sorted(streams, key=lambda stream: (stream.name != MAIN_STREAM, stream.name)))


def _regular_size(path: Path) -> int:
    """The size of a file in bytes; a pipe or a device has none, and may have no end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise EvidenceError(f"{path} is no regular file. Name the folder that `record` wrote.")
    return status.st_size


def _digest(path: Path) -> str:
    _regular_size(path)
    with path.open("rb") as file:
        return f"{ALGORITHM}:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def save_recording(recording: Recording, folder: Path) -> Path:
    """Writes ``recording.json`` beside its streams; a reader sees the whole file or none.

    Raises:
        EvidenceError: It cannot be written.
    """
    path = folder / FILE_NAME
    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(recording), indent=1) + b"\n")
    except OSError as error:
        raise EvidenceError(
            f"the recording cannot be written into {folder}: {error.strerror or error}. Make room there, or name "
            "a folder that can be written with --output."
        ) from error
    return path


def load_recording(path: Path) -> Recorded:
    """A recording, by its folder or by its ``recording.json``; its streams are checked against their digests.

    Raises:
        EvidenceError: It is absent, damaged, or of a schema to come.
    """
    folder = path.parent if path.name == FILE_NAME else path
    file = folder / FILE_NAME
    try:
        if _regular_size(file) > MAXIMUM_BYTES:
            raise EvidenceError(f"{file} is too large to be a recording. Name the folder that `record` wrote.")
        content = file.read_bytes()
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version > RECORDING_SCHEMA_VERSION:
            raise EvidenceError(
                f"{file} has schema {version}, written by a newer repro_audit. "
                "Update with: pip install --upgrade repro-audit"
            )
        recording = msgspec.json.decode(content, type=Recording, strict=True)
        for stream in recording.streams:
            if _digest(stream_path(folder, stream.name)) != stream.sha256:
                raise EvidenceError(
                    f"stream {stream.name} of {folder} was changed after it was written. Take an undamaged copy."
                )
    except FileNotFoundError as error:
        raise EvidenceError(
            f"{error.filename} does not exist. Name the folder that `repro-audit record` wrote."
        ) from error
    except OSError as error:
        raise EvidenceError(f"{file} cannot be read: {error.strerror or error}. Check its permissions.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{file} is no recording: {error}. Name the folder that `record` wrote.") from error
    return Recorded(recording=recording, folder=folder)


def without_times(recording: Recording) -> Recording:
    """A recording as a report holds it, which keeps what is volatile in a place of its own."""
    return msgspec.structs.replace(recording, process=0, started="", ended="")


def same_run(first: Recorded, second: Recorded) -> bool:
    """Whether two recordings are one, or copies of one; of runs that were killed, copies cannot be told."""
    one, other = first.recording, second.recording
    copied = bool(one.started) and (one.process, one.started) == (other.process, other.started)
    return copied or first.folder.resolve() == second.folder.resolve()


class _Version(msgspec.Struct):
    schema_version: int


def source_line(text: str) -> SourceLine | None:
    """A line as a stream names it, ``path:number``, with its source where that can be read."""
    path, _, number = text.rpartition(":")
    if not path or not number.isdigit():
        return None
    return SourceLine(path=path, line=int(number), text=linecache.getline(path, int(number)).strip())


def breaches_of(recorded: Sequence[Recorded]) -> Iterator[Breach]:
    """What strict runs undid of the settings they were given, each once."""
    seen: set[tuple[str, str, object]] = set()
    for one in recorded:
        if one.recording.mode is not Mode.STRICT:
            continue
        for name in one.stream_names:
            try:
                end = one.end(name)
            except EvidenceError:
                continue
            for breach in end.breaches if end is not None else ():
                key = breach.setting, breach.found, breach.location
                if key not in seen:
                    seen.add(key)
                    yield breach
