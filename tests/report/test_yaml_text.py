import re
import time
from typing import ClassVar

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_audit.report import yaml_text
from repro_audit.report.yaml_text import MAXIMUM_DEPTH, YamlTextError, read, write

END = "\n...\n"

TRICKY = [
    "", " ", "~", "null", "Null", "yes", "No", "on", "OFF", "y", "n", "true", "False", "0", "1", "-1", "007", "0o17",
    "0x1F", "0b1", "1_000", "1.5", "1e3", "0e12", "0e1234567", ".5", ".inf", "-.INF", ".nan", "NaN", "inf", "1:30",
    "190:20:30", "2026-01-02", "2026-01-02T03:04:05Z", "=", "=1+1", "<<", "*a", "&a", "!!str", "%YAML", "@a", "`a",
    "- a", "a: b", "a #b", "#", "[a]", "{a}", "'a'", '"a"', "\\", "\\n", "---", "...", "? a", "|", ">", "a,b", " a",
    "a ", "\ta",
    "sha256:00ff", "2.13.0", "3.11", "v1.0", "a.b", "model/0.weight", "strict-a", "PASS", "a\nb", "a\nb\n", "a\n\nb",
    "a\nb\n\n", "\n", "\na", " a\nb", "a \nb", "a\n  b\n", "a\n b", "a\r\nb", "a\rb", "a\tb\nc", "# a\n# b", "- a\n- b",
    "---\n...", "\x00", "\x07\x1b[31m", "\x7f", "\x85", "\xa0", "\u2028\u2029", "\u202e", "\ufeff", "\ufffe", "\uffff",
    "\U0001f525", "\U0010ffff", "\u00e9\u4e2d", "a" * 3000, "a b " * 1000,
]  # fmt: skip


