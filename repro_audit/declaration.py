"""Reads what a workload's file declares, from its syntax alone."""

import ast
import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from repro_audit.errors import WorkloadError

FILE_CAP_BYTES = 1 << 20
"""No workload is longer; whatever is, was named by mistake."""

METHODS = ("setup", "step", "state")


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What the parent has to know of a workload before it runs."""

    summary: str
    """First line of the file's docstring."""
    class_summary: str
    sha256: str
    variants: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    """Device type to the source, for all variants."""
    refused_variants: dict[str, dict[str, str]] = field(default_factory=dict)

    def refused_for(self, variant: str | None) -> dict[str, str]:
        """Device type to the source that documents strict mode's refusal of this variant there."""
        return {**self.refused, **(self.refused_variants.get(variant, {}) if variant else {})}


def read_declaration(path: Path, class_name: str) -> Declaration | None:
    """What the class of that name in a file declares; None where the file has no such class.

    Raises:
        WorkloadError: The file cannot be read or parsed, or what it declares is not as `repro_audit.workload` says.
    """
    content = _content(path)
    try:
        tree = ast.parse(content, filename=str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise WorkloadError(f"{path}{f':{line}' if line else ''} is not valid Python: {error}") from error
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    if not found:
        return None
    node = found[-1]  # as importing it would: a later definition replaces an earlier one
    _require_methods(path, node)
    variants = _variants(path, node)
    refused, refused_variants = _refused(path, node, variants)
    return Declaration(
        summary=_first_line(ast.get_docstring(tree)),
        class_summary=_first_line(ast.get_docstring(node)),
        sha256=f"sha256:{hashlib.sha256(content).hexdigest()}",
        variants=variants,
        refused=refused,
        refused_variants=refused_variants,
    )


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(FILE_CAP_BYTES + 1)
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror or error}") from error
    if len(content) > FILE_CAP_BYTES:
        raise WorkloadError(f"{path} is larger than {FILE_CAP_BYTES} bytes; a workload is a short Python file")
    return content


def _first_line(docstring: str | None) -> str:
    return docstring.strip().partition("\n")[0].strip() if docstring else ""


def _require_methods(path: Path, node: ast.ClassDef) -> None:
    if node.bases:
        return  # they may come from there
    defined = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
    if missing := [method for method in METHODS if method not in defined]:
        raise WorkloadError(
            f"{path}:{node.lineno}: class {node.name} has no method {' and no '.join(missing)}; "
            "a workload offers setup(device), step() and state()"
        )


def _literal(path: Path, node: ast.ClassDef, name: str) -> tuple[object, int] | None:
    for item in node.body:
        targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = getattr(item, "value", None)
            try:
                return ast.literal_eval(value) if value is not None else None, item.lineno
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                raise WorkloadError(
                    f"{path}:{item.lineno}: {name} is read without importing the file, so it must be a literal"
                ) from None
    return None


def _variants(path: Path, node: ast.ClassDef) -> tuple[str, ...]:
    declared = _literal(path, node, "variants")
    if declared is None:
        return ()
    value, line = declared
    if (
        not isinstance(value, tuple | list)
        or not value
        or not all(isinstance(word, str) and re.fullmatch(r"[A-Za-z0-9_.]+", word) for word in value)
    ):
        raise WorkloadError(
            f"{path}:{line}: variants must be a tuple of words of letters, digits, dots and underscores"
        )
    if len(set(value)) < len(value):
        raise WorkloadError(f"{path}:{line}: a variant is named twice in {value}")
    return tuple(value)


def _refused(
    path: Path, node: ast.ClassDef, variants: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Refusals for all variants, and those by variant."""
    declared = _literal(path, node, "refused")
    if declared is None:
        return {}, {}
    value, line = declared
    if _is_refusal(value):
        return dict(value), {}  # type: ignore[call-overload]
    if isinstance(value, dict) and all(word in variants and _is_refusal(entry) for word, entry in value.items()):
        return {}, value
    raise WorkloadError(
        f"{path}:{line}: refused must map a device type, cpu or cuda, to the source that documents the refusal, "
        "or a variant to such a mapping"
    )


def _is_refusal(value: object) -> bool:
    return isinstance(value, dict) and all(
        key in ("cpu", "cuda") and isinstance(source, str) and source for key, source in value.items()
    )
