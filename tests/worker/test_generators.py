import random

import numpy
import torch

from repro_audit.records import Role
from repro_audit.worker.digest import digest_leaves
from repro_audit.worker.generators import generator_states, seed_generators


def draws():
    return random.random(), numpy.random.rand(), torch.rand(1).item()


def test_the_same_seed_gives_the_same_draws():
    names = seed_generators(5)
    first = draws()
    seed_generators(5)
    assert draws() == first
    seed_generators(6)
    assert all(one != other for one, other in zip(draws(), first, strict=True))
    assert names[:3] == ("python", "numpy", "torch")
    assert ("torch.cuda" in names) == torch.backends.cuda.is_built()


def test_seeds_beyond_the_range_of_numpy_are_taken():
    for seed in (2**64 - 1, 2**32, -1):
        seed_generators(seed)


def test_seeding_does_not_initialize_cuda():
    seed_generators(1)
    assert not torch.cuda.is_initialized()


def test_each_generator_has_a_leaf_that_changes_with_its_own_draws_only():
    seed_generators(5)
    before = digest_leaves(generator_states())
    assert list(before) == ["rng/python", "rng/numpy", "rng/torch"]
    assert {leaf.role for leaf in generator_states().values()} == {Role.RNG}
    assert digest_leaves(generator_states()) == before
    for path, draw in {
        "rng/python": random.random,
        "rng/numpy": numpy.random.rand,
        "rng/torch": lambda: torch.rand(1),
    }.items():
        seed_generators(5)
        draw()
        after = digest_leaves(generator_states())
        assert [name for name in before if before[name] != after[name]] == [path]
