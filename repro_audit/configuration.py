"""Fills what the command line leaves open: from the environment, a file, or the defaults, in this order."""

import argparse
import difflib
import hashlib
import json
import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from pathlib import Path

from repro_audit.errors import UsageError
from repro_audit.option_types import COMMAND_KEYS, ISOLATIONS, Default, device, positive, seconds, seed
from repro_audit.records import Configuration, Waiver
from repro_audit.settings import CUBLAS_CHOICES, PASSPHRASE_VARIABLE, require_current_folder

TABLE = "repro_audit"
"""Of ``[tool.repro_audit]`` in a pyproject.toml."""

PYPROJECT = "pyproject.toml"

YAML_FILE = "repro_audit.yaml"

PREFIX = "REPRO_AUDIT_"

FILE_VARIABLE = "REPRO_AUDIT_CONFIG"

NO_KEYS = (FILE_VARIABLE, PASSPHRASE_VARIABLE)
"""What the environment may say beside keys: which file to read, and the passphrase of a signing key."""

WAIVERS = "waivers"

MAXIMUM_BYTES = 1 << 20


class _Origin(IntEnum):
    """Where a value is from; the greatest wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    COMMAND_LINE = 3

    @property
    def words(self) -> str:
        """As the evidence says it."""
        return self.name.lower().replace("_", " ")


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return parse


@dataclass(frozen=True, kw_only=True)
class _Key:
    """A key, and the option that it stands for."""

    name: str
    dest: str
    parse: Callable[[str], object] = str
    many: bool = False


KEYS = {
    key.name: key
    for key in (
        _Key(name="workloads", dest="workloads", parse=Path, many=True),
        _Key(name="select", dest="selection", many=True),
        _Key(name="devices", dest="device", parse=device, many=True),
        _Key(name="required-devices", dest="require_device", parse=device, many=True),
        _Key(name="steps", dest="steps", parse=positive),
        _Key(name="seed", dest="seed", parse=seed),
        _Key(name="repeats", dest="repeats", parse=positive),
        _Key(name="timeout", dest="timeout", parse=seconds),
        _Key(name="budget", dest="budget", parse=seconds),
        _Key(name="isolation", dest="isolation", parse=_choice(*ISOLATIONS)),
        _Key(name="cublas-workspace", dest="cublas_workspace", parse=_choice(*CUBLAS_CHOICES)),
        _Key(name="output", dest="output", parse=Path),
    )
}

_SUBJECTS = ("workloads", "select", "devices", "required-devices")
"""Keys that do not go with a script."""

_YIELDS_TO = {"select": "workloads", "devices": "required-devices", "required-devices": "devices"}
"""A key that is dropped where another one was said with more weight: names out of a file do not select from the paths
of the command line."""


@dataclass(frozen=True, kw_only=True)
class _File:
    """A configuration file as it was read."""

    path: Path
    sha256: str
    content: Mapping[str, object]

    def said(self, command: str) -> dict[str, tuple[object, str]]:
        """Key to its value for a command, and the words for where it stands."""
        said = {key: (value, f"{key} in {self.path}") for key, value in self.content.items() if key in KEYS}
        table = self.content.get(command, {}) if command in COMMAND_KEYS else {}
        assert isinstance(table, Mapping), "was looked at when the file was read"
        return said | {key: (value, f"{command}.{key} in {self.path}") for key, value in table.items()}


def configure(arguments: Namespace, environ: Mapping[str, str]) -> None:
    """Fills what the command line left open, and adds `configuration` and `waivers` to the arguments.

    Args:
        arguments: As parsed; `keys` names the keys that stand for options of this command, options that were not given
            hold a `Default`, None or an empty list.
        environ: May name a file, and hold values for keys.

    Raises:
        UsageError: A file cannot be read, a key is unknown, or a value is not valid.
    """
    _refuse_unknown(
        (name for name in environ if name.startswith(PREFIX)),
        [*map(_variable, KEYS), *NO_KEYS],
        "the environment has a setting",
    )
    require_current_folder()
    file = _file(arguments, environ)
    command = arguments.command_name
    said = file.said(command) if file is not None else {}
    of_script = command == "vary" and (arguments.script is not None or arguments.run_module is not None)
    values: dict[str, object] = {}
    origins: dict[str, _Origin] = {}
    for name in arguments.keys:
        key = KEYS[name]
        given = getattr(arguments, key.dest)
        default = given.value if isinstance(given, Default) else ([] if key.many else None)
        variable = _variable(name)
        if not isinstance(given, Default) and given not in (None, []):
            values[name], origins[name] = given, _Origin.COMMAND_LINE
        elif of_script and name in _SUBJECTS:
            values[name], origins[name] = default, _Origin.DEFAULT
        elif variable in environ:
            separator = os.pathsep if key.parse is Path else ","
            words = environ[variable].split(separator) if key.many else [environ[variable]]
            values[name] = _parsed(key, [word.strip() for word in words], f"{variable} in the environment", Path())
            origins[name] = _Origin.ENVIRONMENT
        elif name in said:
            assert file is not None, "it said so"
            value, place = said[name]
            values[name] = _parsed(key, _words(key, value, place), place, file.path.parent)
            origins[name] = _Origin.FILE
        else:
            values[name], origins[name] = default, _Origin.DEFAULT
    for name, other in _YIELDS_TO.items():
        if name in values and origins.get(other, _Origin.DEFAULT) > origins[name] > _Origin.DEFAULT:
            values[name], origins[name] = [], _Origin.DEFAULT
    for name, value in values.items():
        setattr(arguments, KEYS[name].dest, value)
    arguments.configuration = Configuration(
        file=str(file.path) if file is not None else None,
        sha256=file.sha256 if file is not None else None,
        values={name: json.dumps(value, default=str, ensure_ascii=False) for name, value in values.items()},
        origins={name: origin.words for name, origin in origins.items()},
    )
    arguments.waivers = _waivers(file) if file is not None else ()


def _variable(key: str) -> str:
    return PREFIX + key.upper().replace("-", "_")


def _refuse_unknown(names: Iterable[object], known: Sequence[str], place: str) -> None:
    """Raises `UsageError` for the first name that is not known, with the known one it may be meant for."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1) or difflib.get_close_matches(
                str(name).replace("_", "-"), known, n=1
            )
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"{place} {str(name)!r}, which there is not; {hint}")


