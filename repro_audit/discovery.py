"""Finds workloads and reads what they declare, with `ast`: nothing is imported, so nothing of theirs runs here."""

import difflib
import fnmatch
from collections.abc import Sequence
from pathlib import Path

from repro_audit.declaration import Declaration, NoDeclaration, read_declaration
from repro_audit.errors import WorkloadError
from repro_audit.modules import find_module
from repro_audit.records import WorkloadSource

CLASS_NAME = "Workload"
"""What the class in a workload's file is called; ``module:Class`` may call it anything."""


def bundled_folder() -> Path:
    """Where the bundled workloads are: inside the installed package, or beside it in a checkout.

    Raises:
        WorkloadError: They are in neither place.
    """
    package = Path(__file__).resolve().parent
    installed = package / "bundled_workloads"
    if installed.is_dir():
        return installed
    checkout = package.parent
    if (checkout / "workloads").is_dir() and _is_checkout(checkout):
        return checkout / "workloads"
    raise WorkloadError(f"the bundled workloads are missing from {installed}; install repro-audit again")


def _is_checkout(folder: Path) -> bool:
    """Whether a folder is this project's own: a `workloads` beside an installed package is somebody else's."""
    try:
        return b'name = "repro-audit"' in (folder / "pyproject.toml").read_bytes().splitlines()
    except OSError:
        return False


def canary_folder() -> Path:
    """Where the canaries are."""
    return Path(__file__).resolve().parent / "canaries"


def discover(
    selection: Sequence[str], workload_paths: Sequence[Path | str], bundled: Path | None = None
) -> tuple[WorkloadSource, ...]:
    """The selected workloads, in the order in which they were found.

    Args:
        selection: Names, families (a file's stem stands for all its variants), globs, or ``module:Class``, all of
            them case-sensitive. Where it is empty, all workloads of `workload_paths` are taken, or the bundled ones
            if there are no such paths.
        workload_paths: Files and folders with workloads of the user's own; names select from these and the bundled.
        bundled: Folder of the bundled workloads, if not `bundled_folder`.

    Raises:
        WorkloadError: A file is not a workload, two workloads have one name, or a name selects nothing.
    """
    own = [source for path in workload_paths for source in _discover_path(path)]
    if own and not selection:
        return _unique(own)
    if workload_paths and not own:
        places = ", ".join(str(path) for path in workload_paths)
        raise WorkloadError(
            f"no workload in {places}: a workload is a file with a class {CLASS_NAME}, and a folder is not searched "
            "for folders in it; name the file, or the folder it lies in"
        )
    found = _unique([*own, *discover_folder(bundled or bundled_folder(), bundled=True)])
    if not selection:
        return found
    chosen: dict[str, WorkloadSource] = {}
    for item in selection:
        for source in _select(item, found):
            chosen.setdefault(source.name, source)
    order = {source.name: position for position, source in enumerate(found)}
    return tuple(sorted(chosen.values(), key=lambda source: order.get(source.name, len(order))))


def discover_folder(folder: Path, *, bundled: bool) -> tuple[WorkloadSource, ...]:
    """The workloads in the files of a folder, by name; files without a class `Workload` are passed over.

    Raises:
        WorkloadError: The folder or a file cannot be read, or a file's class is not a workload.
    """
    try:
        paths = sorted(
            path
            for path in folder.iterdir()
            if path.suffix == ".py" and not path.name.startswith(("_", ".")) and not path.is_dir()
        )
    except OSError as error:
        raise WorkloadError(f"cannot read the folder {folder}: {error.strerror or error}; name another") from error
    found: list[WorkloadSource] = []
    for path in paths:
        declaration = read_declaration(path, CLASS_NAME)
        if isinstance(declaration, Declaration):
            found += _sources_of_file(path, declaration, bundled=bundled)
    # By name and not by file: `pool.py` with a variant may come after `pool-extra.py` as a file, and before it by name.
    return tuple(sorted(found, key=lambda source: source.name))


def _discover_path(path: Path | str) -> tuple[WorkloadSource, ...]:
    try:
        place = Path(path).expanduser()
        place.stat()
    except FileNotFoundError as error:
        raise WorkloadError(f"{path} does not exist; --workloads takes a file or a folder") from error
    except (OSError, RuntimeError, ValueError) as error:  # the latter two: no such user, a null character
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(f"cannot find {str(path)!r}: {reason}; --workloads takes a file or a folder") from error
    if place.is_dir():
        return discover_folder(place, bundled=False)
    if place.suffix != ".py":
        raise WorkloadError(f"{place} is no Python file: its name does not end in .py; rename it")
    declaration = read_declaration(place, CLASS_NAME)
    if isinstance(declaration, NoDeclaration):
        advice = declaration.advice or "repro_audit/workload.py says what it must offer"
        raise WorkloadError(f"{place} has no class {CLASS_NAME}; {advice}")
    return tuple(_sources_of_file(place, declaration, bundled=False))


