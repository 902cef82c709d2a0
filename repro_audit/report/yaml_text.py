"""A small part of YAML, in which a YAML 1.1 and a YAML 1.2 reader cannot disagree.

Written are mappings with string keys, sequences, strings, booleans, integers and null. A string stands without quotes
only if it is a plain word that no version of YAML takes for anything else; on reading, whatever two versions could
read differently is refused, and so is all that could cost more than its size: tags, anchors, aliases, deep nests.

Sources: https://yaml.org/spec/1.1/ with https://yaml.org/type/, and https://yaml.org/spec/1.2.2/#103-core-schema
"""

import re
from collections.abc import Mapping, Sequence

import yaml

MAXIMUM_DEPTH = 32
"""Evidence is 13 levels deep."""

MAXIMUM_NODES = 2_000_000
"""Keeps the time and memory for a file of the largest size within seconds and some hundred MiB."""

LARGEST_INTEGER = 2**53
"""Beyond it, readers that keep numbers as doubles lose digits."""

_IMPLICIT_KEY_CHARACTERS = 1000
"""A longer key needs a ``?`` before it: readers look 1024 characters ahead for the colon."""

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[-./][A-Za-z0-9_]+)*")
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")
_AMBIGUOUS_START = frozenset("0123456789+-.~=<")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is absent where PyYAML was built without it


class YamlTextError(Exception):
    """The text is not of this part of YAML; says what is wrong and in which line."""


def write(value: Mapping[str, object], comment: str) -> str:
    r"""The mapping as a YAML document that ends with its end marker.

    Args:
        value: A nest of mappings with string keys, lists, tuples, strings, booleans, integers and None.
        comment: Stands above it, one ``#`` line for each of its lines.

    Returns:
        Text that encodes to UTF-8. A lone surrogate, which no YAML can hold, is written as the six characters
        ``\udc80`` that name it.
    """
    writer = _Writer()
    writer.lines += [f"# {line}" for line in comment.splitlines()]
    writer.mapping(value, 0, "")
    return "\n".join([*writer.lines, "...", ""])


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def mapping(self, value: Mapping[str, object], indent: int, start: str) -> None:
        """Writes entries at `indent`; the first line begins with `start`, which is as wide."""
        for key, item in value.items():
            quoted = quote(key)
            if len(quoted) > _IMPLICIT_KEY_CHARACTERS:
                self.lines.append(f"{start}? {quoted}")
                start, quoted = " " * indent, ""
            self._entry(f"{start}{quoted}:", item, indent)
            start = " " * indent

    def _entry(self, head: str, item: object, indent: int) -> None:
        if isinstance(item, Mapping) and item:
            self.lines.append(head)
            self.mapping(item, indent + 2, " " * (indent + 2))
        elif isinstance(item, list | tuple) and item and not all(type(element) is int for element in item):
            self.lines.append(head)
            self._sequence(item, indent + 2)
        else:
            self._flat(head, item, indent)

    def _sequence(self, items: Sequence[object], indent: int) -> None:
        for item in items:
            if isinstance(item, Mapping) and item:
                self.mapping(item, indent + 2, f"{' ' * indent}- ")
            else:
                self._entry(f"{' ' * indent}-", item, indent)

    def _flat(self, head: str, item: object, indent: int) -> None:
        match item:
            case str() if _readable_as_block(item):
                self.lines.append(f"{head} |" if item.endswith("\n") else f"{head} |-")
                self.lines += [f"{' ' * (indent + 2)}{line}" if line else "" for line in item.rstrip("\n").split("\n")]
            case str():
                self.lines.append(f"{head} {quote(item)}")
            case None:
                self.lines.append(f"{head} null")
            case bool():
                self.lines.append(f"{head} {'true' if item else 'false'}")
            case int():
                self.lines.append(f"{head} {item}")
            case list() | tuple():
                self.lines.append(f"{head} [{', '.join(map(str, item))}]")
            case Mapping():
                self.lines.append(f"{head} {{}}")
            case _:
                raise TypeError(f"{type(item).__name__} has no place in evidence; keep it as text in the record")


def _readable_as_block(text: str) -> bool:
    """Whether text of several lines survives as it stands, without escapes."""
    body = text.removesuffix("\n")
    if "\n" not in text or not body or body.startswith((" ", "\n")) or body.endswith("\n"):
        return False
    return all(line.isprintable() and not line.endswith(" ") for line in body.split("\n"))