# ------------------------------------------------------------------------------------------- values


def _words(key: _Key, value: object, place: str) -> list[str]:
    """The value as words of a command line."""
    items = value if key.many else [value]
    if not isinstance(items, list):
        raise UsageError(f'{place} is not a list; write ["..."]')
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int | float):
            raise UsageError(f"{place} is {item!r}, which is no {'list of texts' if key.many else 'text or number'}")
        if key.parse in (str, Path, device) and not isinstance(item, str):
            raise UsageError(f"{place} is {item!r}; write it as text, in quotes")
    return [str(item) for item in items]


def _parsed(key: _Key, words: Sequence[str], place: str, folder: Path) -> object:
    """What words say; relative paths are meant from the folder.

    Raises:
        UsageError: They are not valid for the key.
    """
    parsed: list[object] = []
    for word in words:
        if not word:
            raise UsageError(f"{place} is empty; name a value, or take it out")
        try:
            value = key.parse(word)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{place}: {error}") from error
        parsed.append(folder / value.expanduser() if isinstance(value, Path) else value)
    return parsed if key.many else parsed[0]


# ------------------------------------------------------------------------------------------- files


def _file(arguments: Namespace, environ: Mapping[str, str]) -> _File | None:
    if arguments.no_config:
        return None
    named = arguments.config
    if named is None and FILE_VARIABLE in environ:
        named = Path(environ[FILE_VARIABLE])
    if named is not None:
        content, digest = _read(named)
        if content is None:
            raise UsageError(f"{named} has no table [tool.{TABLE}]; add it, or name another file with --config")
        return _checked(named, content, digest)
    return _nearest(Path.cwd())


