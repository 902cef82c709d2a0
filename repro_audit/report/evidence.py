"""The evidence file: the report of an audit as YAML, written whole or not at all, read with suspicion."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

import msgspec

from repro_audit import __version__
from repro_audit.errors import EvidenceError
from repro_audit.records import SCHEMA_VERSION, AuditReport, Environment
from repro_audit.report.consistency import contradictions, script_contradictions, variation_contradictions
from repro_audit.report.plain import printable
from repro_audit.report.yaml_text import YamlTextError, read, write
from repro_audit.result_digest import has_result_digest, result_digest
from repro_audit.script_records import RECORDING_SCHEMA_VERSION, ScriptReport
from repro_audit.variation_records import VARIATION_SCHEMA_VERSION, VariationReport
from repro_audit.whole_files import write_whole

Report = AuditReport | ScriptReport | VariationReport

_KINDS: dict[str, tuple[type[Report], int]] = {
    "schema_version": (AuditReport, SCHEMA_VERSION),
    "script_schema_version": (ScriptReport, RECORDING_SCHEMA_VERSION),
    "variation_schema_version": (VariationReport, VARIATION_SCHEMA_VERSION),
}
"""Key of the schema's version to the record that such evidence holds, and the newest version that is known."""

DIGESTED_SINCE = 2
"""The first version of all three schemas that has a digest of the result."""

FILE_NAME = "evidence.yaml"
MAXIMUM_BYTES = 64 * 2**20

_UNDAMAGED = "Take an undamaged copy of the file that the audit wrote."


def to_yaml(record: Report | Environment) -> str:
    """A record as text; keys stand in the order of its fields."""
    version = __version__ if isinstance(record, Environment) else record.tool.get("version", "")
    what = "Environment" if isinstance(record, Environment) else "Evidence"
    comment = f"{what} of a reproducibility audit of PyTorch, written by repro-audit {_clip(version, 40)}."
    if not isinstance(record, Environment):
        comment += "\nRedraw its table with: repro-audit show PATH"
    return write(msgspec.to_builtins(record), comment)


def to_json(record: Report | Environment) -> str:
    """A record as JSON, with the same keys."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode() + "\n"


def from_yaml(text: str, name: str = "the evidence") -> Report:
    """The report that a text holds.

    Args:
        name: What to call the text in an error.

    Raises:
        EvidenceError: It is no evidence, of a schema to come, or contradicts itself.
    """

    def refused(words: str, advice: str = _UNDAMAGED) -> EvidenceError:
        return EvidenceError(f"{_clip(name, 1000)} cannot be read as evidence: {_clip(words, 400)}. {advice}")

    try:
        content = read(text)
    except YamlTextError as error:
        raise refused(str(error)) from error
    if not isinstance(content, dict):
        raise refused("it holds no mapping", "Name the evidence.yaml of an audit.")
    key = next((key for key in _KINDS if key in content), "schema_version")
    kind, known = _KINDS[key]
    version = content.get(key)
    if version is None:
        raise refused("schema_version is missing", "Name the evidence.yaml of an audit.")
    if type(version) is not int or version < 1:
        raise refused(f"{key} is no positive number")
    if version > known:
        raise refused(
            f"it has schema {version}, written by a newer repro_audit; this one reads up to {known}",
            "Update with: pip install --upgrade repro-audit",
        )
    try:
        report: Report = msgspec.convert(content, kind, strict=True)
    except msgspec.ValidationError as error:
        raise refused(str(error)) from error
    for contradiction in (*_contradictions(report), *_digest_faults(content, version, report)):
        raise refused(contradiction, "It was changed after it was written. " + _UNDAMAGED)
    return report


def _digest_faults(content: dict[str, object], version: int, report: Report) -> Iterator[str]:
    if version < DIGESTED_SINCE:
        return  # there was none
    try:
        if not has_result_digest(content, report.result_digest):
            yield f"its result has the digest {result_digest(content)}, not {report.result_digest}"
    except (ValueError, KeyError, TypeError, AttributeError):
        yield "what it found has no digest"


def _contradictions(report: Report) -> Iterator[str]:
    match report:
        case AuditReport():
            return contradictions(report)
        case ScriptReport():
            return script_contradictions(report)
        case VariationReport():
            return variation_contradictions(report)
        case _:
            assert_never(report)


def load(path: Path) -> Report:
    """The report of an archive folder, or of the evidence file itself.

    Raises:
        EvidenceError: It is absent or unreadable, too large, or as for `from_yaml`.
    """
    path = path / FILE_NAME if path.is_dir() else path
    name = _clip(str(path), 1000)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise EvidenceError(f"{name} is no regular file. Name the archive folder of an audit.")
        if status.st_size > MAXIMUM_BYTES:
            raise EvidenceError(
                f"{name} has {status.st_size} bytes, more than the {MAXIMUM_BYTES} that evidence may have. "
                "Check that it is the evidence.yaml of an audit."
            )
        with path.open("rb") as file:
            content = file.read(MAXIMUM_BYTES)
    except FileNotFoundError as error:
        raise EvidenceError(
            f"{name} does not exist. Name the archive folder of an audit that was finished, or its {FILE_NAME}."
        ) from error
    except OSError as error:
        raise EvidenceError(
            f"{name} cannot be read: {error.strerror or error}. Check that it is a file you may read."
        ) from error
    try:
        # An editor may have put a byte order mark in front.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{name} is not UTF-8 at byte {error.start}. {_UNDAMAGED}") from error
    return from_yaml(text, str(path))


def save(report: Report, folder: Path) -> Path:
    """Writes ``evidence.yaml`` into a folder; a reader sees the whole file or none.

    Returns:
        The path of the file.

    Raises:
        EvidenceError: It cannot be written; nothing is left behind.
    """
    path = folder / FILE_NAME
    try:
        write_whole(path, to_yaml(report).encode())
    except OSError as error:
        raise EvidenceError(
            f"the evidence cannot be written into {_clip(str(folder), 1000)}: {error.strerror or error}. "
            "Make room there, or name a folder that can be written with --output."
        ) from error
    return path


def _clip(text: str, characters: int) -> str:
    """Text for an error message: on one line, printable, the middle left out where it is long."""
    text = printable(text.replace("\n", " "))
    if len(text) <= characters:
        return text
    head = characters // 3
    return f"{text[:head]} ... {text[len(text) - (characters - head - 5) :]}"
