"""One digest for what an audit found: equal for two audits that found the same thing of the same subjects.

It is taken over the evidence as plain data, less what changes from audit to audit without meaning, in canonical JSON
(RFC 8785, https://www.rfc-editor.org/rfc/rfc8785). `result_of` is what is left.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
import rfc8785

from repro_audit.variation_records import UNVARIED

Data = dict[str, Any]
"""A nest of mappings, lists, strings, booleans, integers and None, as a YAML reader gives it."""


def result_digest(evidence: Data) -> str:
    """``sha256:<hex>`` of the canonical JSON of `result_of` evidence.

    Raises:
        ValueError: A number in it is too large for canonical JSON.
    """
    return digest_of(result_of(evidence))


def has_result_digest(evidence: Data, digest: str) -> bool:
    """Whether evidence has that digest of the result.

    Canonical JSON takes a while for large evidence. As long as all is ASCII, what msgspec writes in order is the same
    text; where that has another digest, or is not ASCII, canonical JSON decides.

    Raises:
        ValueError: As for `result_digest`.
    """
    try:
        quick = msgspec.json.encode(result_of(evidence), order="sorted")
    except UnicodeEncodeError:
        quick = b"\xff"
    if quick.isascii() and digest == f"sha256:{hashlib.sha256(quick).hexdigest()}":
        return True
    return digest == result_digest(evidence)


def digest_of(value: Any) -> str:
    """``sha256:<hex>`` of the canonical JSON of a value.

    Raises:
        ValueError: As for `canonical`.
    """
    return f"sha256:{hashlib.sha256(canonical(value)).hexdigest()}"


def canonical(value: Any) -> bytes:
    """Canonical JSON of a nest of mappings, lists, strings, booleans, integers and None, by RFC 8785.

    Raises:
        ValueError: A number in it is too large for canonical JSON.
    """
    try:
        return rfc8785.dumps(_writable(value))
    except rfc8785.CanonicalizationError as error:
        raise ValueError(str(error)) from error


def result_of(evidence: Data) -> Data:
    """What was found: the evidence less what changes from audit to audit without meaning."""
    result = _without(evidence, "volatile", "result_digest", "configuration")
    if "canaries" in result:
        # One of them must give other bits each time.
        result["canaries"] = [_without(canary, "result") for canary in result["canaries"]]
    if "script_schema_version" in result:
        return _of_script(result)
    case_of = _varied_case if "variation_schema_version" in result else _case
    result["cases"] = [case_of(case) for case in result["cases"]]
    return result


def _case(case: Data) -> Data:
    """States are named by digests of all they hold; what followed a divergence, and its bits, came about by chance."""
    kept = _without(case, "states", "confirmations", "location", "factors")
    kept["runs"] = [_run(run, repeats=_agree(case)) for run in case["runs"]]
    kept["comparisons"] = _equalities(case)
    kept["arms"] = [
        {"run": _run(arm["run"], repeats=_agree(arm)), "comparisons": _equalities(arm)} for arm in case.get("arms", ())
    ]
    return kept


def _agree(compared: Data) -> bool:
    return all(comparison["divergence"] is None for comparison in compared["comparisons"])


def _equalities(compared: Data) -> list[Data]:
    return [_without(comparison, "divergence") for comparison in compared["comparisons"]]


def _run(run: Data, *, repeats: bool) -> Data:
    kept = _without(run, "notes")
    kept["outcome"] = _without(run["outcome"], "detail", *(() if repeats else ("repeats",)))
    return kept


def _varied_case(case: Data) -> Data:
    settled = all(run.get("result", 0) == 0 for run in case["runs"] if run["variation"] == UNVARIED)
    kept = dict(case)
    kept["runs"] = [
        _without(
            run,
            *("failure", "divergence", "script_divergence", "note"),
            *(() if settled and run.get("result", 0) == 0 else ("digests",)),
        )
        for run in case["runs"]
    ]
    kept["cells"] = [_without(cell, "distance", "distance_note") for cell in case["cells"]]
    return kept


def _of_script(result: Data) -> Data:
    agree = all(comparison["divergence"] is None for comparison in result["comparisons"])
    kept = _without(result, "location", "causes", "tests", "notes", "comparisons")
    kept["recordings"] = [
        {
            **{key: recording[key] for key in ("name", "mode", "alerts", "flags_start", "flags_end")},
            "outcome": _without(recording["outcome"], "detail"),
            "streams": {one["name"]: one.get("results_sha256", "") for one in recording["streams"]} if agree else {},
        }
        for recording in result["recordings"]
    ]
    return kept


def _without(data: Mapping[str, Any], *keys: str) -> Data:
    return {key: value for key, value in data.items() if key not in keys}


def _writable(value: Any) -> Any:
    """The value as it reads once it was written: a lone surrogate, which no YAML can hold, by its name."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_writable(key): _writable(item) for key, item in value.items()}
        case list() | tuple():
            return [_writable(item) for item in value]
        case _:
            return value
