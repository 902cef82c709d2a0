"""The JSON Schema of evidence, from the record types; ``schemas/evidence.schema.json`` is this, published."""

from pathlib import Path
from typing import Any

import msgspec

from repro_audit.records import SCHEMA_VERSION, AuditReport
from repro_audit.script_records import ScriptReport
from repro_audit.variation_records import VariationReport

DIALECT = "https://json-schema.org/draft/2020-12/schema"

PATH = Path(__file__).with_name("schemas") / "evidence.schema.json"
"""Where the package has it."""


def evidence_schema() -> dict[str, Any]:
    """The schema of any evidence that this version writes, by the 2020-12 dialect."""
    (audit, script, variation), definitions = msgspec.json.schema_components(
        (AuditReport, ScriptReport, VariationReport), ref_template="#/$defs/{name}"
    )
    return {
        "$schema": DIALECT,
        "$id": f"urn:repro-audit:evidence:{SCHEMA_VERSION}",
        "title": "Evidence of repro-audit",
        "anyOf": [audit, script, variation],
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as the published file holds it."""
    return msgspec.json.format(msgspec.json.encode(evidence_schema()), indent=2).decode() + "\n"
