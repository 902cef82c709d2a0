"""What the audit runs on, as far as it can be seen without PyTorch."""

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from repro_audit import __version__
from repro_audit.records import Environment, WorkerEnvironment, WorkloadSource

PACKAGES = ("torch", "numpy", "rich", "PyYAML", "msgspec")

VARIABLES = frozenset(
    {
        "ATEN_CPU_CAPABILITY",
        "CUBLASLT_WORKSPACE_SIZE",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_VISIBLE_DEVICES",
        "CUDNN_DETERMINISTIC",
        "DNNL_DEFAULT_FPMATH_MODE",
        "GLIBC_TUNABLES",
        "LC_ALL",
        "LANG",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "NVIDIA_TF32_OVERRIDE",
        "ONEDNN_DEFAULT_FPMATH_MODE",
        "ONEDNN_MAX_CPU_ISA",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
        "PYTHONHASHSEED",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "TF32_OVERRIDE",
        "TZ",
    }
)
"""Environment variables that bits can depend on, by name."""

VARIABLE_PREFIXES = (
    "GOMP_",
    "KMP_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "OMP_",
    "OPENBLAS_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TORCH_CUDNN_",
    "TORCH_BLAS_",
    "TORCH_ALLOW_TF32_",
)
"""The same for families of variables, each the settings of one library."""

_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)

GIT_TIMEOUT_SECONDS = 10.0


def parent_environment(worker: WorkerEnvironment, sources: Iterable[WorkloadSource]) -> Environment:
    """The whole environment: the worker's share, and what the parent sees itself.

    Args:
        sources: The workloads; the state of the git checkouts they lie in is recorded.
    """
    return Environment(
        python=python_facts(),
        torch=worker.torch,
        packages=package_versions(),
        system=system_facts(),
        devices=worker.devices,
        absent_devices=worker.absent_devices,
        flags=worker.flags,
        variables=recorded_variables(os.environ),
        git=git_facts({Path(source.path).parent for source in sources} or {Path.cwd()}),
    )


def python_facts() -> dict[str, str]:
    """The interpreter that runs the audit and starts the workers."""
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        "executable": sys.executable,
    }


def package_versions() -> dict[str, str]:
    """Versions of the packages that matter, from their metadata; those that are not installed are left out."""
    versions = {"repro-audit": __version__}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def system_facts() -> dict[str, str]:
    """Operating system, processor and memory."""
    facts = {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "distribution": _distribution(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "cpu": _cpu_model(),
        "logical_cores": str(os.cpu_count() or 0),
        "usable_cores": str(_usable_cores()),
        "cpu_quota": _cpu_quota(),
        "memory_bytes": _memory_bytes(),
    }
    return {name: value for name, value in facts.items() if value}


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor()


def _cpu_quota() -> str:
    """The control group's limit in cores, for containers that may use less than they see."""
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").strip().partition(" ")
    return f"{int(quota) / int(period):g}" if quota.isdigit() and period.isdigit() else ""


def _memory_bytes() -> str:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return str(int(found[1]) * 1024) if found else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def recorded_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The allow-listed variables that are set, never one whose name speaks of a secret."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if (name in VARIABLES or name.startswith(VARIABLE_PREFIXES)) and not _SECRET.search(name)
    }


def git_facts(folders: Iterable[Path]) -> dict[str, str]:
    """Commit and cleanness of the checkouts that the folders lie in; empty where there is no git, or no checkout.

    Returns:
        For each checkout, ``<top folder>`` to its commit, followed by `` (dirty)`` where files differ from it.
    """
    facts: dict[str, str] = {}
    for folder in sorted(folders):
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top and top not in facts:
            commit = _git(folder, "rev-parse", "HEAD") or "no commit yet"
            dirty = _git(folder, "status", "--porcelain")
            facts[top] = f"{commit} (dirty)" if dirty else commit
    return facts


def _git(folder: Path, *arguments: str) -> str:
    # Without optional locks, looking at a checkout cannot disturb a git command that runs beside.
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="backslashreplace").strip() if done.returncode == 0 else ""