class CoreSchemaLoader(yaml.SafeLoader):
    """A reader by YAML 1.2's core schema, whose plain scalars PyYAML would read by YAML 1.1."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


for tag, pattern in (
    ("null", r"null|Null|NULL|~|"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
):
    CoreSchemaLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), None)


def read_by_all(value):
    """The value as each reader sees it, after the writer wrote it."""
    text = write(value, "comment")
    text.encode()
    return {
        "own": read(text),
        "1.1, pure": yaml.load(text, Loader=yaml.SafeLoader),
        "1.1, libyaml": yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)),
        "1.2": yaml.load(text, Loader=CoreSchemaLoader),
    }


def assert_survives(value):
    assert read_by_all(value) == dict.fromkeys(("own", "1.1, pure", "1.1, libyaml", "1.2"), value)


def test_the_core_schema_reader_of_this_test_reads_otherwise_than_the_old_one():
    assert yaml.load("[0e12, yes, 1:30]", Loader=CoreSchemaLoader) == [0.0, "yes", "1:30"]
    assert yaml.load("[0e12, yes, 1:30]", Loader=yaml.SafeLoader) == ["0e12", True, 90]


@pytest.mark.parametrize("text", TRICKY, ids=range(len(TRICKY)))
def test_every_reader_gets_the_same_text_as_value_item_and_key(text):
    assert_survives({"value": text, "items": [text, {"nested": text}], text: {text: text}})


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_every_reader_gets_any_text(text):
    assert_survives({"a": text, text: [text, 1]})


def nests(children):
    return st.lists(children, max_size=3) | st.dictionaries(st.text("ab:\n ", max_size=3), children, max_size=3)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.text("ab-", max_size=3),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("a0:\n #-", max_size=6),
            nests,
            max_leaves=8,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_reader_gets_any_nest(value):
    assert_survives(value)


def test_a_lone_surrogate_becomes_the_text_that_names_it():
    assert read(write({"path": "a\udc80\n"}, "")) == {"path": "a\\udc80\n"}


def test_a_traceback_stands_readable_as_a_block():
    text = write({"detail": "Traceback:\n  File\nValueError: no\n"}, "what this is")
    assert text == "# what this is\ndetail: |\n  Traceback:\n    File\n  ValueError: no\n...\n"


def test_a_number_that_is_no_integer_has_no_place():
    with pytest.raises(TypeError, match="float has no place in evidence"):
        write({"loss": 0.5}, "")


def test_an_equal_value_in_two_places_makes_no_alias():
    shared = ["a", "b"]
    assert "*" not in write({"one": shared, "other": shared}, "")


@pytest.mark.parametrize("loader", ["libyaml", "pure"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!str b", "line 1: a tag"),
        ("a: !!python/object/apply:os.system [ls]", "line 1: a tag"),
        ("a: ! b", "line 1: a tag"),
        ("%TAG ! tag:example.org,2026:\n---\na: b", "line 1: a tag directive|a tag directive"),
        ("a: &x b\nc: *x", "line 1: an anchor"),
        ("a: *x", "line 1: an alias"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' for the second time"),
        ("[a, b]: c", "line 1: a key that is no string"),
        ("1: c", "line 1: a key that is no string"),
        ("<<: {a: b}", "line 1: the plain text '<<'"),
        ("a: .nan", "line 1: the plain text '.nan'"),
        ("a: 1.5", "line 1: the plain text '1.5'"),
        ("a: 0e12", "line 1: the plain text '0e12'"),
        ("a: yes", "line 1: the plain text 'yes'"),
        ("a: 2026-01-02", "line 1: the plain text '2026-01-02'"),
        ("a:", "line 1: the plain text ''"),
        ("a: 99999999999999999", "line 1: the plain text '99999999999999999'"),
        ("a: b\n---\nc: d", "line 2: the end marker|line 2: a second document"),
        ("a: b\n...\n---\nc: d", "line 3: a second document"),
        ("a: [b", "line "),
        ("a: 'b", "line "),
        ("a: b\n\tc", "line "),
        ("a: \x00", "control characters|special characters|not allowed"),
        ('a: "\\ud800"', "Unicode"),
        ('a: "\\UFFFFFFFF"', "Unicode"),
    ],
)
def test_what_readers_could_take_differently_is_refused_with_its_place(text, words, loader, monkeypatch):
    if loader == "pure":
        monkeypatch.setattr(yaml_text, "_LOADER", yaml.SafeLoader)
    with pytest.raises(YamlTextError, match=words):
        read(text + END)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "...\n"])
def test_a_text_without_a_value_is_refused(text):
    with pytest.raises(YamlTextError, match=r"nothing in it|end marker|line"):
        read(text)


def test_a_lost_end_is_noticed_at_every_line():
    lines = write({"a": ["b", "c"], "d": {"e": "f\ng\n"}}, "").splitlines(keepends=True)
    for kept in range(len(lines)):
        with pytest.raises(YamlTextError):
            read("".join(lines[:kept]))


@pytest.mark.parametrize(
    "hostile",
    ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000, "[" * 100_000 + "]" * 100_000, "a: " + "[" * 90],
    ids=["brackets", "braces", "dashes", "question marks", "balanced", "just too deep"],
)
@pytest.mark.parametrize("loader", ["libyaml", "pure"])
def test_a_deep_nest_is_refused_at_once(hostile, loader, monkeypatch):
    if loader == "pure":
        monkeypatch.setattr(yaml_text, "_LOADER", yaml.SafeLoader)
    started = time.monotonic()
    with pytest.raises(YamlTextError):
        read(hostile)
    assert time.monotonic() - started < 2


def test_the_deepest_nest_that_is_allowed_is_read():
    depth = MAXIMUM_DEPTH - 1
    assert read("a: " + "[" * depth + "]" * depth + END) is not None


def test_more_values_than_any_audit_has_are_refused(monkeypatch):
    monkeypatch.setattr(yaml_text, "MAXIMUM_NODES", 100)
    with pytest.raises(YamlTextError, match="more than 100 values"):
        read("a: [" + "1, " * 200 + "]" + END)


def test_aliases_cannot_make_a_small_file_large():
    lines = ["a0: &a0 [x, x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(YamlTextError, match="line 1: an anchor"):
        read("\n".join(lines) + END)
