"""Each point of observation has a fault that it alone can see; without the fault the same script repeats."""

import pytest

from repro_audit.records import Role
from repro_audit.script_records import Point
from tests.scripting import compared

NOISE = "int.from_bytes(os.urandom(4), 'little') / 2**32"
CONSTANT = "0.5"

BEGINNING = """
import os, io, torch
torch.manual_seed(0)
def noise():
    return NOISE
"""

TRAINING = """
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
def train():
    loss = net(torch.ones(2, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    return loss
"""

CASES = {
    "loss": (Point.LOSS, Role.LOSS, "w = torch.ones(3, requires_grad=True)\n(w.sum() + noise()).backward()"),
    "gradient": (
        Point.STEP,
        Role.GRADIENT,
        TRAINING.replace("LR", "0.0").replace(", momentum=0.9", "")
        + "train()\nnet.bias.grad += noise()\nopt.step()\nopt.zero_grad()",
    ),
    "optimizer": (
        Point.STEP,
        Role.OPTIMIZER,
        TRAINING.replace("LR", "0.0")
        + "train()\nopt.step()\nopt.state[net.bias]['momentum_buffer'] += noise()\ntrain()\nopt.step()",
    ),
    "hyperparameter": (
        Point.STEP,
        Role.OPTIMIZER,
        TRAINING.replace("LR", "0.0").replace(", momentum=0.9", "")
        + "train()\nopt.param_groups[0]['weight_decay'] = noise()\nopt.step()\n"
        "opt.param_groups[0]['weight_decay'] = 0.0",
    ),
    "parameter": (
        Point.STEP,
        Role.PARAMETER,
        TRAINING.replace("LR", "0.1")
        + "net.spare = torch.nn.Parameter(torch.zeros(2))\nopt.add_param_group({'params': [net.spare]})\n"
        "train()\nopt.step()\nnet.spare.data += noise()\ntrain()\nopt.step()",
    ),
    "buffer": (
        Point.STEP,
        Role.BUFFER,
        TRAINING.replace("LR", "0.1") + "net.register_buffer('spare', torch.zeros(2))\n"
        "train()\nopt.step()\nnet.spare += noise()\ntrain()\nopt.step()",
    ),
    "scaler": (
        Point.SCALER,
        Role.OPTIMIZER,
        "scaler = torch.amp.GradScaler('cpu')\nw = torch.ones(3, requires_grad=True)\n"
        "opt = torch.optim.SGD([w], lr=0.1)\nloss = scaler.scale(w.sum())\nloss.backward()\n"
        "scaler.step(opt)\nscaler.update(100.0 + noise())",
    ),
    "input": (
        Point.INPUT,
        Role.VALUE,
        "class Deaf(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = torch.nn.Parameter(torch.ones(3))\n"
        "    def forward(self, x):\n        return self.w * 2\n"
        "Deaf()(torch.full((2, 3), noise())).sum().backward()",
    ),
    "output": (
        Point.OUTPUT,
        Role.VALUE,
        "class Moody(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = torch.nn.Parameter(torch.ones(3))\n"
        "    def forward(self, x):\n        return x * noise()\n"
        "with torch.no_grad():\n    Moody()(torch.ones(3))",
    ),
    "batch": (
        Point.BATCH,
        Role.VALUE,
        "class Data(torch.utils.data.Dataset):\n    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, i):\n        return torch.tensor(i + noise())\n"
        "for batch in torch.utils.data.DataLoader(Data(), batch_size=2):\n    pass",
    ),
    "save": (Point.SAVE, Role.VALUE, "torch.save({'x': [torch.tensor(noise())]}, io.BytesIO())"),
    "save_of_object": (
        Point.SAVE,
        Role.VALUE,
        "class Thing:\n    pass\nthing = Thing()\nthing.tensor = torch.tensor(noise())\nthing.names = {'a', 'b'}\n"
        "torch.save(thing, io.BytesIO())",
    ),
    "final_module": (
        Point.FINAL,
        Role.PARAMETER,
        TRAINING.replace("LR", "0.1") + "train()\nopt.step()\nwith torch.no_grad():\n    net.bias += noise()",
    ),
    "final_of_what_threads_digest": (
        Point.FINAL,
        Role.PARAMETER,
        "net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(3)])\n"
        "net(torch.ones(2, 1024)).sum().backward()\nwith torch.no_grad():\n    net[2].bias += noise()",
    ),
    "final_leaf": (
        Point.FINAL,
        Role.PARAMETER,
        "w = torch.ones(3, requires_grad=True)\nw.sum().backward()\nwith torch.no_grad():\n    w -= noise()",
    ),
    "final_in_function": (
        Point.FINAL,
        Role.PARAMETER,
        "def main():\n    net = torch.nn.Linear(3, 1)\n    net(torch.ones(2, 3)).sum().backward()\n"
        "    with torch.no_grad():\n        net.bias += noise()\nmain()",
    ),
    "leaf_between": (
        Point.LOSS,
        Role.PARAMETER,
        "w = torch.ones(3, requires_grad=True)\nw.sum().backward()\nw.data += noise()\n(w * 0).sum().backward()",
    ),
    "generator": (
        Point.LOSS,
        Role.RNG,
        "w = torch.ones(3, requires_grad=True)\nw.sum().backward()\n"
        "torch.rand(1 + int(noise() * 2**16))\nw.sum().backward()",
    ),
}


def case(name: str, noise: str) -> str:
    return BEGINNING.replace("NOISE", noise) + CASES[name][2]


@pytest.mark.parametrize("name", CASES)
def test_a_fault_that_one_point_alone_can_see_is_seen_there(pair, tmp_path, name):
    comparison, _, _ = compared(pair, case(name, NOISE), tmp_path)
    point, role, _ = CASES[name]
    assert comparison.divergence is not None
    assert (comparison.divergence.point, comparison.divergence.role) == (point, role)
    assert comparison.divergence.differing_leaves == 1


@pytest.mark.parametrize("name", CASES)
def test_the_same_script_without_the_fault_repeats(pair, tmp_path, name):
    comparison, first, _ = compared(pair, case(name, CONSTANT), tmp_path)
    assert comparison.divergence is None
    assert comparison.observations > 0
    assert not first.end("main").notes


def test_every_compared_point_has_a_fault_of_its_own():
    assert {point for point, _, _ in CASES.values()} == {point for point in Point if point.is_compared}
