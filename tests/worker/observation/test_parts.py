"""The parts of the observer by themselves: when it looks, at which tensors, under which names, by which digests."""

import dataclasses
import random

import numpy
import numpy.random
import pytest
import torch
import xxhash

from repro_audit.records import Role
from repro_audit.worker.digest import VERSION_LINE, digest_leaf
from repro_audit.worker.leaves import Leaf, LeafError
from repro_audit.worker.observation import schedule as schedules
from repro_audit.worker.observation.quick_digest import generator_digests, quick_digest, quick_digests, row_sum
from repro_audit.worker.observation.schedule import Schedule
from repro_audit.worker.observation.subjects import Subjects
from repro_audit.worker.observation.tensors import saved_tensors, tensors_in

# ---------------------------------------------------------------------------------------------- when


def taken(schedule: Schedule, count: int, cost: float = 0.0) -> list[int]:
    for _ in range(count):
        if schedule.wants():
            schedule.cost(cost)
    return schedule.taken


def test_what_costs_little_is_looked_at_every_time():
    assert taken(Schedule(None), 50) == list(range(50))


def test_what_costs_much_is_looked_at_twice_and_then_no_more():
    assert taken(Schedule(None), 50, cost=10.0) == [0, 1]


def test_it_is_looked_at_again_when_enough_time_has_passed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(schedules.time, "perf_counter", lambda: now[0])
    schedule = Schedule(None)
    for _ in range(200):
        now[0] += 1.0
        if schedule.wants():
            schedule.cost(0.5)
    share = 0.5 * len(schedule.taken) / now[0]
    assert schedule.taken[:2] == [0, 1]
    assert 0.01 < share <= schedules.SHARE + 0.5 / now[0]


def test_another_run_looks_where_the_first_did():
    assert taken(Schedule((0, 1, 7)), 10) == [0, 1, 7]
    assert taken(Schedule(()), 10) == []


# ---------------------------------------------------------------------------------------------- digests


def test_a_quick_digest_is_the_documented_one_under_another_function():
    x = torch.arange(6.0).reshape(2, 3)
    content = VERSION_LINE + b"tensor\nfloat32\nstrided\n2,3\n" + x.numpy().tobytes()
    assert quick_digest(x) == f"xxh3_128:{xxhash.xxh3_128_hexdigest(content)}"
    assert quick_digest(x.t().contiguous().t()) == quick_digest(x)


DIFFERENT = [
    torch.zeros(4),
    -torch.zeros(4),
    torch.zeros(2, 2),
    torch.zeros(4, dtype=torch.int32),
    torch.zeros(4).to_sparse(),
    torch.tensor([0.0, 0.0, 0.0, 1e-45]),
    torch.tensor([float("nan")] * 4),
]