def quote(text: str) -> str:
    """A string on one line: as it stands if it is a plain word, else in double quotes."""
    if _WORD.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isprintable():
        named = escaped.encode("utf-8", "backslashreplace").decode()
        if named != escaped:  # it held a lone surrogate: what names it has to survive as text
            return quote(text.encode("utf-8", "backslashreplace").decode())
        escaped = "".join(character if character.isprintable() else _escape(character) for character in escaped)
    return f'"{escaped}"'


def _escape(character: str) -> str:
    number = ord(character)
    match character:
        case "\n":
            return "\\n"
        case "\t":
            return "\\t"
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def read(text: str) -> object:
    """The value of a YAML document.

    Raises:
        YamlTextError: It is no YAML, or not of this part of it, or it ends without its end marker.
    """
    try:
        return _Reader(text).value()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise YamlTextError(f"{line}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise YamlTextError(str(error).splitlines()[0]) from error
    except (ValueError, OverflowError) as error:
        # The pure reader's: an escape beyond Unicode; and of both: text that is no valid Unicode.
        raise YamlTextError(f"characters that are not Unicode: {error}") from error


class _Reader:
    """Builds values from the parser's events, without recursion: no nest can exhaust a stack."""

    def __init__(self, text: str) -> None:
        self._parser = _LOADER(text)
        self._open: list[dict[str, object] | list[object]] = []
        self._keys: list[str | None] = []
        self._values: list[object] = []

    def value(self) -> object:
        next_event = self._parser.get_event
        for _ in range(MAXIMUM_NODES):
            event = next_event()
            # By far the most events are scalars, so these take the shortest way.
            if type(event) is yaml.ScalarEvent:
                if event.anchor is not None or event.tag is not None:
                    raise self._error(event, "an anchor" if event.tag is None else "a tag")
                text = event.value
                self._add(text if event.style and text.isascii() else self._scalar(event), event)
                continue
            match event:
                case yaml.NodeEvent():
                    self._start(event)
                case yaml.CollectionEndEvent():
                    self._keys.pop()
                    self._add(self._open.pop(), event)
                case yaml.DocumentStartEvent() if self._values:
                    raise self._error(event, "a second document")
                case yaml.DocumentStartEvent() if event.tags:
                    raise self._error(event, "a tag directive")
                case yaml.DocumentEndEvent() if not event.explicit:
                    raise self._error(event, "the end marker ... is missing: the end of the file is lost")
                case yaml.StreamEndEvent() if self._values:
                    return self._values[0]
                case yaml.StreamEndEvent():
                    raise YamlTextError("nothing in it")
        raise YamlTextError(f"more than {MAXIMUM_NODES} values")

    def _start(self, event: yaml.NodeEvent) -> None:
        """Opens a collection."""
        if event.anchor is not None:
            raise self._error(event, "an alias" if isinstance(event, yaml.AliasEvent) else "an anchor")
        if getattr(event, "tag", None) is not None:
            raise self._error(event, "a tag")
        self._open.append({} if isinstance(event, yaml.MappingStartEvent) else [])
        self._keys.append(None)
        if len(self._open) > MAXIMUM_DEPTH:
            raise self._error(event, f"a nest of more than {MAXIMUM_DEPTH} levels")

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if not text.isascii():
            text.encode()  # raises for the lone surrogates that the pure reader lets pass
        if event.style:
            return text
        match text:
            case "true":
                return True
            case "false":
                return False
            case "null":
                return None
        if _INTEGER.fullmatch(text) and abs(number := int(text)) <= LARGEST_INTEGER:
            return number
        if not text or text[0] in _AMBIGUOUS_START or text.lower() in _RESERVED:
            raise self._error(event, f"the plain text {text[:40]!r}, which not all readers take for the same")
        return text

    def _add(self, value: object, event: yaml.Event) -> None:
        if not self._open:
            self._values.append(value)
            return
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
            return
        key = self._keys[-1]
        if key is not None:
            container[key] = value
            self._keys[-1] = None
        elif not isinstance(value, str):
            raise self._error(event, "a key that is no string")
        elif value in container:
            raise self._error(event, f"the key {value[:80]!r} for the second time")
        else:
            self._keys[-1] = value

    def _error(self, event: yaml.Event, words: str) -> YamlTextError:
        mark = event.start_mark
        return YamlTextError(f"line {mark.line + 1}: {words}" if mark else words)
