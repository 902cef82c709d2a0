"""Reads what a workload's file declares, from its syntax alone."""

import ast
import contextlib
import difflib
import hashlib
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repro_audit.errors import WorkloadError
from repro_audit.wording import encodable

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
    dataloader_workers: int | None = None

    def refused_for(self, variant: str | None) -> dict[str, str]:
        """Device type to the source that documents strict mode's refusal of this variant there."""
        return {**self.refused, **(self.refused_variants.get(variant, {}) if variant else {})}


@dataclass(frozen=True, kw_only=True)
class NoDeclaration:
    """A file that can be read and does not define the class."""

    advice: str
    """What may have been meant; empty where nothing is near."""


def read_declaration(path: Path, class_name: str, *, functions: bool = False) -> Declaration | NoDeclaration:
    """What the class of that name in a file declares. The file is read once, at most `FILE_CAP_BYTES` of it.

    Args:
        functions: A function of that name is a workload, too.

    Raises:
        WorkloadError: The file cannot be read or parsed, or what it declares is not as `repro_audit.workload` says.
    """
    content = _content(path)
    tree = _parse(path, content)
    wanted = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef) if functions else (ast.ClassDef,)
    found = [
        statement
        for statement in _statements(tree.body)
        if isinstance(statement, wanted) and statement.name == class_name
    ]
    if not found:
        return NoDeclaration(advice=_advice(tree, class_name))
    if len(found) > 1:
        kind = "" if functions else "class "
        raise WorkloadError(
            f"{path}:{found[1].lineno}: {kind}{class_name} is defined a second time, so which one would run cannot be "
            "told without running the file; keep one"
        )
    node = found[0]
    sha256 = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if not isinstance(node, ast.ClassDef):
        _require_callable(path, node)
        return Declaration(summary=_first_line(tree), class_summary=_first_line(node), sha256=sha256)
    _require_methods(path, node)
    variants = _variants(path, node)
    refused, refused_variants = _refused(path, node, variants)
    return Declaration(
        summary=_first_line(tree),
        class_summary=_first_line(node),
        sha256=sha256,
        variants=variants,
        refused=refused,
        refused_variants=refused_variants,
        dataloader_workers=_dataloader_workers(path, node),
    )


def _content(path: Path) -> bytes:
    try:
        # Opening a pipe would wait for its other end for ever, and what it gives cannot be read again by the runs.
        if not stat.S_ISREG(path.stat().st_mode):
            raise WorkloadError(f"{path} is not a regular file; name a Python file, or a folder of them")
        with path.open("rb") as stream:
            content = stream.read(FILE_CAP_BYTES + 1)
    except OSError as error:
        raise WorkloadError(
            f"cannot read {path}: {error.strerror or error}; correct the path or its permissions"
        ) from error
    if len(content) > FILE_CAP_BYTES:
        raise WorkloadError(
            f"{path} is larger than {FILE_CAP_BYTES} bytes; a workload is a short Python file, "
            "keep data and generated code in files beside it"
        )
    return content


def _parse(path: Path, content: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a stray backslash is the author's business, and no error here under -W
            return ast.parse(content, filename=str(path))
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else str(path)
        raise WorkloadError(f"{where} is not valid Python: {error.msg}; correct it, or move the file away") from error
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "its expressions are nested too deeply"
        raise WorkloadError(f"{path} is not valid Python: {reason}; correct it, or move the file away") from error


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the body does, in order: those under `if`, `try` and the like too."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(reversed([child for child in ast.iter_child_nodes(node) if _holds_statements(child)]))


def _holds_statements(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case)


def _bindings(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Every name that running the body binds, with the statement that does."""
    for statement in _statements(body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, statement
            continue
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            continue  # an annotation alone binds nothing
        for child in ast.iter_child_nodes(statement):
            for part in () if _holds_statements(child) else ast.walk(child):
                match part:
                    case ast.Name(id=name, ctx=ast.Store()):
                        yield name, statement
                    case ast.alias(name=name, asname=other):
                        yield other or name, statement


def _advice(tree: ast.Module, class_name: str) -> str:
    for name, statement in _bindings(tree.body):
        if name == class_name and isinstance(statement, ast.ImportFrom):
            origin = f"{'.' * statement.level}{statement.module or ''}"
            return f"it imports {class_name} from {origin}: name the file or the module that defines it"
    classes = [name for name, statement in _bindings(tree.body) if isinstance(statement, ast.ClassDef)]
    close = difflib.get_close_matches(class_name.lower(), [name.lower() for name in classes], n=1)
    return next((f"did you mean its class {name}?" for name in classes if [name.lower()] == close), "")


def _first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = (ast.get_docstring(node) or "").strip().partition("\n")[0].strip()
    # A lone surrogate in a docstring cannot be written to the evidence.
    return encodable(first)


def _require_methods(path: Path, node: ast.ClassDef) -> None:
    if node.bases or node.keywords:
        return  # they may come from there
    bound = {name for name, _ in _bindings(node.body)}
    if missing := [method for method in METHODS if method not in bound]:
        raise WorkloadError(
            f"{path}:{node.lineno}: class {node.name} has no method {' and no '.join(missing)}; "
            "a workload offers setup(device), step() and state()"
        )


def _require_callable(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    place = f"{path}:{node.lineno}: function {node.name}"
    if isinstance(node, ast.AsyncFunctionDef):
        raise WorkloadError(f"{place} is a coroutine, which nothing would await; audit a function that runs it")
    needed = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
    if needed > 1 or None in node.args.kw_defaults:
        raise WorkloadError(
            f"{place} asks for more than the device; audit a function that takes the device, or nothing"
        )


def _literal(path: Path, node: ast.ClassDef, name: str) -> tuple[object, int] | None:
    """The value of a class attribute and its line; None where the class does not have it."""
    binding = [statement for bound, statement in _bindings(node.body) if bound == name]
    if not binding:
        return None
    statement = binding[0]
    if len(binding) == 1 and statement in node.body and (value := _assigned(statement)) is not None:
        # What is no literal ends in the error below, which says what it must be.
        with contextlib.suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(value), statement.lineno
    raise WorkloadError(
        f"{path}:{binding[-1].lineno}: {name} is read without importing the file, so the class must assign it once, "
        "as a literal"
    )


def _assigned(statement: ast.stmt) -> ast.expr | None:
    """The right side of an assignment to one name."""
    match statement:
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign():
            return statement.value
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
    if twice := sorted({word for word in value if value.count(word) > 1}):
        raise WorkloadError(f"{path}:{line}: variant {' and '.join(twice)} is named twice; name each once")
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
    if isinstance(value, dict) and all(isinstance(word, str) and _is_refusal(entry) for word, entry in value.items()):
        if unknown := [word for word in value if word not in variants]:
            raise WorkloadError(f"{path}:{line}: refused names {unknown[0]!r}, which is no variant; correct it")
        return {}, value
    raise WorkloadError(
        f"{path}:{line}: refused must map a device type, cpu or cuda, to the source that documents the refusal, "
        "or a variant to such a mapping"
    )


def _dataloader_workers(path: Path, node: ast.ClassDef) -> int | None:
    declared = _literal(path, node, "dataloader_workers")
    if declared is None:
        return None
    value, line = declared
    if type(value) is not int or value < 0:
        raise WorkloadError(f"{path}:{line}: dataloader_workers must be a whole number of at least 0")
    return value


def _is_refusal(value: object) -> bool:
    # A source is one line of text: it is shown in the report.
    return isinstance(value, dict) and all(
        key in ("cpu", "cuda") and isinstance(source, str) and source and source.isprintable()
        for key, source in value.items()
    )
