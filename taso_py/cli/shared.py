"""From the records of `taso_py.options` to options of the command line, and what several commands share."""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar, cast, get_args, get_origin

import click

from taso_py.cli.outcome import expect_json
from taso_py.cli.speech import logged_progress, verbosity_of
from taso_py.errors import SuperoptError, UsageError
from taso_py.options import GeneralOptions
from taso_py.options.field import ANY, Declared, OptionRecord, declared, shown
from taso_py.options.providers import KNOWN
from taso_py.progress import Progress
from taso_py.streams import Enduring, speaks_json

if TYPE_CHECKING:
    from click.core import ParameterSource
    from click.shell_completion import CompletionItem
    from click.types import OptionHelpExtra

    from taso_py.stop import StopFlag

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
FILE = click.Path(path_type=Path)


class FieldOption(click.Option):
    """The option of one field of a record of options; it is also an environment variable.

    click's own prefix would give SUPEROPT_OPTIMIZE_TIME_BUDGET, one name per command.
    """

    def __init__(self, names: Sequence[str], *, field: Declared) -> None:
        flag = field.flag
        known: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar, "envvar": flag.environment}
        known["required"] = flag.required
        super().__init__(names, callback=self._value, **known, **_attributes(field))
        self.field = field

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """What stands in brackets behind the help: also which numbers are meant."""
        extra = super().get_help_extra(ctx)
        if self.field.flag.within != ANY:
            extra["range"] = str(self.field.flag.within)
        return extra

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What a shell offers as a value: names of rules, files, or what the type knows."""
        flag, hint = self.field.flag, self.field.kind
        if flag.completes == "rules":
            return complete_rule(ctx, self, incomplete)
        if flag.completes == "providers":
            return complete_provider(incomplete)
        if Path in (hint, *get_args(hint)) and get_origin(hint) is not Mapping:
            return FILE.shell_complete(ctx, self, incomplete)
        return super().shell_complete(ctx, incomplete)

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """What the environment says; UsageError, which names the variable, for what cannot be meant."""
        said = self.resolve_envvar_value(ctx)
        try:
            value = super().value_from_envvar(ctx)
            if said is not None:
                self.process_value(ctx, value)
        except (click.UsageError, UsageError, ValueError) as error:  # ValueError: of shlex
            words = error.format_message() if isinstance(error, click.UsageError) else str(error)
            hint = "; what has blanks in it stands in quotes" if self.multiple and " " in str(said) else ""
            raise UsageError(f"{self.field.flag.environment}={shown(said)}: {words}{hint}") from None
        return value

    def effective(self, context: click.Context) -> tuple[Any, ParameterSource]:
        """The value where the command line is silent, a flag's as it is spelled, and which source it is from."""
        said, source = self.consume_value(context, {})
        try:
            value = self.process_value(context, said)
        except click.MissingParameter:
            return None, source
        return value != self.field.default if self.field.kind is bool else value, source

    def _value(self, context: click.Context, parameter: click.Parameter, given: Any) -> Any:
        """What the field holds, for what click has read."""
        field, flag = self.field, self.field.flag
        if flag.parse is not None:
            return flag.parse(given or ())
        if field.kind is bool:
            return bool(given) != field.default  # --no-race is said to have no race
        return field.held(given, called=f"{flag.name} {given}")


class _Words(click.types.StringParamType):
    """Texts of an option that may be repeated; in a variable they are separated as a shell's words are."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Separated by blanks; what has blanks in it stands in quotes."""
        return shlex.split(rv or "")


def _attributes(field: Declared) -> dict[str, Any]:
    """How click reads texts of this field."""
    if field.kind is bool:
        return {"is_flag": True, "default": False}
    if field.flag.count:
        return {"count": True}
    if field.flag.parse is not None or get_origin(field.kind) is tuple:
        return {"multiple": True, "type": _Words()}
    return {"type": _type(field), "default": field.default, "show_default": field.default is not None}


def _type(field: Declared) -> click.ParamType[Any]:
    if get_origin(field.kind) is Literal:
        return click.Choice(get_args(field.kind))
    kinds: dict[type, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING, Path: FILE}
    return kinds[field.kind]


def complete_rule(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of rules that begin so: of the files that --rules names before, else of the library."""
    from click.shell_completion import CompletionItem

    from taso_py import api

    with suppress(SuperoptError):  # a file that cannot be read has no names, and no message belongs on this line
        found = api.list_rules(rules=ctx.params.get("rules"))
        return [CompletionItem(one.rule.name) for one in found if one.rule.name.startswith(incomplete)]
    return []


def complete_provider(incomplete: str) -> list[CompletionItem]:
    """The short names of providers that begin so; which of them are here would take seconds to find out."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in KNOWN if name.startswith(incomplete)]


def takes(**kinds: type[OptionRecord]) -> Callable[[Function], Function]:
    """A command's options are the fields of these records; its function is called with the records, by these names.

    It also has those of `GeneralOptions`, of which its function hears nothing.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**arguments: Any) -> Any:
            for name, kind in kinds.items():
                arguments[name] = kind(**{field.name: arguments.pop(field.name) for field in declared(kind)})
            for field in declared(GeneralOptions):  # the command's class has done what they ask
                del arguments[field.name]
            expect_json(any(getattr(record, "as_json", False) for record in arguments.values()))
            return function(**arguments)

        _TAKEN[command] = (*kinds.values(), GeneralOptions)
        return cast(Function, command)

    return decorate


_TAKEN: dict[Callable[..., Any], tuple[type[OptionRecord], ...]] = {}


def records_taken(callback: Callable[..., Any] | None) -> tuple[type[OptionRecord], ...]:
    """The records of options of a function that was decorated with `takes`."""
    return _TAKEN.get(callback, ()) if callback is not None else ()


def options_of_records(kinds: Sequence[type[OptionRecord]]) -> list[click.Parameter]:
    """The options of a command that has the fields of these records."""
    fields = [field for kind in kinds for field in declared(kind)]
    return [FieldOption([field.name, *field.flag.spellings], field=field) for field in fields]


@contextmanager
def progress_on_stderr(verbosity: int, stop: StopFlag | None = None) -> Iterator[Progress]:
    """A live display when stderr is a terminal, else plain lines, or records for JSON; warnings only at -1.

    The display says what the next Ctrl-C does if it is given `stop`.
    """
    from taso_py.report.progress import LiveProgress, PlainProgress

    verbosity = verbosity_of(verbosity)
    if speaks_json():
        yield logged_progress(verbosity)
        return
    if verbosity < 0 or not sys.stderr.isatty():
        yield PlainProgress(verbosity=verbosity)
        return
    from rich.console import Console

    console = Console(file=cast(TextIO, Enduring(sys.stderr)))
    with LiveProgress(console, verbosity=verbosity, stop=stop) as progress:
        yield progress
