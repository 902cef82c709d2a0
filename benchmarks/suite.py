"""The tool's own cost, as ratios measured side by side in one run: ``make benchmark``.

1. Marginal cost of one isolated run (fork, arm, seed, trivial step, record) against a fresh interpreter that imports
   PyTorch, arms strict mode and does the same step.
2. The quick CPU audit of all bundled workloads against one run of the classic smoke script, the default one (with its
   arms, and the cost of strict mode) against the quick one, and all variations of one workload against that script.
3. ``repro-audit --help``, ``list``, ``show``, ``verify``, ``diff`` and ``report`` against ``python -c "import torch"``;
   reading takes as long as the evidence is large.
4. Digests of a 512 MiB state against a single hashlib thread, and their extra memory (``benchmarks/digest.py``).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from repro_audit.discovery import discover
from repro_audit.records import Mode, RunTask
from repro_audit.settings import resolve_cublas_workspace, worker_environment
from repro_audit.warm_interpreter import WarmInterpreter

CLASSIC_SMOKE_SCRIPT = """
import torch

torch.use_deterministic_algorithms(True)

def run():
    torch.manual_seed(1234)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = torch.randn(64, 32), torch.randn(64, 1)
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach(), [parameter.detach().clone() for parameter in model.parameters()]

first, second = run(), run()
assert torch.equal(first[0], second[0])
assert all(torch.equal(one, other) for one, other in zip(first[1], second[1]))
"""

FRESH_STEP = """
import torch

torch.use_deterministic_algorithms(True)
torch.manual_seed(1234)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(4, 8)).square().mean()
loss.backward()
optimizer.step()
"""

TRIVIAL_WORKLOAD = '''"""The least that trains."""

import torch


class Workload:
    def setup(self, device):
        self.model = torch.nn.Linear(8, 1).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self):
        loss = self.model(torch.randn(4, 8)).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self):
        return {"model": self.model}
'''


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        isolated_run(scratch)
        whole_audit(scratch)
        cold_commands(scratch)
    subprocess.run([sys.executable, str(Path(__file__).with_name("digest.py"))], check=True)


def isolated_run(scratch: Path, rounds: int = 5) -> None:
    path = scratch / "trivial.py"
    path.write_text(TRIVIAL_WORKLOAD)
    (source,) = discover([], [path])
    task = RunTask(
        run="strict-a",
        source=source,
        device="cpu",
        mode=Mode.STRICT,
        repeats=1,
        steps=1,
        seed=1234,
        record_path=str(scratch / "record.json"),
    )
    interpreter = WarmInterpreter("a", worker_environment(os.environ, resolve_cublas_workspace(None, os.environ)))
    try:
        interpreter.perform(task, 60.0)  # starts it
        fresh, forked = [], []
        for _ in range(rounds):
            fresh.append(_seconds(lambda: _python("-c", FRESH_STEP)))
            forked += [_seconds(lambda: interpreter.perform(task, 60.0)) for _ in range(5)]
    finally:
        interpreter.close()
    _report("one isolated run", statistics.median(forked), "a fresh interpreter", statistics.median(fresh), "1/40")


def whole_audit(scratch: Path, rounds: int = 3) -> None:
    options = ("--device", "cpu", "--quiet", "--output", str(scratch / "reports"))
    commands = {
        "smoke": lambda: _python("-c", CLASSIC_SMOKE_SCRIPT),
        "audit": lambda: _repro_audit("run", *options),
        "quick": lambda: _repro_audit("run", "--quick", *options),
        "vary": lambda: _repro_audit("vary", "mlp", "--vary=+all", *options),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(_seconds(command))
    smoke, audit, quick, vary = (statistics.median(seconds) for seconds in times.values())
    _report("the quick CPU audit", quick, "the smoke script", smoke, "5")
    _report("the default CPU audit, with arms and cost", audit, "the quick one", quick, "1.6")
    _report("vary --vary=+all of one workload", vary, "the smoke script", smoke, "12")


def cold_commands(scratch: Path, rounds: int = 7) -> None:
    whole = next((scratch / "reports").iterdir())
    _repro_audit("run", "mlp", "cumsum", "scatter", "--device", "cpu", "--quiet", "--output", str(scratch / "small"))
    small = next((scratch / "small").iterdir())
    commands = {"--help": (["--help"], "1/8"), "list": (["list"], "1/8")}
    for name, archive, limit in (("three workloads", small, "1/8"), ("all workloads", whole, "1/4")):
        for command in (["show"], ["verify"], ["diff", str(archive)], ["report", "--html", str(scratch / "page.html")]):
            commands[f"{command[0]} of {name}"] = ([*command, str(archive)], limit)
    _python("-c", "import torch")
    imports = []
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        imports.append(_seconds(lambda: _python("-c", "import torch")))
        for name, (arguments, _) in commands.items():
            times[name].append(_seconds(lambda arguments=arguments: _repro_audit(*arguments)))
    for name, seconds in times.items():
        what, limit = f"repro-audit {name}", commands[name][1]
        _report(what, statistics.median(seconds), "import torch", statistics.median(imports), limit)


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def _repro_audit(*arguments: str) -> None:
    _python("-m", "repro_audit", *arguments)


def _report(what: str, seconds: float, peer: str, peer_seconds: float, limit: str) -> None:
    ratio = seconds / peer_seconds
    shown = f"{ratio:.2f}" if ratio >= 1 else f"1/{1 / ratio:.1f}"
    print(f"{what}: {seconds:.3f} s; {peer}: {peer_seconds:.3f} s; ratio {shown} (at most {limit})", flush=True)


if __name__ == "__main__":
    main()
