"""From the records of `taso_py.options` to options of the command line, and what several commands share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin

import click

from taso_py.cli.outcome import expect_json
from taso_py.options.field import ANY, Declared, OptionRecord, declared
from taso_py.progress import Progress

if TYPE_CHECKING:
    from click.types import OptionHelpExtra

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

    def _value(self, context: click.Context, parameter: click.Parameter, given: Any) -> Any:
        """What the field holds, for what click has read."""
        field, flag = self.field, self.field.flag
        if flag.parse is not None:
            return flag.parse(given or ())
        if field.kind is bool:
            return bool(given) != field.default  # --no-race is said to have no race
        return field.held(given, called=f"{flag.name} {given}")


def _attributes(field: Declared) -> dict[str, Any]:
    """How click reads texts of this field."""
    if field.kind is bool:
        return {"is_flag": True, "default": False}
    if field.flag.count:
        return {"count": True}
    if field.flag.parse is not None or get_origin(field.kind) is tuple:
        return {"multiple": True}
    return {"type": _type(field), "default": field.default, "show_default": field.default is not None}


def _type(field: Declared) -> click.ParamType[Any]:
    if get_origin(field.kind) is Literal:
        return click.Choice(get_args(field.kind))
    kinds: dict[type, click.ParamType[Any]] = {int: click.INT, float: click.FLOAT, str: click.STRING, Path: FILE}
    return kinds[field.kind]


def takes(**kinds: type[OptionRecord]) -> Callable[[Function], Function]:
    """A command's options are the fields of these records; its function is called with the records, by these names."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def command(**arguments: Any) -> Any:
            for name, kind in kinds.items():
                arguments[name] = kind(**{field.name: arguments.pop(field.name) for field in declared(kind)})
            expect_json(any(getattr(record, "as_json", False) for record in arguments.values()))
            return function(**arguments)

        fields = [field for kind in kinds.values() for field in declared(kind)]
        for field in reversed(fields):
            command = click.option(field.name, *field.flag.spellings, cls=FieldOption, field=field)(command)
        return cast(Function, command)

    return decorate


@contextmanager
def progress_on_stderr(verbosity: int) -> Iterator[Progress]:
    """A live display when stderr is a terminal, plain lines otherwise; warnings only at -1."""
    from taso_py.report.progress import LiveProgress, PlainProgress

    if verbosity < 0 or not sys.stderr.isatty():
        yield PlainProgress(verbosity=verbosity)
        return
    from rich.console import Console

    with LiveProgress(Console(stderr=True), verbosity=verbosity) as progress:
        yield progress
