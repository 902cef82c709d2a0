"""The most memory that a run needed at once, and what there is."""

from contextlib import suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_MACHINE = Path("/proc/meminfo")
_RESET = Path("/proc/self/clear_refs")
"""Source: https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html: 5 makes the peak what is resident now."""


class PeakMemory:
    """Bytes at the peak beyond what was there when it was made: of device memory, or of the process on the CPU.

    Sources: https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.max_memory_allocated.html, and ``VmHWM``,
    the most that was ever resident, of https://man7.org/linux/man-pages/man5/proc_pid_status.5.html.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device if device.type == "cuda" else None
        if self._device is not None:
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
        else:
            with suppress(OSError):  # elsewhere the peak before, of imports, may hide a smaller one
                _RESET.write_text("5")
            self._before = _bytes_in(_STATUS, "VmRSS")

    def read(self) -> int:
        """The peak so far; 0 where the system does not tell."""
        peak = _bytes_in(_STATUS, "VmHWM") if self._device is None else torch.cuda.max_memory_allocated(self._device)
        return max(peak - self._before, 0)


def available_bytes(device: torch.device) -> int:
    """Memory that may still be had: of the device, or of the machine; 0 where the system does not tell.

    Source: ``MemAvailable`` of https://man7.org/linux/man-pages/man5/proc_meminfo.5.html.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return _bytes_in(_MACHINE, "MemAvailable")


def _bytes_in(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
