"""What the runs run on, as PyTorch sees it. Only for a process that may touch CUDA: never a zygote."""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        "cudnn": _cudnn_version(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "num_threads": str(torch.get_num_threads()),
        "num_interop_threads": str(torch.get_num_interop_threads()),
        "config": torch.__config__.show().strip(),
        "parallel_info": torch.__config__.parallel_info().strip(),
    }


def _cudnn_version() -> str:
    try:
        return str(torch.backends.cudnn.version())
    except RuntimeError as error:  # a cuDNN of another release than PyTorch's, which matters to CUDA alone
        return f"unusable: {_first_line(error)}"


def devices() -> tuple[tuple[Device, ...], dict[str, str]]:
    """The devices that are there, and device type to the reason for those that are not."""
    cpu = Device(
        name="cpu", description=f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    )
    reason = _absence_of_cuda()
    if reason:
        return (cpu,), {"cuda": reason}
    driver = _driver_facts()
    return (
        cpu,
        *(
            cuda_device(index, torch.cuda.get_device_properties(index), driver)
            for index in range(torch.cuda.device_count())
        ),
    ), {}


def _absence_of_cuda() -> str:
    """Why there is no CUDA device; empty where there is one."""
    if torch.version.hip is not None:
        return "this PyTorch was built for ROCm, of which nothing is known here"
    if not torch.backends.cuda.is_built():
        return "this PyTorch was built without CUDA"
    try:
        torch.cuda.init()  # tells more than is_available(), which says False to every kind of trouble
    except (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError) as error:
        return absence_reason(error, os.environ)
    return "" if torch.cuda.device_count() else absence_reason(RuntimeError("the driver shows no device"), os.environ)


def absence_reason(error: Exception, environ: Mapping[str, str]) -> str:
    """PyTorch's own words, and the variable that may have hidden the devices."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    return _first_line(error) + (f" (CUDA_VISIBLE_DEVICES={visible!r})" if visible is not None else "")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def cuda_device(index: int, properties: Any, driver: Mapping[str, str]) -> Device:
    """The record of a CUDA device.

    Args:
        properties: As `torch.cuda.get_device_properties` gives them; releases differ in which there are.
        driver: Facts of the driver, the same for all devices.
    """
    details = {
        "compute_capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": str(properties.total_memory),
        "multiprocessors": str(properties.multi_processor_count),
        **driver,
    }
    for name in ("L2_cache_size", "is_integrated", "uuid"):
        if (value := getattr(properties, name, None)) is not None:
            details[name.lower()] = str(value)
    return Device(name=f"cuda:{index}", description=properties.name, details=details)


def _driver_facts() -> dict[str, str]:
    """The driver's version in the kernel module's own words, and the newest CUDA that the driver supports."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text(errors="replace").splitlines()[0]
    except (OSError, IndexError):
        first = "unknown"
    return {"driver": first.removeprefix("NVRM version:").strip(), "driver_cuda": driver_cuda("libcuda.so.1")}


def driver_cuda(library: str) -> str:
    """The newest CUDA that the driver's library supports, as in ``12.4``; ``unknown`` where it does not tell.

    Source: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VERSION.html: the number is 1000 times the major
    version plus 10 times the minor one.
    """
    number = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return "unknown"
    return "unknown" if failed else f"{number.value // 1000}.{number.value % 1000 // 10}"
