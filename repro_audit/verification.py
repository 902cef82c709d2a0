"""What an archived audit proves: a whole folder checked, offline, against itself and against trusted keys.

The archive is taken for the work of an attacker until shown otherwise: it is read and never executed, nothing in it
names a key or a file outside, and every check goes on to the end, so that all faults are told at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repro_audit.archive import RECORD_LOST, RUNS
from repro_audit.attestation import FILE_NAME as ATTESTATIONS
from repro_audit.attestation import Trust, attestation_faults, signed_by
from repro_audit.checksums import checksum_faults, file_digests
from repro_audit.errors import EvidenceError
from repro_audit.recording import FILE_NAME as RECORDING
from repro_audit.recording import Recorded, breaches_of, load_recording, without_times
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import AuditReport, Completed, Mode, Role, Run, RunRecord, States
from repro_audit.report import evidence
from repro_audit.report.evidence import Report
from repro_audit.script_records import ScriptComparison, ScriptDivergence, ScriptReport
from repro_audit.variation_records import VariationReport

MAXIMUM_RECORD_BYTES = 256 * 2**20
"""Of the record of one run."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was found of an archive."""

    report: Report | None
    """The evidence, where it can be read and does not contradict itself."""
    faults: tuple[str, ...]
    """Everything that is wrong; empty where the archive is as it was written."""
    signers: tuple[str, ...]
    """The trusted keys that signed what lies there, each in words."""
    signed: bool
    """Whether there is a signature, whoever made it."""


def verify_archive(folder: Path, trust: Trust | None) -> Verified:
    """Checks an archive.

    Args:
        trust: The key or the signers whose signature is demanded; None checks integrity alone.

    Raises:
        EvidenceError: The folder cannot be read at all, or holds what no archive does.
        UsageError: `trust` cannot be used here.
    """
    if not folder.is_dir():
        raise EvidenceError(f"{folder} is no folder. Name the archive folder of an audit.")
    try:
        digests = file_digests(folder)
        faults = list(checksum_faults(folder, digests))
    except OSError as error:
        raise EvidenceError(
            f"{error.filename or folder} cannot be read: {error.strerror or error}. Check its permissions."
        ) from error
    report: Report | None = None
    try:
        report = evidence.load(folder)
    except EvidenceError as error:
        faults.append(str(error))
    if report is not None:
        faults += _record_faults(report, folder)
        if folder.resolve().name != report.volatile.audit:
            faults.append(
                f"the archive was written as {report.volatile.audit}, and lies here as {folder.resolve().name}: an "
                "archive under another name may be an old one shown again. Give it its own name back."
            )
    signers: tuple[str, ...] = ()
    if ATTESTATIONS in digests and report is not None:
        content = (folder / ATTESTATIONS).read_bytes()
        faults += attestation_faults(content, report, digests)
        if trust is not None:
            signers, problems = signed_by(content, trust)
            faults += problems
    elif trust is not None:
        faults.append(f"it is not signed: there is no {ATTESTATIONS}" if report is not None else "no signature fits it")
    return Verified(report=report, faults=tuple(dict.fromkeys(faults)), signers=signers, signed=ATTESTATIONS in digests)


def _record_faults(report: Report, folder: Path) -> Iterator[str]:
    """What the records of the single runs say against the evidence."""
    match report:
        case AuditReport():
            yield from _run_faults(_runs_of(report), folder)
        case VariationReport() if report.script is None:
            yield from _varied_faults(report, folder)
        case ScriptReport():
            yield from _recording_faults(report, folder)
        case _:
            return


RunKey = tuple[bool, str, str, str]
"""Whether of a canary, workload, device, run."""


def _runs_of(report: AuditReport) -> Iterator[tuple[RunKey, Run, States, Mapping[str, Role]]]:
    results = [
        *((False, result) for result in report.cases),
        *((True, canary.result) for canary in report.canaries),
    ]
    for canary, result in results:
        for run in (*result.runs, *result.confirmations, *(arm.run for arm in result.arms)):
            yield (canary, result.case.workload, result.case.device, run.name), run, result.states, result.roles