def _sources_of_file(path: Path, declaration: Declaration, *, bundled: bool) -> list[WorkloadSource]:
    return _sources(path, declaration, name=path.stem, summary=declaration.summary, bundled=bundled)


def _sources(
    path: Path,
    declaration: Declaration,
    *,
    name: str,
    summary: str,
    module: str | None = None,
    class_name: str = CLASS_NAME,
    bundled: bool = False,
) -> list[WorkloadSource]:
    """A source for each variant, or the one of a workload without variants."""
    place = str(path.resolve())
    try:
        f"{name}{place}".encode()
    except UnicodeEncodeError as error:
        raise WorkloadError(
            f"the path {place!r} is not UTF-8, so that it cannot be written to the evidence; rename it"
        ) from error
    return [
        WorkloadSource(
            name=name if variant is None else f"{name}-{variant}",
            summary=summary,
            path=place,
            module=module,
            class_name=class_name,
            variant=variant,
            sha256=declaration.sha256,
            refused=declaration.refused_for(variant),
            dataloader_workers=declaration.dataloader_workers,
            bundled=bundled,
        )
        for variant in declaration.variants or (None,)
    ]


def _discover_module(item: str) -> Sequence[WorkloadSource]:
    """A class or function of a module: ``module:Class``, ``module:Class-variant`` or ``module:function``."""
    module, _, rest = item.partition(":")
    class_name, _, variant = rest.partition("-")
    sources = sources_of_object(module, class_name, find_module(module))
    chosen = [source for source in sources if source.variant == variant] if variant else sources
    if not chosen:
        variants = [source.variant for source in sources if source.variant is not None]
        there = f"it has {', '.join(variants)}" if variants else "it has none"
        raise WorkloadError(f"{sources[0].path}: class {class_name} has no variant {variant!r}; {there}")
    return chosen


def sources_of_object(module: str, name: str, path: Path) -> tuple[WorkloadSource, ...]:
    """A class or a function of a module, as workloads.

    Args:
        path: The file of the module, which is loaded by itself where the module is not found by its name.

    Raises:
        WorkloadError: The file defines neither of that name, or what it defines is no workload.
    """
    declaration = read_declaration(path, name, functions=True)
    if isinstance(declaration, NoDeclaration):
        advice = declaration.advice or "name the module that defines it, as module:Class or module:function"
        raise WorkloadError(f"{path} defines no class and no function {name!r}; {advice}")
    sources = _sources(
        path,
        declaration,
        name=f"{module}:{name}",
        summary=declaration.class_summary or declaration.summary,
        module=module if _finds(module, path) else None,
        class_name=name,
    )
    return tuple(sources)


def _finds(module: str, path: Path) -> bool:
    try:
        return find_module(module).resolve() == path.resolve()
    except WorkloadError:
        return False


def _unique(sources: Sequence[WorkloadSource]) -> tuple[WorkloadSource, ...]:
    """The sources, each file once.

    Raises:
        WorkloadError: Two files make workloads of one name: a verdict must not be taken for the other's.
    """
    by_name: dict[str, WorkloadSource] = {}
    for source in sources:
        other = by_name.setdefault(source.name, source)
        if other.path != source.path:
            raise WorkloadError(
                f"two workloads are named {source.name}: {other.path} and {source.path}; rename one of the files"
            )
    return tuple(by_name.values())


def _select(item: str, found: Sequence[WorkloadSource]) -> Sequence[WorkloadSource]:
    exact = [source for source in found if item in (source.name, family(source))]
    if exact:
        return exact
    if ":" in item:
        return _discover_module(item)
    if any(character in item for character in "*?["):
        if matching := [source for source in found if fnmatch.fnmatchcase(source.name, item)]:
            return matching
        raise WorkloadError(f"no workload matches {item!r}; repro-audit list shows what there is")
    raise WorkloadError(f"no workload is named {item!r}; {_hint(item, found)}")


def _hint(item: str, found: Sequence[WorkloadSource]) -> str:
    if item.endswith(".py") or "/" in item:
        return f"a file or folder is named with --workloads {item}"
    names = sorted({name for source in found for name in (source.name, family(source))})
    near = difflib.get_close_matches(item.lower(), [name.lower() for name in names], n=3)
    if close := [name for name in names if name.lower() in near]:
        return f"did you mean {' or '.join(close)}?"
    return "repro-audit list shows what there is; a class of a module is named as module:Class"


def family(source: WorkloadSource) -> str:
    """The name that all variants of a workload share."""
    return source.name if source.variant is None else source.name.removesuffix(f"-{source.variant}")
