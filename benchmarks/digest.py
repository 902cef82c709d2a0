"""Prints how much faster a large state is digested than by one hashlib thread, and the memory it takes on top."""

import hashlib
import os
import statistics
import threading
import time

import torch

from repro_audit.records import Role
from repro_audit.worker.bits import buffers
from repro_audit.worker.digest import digest_leaves
from repro_audit.worker.leaves import Leaf

TENSORS = 16
TENSOR_BYTES = 32 * 2**20
ROUNDS = 5


def one_thread(leaves: dict[str, Leaf]) -> None:
    for leaf in leaves.values():
        assert isinstance(leaf.value, torch.Tensor)
        for buffer in buffers(leaf.value):
            hashlib.sha256(buffer).digest()


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def extra_memory(leaves: dict[str, Leaf]) -> int:
    """Returns how far resident memory rose, sampled every 2 ms, while the state was digested."""
    before = peak = resident_bytes()
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, resident_bytes())

    sampler = threading.Thread(target=sample)
    sampler.start()
    digest_leaves(leaves)
    done.set()
    sampler.join()
    return peak - before


def seconds(action: object, leaves: dict[str, Leaf]) -> float:
    start = time.perf_counter()
    action(leaves)  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> None:
    elements = TENSOR_BYTES // 4
    leaves = {f"{i}": Leaf(Role.PARAMETER, torch.full((elements // 1024, 1024), float(i))) for i in range(TENSORS)}
    transposed = {name: Leaf(leaf.role, leaf.value.t()) for name, leaf in leaves.items()}  # type: ignore[attr-defined]
    one_thread(leaves)
    ratios = []
    for _ in range(ROUNDS):
        # Side by side, so that a noisy neighbour disturbs both.
        alone, together = seconds(one_thread, leaves), seconds(digest_leaves, leaves)
        ratios.append(alone / together)
    print(f"state: {TENSORS} tensors of {TENSOR_BYTES / 2**20:.0f} MiB, {len(os.sched_getaffinity(0))} cores")
    print(f"one hashlib thread: {TENSORS * TENSOR_BYTES / 2**30 / alone:.2f} GiB/s")
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"ratio to one hashlib thread: median {statistics.median(ratios):.2f} of {listed} (at least 1.6)")
    for name, state in {"contiguous": leaves, "transposed": transposed}.items():
        print(f"extra peak memory, {name}: {extra_memory(state) / 2**20:.1f} MiB (at most {TENSOR_BYTES / 2**20:.0f})")


if __name__ == "__main__":
    main()
