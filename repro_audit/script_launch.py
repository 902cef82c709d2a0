"""Has a script run by an interpreter, and turns however that ended into a recording."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repro_audit import __version__
from repro_audit.errors import LaunchError
from repro_audit.interpreter import Ended, Interpreter, never_started
from repro_audit.launch import RECORD_CAP_BYTES, failure_of, out_of_memory_kills
from repro_audit.recording import Recorded, found_streams
from repro_audit.records import Failed, FailureKind, Refused
from repro_audit.script_records import RECORDING_SCHEMA_VERSION, Finished, Recording, Restart, ScriptRecord, ScriptTask


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run of a script that was made."""

    recorded: Recorded
    ended: Ended
    restart: Restart | None
    """The run was given up, because it has to be made in an interpreter that was started with these variables."""
    conditions: dict[str, str]
    """See `ScriptRecord`."""


def run_recorded(interpreter: Interpreter, task: ScriptTask, timeout_seconds: float, stdin: int | None) -> RecordedRun:
    """Makes a run; whatever becomes of it is in the result."""
    kills_before = out_of_memory_kills()
    try:
        ended = interpreter.perform(task, timeout_seconds, stdin)
    except LaunchError as error:
        ended = never_started(str(error))
    return recorded_run(task, ended, timeout_seconds, out_of_memory_kills() - kills_before, os.environ)


def recorded_run(
    task: ScriptTask, ended: Ended, timeout_seconds: float, kills: int, environ: Mapping[str, str]
) -> RecordedRun:
    """The recording of a run that has ended, however it did."""
    record = read_script_record(Path(task.record_path))
    restart: Restart | None = None
    outcome: Finished | Refused | Failed
    if isinstance(record, Failed):
        outcome = failure_of(ended, timeout_seconds, kills) or record
    elif isinstance(record.outcome, Restart):
        restart = record.outcome
        outcome = Failed(kind=FailureKind.RECORD, detail="given up to be made in another interpreter")
    else:
        outcome = record.outcome
    folder = Path(task.folder)
    recording = Recording(
        schema_version=RECORDING_SCHEMA_VERSION,
        tool={"name": "repro-audit", "version": __version__},
        name=task.run,
        script=task.script,
        mode=task.mode,
        rank=_number(environ, "RANK"),
        world_size=_number(environ, "WORLD_SIZE"),
        outcome=outcome,
        streams=found_streams(folder),
    )
    if isinstance(record, ScriptRecord):
        recording = msgspec.structs.replace(
            recording,
            alerts=record.alerts,
            flags_start=record.flags_start,
            flags_end=record.flags_end,
            schedule=record.schedule,
            files_written=record.files_written,
            files_read=record.files_read,
            notes=record.notes,
            process=record.process,
            started=record.started,
            ended=record.ended,
        )
    with suppress(OSError):
        Path(task.record_path).unlink()
    return RecordedRun(
        recorded=Recorded(recording=recording, folder=folder),
        ended=ended,
        restart=restart,
        conditions=record.conditions if isinstance(record, ScriptRecord) else {},
    )


def read_script_record(path: Path) -> ScriptRecord | Failed:
    """The record that a run of a script has left, or why there is none that can be used."""
    try:
        if path.stat().st_size > RECORD_CAP_BYTES:
            return Failed(kind=FailureKind.RECORD, detail=f"the record is larger than {RECORD_CAP_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=ScriptRecord, strict=True)
    except FileNotFoundError:
        return Failed(kind=FailureKind.EXIT, detail="the script ended the process before the run was over")
    except OSError as error:
        return Failed(kind=FailureKind.RECORD, detail=f"the record cannot be read: {error}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Failed(kind=FailureKind.RECORD, detail=f"the record is damaged: {error}")


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None
