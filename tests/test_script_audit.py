"""Whole audits of small scripts: the verdict, the cause and the line that a report names."""

import pytest

from repro_audit.records import Verdict
from repro_audit.script_records import CauseKind, Finished
from tests.scripting import audited, line_of

TRAIN = """
import os, time, random, torch
def train(data, seed_net=True):
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in data:
        loss = net(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net
"""

UNSEEDED = TRAIN + "train([torch.ones(2, 4)] * 3)  # here\n"

SEEDED_LATE = (
    TRAIN
    + """
net = torch.nn.Linear(4, 4)  # here
torch.manual_seed(0)
net(torch.ones(1, 4)).sum().backward()
"""
)

OWN_GENERATOR = (
    TRAIN
    + """
import numpy
torch.manual_seed(0)
noise = numpy.random.default_rng()  # here
train([torch.tensor(noise.random((2, 4)), dtype=torch.float32)])
"""
)

PID_SEED = TRAIN + "torch.manual_seed(os.getpid())  # here\ntrain([torch.ones(2, 4)])\n"

CLOCK_SEED = TRAIN + "torch.manual_seed(time.time_ns())  # here\ntrain([torch.ones(2, 4)])\n"

HASH_ORDER = (
    TRAIN
    + """
torch.manual_seed(0)
words = {"red", "green", "blue", "black", "white", "grey", "pink", "brown"}
place = {word: n for n, word in enumerate(words)}
train([torch.tensor([[float(place[w]) for w in ("red", "blue", "pink", "grey")]])])  # here
"""
)

CLOCK_VALUE = (
    TRAIN
    + """
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
loss = net(torch.ones(2, 4) * (time.time_ns() % 10**9)).mean()  # here
loss.backward()
"""
)

DATETIME_VALUE = CLOCK_VALUE.replace("time.time_ns() % 10**9", "datetime.now().microsecond").replace(
    "import os", "from datetime import datetime\nimport os"
)

PID_VALUE = CLOCK_VALUE.replace("time.time_ns() % 10**9", "os.getpid()")

# Where an object lies in memory: of no condition that is tested.
ADDRESS = CLOCK_VALUE.replace("time.time_ns() % 10**9", "(id(object()) // 16 % 2**40)")

OTHER_VALUE = CLOCK_VALUE.replace("time.time_ns() % 10**9", "int(open('/proc/self/schedstat').read().split()[0])")

ENTROPY = (
    TRAIN
    + """
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
value = int.from_bytes(os.urandom(3), "little")  # here
(net(torch.ones(2, 4)) * value).mean().backward()
"""
)

OTHER_ORDER = (
    TRAIN
    + """
import secrets
torch.manual_seed(0)
data = [torch.full((1, 4), float(n)) for n in range(8)]
data.sort(key=lambda _: secrets.token_bytes(8))  # here
train(data)
"""
)

RACE = """
import torch
torch.manual_seed(5)
w = torch.ones(1, requires_grad=True)
source = torch.rand(2000, 2000)
for _ in range(8):
    base = torch.zeros(4000)
    base.as_strided((2000, 2000), (1, 1)).add_(source)  # here
    (w * base).sum().backward()
"""

NEVER_SEEDED = (
    TRAIN
    + """
torch.manual_seed(0)
data = [torch.full((1, 4), float(n)) for n in range(8)]
random.shuffle(data)  # here
train(data)
"""
)

NUMPY_NEVER_SEEDED = (
    TRAIN
    + """
import numpy
torch.manual_seed(0)
train([torch.tensor(numpy.random.rand(2, 4), dtype=torch.float32)])  # here
"""
)

OWN_TORCH_GENERATOR = (
    TRAIN
    + """
torch.manual_seed(0)
own = torch.Generator()
own.seed()  # here
train([torch.rand(2, 4, generator=own)])
"""
)

IN_WORKERS = (
    TRAIN
    + """
import numpy
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, n):
        return torch.tensor(numpy.random.default_rng().random(4), dtype=torch.float32)  # here
torch.manual_seed(0)
train(torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2))
"""
)

