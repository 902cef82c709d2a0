"""`SHA256SUMS`: the digest of every other file of an archive; written last, so that without it none is whole."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from repro_audit.errors import EvidenceError
from repro_audit.whole_files import write_whole

FILE_NAME = "SHA256SUMS"

MAXIMUM_FILES = 100_000


def file_digests(folder: Path) -> dict[str, str]:
    """Path below the folder to the SHA-256 of the file, in hex, of all files but `SHA256SUMS`; sorted.

    Raises:
        EvidenceError: There is something that is neither file nor folder, or more than `MAXIMUM_FILES`.
        OSError: A file cannot be read.
    """
    digests: dict[str, str] = {}
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if name == FILE_NAME:
            continue
        if len(digests) >= MAXIMUM_FILES:
            raise EvidenceError(f"{folder} holds more than {MAXIMUM_FILES} files; name the archive folder of one audit")
        with path.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return dict(sorted(digests.items(), key=lambda item: os.fsencode(item[0])))


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, onerror=_raise):
        for name in (*folders, *files):
            path = Path(place, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield path
            elif not stat.S_ISDIR(mode):
                raise EvidenceError(f"{path} is neither a file nor a folder; an archive holds nothing else")


def _raise(error: OSError) -> None:
    raise error


def checksum_text(digests: Mapping[str, str]) -> bytes:
    r"""The digests as GNU ``sha256sum --check`` reads them, which wants ``\`` and line breaks in names escaped.

    Source: https://www.gnu.org/software/coreutils/manual/html_node/cksum-output-modes.html
    """
    lines = []
    for name, digest in digests.items():
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{'' if escaped == name else chr(92)}{digest}  {escaped}\n")
    return os.fsencode("".join(lines))


def seal(folder: Path) -> Path:
    """Writes `SHA256SUMS` over all that lies in the folder.

    Raises:
        EvidenceError: As for `file_digests`.
        OSError: It cannot be written.
    """
    path = folder / FILE_NAME
    write_whole(path, checksum_text(file_digests(folder)))
    return path


def checksum_faults(folder: Path, digests: Mapping[str, str]) -> Iterator[str]:
    """What `SHA256SUMS` and the files of the folder say against each other.

    Args:
        digests: `file_digests` of the folder.

    Raises:
        OSError: `SHA256SUMS` cannot be read.
    """
    path = folder / FILE_NAME
    if not path.is_file():
        yield f"{FILE_NAME} is missing: the audit was cut off before its archive was whole, or the file was removed"
        return
    with path.open("rb") as file:
        content = file.read(MAXIMUM_FILES * 512)
    if content == checksum_text(digests):
        return
    recorded: dict[str, str] = {}
    for line in os.fsdecode(content).split("\n"):
        digest, _, name = line.removeprefix("\\").partition("  ")
        if name:
            recorded[_unescaped(name) if line.startswith("\\") else name] = digest
    yield from (f"{name} is missing, which {FILE_NAME} names" for name in recorded if name not in digests)
    yield from (f"{name} was added: {FILE_NAME} does not name it" for name in digests if name not in recorded)
    changed = [name for name, digest in digests.items() if recorded.get(name, digest) != digest]
    yield from (f"{name} has another digest than {FILE_NAME} names" for name in changed)
    if recorded == digests:
        yield f"{FILE_NAME} is not as it was written"


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), name)
