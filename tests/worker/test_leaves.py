import collections
import dataclasses
import enum
import gc
import random
import warnings
import weakref

import numpy
import pytest
import torch

from repro_audit.records import Role
from repro_audit.worker.leaves import DEPTH_LIMIT, Leaf, LeafError, named_leaves


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.register_parameter("absent", None)


class NetWithExtraState(torch.nn.Linear):
    def get_extra_state(self):
        return {"epoch": 3}

    def set_extra_state(self, state):
        raise NotImplementedError


@dataclasses.dataclass
class Batch:
    inputs: torch.Tensor
    size: int


class Color(enum.Enum):
    RED = 1


def roles(state):
    return {path: leaf.role for path, leaf in named_leaves(state).items()}


def test_a_nest_of_mappings_sequences_and_dataclasses_is_flattened_in_order():
    point = collections.namedtuple("point", "x y")(1, "a")
    state = {
        "b": [1.0, (None, b"x")],
        "a": {0: point, True: collections.deque([2])},
        "shape": torch.Size([4]),
        "batch": Batch(torch.zeros(2), 2),
        "color": Color.RED,
    }
    assert list(named_leaves(state)) == [
        "b/0", "b/1/0", "b/1/1", "a/0/0", "a/0/1", "a/True/0", "shape/0", "batch/inputs", "batch/size", "color",
    ]  # fmt: skip


def test_a_module_gives_parameters_gradients_and_all_buffers():
    net = Net()
    net.layers[0](torch.ones(3, 2)).sum().backward()
    assert roles({"model": net}) == {
        "model/scratch": Role.BUFFER,
        "model/layers.0.weight": Role.PARAMETER,
        "model/layers.0.weight.grad": Role.GRADIENT,
        "model/layers.0.bias": Role.PARAMETER,
        "model/layers.0.bias.grad": Role.GRADIENT,
        "model/layers.1.weight": Role.PARAMETER,
        "model/layers.1.bias": Role.PARAMETER,
        "model/layers.1.running_mean": Role.BUFFER,
        "model/layers.1.running_var": Role.BUFFER,
        "model/layers.1.num_batches_tracked": Role.BUFFER,
    }


def test_tied_weights_have_a_leaf_under_each_name():
    net = torch.nn.ModuleDict({"a": torch.nn.Linear(1, 1), "b": torch.nn.Linear(1, 1)})
    net["b"].weight = net["a"].weight
    leaves = named_leaves(net)
    assert leaves["a.weight"].value is leaves["b.weight"].value


def test_extra_state_of_a_module_is_part_of_it():
    assert named_leaves([NetWithExtraState(1, 1)])["0/_extra_state/epoch"] == Leaf(Role.BUFFER, 3)


def test_parameter_lists_and_scripted_modules_are_modules():
    with warnings.catch_warnings(action="ignore"):
        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(1, 1)))
    assert roles({"m": scripted}) == {"m/0.weight": Role.PARAMETER, "m/0.bias": Role.PARAMETER}
    assert roles({"p": torch.nn.ParameterList([torch.zeros(1)])}) == {"p/0": Role.PARAMETER}


def test_lazy_parameters_without_a_shape_are_a_string():
    assert named_leaves(torch.nn.LazyLinear(3))["weight"] == Leaf(Role.PARAMETER, "uninitialized")


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS"])
def test_an_optimizer_gives_its_state_dict(name):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = getattr(torch.optim, name)([parameter], lr=0.1)
    optimizer.zero_grad()
    parameter.sum().backward()
    optimizer.step(lambda: parameter.sum())
    leaves = named_leaves({"optimizer": optimizer})
    assert leaves["optimizer/param_groups/0/lr"] == Leaf(Role.OPTIMIZER, 0.1)
    assert {leaf.role for leaf in leaves.values()} == {Role.OPTIMIZER}
    if name == "Adam":
        assert "optimizer/state/0/exp_avg" in leaves


@pytest.mark.parametrize(
    "build",
    [
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1),
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=3),
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0),
        lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer),
        lambda optimizer: torch.amp.GradScaler("cpu"),
    ],
)
def test_schedulers_and_scalers_give_their_state_dict(build):
    from repro_audit.worker.digest import digest_leaves

    leaves = named_leaves({"s": build(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0))})
    assert leaves
    assert {leaf.role for leaf in leaves.values()} == {Role.OPTIMIZER}
    assert digest_leaves(leaves).keys() == leaves.keys()


