"""Settings files: superopt.toml, and [tool.superopt] of pyproject.toml.

The standard library's tomllib reads them, and click takes the values as its own `default_map`, behind the command
line and the environment; so the values of all sources have one reader, and click knows where each came from.
pydantic-settings and dynaconf want the options declared once more and read the environment by rules of their own, and
what remains here (find the file, know its keys, resolve its paths) is left to write with them as well.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from taso_py.cli.shared import FieldOption
from taso_py.errors import UsageError
from taso_py.options.field import Declared, described, shown
from taso_py.options.text import demand
from taso_py.paths import is_file, reason_of

if TYPE_CHECKING:
    from taso_py.options import GeneralOptions

OWN, SHARED = "superopt.toml", "pyproject.toml"
_MOST_BYTES = 2**20
_WAY_OUT = "mend it, or leave it out with --no-config"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a file, with the names of the command in whose table it stands; none at the top."""

    command: tuple[str, ...]
    option: str
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Settings:
    """What a settings file says; without a file, nothing."""

    file: Path | None = None
    entries: tuple[Setting, ...] = ()

    def of(self, command: tuple[str, ...], options: Mapping[str, FieldOption]) -> dict[str, Setting]:
        """By option, what counts for this command: the table nearest to it."""
        found = {}
        for entry in sorted(self.entries, key=lambda e: len(e.command)):
            if entry.option in options and command[: len(entry.command)] == entry.command:
                found[entry.option] = entry
        return found

    def defaults(self, command: tuple[str, ...], context: click.Context) -> dict[str, Any]:
        """The values as click takes them, by field; UsageError for one that the command cannot mean."""
        options = options_of(context.command)
        found = {}
        for name, entry in self.of(command, options).items():
            option = options[name]
            value = found[option.field.name] = self._said(entry, option.field)
            try:
                option.process_value(context, value)
            except click.UsageError as error:
                raise self.wrong(entry, error.format_message()) from None
            except UsageError as error:
                raise self.wrong(entry, str(error)) from None
        return found

    def place(self, entry: Setting) -> str:
        """The file and the table in which a key stands."""
        table = table_of(self.file, entry.command)
        return f"{self.file} [{table}]" if table else str(self.file)

    def wrong(self, entry: Setting, words: str) -> UsageError:
        """The error that names file, table and key."""
        return UsageError(f"{self.place(entry)}: {entry.key} = {shown(entry.value)}: {words}")

    def _said(self, entry: Setting, field: Declared) -> Any:
        assert self.file is not None
        try:
            return _said(field, entry.value, self.file.parent)
        except TypeError:
            raise self.wrong(entry, f"must be {_wanted(field)}") from None

    def require_known(self, root: click.Command) -> None:
        """UsageError for the first value that no option of its name takes."""
        for entry in self.entries:
            for option in _options_below(_command(root, entry.command))[entry.option]:
                self._said(entry, option.field)


def read_settings(general: GeneralOptions, root: click.Command) -> Settings:
    """The file that --config names, or the nearest one; UsageError where it is damaged or has an unknown key."""
    if not general.read_config:
        return Settings()
    file = general.config or find(Path.cwd)
    if file is None:
        return Settings()
    table = _own_table(file, _parsed(file))
    if table is None:
        demand(general.config is None, f"--config {file}: it has no table [tool.superopt]")
        return Settings()
    settings = Settings(file, tuple(_entries(table, root, (), file)))
    settings.require_known(root)
    return settings


def find(current: Any) -> Path | None:
    """The nearest superopt.toml, or pyproject.toml with [tool.superopt], from the current directory upwards."""
    try:
        here = current()
    except OSError:  # it was removed
        return None
    for folder in (here, *here.parents):
        for name in (OWN, SHARED):
            file = Path(name) if folder == here else folder / name
            if is_file(file) and (name == OWN or _own_table(file, _parsed(file)) is not None):
                return file
    return None


def options_of(command: click.Command) -> dict[str, FieldOption]:
    """The options of a command by their long spelling, without the dashes."""
    return {one.field.flag.name[2:]: one for one in command.params if isinstance(one, FieldOption)}


