"""What a signature is over: in-toto statements about the files of an archive, in DSSE envelopes, one a line.

Two statements are signed: the vetted predicate for test results, which other tools read, and our own, which says what
was found in how far. Their subjects are all files of the archive but the signatures and `SHA256SUMS`, so that nothing
can be dropped or slipped in without breaking them.

Sources: https://github.com/in-toto/attestation/tree/main/spec/v1,
https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md and
https://github.com/secure-systems-lab/dsse/blob/master/envelope.md
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, assert_never

import msgspec

from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.records import AuditReport, CaseResult, Refused, Verdict
from repro_audit.report.evidence import Report
from repro_audit.result_digest import canonical, digest_of
from repro_audit.script_records import ScriptReport
from repro_audit.variation_records import Effect, Expectation, VariationReport, VariedCase
from repro_audit.waivers import is_finding

FILE_NAME = "attestations.intoto.jsonl"

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
OWN_PREDICATE = "urn:repro-audit:audit:v1"
"""Raised in its last part when a reader of the previous version could misread the predicate."""

MAXIMUM_BYTES = 64 * 2**20

CONFIGURATION_NAME = "configuration"
"""Name of the descriptor whose digest is that of the effective configuration, as canonical JSON."""


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature of an envelope."""

    keyid: str
    sig: str
    """Base64."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signed statement."""

    payloadType: str
    payload: str
    """Base64 of the statement."""
    signatures: tuple[Signature, ...]


class Signer(Protocol):
    """Signs with a key that it holds."""

    @property
    def keyid(self) -> str:
        """Names the key; a hint for whoever looks for it, never a reason to trust it."""

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""


class Trust(Protocol):
    """What the reader trusts: a public key, or a list of signers."""

    @property
    def name(self) -> str:
        """What it is, for messages."""

    def signer_of(self, message: bytes, signatures: Sequence[tuple[str, bytes]]) -> str | None:
        """Who of those that are trusted signed the message; None where none did.

        Args:
            signatures: Pairs of key id and signature.
        """


class Responsible(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers for an archive, as the signer says."""

    name: str = ""
    role: str = ""


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """The bytes that DSSE has signed: ``DSSEv1``, type and payload, each with its length."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def attestations(
    report: Report, digests: Mapping[str, str], signer: Signer, responsible: Responsible, signed_at: str
) -> bytes:
    """The content of `FILE_NAME`.

    Args:
        digests: `checksums.file_digests` of the archive.
        signed_at: When, UTC, ISO 8601; the signer's own word.
    """
    lines = []
    for statement in statements(report, digests, responsible, signed_at):
        payload = canonical(statement)
        signature = signer.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
        envelope = Envelope(
            payloadType=PAYLOAD_TYPE,
            payload=base64.b64encode(payload).decode(),
            signatures=(Signature(keyid=signer.keyid, sig=base64.b64encode(signature).decode()),),
        )
        lines.append(msgspec.json.encode(envelope) + b"\n")
    return b"".join(lines)


