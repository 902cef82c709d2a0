"""Writes files whole or not at all: a reader, a kill or a power cut never meets half of one."""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Writes a file beside its place and moves it there; what stood there stays until then.

    Args:
        mode: Permission bits; None leaves them to the umask.

    Raises:
        OSError: It cannot be written; nothing is left behind.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    with suppress(OSError):  # the file is there; this only keeps its name through a power cut
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_partial(path: Path) -> None:
    """Removes what a kill left of attempts to write this file.

    Raises:
        OSError: It cannot be removed.
    """
    for left in path.parent.iterdir():
        if re.fullmatch(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.partial", left.name):
            left.unlink()
