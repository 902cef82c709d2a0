"""Gives every run of a script the working directory as it was, at one and the same path.

Two runs that write and read there must not see each other's files, and must not differ because their directories have
other names. So the user's directory is copied once, and each run gets a fresh copy of that copy, where the former run
had its own. What is too large, or made to be shared, is linked instead of copied, and said so.
"""

import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from repro_audit.errors import UsageError

LARGE_FILE_BYTES = 64 * 2**20
"""Larger files are linked: data sets and models, which scripts read."""

TOTAL_BYTES = 2**30
FILE_COUNT = 20_000
"""Limits of a copy; beyond them the largest folders are linked."""

ENTRY_LIMIT = 200_000
"""Entries that are looked at: a home directory, or a root, is not walked to its end."""

SHARED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache", ".ruff_cache"}
)
"""Folders that are linked whatever their size."""


class WorkingCopies:
    """Fresh copies of a directory, one at a time."""

    def __init__(self, origin: Path, scratch: Path, *, exclude: tuple[Path, ...] = ()) -> None:
        """Plans the copies.

        Args:
            origin: The user's working directory.
            scratch: An existing folder to hold the copies.
            exclude: Folders inside `origin` that no run has to see, as the archive of audits.
        """
        self._origin = origin.resolve()
        self._scratch = scratch.resolve()
        self._exclude = {self._scratch, *(path.resolve() for path in exclude)}
        self._pristine = self._scratch / "pristine"
        self.path = self._scratch / "work" / (self._origin.name or "root")
        """Where every run finds its copy."""
        self.linked: dict[str, str] = {}
        """Relative paths of what is linked to the user's own instead of copied, with the reason."""

    def prepare(self) -> Path:
        """Puts a fresh copy in place of what the former run has left.

        Raises:
            UsageError: There is no room for it, or it cannot be written.
        """
        try:
            if not self._pristine.exists():
                self._plan()
                self._copy(self._origin, self._pristine)
            _remove(self.path)
            self.path.parent.mkdir(exist_ok=True)
            shutil.copytree(self._pristine, self.path, symlinks=True)
        except (OSError, shutil.Error) as error:
            words = getattr(error, "strerror", None) or str(error)[:300]
            raise UsageError(
                f"cannot copy the working directory {self._origin} to {self._scratch}: {words}. Make room there, set "
                "TMPDIR to another folder, or let the runs share it with --working-directory share"
            ) from error
        return self.path

    def close(self) -> None:
        """Deletes everything; what lies behind a link is not touched."""
        for folder in (self.path, self._pristine):
            with suppress(OSError):
                _remove(folder)

    def inside(self, path: Path) -> Path:
        """The counterpart in the copy of a path in the user's directory; any other path as it is."""
        try:
            relative = path.relative_to(self._origin)
        except ValueError:
            return path
        return self.path / relative

    # ------------------------------------------------------------------ planning

    def _plan(self) -> None:
        """Decides what is linked."""
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        seen = 0
        for folder, name, status in _entries(self._origin, self._passed_over):
            seen += 1
            relative = os.path.relpath(os.path.join(folder, name), self._origin)
            top = relative.split(os.sep, 1)[0]
            if seen > ENTRY_LIMIT:
                break
            if stat.S_ISREG(status.st_mode):
                if status.st_size > LARGE_FILE_BYTES:
                    self.linked[relative] = f"a file of {status.st_size // 2**20} MiB"
                    continue
                folder_name = top if os.sep in relative else ""
                counts[folder_name] += 1
                sizes[folder_name] += status.st_size
        if seen > ENTRY_LIMIT:
            for entry in sorted(os.scandir(self._origin), key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    self.linked[entry.name] = f"the working directory has more than {ENTRY_LIMIT} entries"
            return
        while counts.total() > FILE_COUNT or sizes.total() > TOTAL_BYTES:
            folders = [name for name in counts if name]
            if not folders:
                break
            largest = max(folders, key=lambda name: (counts[name] / FILE_COUNT + sizes[name] / TOTAL_BYTES, name))
            self.linked[largest] = f"a folder of {counts.pop(largest)} files and {sizes.pop(largest) // 2**20} MiB"

    def _passed_over(self, path: str, name: str) -> bool:
        """Whether a folder is not looked into."""
        if Path(path) in self._exclude:
            return True
        if name in SHARED_FOLDERS or os.path.exists(os.path.join(path, "pyvenv.cfg")):
            self.linked[os.path.relpath(path, self._origin)] = "a folder of tools or caches"
            return True
        return False

    # ------------------------------------------------------------------ copying

    def _copy(self, source: Path, target: Path) -> None:
        target.mkdir(parents=True)
        for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
            path, copy = Path(entry.path), target / entry.name
            if path in self._exclude:
                continue
            relative = os.path.relpath(path, self._origin)
            if relative in self.linked:
                copy.symlink_to(path)
            elif entry.is_symlink():
                self._copy_link(path, copy, relative)
            elif entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                try:
                    (self._copy if entry.is_dir() else shutil.copy2)(path, copy)
                except PermissionError:
                    _remove(copy)
                    self._link(path, copy, relative, "it cannot be read")
            else:
                self._link(path, copy, relative, "no regular file")
        shutil.copystat(source, target)

    def _link(self, path: Path, copy: Path, relative: str, reason: str) -> None:
        copy.symlink_to(path)
        self.linked[relative] = reason

    def _copy_link(self, path: Path, copy: Path, relative: str) -> None:
        """Keeps a link: a relative one that stays inside leads into the copy, any other where it always led."""
        target = os.readlink(path)
        led = os.path.normpath(os.path.join(path.parent, target))
        if not os.path.isabs(target) and led.startswith(str(self._origin) + os.sep):
            copy.symlink_to(target)
            return
        copy.symlink_to(led)
        if led.startswith(str(self._origin) + os.sep):
            self.linked[relative] = "a link to a full path"


def _entries(origin: Path, passed_over: Callable[[str, str], bool]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Every file below a folder, without following links."""
    waiting = [str(origin)]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not passed_over(entry.path, entry.name):
                waiting.append(entry.path)
            with suppress(OSError):
                yield folder, entry.name, entry.stat(follow_symlinks=False)


def _remove(path: Path) -> None:
    """Deletes a tree, read-only parts included, without following links."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    if not path.exists():
        return
    for folder, names, _ in os.walk(path):
        os.chmod(folder, 0o700)
        for name in names:
            inner = os.path.join(folder, name)
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(path)