MANY_THREADS = (
    TRAIN
    + """
torch.manual_seed(0)
if torch.get_num_threads() > 1:  # stands for a race that no trace shows
    value = float(open("/proc/self/schedstat").read().split()[0])
    train([torch.full((2, 4), value)])  # here
train([torch.ones(2, 4)])
"""
)

FAULTS = {
    "never_seeded": (NEVER_SEEDED, CauseKind.UNSEEDED, "# here"),
    "numpy_never_seeded": (NUMPY_NEVER_SEEDED, CauseKind.UNSEEDED, "# here"),
    "own_torch_generator": (OWN_TORCH_GENERATOR, CauseKind.OWN_GENERATOR, "# here"),
    "in_workers": (IN_WORKERS, CauseKind.OWN_GENERATOR, "# here"),
    "unseeded": (UNSEEDED, CauseKind.UNSEEDED, "net = torch.nn.Linear(4, 1)"),
    "seeded_late": (SEEDED_LATE, CauseKind.SEEDED_LATE, "torch.manual_seed(0)"),
    "own_generator": (OWN_GENERATOR, CauseKind.OWN_GENERATOR, "# here"),
    "pid_seed": (PID_SEED, CauseKind.SEED_DIFFERS, "# here"),
    "clock_seed": (CLOCK_SEED, CauseKind.SEED_DIFFERS, "# here"),
    "hash_order": (HASH_ORDER, CauseKind.HASH_ORDER, "# here"),
    "clock_value": (CLOCK_VALUE, CauseKind.CLOCK, "# here"),
    "datetime_value": (DATETIME_VALUE, CauseKind.CLOCK, "# here"),
    "pid_value": (PID_VALUE, CauseKind.PROCESS, "# here"),
    "other_value": (OTHER_VALUE, CauseKind.VALUE, "# here"),
    "entropy": (ENTROPY, CauseKind.ENTROPY_CALL, "# here"),
    "other_order": (OTHER_ORDER, CauseKind.ENTROPY_CALL, "# here"),
    "race": (RACE, CauseKind.OVERLAP, "# here"),
    "many_threads": (MANY_THREADS, CauseKind.THREADS, "# here"),
    "address": (ADDRESS, CauseKind.ADDRESSES, "# here"),
}


@pytest.fixture
def audit(pair, tmp_path):
    return lambda text, **fields: audited(pair, text, tmp_path, **fields)


RACING = ("race", "many_threads", "in_workers", "other_order")
"""Faults that show where threads or processes meet, or wait for each other."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.serial] if name in RACING else [])
        for name in FAULTS
        if name != "hash_order"
    ],
)
def test_a_fault_fails_with_its_cause_and_line(audit, name):
    text, kind, part = FAULTS[name]
    report = audit(text, repeats=4 if name == "race" else 1)  # a race can agree by luck
    assert report.verdict is Verdict.FAIL, report.reason
    assert report.summary.exit_code == 1
    assert [cause.kind for cause in report.causes][:1] == [kind], report.causes
    assert report.causes[0].line.line == line_of(text, part)
    assert report.causes[0].proof


@pytest.mark.serial
def test_another_order_of_the_same_data_is_said_to_be_that(audit):
    causes = audit(OTHER_ORDER).causes
    (order,) = (cause for cause in causes if cause.kind is CauseKind.DATA_ORDER)
    assert order.statement == "the same batches come in another order"


@pytest.mark.serial
def test_other_data_is_not_called_another_order(audit):
    kinds = {cause.kind for cause in audit(OWN_GENERATOR).causes}
    assert CauseKind.DATA in kinds
    assert CauseKind.DATA_ORDER not in kinds


def test_where_seeding_helps_the_test_of_it_is_told(audit):
    report = audit(UNSEEDED)
    assert any("2 of 2 pairs of runs agree" in test for test in report.tests)
    assert report.location.kind == "generator"
    assert report.location.first.sequence == report.location.second.sequence


def test_a_seed_is_called_a_clock_only_if_it_is_one(audit):
    report = audit(TRAIN + "torch.manual_seed(int.from_bytes(os.urandom(3), 'little'))\ntrain([torch.ones(2, 4)])\n")
    assert report.causes[0].kind is CauseKind.SEED_DIFFERS
    assert "clock" not in report.causes[0].statement
    assert "process id" not in report.causes[0].statement


SEEDED = TRAIN + "torch.manual_seed(0)\n"

CONTROLS = {
    "plain": SEEDED + "train([torch.ones(2, 4)] * 3)\n",
    "says_other_things": SEEDED + "print(os.getpid(), time.time())\ntrain([torch.ones(2, 4)])\n",
    "unused_generators": SEEDED
    + "random.random()\nimport numpy\nnumpy.random.default_rng()\ntrain([torch.ones(2, 4)])\n",
    "ends_early": SEEDED + "train([torch.ones(2, 4)])\nimport sys\nsys.exit(0)\n",
    "inference": SEEDED + "net = torch.nn.Linear(4, 1)\nwith torch.no_grad():\n    net(torch.ones(2, 4))\n",
    "writes_files": SEEDED + "assert not os.path.exists('mark')\nopen('mark', 'w')\ntrain([torch.ones(2, 4)])\n",
    "accumulates": SEEDED
    + """
