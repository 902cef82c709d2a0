"""Loads the part of YAML that evidence is written in, in bounded time and memory, and refuses the rest."""

from typing import Any

import yaml

DEPTH_CAP = 40
"""Evidence nests about a dozen levels; libyaml's composer recurses, and dies of a hundred thousand."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class StrictYamlError(Exception):
    """The text is not in the subset; the message says where and why."""


def load_strict(text: str) -> object:
    """Loads one document of mappings, sequences and plain or quoted scalars.

    Raises:
        StrictYamlError: A syntax error; a tag, an anchor or an alias (which make small files large); a key twice in a
            mapping, or one that is not a scalar; nesting deeper than `DEPTH_CAP`; no document, or several.
    """
    try:
        _scan(text)
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}: " if mark else ""
        raise StrictYamlError(f"{place}{error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise StrictYamlError(str(error).splitlines()[0]) from error


def _scan(text: str) -> None:
    """Walks the events of the text, which takes no more memory than the deepest nesting."""
    documents = 0
    levels: list[_Level] = []
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise StrictYamlError(f"line {line}: a second document")
        elif isinstance(event, yaml.AliasEvent):
            raise StrictYamlError(f"line {line}: an alias")
        elif isinstance(event, yaml.NodeEvent):
            if event.anchor is not None:
                raise StrictYamlError(f"line {line}: an anchor")
            if getattr(event, "tag", None) is not None:
                raise StrictYamlError(f"line {line}: a tag")
            if levels:
                levels[-1].child(event, line)
            if isinstance(event, yaml.CollectionStartEvent):
                if len(levels) == DEPTH_CAP:
                    raise StrictYamlError(f"line {line}: more than {DEPTH_CAP} levels deep")
                levels.append(_Level(mapping=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
    if documents == 0:
        raise StrictYamlError("it is empty")


class _Level:
    """A collection that is open while its events pass."""

    def __init__(self, *, mapping: bool) -> None:
        self._mapping = mapping
        self._keys: set[str] = set()
        self._key_is_next = True

    def child(self, event: Any, line: int) -> None:
        """Takes note of a node inside it."""
        if not self._mapping:
            return
        if self._key_is_next:
            if not isinstance(event, yaml.ScalarEvent):
                raise StrictYamlError(f"line {line}: a key that is no scalar")
            if event.value in self._keys:
                raise StrictYamlError(f"line {line}: the key {event.value[:80]!r} for a second time")
            self._keys.add(event.value)
        self._key_is_next = not self._key_is_next
