"""What the audit runs on, as far as it can be seen without PyTorch."""

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from repro_audit import __version__
from repro_audit.checkouts import git_facts
from repro_audit.cores import usable_cores
from repro_audit.interpreter import Ended
from repro_audit.records import CaseCost, Environment, RunTiming, Volatile, WorkerEnvironment, WorkloadSource
from repro_audit.wording import encodable

PACKAGES = ("torch", "numpy", "rich", "PyYAML", "msgspec", "xxhash")

VARIABLES = frozenset(
    {
        "ATEN_CPU_CAPABILITY",
        "BLIS_NUM_THREADS",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_DEVICE_ORDER",
        "CUDA_FORCE_PTX_JIT",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_VISIBLE_DEVICES",
        "GLIBC_TUNABLES",
        "GOTO_NUM_THREADS",
        "LC_ALL",
        "LANG",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "NPY_DISABLE_CPU_FEATURES",
        "NUMEXPR_NUM_THREADS",
        "NVIDIA_TF32_OVERRIDE",
        "NVIDIA_VISIBLE_DEVICES",
        "PYTHONHASHSEED",
        "PYTHONMALLOC",
        "PYTHONOPTIMIZE",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "TZ",
        "VECLIB_MAXIMUM_THREADS",
    }
)
"""Environment variables that bits can depend on, by name."""

VARIABLE_PREFIXES = (
    "CUBLASLT_",
    "CUBLAS_",
    "CUDNN_",
    "DNNL_",
    "GOMP_",
    "KMP_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TORCH_",
    "TRITON_",
)
"""The same for families of variables, each the settings of one library."""

_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH", re.IGNORECASE)

_LOGIN_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def parent_environment(worker: WorkerEnvironment, sources: Iterable[WorkloadSource]) -> Environment:
    """The whole environment: the worker's share, and what the parent sees itself.

    Args:
        sources: The workloads; the state of the git checkouts that they and the current directory lie in is recorded.
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
        git=git_facts([Path(), *(Path(source.path).parent for source in sources)]),
    )


def python_facts() -> dict[str, str]:
    """The interpreter that runs the audit and starts the workers."""
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "compiler": platform.python_compiler(),
        "executable": encodable(sys.executable),
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
        "usable_cores": str(usable_cores()),
        "cpu_quota_cores": cpu_quota(Path("/")),
        "memory_bytes": _memory_bytes(),
    }
    return {name: value for name, value in facts.items() if value}


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor()


def cpu_quota(root: Path) -> str:
    """The control group's limit in cores, for containers that may use less than they see; empty where there is none.

    Source: https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files, and for version 1
    https://docs.kernel.org/scheduler/sched-bwc.html.

    Args:
        root: The file system's root.
    """
    groups = dict(re.findall(r"^\d+:([^:]*):/*(.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE))
    limits = []
    for controllers, group in groups.items():
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        # A limit binds all groups below; inside a container its own group may be mounted as the topmost.
        for folder in (top / part for part in (Path(group), *Path(group).parents)):
            if controllers:
                quota, period = _read(folder / "cpu.cfs_quota_us").strip(), _read(folder / "cpu.cfs_period_us").strip()
            else:
                quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
            if quota.isdecimal() and period.isdecimal() and int(period):
                limits.append(int(quota) / int(period))
    return f"{min(limits):g}" if limits else ""


def _memory_bytes() -> str:
    found = re.search(r"^MemTotal:\s+(\d+) kB", _read(Path("/proc/meminfo")), re.MULTILINE)
    return str(int(found[1]) * 1024) if found else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def recorded_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The allow-listed variables that are set, never one whose name speaks of a secret, nor a login in an address."""
    return {
        encodable(name): _LOGIN_IN_ADDRESS.sub("***", encodable(value))
        for name, value in sorted(environ.items())
        if (name in VARIABLES or name.startswith(VARIABLE_PREFIXES)) and not _SECRET.search(name)
    }


def run_timing(case: str, run: str, ended: Ended) -> RunTiming:
    """The volatile part of a run.

    Args:
        case: ``workload/device``, or the script's name.
    """
    return RunTiming(
        case=case,
        run=run,
        pid=ended.pid,
        duration_ms=ended.duration_ms,
        stdout_bytes=ended.stdout_bytes,
        stderr_bytes=ended.stderr_bytes,
    )


def volatile(archive: str, started: datetime, runs: Sequence[RunTiming], costs: Sequence[CaseCost] = ()) -> Volatile:
    """What differs between two audits that found the same: when, where, how long.

    Args:
        archive: Name of the archive folder.
        started: When the audit began; it ends now.
    """
    finished = datetime.now(UTC)
    return Volatile(
        audit=archive,
        started=started.isoformat(timespec="milliseconds"),
        finished=finished.isoformat(timespec="milliseconds"),
        duration_ms=round((finished - started).total_seconds() * 1000),
        host=platform.node(),
        runs=tuple(runs),
        costs=tuple(costs),
    )
