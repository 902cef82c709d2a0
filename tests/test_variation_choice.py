import pytest

from repro_audit.errors import UsageError
from repro_audit.variation_choice import chosen_variations
from repro_audit.variations import VARIATIONS

ALL = [variation.name for variation in VARIATIONS]


def test_by_default_all_are_made_but_those_that_disturb_or_take_long():
    assert list(chosen_variations([])) == [name for name in ALL if name not in ("contention", "autotune")]


def test_all_are_made_where_all_are_asked_for():
    assert list(chosen_variations(["+all"])) == ALL


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["-all,+tz"], {"tz": ("UTC-14",)}),
        (["-all", "+tz", "+umask", "-tz"], {"umask": ("077",)}),
        (["-all,threads=1:4"], {"threads": ("1", "4")}),
        (["-all,threads=3:3"], {"threads": ("3",)}),
        (["-all,+threads,threads=4"], {"threads": ("4",)}),
        (["-all, +tz , cublas-workspace=:16:8"], {"tz": ("UTC-14",), "cublas-workspace": (":16:8",)}),
        (
            ["-all,clock=2001-02-03T04:05:06+00:00"],
            {"clock": ("2001-02-03T04:05:06+00:00",)},
        ),
    ],
)
def test_items_are_applied_one_after_the_other(words, chosen):
    assert chosen_variations(words) == chosen


def test_all_threads_are_as_many_as_there_are_cores(monkeypatch):
    monkeypatch.setattr("repro_audit.variations.usable_cores", lambda: 8)
    assert chosen_variations(["-all,+threads"]) == {"threads": ("1", "2", "8")}
    monkeypatch.setattr("repro_audit.variations.usable_cores", lambda: 2)
    assert chosen_variations(["-all,+threads"]) == {"threads": ("1", "2")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["+thread"], "no variation 'thread'; did you mean threads?"),
        (["threads"], "write +threads or -threads"),
        (["-threads=1"], "write one of the two"),
        (["-all"], "--vary leaves no variation"),
        (["-all,"], "names no variation"),
        ([""], "names no variation"),
        (["=1"], "names no variation"),
        (["threads=0"], "threads cannot have the value '0'; it has 1, 2, all"),
        (["threads="], "cannot have the value ''"),
        (["cpu-capability=avx3"], "cannot have the value 'avx3'; it has default, avx2"),
        (["clock=yesterday"], "clock cannot have the value 'yesterday'"),
        (["umask=9"], "umask cannot have the value '9'"),
        (["locale=C/../x"], "locale cannot have the value"),
        (["tz="], "tz cannot have the value ''"),
    ],
)
def test_what_is_no_item_is_refused(words, message):
    with pytest.raises(UsageError) as error:
        chosen_variations(words)
    assert message in str(error.value)


def test_a_script_is_put_under_those_that_a_script_can_be_put_under():
    assert not {"cwd", "dataloader-workers", "device-index"} & set(chosen_variations(["+all"], of_script=True))
    with pytest.raises(UsageError) as error:
        chosen_variations(["+cwd"], of_script=True)
    assert "a script cannot be put under variation cwd" in str(error.value)


@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda variation: variation.name)
def test_every_variation_is_complete(variation):
    assert variation.source.startswith("https://")
    assert variation.words
    assert all(variation.valid(value) for value in variation.values)
