"""Finds workloads and reads what they declare, with `ast`: nothing is imported, so nothing of theirs runs here."""

import difflib
import fnmatch
from collections.abc import Sequence
from pathlib import Path

from repro_audit.declaration import read_declaration
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
    # A folder of that name beside an installed package is somebody else's.
    if (checkout / "workloads").is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout / "workloads"
    raise WorkloadError(f"the bundled workloads are missing from {installed}; install repro-audit again")


def canary_folder() -> Path:
    """Where the canaries are."""
    return Path(__file__).resolve().parent / "canaries"


def discover(selection: Sequence[str], workload_paths: Sequence[Path]) -> tuple[WorkloadSource, ...]:
    """The selected workloads, in the order in which they were found.

    Args:
        selection: Names, families (a file's stem stands for all its variants), globs, or ``module:Class``. Where it
            is empty, all workloads of `workload_paths` are taken, or the bundled ones if there are no such paths.
        workload_paths: Files and folders with workloads of the user's own; names select from these and the bundled.

    Raises:
        WorkloadError: A file is not a workload, two workloads have one name, or a name selects nothing.
    """
    own = [source for path in workload_paths for source in _discover_path(Path(path).expanduser())]
    if own and not selection:
        return _unique(own)
    if workload_paths and not own:
        places = ", ".join(str(path) for path in workload_paths)
        raise WorkloadError(f"no workload in {places}: a workload is a file with a class {CLASS_NAME}")
    found = _unique([*own, *discover_folder(bundled_folder(), bundled=True)])
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
            path for path in folder.iterdir() if path.suffix == ".py" and not path.name.startswith(("_", "."))
        )
    except OSError as error:
        raise WorkloadError(f"cannot read the folder {folder}: {error.strerror or error}") from error
    return tuple(source for path in paths for source in _discover_file(path, bundled=bundled, required=False))


def _discover_path(path: Path) -> tuple[WorkloadSource, ...]:
    if path.is_dir():
        return discover_folder(path, bundled=False)
    if not path.exists():
        raise WorkloadError(f"{path} does not exist; --workloads takes a file or a folder")
    return _discover_file(path, bundled=False, required=True)


def _discover_file(path: Path, *, bundled: bool, required: bool) -> tuple[WorkloadSource, ...]:
    declaration = read_declaration(path, CLASS_NAME)
    if declaration is None:
        if required:
            raise WorkloadError(f"{path} has no class {CLASS_NAME}; see repro_audit/workload.py for what it must offer")
        return ()
    return tuple(
        WorkloadSource(
            name=path.stem if variant is None else f"{path.stem}-{variant}",
            summary=declaration.summary,
            path=str(path.resolve()),
            module=None,
            class_name=CLASS_NAME,
            variant=variant,
            sha256=declaration.sha256,
            refused=declaration.refused_for(variant),
            bundled=bundled,
        )
        for variant in declaration.variants or (None,)
    )


def _discover_module(item: str) -> tuple[WorkloadSource, ...]:
    """A class of an installed or local module, named ``module:Class``."""
    module, _, class_name = item.partition(":")
    path = find_module(module)
    declaration = read_declaration(path, class_name)
    if declaration is None:
        raise WorkloadError(f"{path} defines no class {class_name}; name the module that defines it, as module:Class")
    return tuple(
        WorkloadSource(
            name=item if variant is None else f"{item}-{variant}",
            summary=declaration.class_summary or declaration.summary,
            path=str(path.resolve()),
            module=module,
            class_name=class_name,
            variant=variant,
            sha256=declaration.sha256,
            refused=declaration.refused_for(variant),
            bundled=False,
        )
        for variant in declaration.variants or (None,)
    )


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
    names = sorted({name for source in found for name in (source.name, family(source))})
    close = difflib.get_close_matches(item, names, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "repro-audit list shows what there is"
    if Path(item).suffix == ".py":
        hint = f"a file is named with --workloads {item}"
    raise WorkloadError(f"no workload is named {item!r}; {hint}")


def family(source: WorkloadSource) -> str:
    """The name that all variants of a workload share."""
    return source.name if source.variant is None else source.name.removesuffix(f"-{source.variant}")