def leaves(command: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its names."""
    if not isinstance(command, click.Group):
        yield names, command
        return
    for name, inner in command.commands.items():
        yield from leaves(inner, (*names, name))


def table_of(file: Path | None, command: tuple[str, ...]) -> str:
    """What a command's table is called in a file."""
    head = ("tool", "superopt") if file is not None and file.name == SHARED else ()
    return ".".join((*head, *command))


def _parsed(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        about = file.stat()
        demand(stat.S_ISREG(about.st_mode), f"settings file {file} is not a regular file: {_WAY_OUT}")
        demand(about.st_size <= _MOST_BYTES, f"settings file {file} is over {_MOST_BYTES} bytes long: {_WAY_OUT}")
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors begin a file with a mark
    except OSError as error:
        raise UsageError(f"settings file {file} cannot be read: {reason_of(error)}; {_WAY_OUT}") from None
    except UnicodeDecodeError:
        raise UsageError(f"settings file {file} is not UTF-8: {_WAY_OUT}") from None
    except RecursionError:
        raise UsageError(f"settings file {file} is not TOML: it is nested too deeply; {_WAY_OUT}") from None
    except ValueError as error:
        raise UsageError(f"settings file {file} is not TOML: {error}; {_WAY_OUT}") from None


def _own_table(file: Path, content: dict[str, Any]) -> dict[str, Any] | None:
    if file.name != SHARED:
        return content
    tools = content.get("tool")
    if not isinstance(tools, dict) or "superopt" not in tools:
        return None
    table = tools["superopt"]
    demand(isinstance(table, dict), f"{file}: tool.superopt = {shown(table)}: must be a table")
    found: dict[str, Any] = table
    return found


def _entries(table: dict[str, Any], command: click.Command, names: tuple[str, ...], file: Path) -> Iterator[Setting]:
    inner = command.commands if isinstance(command, click.Group) else {}
    known = _options_below(command)
    seen: dict[str, str] = {}
    for key, value in table.items():
        if key in inner and isinstance(value, dict):
            yield from _entries(value, inner[key], (*names, key), file)
            continue
        option = key.replace("_", "-")
        where = ": ".join((str(file), *([f"[{table_of(file, names)}]"] if names else [])))
        _require_key(f"{where}: {key if key.isprintable() else shown(key)}", option, known, [*inner])
        demand(option not in seen, f"{where}: {seen.get(option)} and {key} are one setting: keep one")
        seen[option] = key
        yield Setting(names, option, key, value)


def _require_key(place: str, name: str, known: Mapping[str, list[FieldOption]], commands: list[str]) -> None:
    settable = [option for option, all_of_it in known.items() if any(one.field.flag.setting for one in all_of_it)]
    if name in settable:
        return
    demand(name not in known, f"{place} belongs on the command line of a run: remove it from the file")
    import difflib  # for this line only: every command would wait for it

    near = difflib.get_close_matches(name, [*settable, *commands], n=1)
    hint = f"did you mean {near[0]}?" if near else "superopt config lists all there are"
    raise UsageError(f"{place} is no setting: {hint}")


def _options_below(command: click.Command) -> dict[str, list[FieldOption]]:
    found: dict[str, list[FieldOption]] = {}
    for _, leaf in leaves(command):
        for name, option in options_of(leaf).items():
            found.setdefault(name, []).append(option)
    return found


def _command(root: click.Command, names: tuple[str, ...]) -> click.Command:
    for name in names:
        assert isinstance(root, click.Group)
        root = root.commands[name]
    return root


# ---- values ----------------------------------------------------------------------------------------------------------


def _said(field: Declared, value: Any, folder: Path) -> Any:
    """The value as the command line says it, its paths beside the file; TypeError where it is nothing of that kind."""
    kind = field.kind
    if kind is bool:
        return _of_type(value, bool)
    if field.flag.count or kind is int:
        return _of_type(value, int)
    if kind is float and field.flag.parse is None:
        return str(_of_type(value, int, float))
    if field.flag.parse is not None or get_origin(kind) is tuple:
        values = value if isinstance(value, list) else [value]
        return tuple(_beside(field, text, folder) for one in values for text in _texts(field, one))
    return _beside(field, _of_type(value, str), folder)


def _of_type(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError
    if isinstance(value, str) and "\0" in value:
        raise TypeError
    return value


def _texts(field: Declared, value: Any) -> list[str]:
    """One entry of a list, or a table, as texts of the command line."""
    mapping, whole = _mapping(field)
    if not mapping or not isinstance(value, dict):
        return [_of_type(value, str)]
    texts = [f"{_of_type(name, str)}={_sizes(one)}" for name, one in value.items()]
    return texts if whole else [";".join(texts)]


def _sizes(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    return ",".join(str(_of_type(one, str, int, float)) for one in values)


def _mapping(field: Declared) -> tuple[bool, bool]:
    """Whether the field is made of mappings, and whether it is one as a whole."""
    whole = get_origin(field.kind) is Mapping
    return whole or any(get_origin(one) is Mapping for one in get_args(field.kind)), whole


def _holds_paths(kind: Any) -> bool:
    """Whether a type is Path, or one is a part of it."""
    return kind is Path or any(map(_holds_paths, get_args(kind)))


def _beside(field: Declared, text: str, folder: Path) -> str:
    """A text whose file, if it names one, is relative to the folder."""
    if not _holds_paths(field.kind) or text in (field.flag.metavar or "").split("|")[1:]:
        return text
    name, equals, file = text.rpartition("=") if _mapping(field)[0] else ("", "", text)
    path = Path(os.path.expanduser(file))  # noqa: PTH111 - a home that nobody knows stays as it is written
    return f"{name}{equals}{folder / path}" if file else text


def _wanted(field: Declared) -> str:
    if field.kind is bool:
        return "true or false"
    if field.flag.parse is None and get_origin(field.kind) is not tuple:
        return described(field.kind)
    mapping, _ = _mapping(field)
    return "a text, a list of texts or a table" if mapping else "a text or a list of texts"
