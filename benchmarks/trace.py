"""What tracing costs, against PyTorch's own `DebugMode`, and what a trace of a million ops costs to write and compare.

Prints ratios of times that were taken in turns, in this one run; absolute times mean little on a shared machine.
"""

import argparse
import gc
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils._debug_mode import DebugMode

from repro_audit.trace_compare import compare_traces
from repro_audit.trace_file import TraceReader, TraceWriter
from repro_audit.worker.trace import Tracer

BATCH = 64
LAYERS = 4
MEBIBYTE = 2**20


def training_step(width: int):
    """A step with Adam of four Linear+ReLU layers."""
    torch.manual_seed(0)
    layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.randn(BATCH, width)

    def step() -> None:
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def seconds(step, steps: int) -> float:
    gc.collect()  # what the one before has left is not this one's to clear away
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


def slow_downs(width: int, rounds: int, steps: int) -> None:
    """Plain, traced and under DebugMode, in turns."""
    step = training_step(width)
    seconds(step, 5)
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            plain = seconds(step, steps)
            tracer = Tracer(Path(folder) / f"{number}.trace")
            tracer.start()
            seconds(step, 1)
            traced = seconds(step, steps)
            tracer.close()
            with DebugMode() as mode, mode.log_tensor_hashes(hash_inputs=True):
                seconds(step, 1)
                debugged = seconds(step, max(steps // 5, 2))
            ours.append(traced / plain)
            theirs.append(debugged / plain)
    one, other = statistics.median(ours), statistics.median(theirs)
    share = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    print(f"width {width}: traced {one:.1f} times as slow, DebugMode {other:.1f} times; ratio {share:.3f}")


def write_million(path: Path) -> None:
    """Writes a million records of five tensors each, all digests unlike."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    writer = TraceWriter(path)
    names = [writer.names.number(f"aten.op{n}.default") for n in range(200)]
    lines = [writer.names.number(f"/home/user/train.py:{n}") for n in range(300)]
    kind, nothing = writer.names.number("float32[64, 256]"), writer.names.number("")
    for n in range(1_000_000):
        digests = [n.to_bytes(16, "little")] * 5
        tensors = [part for digest in digests for part in (kind, digest, 0)]
        writer.add([names[n % 200], nothing, lines[n % 300], nothing, b"", tensors[:9], tensors[9:]])
    writer.close()
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / MEBIBYTE
    print(f"1 M records: written in {time.perf_counter() - began:.1f} s with {used:.0f} MiB of extra memory", end="")
    print(f", {path.stat().st_size / MEBIBYTE:.0f} MiB on disk")


def compare_million(first: Path, second: Path, words: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    result = compare_traces(first, second)
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / MEBIBYTE
    print(
        f"1 M records, {words}: compared in {time.perf_counter() - began:.1f} s with {used:.0f} MiB of extra memory; "
        f"{result.differing} ops differ"
    )


def differing_copy(source: Path, target: Path) -> None:
    """The same trace with another digest in every record."""
    reader, writer = TraceReader(source), TraceWriter(target)
    for block in reader.blocks():
        for number in range(len(writer.names.numbers), reader.known):
            writer.names.number(reader.name(number))
        for record in reader.raw(block):
            record[6][1] = bytes(16)
            writer.add(record)
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    match arguments.part:
        case ["write", path]:
            write_million(Path(path))
            return
        case ["compare", first, second, words]:
            compare_million(Path(first), Path(second), words)
            return
    for width in (256, 1024):
        slow_downs(width, arguments.rounds, 40 if width == 256 else 15)
    with tempfile.TemporaryDirectory() as folder:
        first, same, other = (str(Path(folder) / name) for name in ("first", "same", "other"))
        # Each in a process of its own, whose greatest memory is then its own, too.
        for part in (["write", first], ["write", same]):
            subprocess.run([sys.executable, __file__, "--part", *part], check=True)
        differing_copy(Path(first), Path(other))
        for part in (["compare", first, same, "all equal"], ["compare", first, other, "all unlike"]):
            subprocess.run([sys.executable, __file__, "--part", *part], check=True)


if __name__ == "__main__":
    main()