def _run_faults(runs: Iterator[tuple[RunKey, Run, States, Mapping[str, Role]]], folder: Path) -> Iterator[str]:
    records, faults = _read_records(folder)
    yield from faults
    for key, run, states, roles in runs:
        name = f"run {run.name} of {'canary ' if key[0] else ''}{key[1]}/{key[2]}"
        record = records.get(key)
        if record is None:
            if not any(note.startswith(RECORD_LOST) for note in run.notes):
                yield f"{name} has no record of its own"
            continue
        if record.run != run:
            yield f"the record of {name} tells otherwise than the evidence"
        elif _needed(run) - record.states.keys():
            yield f"the record of {name} does not hold its states"
        elif any(states.get(digest) != state for digest, state in record.states.items()):
            yield f"the states in the record of {name} are others than in the evidence"
        elif any(roles.get(leaf) != role for leaf, role in record.roles.items()):
            yield f"the roles in the record of {name} are others than in the evidence"


def _needed(run: Run) -> set[str]:
    if not isinstance(run.outcome, Completed):
        return set()
    return {digest for repeat in run.outcome.repeats for digest in repeat.states}


def _read_records(folder: Path) -> tuple[dict[RunKey, RunRecord], list[str]]:
    records: dict[RunKey, RunRecord] = {}
    faults: list[str] = []
    for path in sorted((folder / RUNS).glob("*/*.json")):
        place = path.relative_to(folder)
        try:
            if path.stat().st_size > MAXIMUM_RECORD_BYTES:
                faults.append(f"{place} is too large to be the record of a run")
                continue
            record = msgspec.json.decode(path.read_bytes(), type=RunRecord, strict=True)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            faults.append(f"{place} is no record of a run: {error}")
            continue
        key = (record.canary, record.case.workload, record.case.device, record.run.name)
        if key in records:
            faults.append(f"{place} is a second record of run {record.run.name} of {record.case.workload}")
        records[key] = record
    return records, faults


def _varied_faults(report: VariationReport, folder: Path) -> Iterator[str]:
    records, faults = _read_records(folder)
    yield from faults
    for case in report.cases:
        workload, _, device = case.subject.rpartition("/")
        for run in case.runs:
            record = records.get((False, workload, device, run.name))
            if record is None:
                if RECORD_LOST not in run.note:
                    yield f"run {run.name} of {case.subject} has no record of its own"
                continue
            outcome = record.run.outcome
            digests = outcome.repeats[0].states if isinstance(outcome, Completed) and outcome.repeats else ()
            if run.result >= 0 and digests != run.digests:
                yield f"the record of run {run.name} of {case.subject} tells otherwise than the evidence"


def _recording_faults(report: ScriptReport, folder: Path) -> Iterator[str]:
    """Reads the recordings, and compares them again."""
    recorded: dict[str, Recorded] = {}
    for recording in report.recordings:
        place = folder / "recordings" / recording.name
        if place.parent != folder / "recordings":
            yield f"recording {recording.name} has a name that leads elsewhere"
            continue
        try:
            recorded[recording.name] = load_recording(place)
        except EvidenceError as error:
            yield str(error)
            continue
        if without_times(recorded[recording.name].recording) != recording:
            yield f"recordings/{recording.name}/{RECORDING} tells otherwise than the evidence"
    if len(recorded) < len(report.recordings):
        return
    try:
        for comparison in report.comparisons:
            again = compare_recordings(recorded[comparison.first], recorded[comparison.second])
            if _without_source(again) != _without_source(comparison):
                yield f"the comparison of {comparison.first} and {comparison.second} is not what the recordings give"
        strict = [one for one in recorded.values() if one.recording.mode is Mode.STRICT]
        if {(one.setting, one.found) for one in breaches_of(strict)} != {
            (one.setting, one.found) for one in report.breaches
        }:
            yield "the settings that were undone are not those in the recordings"
    except EvidenceError as error:
        yield str(error)


def _without_source(comparison: ScriptComparison) -> ScriptComparison:
    """The comparison without the text of source lines, which is there only as long as the script is."""

    def plain(divergence: ScriptDivergence) -> ScriptDivergence:
        if divergence.line is None:
            return divergence
        return msgspec.structs.replace(divergence, line=msgspec.structs.replace(divergence.line, text=""))

    return msgspec.structs.replace(
        comparison,
        divergence=plain(comparison.divergence) if comparison.divergence is not None else None,
        later=tuple(plain(one) for one in comparison.later),
    )
