"""``repro-audit verify``, ``sign`` and ``keygen``: what an archive proves, and to whom."""

import gc
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from repro_audit.attestation import FILE_NAME as ATTESTATIONS
from repro_audit.attestation import Responsible, Signer, Trust, attestations
from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.checksums import file_digests, seal
from repro_audit.errors import EvidenceError, UsageError
from repro_audit.exit_codes import ExitCode
from repro_audit.report.evidence import FILE_NAME as EVIDENCE
from repro_audit.report.evidence import Report
from repro_audit.report.plain import printable
from repro_audit.verification import Verified, verify_archive
from repro_audit.whole_files import remove_partial, write_whole


def verify(arguments: Namespace) -> int:
    """Checks an archive and says what holds."""
    gc.disable()  # as for `show`
    folder = archive_folder(arguments.path)
    trust = trusted(arguments, folder)
    verified = verify_archive(folder, trust)
    for line in verified_lines(verified, folder, trust):
        print(printable(line))
    return ExitCode.FINDING if verified.faults else ExitCode.VERIFIED


def trusted(arguments: Namespace, folder: Path) -> Trust | None:
    """Whom the command line trusts."""
    if arguments.key is not None:
        from repro_audit.signing import load_public_key

        return load_public_key(arguments.key, folder)
    if arguments.allowed_signers is not None:
        from repro_audit.signing import load_allowed_signers

        return load_allowed_signers(arguments.allowed_signers, folder)
    return None


def archive_folder(path: Path) -> Path:
    """The folder of an archive that was named by itself, or by its evidence.

    Raises:
        EvidenceError: There is none.
    """
    folder = path.parent if path.name == EVIDENCE and not path.is_dir() else path
    if not folder.is_dir():
        raise EvidenceError(f"{path} does not exist. Name the archive folder of an audit.")
    return folder


def verified_lines(verified: Verified, folder: Path, trust: Trust | None) -> list[str]:
    """What to tell of an archive."""
    if verified.faults:
        return [f"NOT VERIFIED: {folder}", *(f"  {fault}" for fault in verified.faults)]
    report = verified.report
    assert report is not None, "evidence that cannot be read is a fault"
    lines = [
        f"verified: {folder}",
        "  files:      all are there, and each is as SHA256SUMS says",
        "  evidence:   follows its schema; verdicts, summary and digest of the result follow from the recorded digests",
        f"  result:     {report.summary.statement} (exit code {report.summary.exit_code})",
        f"  digest:     {report.result_digest or 'none: evidence of schema 1'}",
    ]
    if trust is not None:
        lines.append(f"  signature:  valid, by {'; '.join(verified.signers)}")
    else:
        signed = (
            "a signature is there, but no key was given to check it with" if verified.signed else "it is not signed"
        )
        lines.append(f"  signature:  integrity only: {signed}; whoever can write here can have written all of it")
    return lines


def sign(arguments: Namespace) -> int:
    """Signs an archive that is whole."""
    folder = archive_folder(arguments.path)
    from repro_audit.signing import load_signer

    path = sign_archive(
        folder, load_signer(arguments.key), Responsible(name=arguments.responsible, role=arguments.role)
    )
    print(f"signed: {path}")
    return ExitCode.VERIFIED


def sign_archive(folder: Path, signer: Signer, responsible: Responsible, report: Report | None = None) -> Path:
    """Writes the signed statements about an archive, and seals it again.

    Args:
        report: The evidence, where it was written just now; else the archive is verified before.

    Returns:
        The path of the statements.

    Raises:
        EvidenceError: The archive is not as it was written: nobody should put a name to it.
        UsageError: The key cannot be used, or the archive cannot be written.
    """
    if report is None:
        try:
            for name in (ATTESTATIONS, SUMS):  # a kill while this archive was signed before is no reason not to sign
                remove_partial(folder / name)
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {error.strerror or error}; check permissions") from error
        verified = verify_archive(folder, None)
        # A signature that was cut off, or is to be replaced, is no reason not to sign.
        faults = [fault for fault in verified.faults if not fault.startswith(ATTESTATIONS)]
        if faults or verified.report is None:
            raise EvidenceError(f"{folder} cannot be signed: {'; '.join(faults)}")
        report = verified.report
    if report.scope is None:
        raise EvidenceError(f"{folder} holds evidence of schema 1, which cannot be signed. Audit again.")
    digests = file_digests(folder)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    content = attestations(report, digests, signer, responsible, moment)
    try:
        write_whole(folder / ATTESTATIONS, content)
        seal(folder)
    except OSError as error:
        raise UsageError(
            f"the signature cannot be written into {folder}: {error.strerror or error}; make room, or check permissions"
        ) from error
    return folder / ATTESTATIONS


def keygen(arguments: Namespace) -> int:
    """Writes a key pair."""
    from repro_audit.signing import write_key_pair

    public, keyid = write_key_pair(arguments.path)
    print(f"private key: {arguments.path} (keep it to yourself)\npublic key:  {public}\nkey id:      {keyid}")
    return ExitCode.VERIFIED