def _nearest(start: Path) -> _File | None:
    """The configuration of the folder or of the nearest one above that has one.

    Raises:
        UsageError: A folder has two.
    """
    for folder in (start, *start.parents):
        found: list[_File] = []
        for path in (folder / YAML_FILE, folder / PYPROJECT):
            if path.is_file():
                content, digest = _read(path)
                if content is not None:
                    found.append(_checked(path, content, digest))
        if len(found) > 1:
            raise UsageError(f"there are two configurations, {found[0].path} and {found[1].path}; take one away")
        if found:
            return found[0]
    return None


def _read(path: Path) -> tuple[Mapping[str, object] | None, str]:
    """The configuration in a file, None where it has none, and the digest of the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror or error}; check the path") from error
    if len(data) > MAXIMUM_BYTES:
        raise UsageError(f"{path} is larger than {MAXIMUM_BYTES} bytes, which no configuration is")
    try:
        text = data.decode("utf-8-sig")
        content = _toml(text, path) if path.suffix == ".toml" else _yaml(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise UsageError(f"{path} cannot be read: {reason}; correct it, or pass it by with --no-config") from error
    return content, f"sha256:{hashlib.sha256(data).hexdigest()}"


def _toml(text: str, path: Path) -> Mapping[str, object] | None:
    import tomllib

    content = tomllib.loads(text)
    tool = content.get("tool", {})
    table: object = tool.get(TABLE) if isinstance(tool, dict) else None
    if table is None and path.name != PYPROJECT:
        raise ValueError(f"it has no table [tool.{TABLE}]")
    if table is not None and not isinstance(table, dict):
        raise ValueError(f"tool.{TABLE} is no table")
    return table


def _yaml(text: str) -> Mapping[str, object]:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Refuses a key that stands twice, of which PyYAML takes the last."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len(set(keys)) < len(keys):
                twice = next(key for number, key in enumerate(keys) if key in keys[:number])
                problem = f"the key {twice!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            constructed: dict[object, object] = super().construct_mapping(node, deep)
            return constructed

    try:
        for event in yaml.parse(text, Loader):
            if isinstance(event, yaml.AliasEvent):  # a few of them make a small file large
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise ValueError(f"line {line} has an alias; write the value itself")
        content = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ValueError("it is no mapping of keys to values")
    return {str(key): value for key, value in content.items()}


def _checked(path: Path, content: Mapping[str, object], digest: str) -> _File:
    """The file, once all its keys are known ones.

    Raises:
        UsageError: One is not.
    """
    _refuse_unknown(content, [*KEYS, *COMMAND_KEYS, WAIVERS], f"{path} has a key")
    for command, keys in COMMAND_KEYS.items():
        table = content.get(command, {})
        if not isinstance(table, dict):
            raise UsageError(f"{command} in {path} is no table of keys; write the keys for that command below it")
        _refuse_unknown(table, keys, f"{path} has in its table {command} a key")
    return _File(path=path.resolve(), sha256=digest, content=content)


def _waivers(file: _File) -> tuple[Waiver, ...]:
    """The waivers in a file.

    Raises:
        UsageError: One is not valid.
    """
    items = file.content.get(WAIVERS, [])
    if not isinstance(items, list):
        raise UsageError(f"{WAIVERS} in {file.path} is no list of tables")
    if not items:
        return ()
    fields = Waiver.__struct_fields__
    waivers: list[Waiver] = []
    for number, item in enumerate(items, 1):
        place = f"waiver {number} in {file.path}"
        if not isinstance(item, dict):
            raise UsageError(f"{place} is no table; it needs {', '.join(fields)}")
        _refuse_unknown(item, fields, f"{place} has a key")
        if absent := [field for field in fields if field not in item]:
            raise UsageError(f"{place} does not say {', '.join(absent)}; add it")
        words = {key: value.isoformat() if isinstance(value, date) else value for key, value in item.items()}
        for key, value in words.items():
            if not isinstance(value, str):
                raise UsageError(f"{key} of {place} is {value!r}; write it as text, in quotes")
        waivers.append(Waiver(**words))
    from repro_audit.waivers import waiver_faults  # only whoever has some

    if faults := list(waiver_faults(waivers)):
        raise UsageError(f"{file.path}: {'; '.join(faults)}; correct it")
    return tuple(waivers)