net = torch.nn.Linear(4, 1)
opt = torch.optim.AdamW(net.parameters(), lr=0.01)
for step in range(6):
    (net(torch.randn(2, 4)).square().mean() / 3).backward()
    if step % 3 == 2:
        opt.step()
        opt.zero_grad()
""",
    "closure": SEEDED
    + """
net = torch.nn.Linear(4, 1)
opt = torch.optim.LBFGS(net.parameters(), max_iter=4)
x = torch.randn(8, 4)
def closure():
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    return loss
for _ in range(3):
    opt.step(closure)
""",
    "adversarial": SEEDED
    + """
made, judge = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
first = torch.optim.Adam(made.parameters())
second = torch.optim.Adam(judge.parameters(), fused=True)
for _ in range(3):
    fake = made(torch.randn(2, 4))
    second.zero_grad()
    (judge(fake.detach()).mean() - judge(torch.ones(2, 4)).mean()).backward()
    second.step()
    first.zero_grad()
    (-judge(fake).mean()).backward()
    first.step()
""",
    "scaled": SEEDED
    + """
net = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
schedule = torch.optim.lr_scheduler.StepLR(opt, 1)
for _ in range(3):
    with torch.autocast("cpu", torch.bfloat16):
        loss = net(torch.randn(2, 4)).square().mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    schedule.step()
""",
    "by_hand": SEEDED
    + """
w = torch.randn(4, requires_grad=True)
for _ in range(3):
    gradient, = torch.autograd.grad((w * torch.randn(4)).sum(), w)
    with torch.no_grad():
        w -= 0.1 * gradient
""",
    "workers": SEEDED
    + """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, n): return torch.full((4,), float(n)) + torch.rand(4) * 0.1
train(torch.utils.data.DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2))
""",
    "checkpointed": SEEDED
    + """
from torch.utils.checkpoint import checkpoint
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
for _ in range(2):
    checkpoint(net, torch.ones(2, 4), use_reentrant=False).sum().backward()
""",
    "hidden_loop": SEEDED
    + """
class Trainer:
    def __init__(self, model, loss): self.model, self.loss = model, loss
    def fit(self, batches):
        optimizer = torch.optim.Adam(self.model.parameters())
        for batch in batches:
            def closure():
                optimizer.zero_grad()
                loss = self.loss(self.model(batch))
                loss.backward()
                return loss
            optimizer.step(closure)
Trainer(torch.nn.Linear(4, 1), lambda y: y.square().mean()).fit(torch.randn(3, 2, 4))
""",
}


SLOW_CONTROLS = {
    "compiled": SEEDED
    + """
net = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 1)))
opt = torch.optim.Adam(net.parameters())
for _ in range(3):
    loss = net(torch.rand(2, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    "spawned_workers": """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, n): return torch.full((4,), float(n)) + torch.rand(4) * 0.1
if __name__ == "__main__":
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 1)
    for x in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=1, multiprocessing_context="spawn"):
        net(x).sum().backward()
""",
    "replicated": SEEDED
    + """
net = torch.nn.DataParallel(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1, foreach=True)
for _ in range(3):
    opt.zero_grad()
    net(torch.rand(2, 4)).square().mean().backward()
    opt.step()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_CONTROLS)
def test_a_script_that_takes_long_to_start_and_repeats_passes(audit, name):
    report = audit(SLOW_CONTROLS[name])
    assert report.verdict is Verdict.PASS, (report.reason, report.recordings[0].outcome)
    assert report.comparisons[0].losses >= 2


@pytest.mark.parametrize("name", CONTROLS)
def test_a_script_that_repeats_passes(audit, name):
    report = audit(CONTROLS[name])
    assert report.verdict is Verdict.PASS, (report.reason, report.causes)
    assert report.summary.exit_code == 0
    assert report.location is None
    assert not report.causes
    assert not [note for note in report.notes if "not observed" in note]


def test_refusal_and_breach_and_failure_each_have_their_verdict(audit, tmp_path):
    refused = audit(SEEDED + "torch.zeros(4).put_(torch.tensor([1, 1]), torch.ones(2))\n")
    assert refused.verdict is Verdict.REFUSED
    assert refused.summary.exit_code == 1


def test_a_refusal_that_the_script_swallows_is_found(audit):
    text = SEEDED + (
        "try:\n    torch.zeros(4).put_(torch.tensor([1, 1]), torch.ones(2))\nexcept RuntimeError:\n    pass\n"
        "train([torch.ones(2, 4)])\n"
    )
    report = audit(text)
    assert report.verdict is Verdict.REFUSED
    assert "caught the error" in report.reason


def test_switching_strict_mode_off_fails(audit):
    report = audit(SEEDED + "torch.use_deterministic_algorithms(False)\ntrain([torch.ones(2, 4)])\n")
    assert report.verdict is Verdict.FAIL
    assert report.breaches[0].location.text == "torch.use_deterministic_algorithms(False)"


def test_an_exception_is_an_error_with_what_it_said(audit):
    report = audit(SEEDED + "train([torch.ones(2, 4)])\nraise KeyError('gone')\n")
    assert report.verdict is Verdict.ERROR
    assert "KeyError: 'gone'" in report.recordings[0].outcome.detail


def test_a_script_that_shows_nothing_is_an_error(audit):
    report = audit("import torch\nprint(torch.manual_seed(0).initial_seed(), torch.rand(1))\n")
    assert report.verdict is Verdict.ERROR
    assert "nothing could be observed" in report.reason


def test_runs_that_end_differently_fail(audit):
    report = audit(SEEDED + "train([torch.ones(2, 4)])\nimport sys\nsys.exit(os.getpid() % 250)\n")
    assert report.verdict is Verdict.FAIL
    assert "ended differently" in report.reason


def test_a_file_that_the_first_run_left_outside_is_named(audit, tmp_path):
    outside = tmp_path / "outside.pt"
    text = SEEDED + (
        f"start = torch.zeros(4)\nif os.path.exists({str(outside)!r}):\n    start = torch.load({str(outside)!r})\n"
        f"net = train([torch.ones(2, 4) + start])\ntorch.save(start + 1, {str(outside)!r})\n"
    )
    report = audit(text)
    assert report.verdict is Verdict.FAIL
    assert report.causes[0].kind is CauseKind.FILE
    assert report.causes[0].line.line == line_of(text, "torch.load")


def test_padding_that_was_never_written_is_told_of_a_loss_that_is_no_number(audit):
    text = SEEDED + (
        "net = torch.nn.Linear(4, 1)\npadded = torch.empty(2, 4)\npadded[0] = 1.0\n"
        "loss = net(padded).sum()  # here\nloss.backward()\n"
    )
    report = audit(text)
    assert report.verdict is Verdict.PASS
    (note,) = (note for note in report.notes if "uninitialised memory" in note)
    assert f"script.py:{line_of(text, '# here')} reads memory that was allocated and never written" in note


WHERE = (
    SEEDED
    + """
w = torch.ones(4, requires_grad=True)
spare = torch.empty(4)
SPARE
torch.where(w > 0, w, spare).sum().backward()  # here
"""
)


def test_unwritten_memory_that_strict_mode_hides_is_told(audit):
    report = audit(WHERE.replace("SPARE", ""))
    assert report.verdict is Verdict.PASS
    (note,) = (note for note in report.notes if "never written" in note)
    assert note.startswith("aten.where.self at ")
    assert f"script.py:{line_of(WHERE, '# here')} reads" in note


def test_memory_that_was_written_is_not_told_of(audit):
    report = audit(WHERE.replace("SPARE", "spare.zero_()"))
    assert report.verdict is Verdict.PASS
    assert not report.notes


OVERLAP = (
    SEEDED
    + """
w = torch.ones(1, requires_grad=True)
base = torch.zeros(1000)
base.as_strided((SIZE, SIZE), (1, 1)).add_(0.0)  # here
(base.sum() * w).backward()
"""
)


@pytest.mark.serial
def test_a_race_that_changed_nothing_is_told_and_gets_more_repeats(audit):
    report = audit(OVERLAP.replace("SIZE", "300"), repeats=None)
    assert report.verdict is Verdict.PASS
    assert len(report.comparisons) == 12
    (note,) = (note for note in report.notes if "agree by luck" in note)
    assert note.startswith("aten.add_.Tensor at ")
    assert f":{line_of(OVERLAP, '# here')} writes to a view whose elements share memory" in note


@pytest.mark.serial
def test_what_one_thread_writes_is_no_race(audit):
    report = audit(OVERLAP.replace("SIZE", "100"), repeats=None)
    assert len(report.comparisons) == 5
    assert not report.notes


def test_a_loss_that_is_no_number_by_itself_is_not_blamed_on_memory(audit):
    report = audit(SEEDED + "w = torch.zeros(1, requires_grad=True)\n(w / 0).sum().backward()\n")
    assert report.verdict is Verdict.PASS
    (note,) = (note for note in report.notes if "the loss is nan" in note)
    assert "also without strict mode's fill" in note


@pytest.mark.serial
def test_threads_of_the_script_are_told_and_get_more_repeats(audit):
    text = (
        SEEDED
        + "import threading\nthread = threading.Thread(target=print)\nthread.start()\ntrain([torch.ones(2, 4)])\n"
    )
    report = audit(text, repeats=None)
    assert report.verdict is Verdict.PASS
    assert len(report.comparisons) == 12
    (note,) = (note for note in report.notes if "starts threads" in note)
    assert f"script.py:{line_of(text, 'thread.start()')}:" in note


@pytest.mark.serial
def test_a_loader_out_of_order_gets_more_repeats(audit):
    text = SEEDED + (
        "class Data(torch.utils.data.Dataset):\n    def __len__(self): return 8\n"
        "    def __getitem__(self, n):\n        return torch.full((4,), float(n))\n"
        "train(torch.utils.data.DataLoader(Data(), num_workers=2, in_order=False))\n"
    )
    report = audit(text, repeats=None)
    assert any("in_order=False" in note for note in report.notes)
    assert report.verdict is Verdict.FAIL or len(report.comparisons) == 12


def test_the_recordings_stand_in_the_archive(audit, tmp_path):
    report = audit(CONTROLS["plain"], repeats=2)
    names = [recording.name for recording in report.recordings]
    assert names == ["strict-a", "strict-b1", "strict-b2", "warn_only"]
    assert {recording.outcome for recording in report.recordings} == {Finished(exit_code=0)}
    (archive,) = (tmp_path / "reports").iterdir()
    assert sorted(path.name for path in (archive / "recordings").iterdir()) == sorted(names)
