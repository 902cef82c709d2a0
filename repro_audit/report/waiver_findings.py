"""What became of the waivers, in words: each finding they accept keeps its place, and so does who accepted it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

import msgspec

from repro_audit.records import Waiver
from repro_audit.report.finding import Finding, Level
from repro_audit.waivers import has_expired, matches


def waived_findings(findings: Iterable[Finding], waivers: Sequence[Waiver]) -> Iterator[Finding]:
    """The findings of a case, those that fail an audit marked as waived, with whose word that rests on."""
    words = tuple(f"waived by {one.who} until {one.until} ({one.op}): {one.reason}" for one in waivers)
    for finding in findings:
        if waivers and finding.level is Level.FINDING:
            finding = msgspec.structs.replace(finding, level=Level.WAIVED, lines=(*words, *finding.lines))
        yield finding


def idle_waivers(
    waivers: Sequence[Waiver], used: Iterable[Waiver], subjects: Sequence[tuple[str, str]], day: date
) -> Iterator[Finding]:
    """Waivers that accept nothing: expired ones of something that was audited, and those that found nothing to accept.

    Args:
        used: Those that accept a finding.
        subjects: Workload and device of each case that was audited.
        day: That of the audit.
    """
    accepting = set(used)
    for waiver in waivers:
        if waiver in accepting or not any(matches(waiver, *subject) for subject in subjects):
            continue
        name = f"waiver of {waiver.op} in {waiver.workload} on {waiver.device}, by {waiver.who}"
        if has_expired(waiver, day):
            yield Finding(
                level=Level.NOTE,
                title=f"{name}: expired after {waiver.until}",
                next_step="mend what it was for, or decide anew",
            )
        else:
            yield Finding(
                level=Level.NOTE,
                title=f"{name}: it accepts nothing here",
                next_step="remove it where the finding is gone; a finding is waived only where all of it is accepted",
            )