def test_another_object_with_a_state_dict_gives_values():
    class Sampler:
        def state_dict(self):
            return {"position": 7}

    assert named_leaves({"sampler": Sampler()}) == {"sampler/position": Leaf(Role.VALUE, 7)}


def test_plain_tensors_have_roles_and_gradients():
    weight = torch.ones(2, requires_grad=True)
    hidden = weight * 2
    hidden.sum().backward()
    assert roles({"w": weight, "h": hidden, "p": torch.nn.Parameter(torch.ones(1))}) == {
        "w": Role.VALUE,
        "w.grad": Role.GRADIENT,
        "h": Role.VALUE,
        "p": Role.PARAMETER,
    }


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (torch.Generator(), lambda generator: torch.rand(1, generator=generator)),
        (random.Random(1), lambda generator: generator.random()),
        (numpy.random.default_rng(1), lambda generator: generator.random()),
        (numpy.random.Generator(numpy.random.MT19937(1)), lambda generator: generator.random()),
        (numpy.random.RandomState(1), lambda generator: generator.normal()),
        (numpy.random.Philox(1), lambda generator: generator.random_raw()),
    ],
)
def test_a_generator_gives_a_state_that_changes_only_when_it_is_drawn_from(generator, draw):
    from repro_audit.worker.digest import digest_leaf

    def digest():
        leaf = named_leaves({"g": generator})["g"]
        assert leaf.role is Role.RNG
        return digest_leaf(leaf.value)

    before = digest()
    assert digest() == before
    draw(generator)
    assert digest() != before


def test_a_state_that_is_one_leaf_has_a_name():
    tensor = torch.ones(1)
    assert named_leaves(tensor) == {"value": Leaf(Role.VALUE, tensor)}
    assert named_leaves({}) == {}


def test_two_leaves_of_one_path_are_an_error_that_names_both():
    with pytest.raises(
        LeafError, match=r"leaf 'a/1' of type int has two sources, state\['a'\]\[1\] and state\['a/1'\]"
    ):
        named_leaves({"a": {1: 1.0}, "a/1": 2})
    with pytest.raises(LeafError, match=r"state\['a'\]\[1\] and state\['a'\]\['1'\]; rename"):
        named_leaves({"a": {1: 1.0, "1": 2}})


@pytest.mark.parametrize("value", [{1, 2}, frozenset(), {"a": 1}.keys()])
def test_a_set_is_an_error_since_it_has_no_order(value):
    with pytest.raises(LeafError, match=r"leaf 'a/0' of type \w+ has no order; convert it to a sorted list"):
        named_leaves({"a": [value]})


def test_a_nest_that_contains_itself_is_an_error():
    nest = {"a": []}
    nest["a"].append(nest)
    with pytest.raises(LeafError, match="'a/0' of type dict contains itself"):
        named_leaves(nest)
    module = torch.nn.Sequential(torch.nn.Linear(1, 1))
    module._modules["again"] = module
    with pytest.raises(LeafError, match=r"'m/again' of type .*Sequential contains itself"):
        named_leaves({"m": module})


def test_a_nest_that_is_too_deep_is_an_error():
    nest = 1
    for _ in range(DEPTH_LIMIT):
        nest = [nest]
    assert len(named_leaves(nest)) == 1
    with pytest.raises(LeafError, match="levels deep"):
        named_leaves([nest])


def test_the_same_object_twice_side_by_side_is_no_cycle():
    shared = [1]
    assert list(named_leaves([shared, shared])) == ["0/0", "1/0"]


@pytest.mark.parametrize("key", [object(), torch.nn.Parameter(torch.ones(1)), (1, object()), int])
def test_a_key_without_a_stable_text_is_an_error(key):
    with pytest.raises(LeafError, match="key without a stable text"):
        named_leaves({"state": {key: 1}})


def test_paths_hold_no_control_characters_nor_surrogates():
    paths = list(named_leaves({"a\n\0b": 1, "\ud800": 2, "é": 3, (1, "x"): 4}))
    assert paths == ["a\\n\\x00b", "\\ud800", "é", "(1, 'x')"]


def test_no_tensor_is_kept_alive():
    tensor = torch.ones(1)
    gone = weakref.ref(tensor)
    named_leaves({"a": [tensor]})
    del tensor
    gc.collect()
    assert gone() is None
