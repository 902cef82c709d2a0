"""What observing costs: step times of a script that trains a model of 11 million parameters, alone and observed.

It runs in fresh processes, in turns, and takes the time of its steps itself; printed are ratios of this one run.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import sys, time, torch
torch.manual_seed(0)
width, steps = 1500, int(sys.argv[1])
model = torch.nn.Sequential(*(part for _ in range(5) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())))
optimizer = torch.optim.Adam(model.parameters())
inputs = torch.randn(64, width)
began = time.perf_counter()
for _ in range(steps):
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print((time.perf_counter() - began) / steps)
"""


def step_seconds(command: list[str], steps: int) -> float:
    done = subprocess.run([*command, str(steps)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        os.chdir(folder)
        ratios: list[float] = []
        fastest: dict[str, float] = {}
        for number in range(arguments.rounds):
            record = ["-m", "repro_audit", "record", "--mode", "none", "--output", f"recording-{number}", "--"]
            alone = step_seconds([sys.executable, str(script)], arguments.steps)
            observed = step_seconds([sys.executable, *record, str(script)], arguments.steps)
            ratios.append(observed / alone)
            for words, seconds in (("alone", alone), ("observed", observed)):
                fastest[words] = min(seconds, fastest.get(words, seconds))
            print(f"step: {1000 * alone:.1f} ms alone, {1000 * observed:.1f} ms observed")
    print(
        f"observed at step level: {statistics.median(ratios):.3f} times the script alone "
        f"({min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} rounds; the fastest run of each: "
        f"{fastest['observed'] / fastest['alone']:.3f})"
    )


if __name__ == "__main__":
    main()
