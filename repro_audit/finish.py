"""Makes evidence of what an audit found: applies waivers, states the scope, takes the digest of the result."""

from collections.abc import Sequence
from typing import TypeVar, assert_never

import msgspec

from repro_audit.canary import CANARIES
from repro_audit.records import AuditReport, Configuration, Waiver
from repro_audit.result_digest import result_digest
from repro_audit.scope import audit_scope, script_scope, variation_scope
from repro_audit.script_records import ScriptReport
from repro_audit.script_verdict import summarize_script
from repro_audit.variation_records import VariationReport
from repro_audit.verdict import is_inventory, summarize
from repro_audit.waivers import case_waivers, day_of, script_waivers

ReportType = TypeVar("ReportType", AuditReport, ScriptReport, VariationReport)


def finish(
    report: ReportType, configuration: Configuration | None = None, waivers: Sequence[Waiver] = ()
) -> ReportType:
    """The report as evidence.

    Args:
        configuration: What the audit was configured with; None where nobody could.
        waivers: Accepted findings; a `vary` has none.
    """
    report = msgspec.structs.replace(report, configuration=configuration)
    match report:
        case AuditReport():
            report = _waived(report, tuple(waivers))
        case ScriptReport():
            report = _waived_script(report, tuple(waivers))
        case VariationReport():
            report = msgspec.structs.replace(report, scope=variation_scope())
        case _:
            assert_never(report)
    return msgspec.structs.replace(report, result_digest=result_digest(msgspec.to_builtins(report)))


def _waived(report: AuditReport, waivers: tuple[Waiver, ...]) -> AuditReport:
    day = day_of(report.volatile.started)
    cases = tuple(
        msgspec.structs.replace(result, waivers=case_waivers(result, waivers, day)) for result in report.cases
    )
    summary = report.summary
    if not is_inventory(report.settings):
        summary = summarize(cases, report.canaries, complete=summary.complete, canaries_expected=len(CANARIES))
    return msgspec.structs.replace(
        report,
        cases=cases,
        summary=summary,
        waivers=waivers,
        scope=audit_scope(report.settings, {result.verdict for result in cases}),
    )


def _waived_script(report: ScriptReport, waivers: tuple[Waiver, ...]) -> ScriptReport:
    waived = script_waivers(report, waivers, day_of(report.volatile.started))
    summary = summarize_script(
        report.verdict,
        report.reason,
        complete=report.summary.complete,
        canary_caught=report.summary.canaries_caught,
        waived=bool(waived),
    )
    return msgspec.structs.replace(report, waived=waived, waivers=waivers, summary=summary, scope=script_scope())
