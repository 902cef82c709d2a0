"""What git says of the folders that workloads come from."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

TIMEOUT_SECONDS = 10.0
"""Looking through a very large checkout may take longer, and is not worth it."""

LOCATIONS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Set in git's hooks; they would have git look elsewhere than in the folder it is asked about."""


def git_facts(folders: Iterable[Path], timeout_s: float = TIMEOUT_SECONDS) -> dict[str, str]:
    """Commit and cleanness of the checkouts that the folders lie in; empty where there is no git, or no checkout.

    Args:
        timeout_s: How long git may take for one answer, in seconds.

    Returns:
        For each checkout, ``<top folder>`` to its commit, followed by `` (dirty)`` where tracked files differ from it,
        `` (untracked files)`` where it only has more files, as older reports are, and `` (not known whether dirty)``
        where git did not tell.
    """
    facts: dict[str, str] = {}
    for folder in sorted(set(folders)):
        top = _git(timeout_s, folder, "rev-parse", "--show-toplevel")
        if top and top not in facts:
            commit = _git(timeout_s, folder, "rev-parse", "--verify", "HEAD") or "no commit yet"
            facts[top] = commit + _cleanness(_git(timeout_s, Path(top), "status", "--porcelain"))
    return facts


def _cleanness(status: str | None) -> str:
    if status is None:
        return " (not known whether dirty)"
    if not status:
        return ""
    return " (untracked files)" if all(line.startswith("??") for line in status.splitlines()) else " (dirty)"


def _git(timeout_s: float, folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it is missing, fails or takes too long."""
    # Without optional locks, looking at a checkout cannot disturb a git command that runs beside; without its monitor,
    # looking cannot start a program that the checkout names.
    environ = {name: value for name, value in os.environ.items() if name not in LOCATIONS}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments],
            env={**environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="backslashreplace").strip() if done.returncode == 0 else None