def test_unlike_leaves_have_unlike_digests():
    assert len({quick_digest(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_what_is_no_plain_tensor_has_its_usual_digest():
    for value in (3, "text", torch.eye(2).to_sparse(), numpy.float32(1)):
        assert quick_digest(value) == digest_leaf(value)


def test_what_has_no_digest_is_told_with_its_reason_and_the_rest_is_digested():
    freed = torch.zeros(4)
    freed.untyped_storage().resize_(0)
    leaves = {"good": Leaf(Role.VALUE, torch.ones(2)), "freed": Leaf(Role.VALUE, freed)}
    digests, failures = quick_digests(leaves)
    assert list(digests) == ["good"]
    assert "freed" in failures["freed"]
    with pytest.raises(LeafError):
        quick_digest(freed)


def test_the_sum_over_rows_knows_the_rows_and_not_their_order():
    x = torch.rand(8, 3)
    assert row_sum(x) == row_sum(x.flip(0).contiguous())
    assert row_sum(x) != row_sum(x + 1)
    assert row_sum(x[:4].contiguous()) != row_sum(x)
    for odd in (torch.tensor(1.0), torch.rand(0, 3), torch.rand(5000, 1), torch.rand(3, 8).t()):
        assert row_sum(odd) is None


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("torch", lambda: torch.rand(1)),
        ("python", random.random),
        ("numpy", lambda: numpy.random.rand(1)),
        ("python", lambda: random.gauss(0, 1)),
    ],
)
def test_a_draw_moves_its_generator_and_no_other(name, draw):
    before = generator_digests()
    assert generator_digests() == before
    draw()
    after = generator_digests()
    assert {key for key in after if after[key] != before[key]} == {name}


# ---------------------------------------------------------------------------------------------- which tensors


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    more: dict


def test_tensors_are_found_in_whatever_holds_them():
    x = torch.ones(1)
    nest = ({"a": [x, 3, numpy.ones(2)]}, Batch(x=x, more={1: x}), "text", {x})
    assert [path for path, _ in tensors_in(nest)] == ["0/a/0", "0/a/2", "1/x", "1/more/1"]
    assert [path for path, _ in tensors_in(x)] == ["0"]


def test_nests_without_end_end():
    nest: list = []
    nest.append(nest)
    assert list(tensors_in(nest)) == []


class Holder:
    def __init__(self, tensor):
        self.hidden = tensor


def test_saved_tensors_are_found_where_pickling_goes():
    x, y, z = torch.zeros(1), torch.ones(2), torch.full((3,), 2.0)
    found = saved_tensors({"model": {"w": x}, "other": Holder(y), "array": numpy.ones(2), "set": frozenset([z])})
    assert {tuple(value.shape) for value in found.values()} >= {(1,), (2,), (3,)}
    module = torch.nn.Linear(2, 1)
    assert set(saved_tensors(module.state_dict())) == {"weight", "bias"}
    assert len(saved_tensors(module)) >= 2


def test_what_cannot_be_pickled_is_left_to_torch_save_to_complain_of():
    assert len(saved_tensors({"w": torch.ones(1), "f": Holder(lambda: 1)})) == 1


# ---------------------------------------------------------------------------------------------- names


def test_parameters_are_named_by_the_module_that_owns_them_else_by_their_place():
    subjects = Subjects()
    net, lone = torch.nn.Linear(2, 1), torch.ones(2, requires_grad=True)
    subjects.add_module(net)
    optimizer = torch.optim.SGD([*net.parameters(), lone], lr=0.1, momentum=0.9)
    (net(torch.ones(1, 2)) * lone).sum().backward()
    optimizer.step()
    leaves, failures = subjects.optimizer_leaves(optimizer)
    assert not failures
    assert {path: leaf.role for path, leaf in leaves.items() if "weight" in path and "group" not in path} == {
        "Linear.weight": Role.PARAMETER,
        "Linear.weight.grad": Role.GRADIENT,
        "state/Linear.weight/momentum_buffer": Role.OPTIMIZER,
    }
    assert "group 0/parameter 2" in leaves
    assert leaves["group 0/lr"].role is Role.OPTIMIZER


def test_objects_of_one_class_are_numbered_in_the_order_they_come():
    subjects = Subjects()
    first, second = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    assert [subjects.names.of(one) for one in (first, second, first)] == ["Linear", "Linear#2", "Linear"]
    unordered = Subjects(ordered=False)
    assert [unordered.names.of(one) for one in (first, second)] == ["Linear", "Linear"]


def test_models_that_the_script_let_go_of_are_let_go_of_and_seen_a_last_time():
    subjects = Subjects()
    kept = torch.nn.Linear(1, 1)
    subjects.add_module(kept)
    for _ in range(3):
        gone = subjects.add_module(torch.nn.Linear(2, 2))
    assert all(module is not kept for module in gone)
    assert len(gone) == 1
    assert "Linear.weight" in subjects.final_leaves()[0]


def test_leaves_of_a_graph_that_nobody_owns_are_found():
    subjects = Subjects()
    w = torch.ones(2, requires_grad=True)
    net = torch.nn.Linear(2, 1)
    subjects.add_module(net)
    found = subjects.graph_leaves([net(w * 2).sum()])
    assert [leaf.value.shape for leaf in found.values()] == [(2,)]
    assert [tuple(leaf.value.shape) for path, leaf in subjects.final_leaves()[0].items() if path == "leaf 0"] == [(2,)]


def test_modules_without_parameters_are_not_remembered():
    subjects = Subjects()
    subjects.add_module(torch.nn.ReLU())
    assert subjects.final_leaves() == ({}, {})