def statements(
    report: Report, digests: Mapping[str, str], responsible: Responsible, signed_at: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two statements about an archive."""
    subject = [
        {"name": name, "digest": {"sha256": digest}}
        for name, digest in digests.items()
        if name not in (FILE_NAME, SUMS)
    ]
    head = {"_type": STATEMENT_TYPE, "subject": subject}
    return (
        {**head, "predicateType": TEST_RESULT, "predicate": test_result(report)},
        {**head, "predicateType": OWN_PREDICATE, "predicate": _own(report, responsible, signed_at)},
    )


def test_result(report: Report) -> dict[str, Any]:
    """The predicate for test results: each claim of each case as a test.

    A waived finding is a warning, and so is a refusal that is documented; ERROR and SKIP are in none of the lists of
    what passed, and an ERROR or an incomplete audit makes the whole FAILED.
    """
    tests: dict[str, list[str]] = {"passed": [], "warned": [], "failed": []}
    for name, outcome in test_outcomes(report):
        if outcome in tests:
            tests[outcome].append(name)
    whole = "PASSED" if report.summary.exit_code == 0 else "FAILED"
    return {
        "result": "WARNED" if whole == "PASSED" and tests["warned"] else whole,
        "configuration": [
            {"name": CONFIGURATION_NAME, "digest": {"sha256": configuration_digest(report).removeprefix("sha256:")}}
        ],
        "passedTests": tests["passed"],
        "warnedTests": tests["warned"],
        "failedTests": tests["failed"],
    }


def configuration_digest(report: Report) -> str:
    """``sha256:<hex>`` of the canonical JSON of settings and waivers, as the evidence holds them."""
    data = msgspec.to_builtins(report)
    return digest_of({key: data[key] for key in ("settings", "script", "waivers", "variations") if key in data})


def test_outcomes(report: Report) -> Iterator[tuple[str, str]]:
    """Test by test, named ``workload/device/claim``, ``passed``, ``warned``, ``failed`` or ``skipped``."""
    match report:
        case AuditReport():
            for result in report.cases:
                yield from _case_outcomes(result)
            for canary in report.canaries:
                yield f"canary/{canary.name}/caught", "passed" if canary.caught else "failed"
        case ScriptReport():
            outcome = _outcome(report.verdict, finding=True, waived=bool(report.waived))
            yield f"{report.settings.script.name}/script/fresh_process", outcome
            yield "canary/script/caught", "passed" if report.summary.canaries_caught else "failed"
        case VariationReport():
            for case in report.cases:
                yield from _varied_outcomes(case)
        case _:
            assert_never(report)


CLAIMS = ("strict_mode", "same_process", "fresh_process")
"""What is claimed of a case: strict mode neither refused nor was undone, repeats agree in one process and in two."""


def _case_outcomes(result: CaseResult) -> Iterator[tuple[str, str]]:
    name = result.case.name
    whole = _outcome(result.verdict, finding=is_finding(result), waived=bool(result.waivers))
    if whole in ("passed", "skipped") or not result.comparisons:
        yield from ((f"{name}/{claim}", whole) for claim in CLAIMS)
        return
    for claim in CLAIMS:
        pairs = [one for one in result.comparisons if one.pairing.value == claim]
        agree = bool(pairs) and not any(one.divergence for one in pairs)
        if claim == "strict_mode":
            undone = any(run.breaches or isinstance(run.outcome, Refused) for run in result.runs)
            agree = result.verdict is Verdict.FAIL and not undone
        yield f"{name}/{claim}", "passed" if agree else whole


def _varied_outcomes(case: VariedCase) -> Iterator[tuple[str, str]]:
    if not case.cells or case.verdict in (Verdict.ERROR, Verdict.SKIP):
        finding = not (case.verdict is Verdict.REFUSED and case.declared_refusal is not None)
        yield f"{case.subject}/unvaried", _outcome(case.verdict, finding=finding, waived=False)
        return
    for cell in case.cells:
        name = f"{case.subject}/{cell.variation}={cell.value}"
        match cell.effect:
            case Effect.SAME:
                yield name, "passed"
            case Effect.DIFFERS | Effect.FAILED:
                yield name, "failed" if cell.expectation is Expectation.MUST_NOT_MATTER else "warned"
            case Effect.NOT_JUDGED | Effect.NOT_APPLICABLE:
                yield name, "skipped"
            case _:
                assert_never(cell.effect)


def _outcome(verdict: Verdict, *, finding: bool, waived: bool) -> str:
    match verdict:
        case Verdict.PASS:
            return "passed"
        case Verdict.SKIP:
            return "skipped"
        case Verdict.ERROR:
            return "failed"
        case Verdict.FAIL | Verdict.REFUSED:
            return "warned" if waived or not finding else "failed"
        case _:
            assert_never(verdict)


def _own(report: Report, responsible: Responsible, signed_at: str) -> dict[str, Any]:
    data = msgspec.to_builtins(report)
    return {
        "audit": data["volatile"]["audit"],
        "resultDigest": report.result_digest,
        "summary": data["summary"],
        "scope": data["scope"],
        "tool": data["tool"],
        "signedAt": signed_at,
        "responsible": msgspec.to_builtins(responsible),
    }


def attestation_faults(content: bytes, report: Report, digests: Mapping[str, str]) -> Iterator[str]:
    """What the signed statements say against the archive, whoever signed them."""
    try:
        payloads = [_decoded(envelope.payload) for envelope in read_envelopes(content)]
        found = [msgspec.json.decode(payload, type=dict[str, Any]) for payload in payloads]
        own = found[1]["predicate"] if len(found) == 2 else {}
        responsible = msgspec.convert(own["responsible"], Responsible)
        expected = statements(report, digests, responsible, own["signedAt"])
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError, RecursionError) as error:
        yield f"{FILE_NAME} holds no two statements that can be read: {error}"
        return
    for payload, statement, wanted in zip(payloads, found, expected, strict=True):
        if payload == canonical(wanted):
            continue
        if statement.get("subject") != wanted["subject"]:
            yield f"{FILE_NAME} is about other files than those that lie here, or about other contents of them"
        else:
            yield f"{FILE_NAME} states otherwise than the evidence"


def signed_by(content: bytes, trust: Trust) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who of those that are trusted signed all statements, and what is wrong where nobody did."""
    names: list[str] = []
    try:
        for envelope in read_envelopes(content):
            message = pre_authentication_encoding(envelope.payloadType, _decoded(envelope.payload))
            signatures = [(one.keyid, _decoded(one.sig)) for one in envelope.signatures]
            name = trust.signer_of(message, signatures)
            if name is None:
                return (), (f"{FILE_NAME} holds no valid signature by {trust.name}",)
            names.append(name)
    except ValueError as error:
        return (), (f"{FILE_NAME} cannot be read: {error}",)
    if not names:
        return (), (f"{FILE_NAME} holds no statement",)
    return tuple(dict.fromkeys(names)), ()


def read_envelopes(content: bytes) -> list[Envelope]:
    """The envelopes of a file, line by line.

    Raises:
        ValueError: It is too large, or a line is no envelope of an in-toto statement.
    """
    if len(content) > MAXIMUM_BYTES:
        raise ValueError(f"it has more than {MAXIMUM_BYTES} bytes")
    envelopes: list[Envelope] = []
    for line in content.splitlines():
        try:
            envelopes.append(msgspec.json.decode(line, type=Envelope, strict=True))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        if envelopes[-1].payloadType != PAYLOAD_TYPE or not envelopes[-1].signatures:
            raise ValueError("it holds something that is no signed in-toto statement")
    return envelopes


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"something is no base64: {error}") from error
