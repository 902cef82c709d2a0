"""Parses what the command line and the environment say about devices and `CUBLAS_WORKSPACE_CONFIG`."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from repro_audit.errors import UsageError

if TYPE_CHECKING:
    from repro_audit.records import CublasWorkspace

CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"

CUBLAS_VALUES = (":4096:8", ":16:8")
"""The two values with which cuBLAS repeats itself, the second with less memory.

Source: https://docs.nvidia.com/cuda/cublas/#results-reproducibility
"""

CUBLAS_CHOICES = (*CUBLAS_VALUES, "inherit")

PASSPHRASE_VARIABLE = "REPRO_AUDIT_PASSPHRASE"
"""Holds the passphrase of an encrypted signing key."""

DEFAULT_CUBLAS_VALUE = ":4096:8"


def resolve_cublas_workspace(option: str | None, environ: Mapping[str, str]) -> "CublasWorkspace":
    """Decides the `CUBLAS_WORKSPACE_CONFIG` of the runs.

    Args:
        option: One of `CUBLAS_CHOICES`, or None: a valid value of the user's own is kept, else the default is set.

    Raises:
        UsageError: `option` is no such choice, or the environment holds a value with which cuBLAS does not repeat and
            nothing said to take it.
    """
    # The records cost `--help`, which wants the choices of this module alone, a third of its time.
    from repro_audit.records import CublasWorkspace

    value = environ.get(CUBLAS_VARIABLE)
    if option == "inherit":
        return CublasWorkspace(value=value, source="inherit")
    if option is not None:
        if option not in CUBLAS_VALUES:
            raise UsageError(f"--cublas-workspace {option!r} is not valid; choose {', '.join(CUBLAS_CHOICES)}")
        return CublasWorkspace(value=option, source="option")
    if value is None:
        return CublasWorkspace(value=DEFAULT_CUBLAS_VALUE, source="default")
    if value not in CUBLAS_VALUES:
        raise UsageError(
            f"{CUBLAS_VARIABLE}={value!r} in the environment is not one of {' and '.join(CUBLAS_VALUES)}, with which "
            "cuBLAS repeats itself. Correct or unset it, override it with --cublas-workspace, or audit it as it is "
            "with --cublas-workspace inherit."
        )
    return CublasWorkspace(value=value, source="environment")


def require_current_folder() -> None:
    """Makes sure that workers can be started here: PyTorch itself does not load in a folder that is gone.

    Raises:
        UsageError: The current folder does not exist any more.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError("the current folder does not exist any more; change to one that does") from error


def worker_environment(environ: Mapping[str, str], cublas_workspace: "CublasWorkspace") -> dict[str, str]:
    """The environment of the interpreters: the user's own, with the one variable that strict mode needs.

    The passphrase of a signing key is nothing for what is audited to read.
    """
    variables = {name: value for name, value in environ.items() if name not in (CUBLAS_VARIABLE, PASSPHRASE_VARIABLE)}
    if cublas_workspace.value is not None:
        variables[CUBLAS_VARIABLE] = cublas_workspace.value
    return variables


def parse_device(text: str) -> str:
    """The canonical name of a device: ``cpu`` or ``cuda:N``; ``cuda`` is ``cuda:0``.

    Raises:
        UsageError: It is no device that can be audited.
    """
    if text == "cpu":
        return "cpu"
    if match := re.fullmatch(r"cuda(?::(0|[1-9][0-9]{0,3}))?", text):
        return f"cuda:{match[1] or 0}"
    import difflib  # only for whoever mistypes

    near = difflib.get_close_matches(text.lower(), ["cpu", "cuda"], n=1)
    guess = f" (did you mean {near[0]}?)" if near else ""
    raise UsageError(f"{text!r} is no device that can be audited{guess}; name cpu, cuda or cuda:N")
