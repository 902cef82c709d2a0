"""What the runs run on, as PyTorch sees it. Only for a process that may touch CUDA: never a zygote."""

import os
from pathlib import Path

import torch

from repro_audit.records import Device


def torch_facts() -> dict[str, str]:
    """Version, build and threads of PyTorch."""
    return {
        "version": str(torch.__version__),
        "git_version": str(torch.version.git_version),
        "debug": str(torch.version.debug),
        "cuda": str(torch.version.cuda),
        "hip": str(torch.version.hip),
        "cudnn": str(torch.backends.cudnn.version()) if torch.backends.cudnn.is_available() else "None",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "num_threads": str(torch.get_num_threads()),
        "num_interop_threads": str(torch.get_num_interop_threads()),
        "config": torch.__config__.show().strip(),
        "parallel_info": torch.__config__.parallel_info().strip(),
    }


def devices() -> tuple[tuple[Device, ...], dict[str, str]]:
    """The devices that are there, and device type to the reason for those that are not."""
    cpu = Device(
        name="cpu", description=f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    )
    reason = _absence_of_cuda()
    if reason:
        return (cpu,), {"cuda": reason}
    return (cpu, *(_cuda_device(index) for index in range(torch.cuda.device_count()))), {}


def _absence_of_cuda() -> str:
    """Why there is no CUDA device; empty where there is one."""
    if torch.version.hip is not None:
        return "this PyTorch was built for ROCm, of which nothing is known here"
    if not torch.backends.cuda.is_built():
        return "this PyTorch was built without CUDA"
    try:
        torch.cuda.init()  # tells more than is_available(), which says False to every kind of trouble
    except (RuntimeError, AssertionError) as error:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        shown = f" (CUDA_VISIBLE_DEVICES={visible!r})" if visible is not None else ""
        return f"{str(error).splitlines()[0]}{shown}"
    return "" if torch.cuda.device_count() else "the driver shows no device"


def _cuda_device(index: int) -> Device:
    properties = torch.cuda.get_device_properties(index)
    details = {
        "compute_capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": str(properties.total_memory),
        "multiprocessors": str(properties.multi_processor_count),
        "driver": _driver_version(),
    }
    for name in ("uuid", "L2_cache_size"):
        if (value := getattr(properties, name, None)) is not None:
            details[name.lower()] = str(value)
    return Device(name=f"cuda:{index}", description=properties.name, details=details)


def _driver_version() -> str:
    """The kernel module's own words, since PyTorch tells only the CUDA version that the driver supports."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text(errors="replace").splitlines()[0]
    except (OSError, IndexError):
        return "unknown"
    return first.removeprefix("NVRM version:").strip()
