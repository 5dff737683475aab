"""A command: its settings come from a file too, and its help has examples, and options under headings.

rich-click, cloup and click-option-group were looked at for the headings: the first imports rich for every --help, the
others want options declared in groups by decorators of their own, and ours come from `taso_py.options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from taso_py.cli import speech
from taso_py.cli.settings import Settings, options_of, read_settings
from taso_py.cli.shared import FieldOption, options_of_records, records_taken
from taso_py.options import GeneralOptions
from taso_py.options.field import Group, declared

_SETTINGS = "taso_py.settings"
UNGROUPED = "Other options"


class Command(click.Command):
    """A command with `examples`: command lines that its help shows."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **further: Any) -> None:
        super().__init__(*arguments, **further)
        self.examples = tuple(examples)
        self._taken = records_taken(self.callback)

    _params: list[click.Parameter]
    _complete: bool

    @property
    def params(self) -> list[click.Parameter]:
        """Its arguments and options; these are made when it is asked for them, not for every other command's sake."""
        if not self._complete:
            self._complete = True
            self._params += options_of_records(self._taken)
        return self._params

    @params.setter
    def params(self, given: list[click.Parameter]) -> None:
        self._params, self._complete = list(given), False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, with what a settings file says where they and the environment are silent."""
        if not ctx.resilient_parsing:
            said, _, _ = self.make_parser(ctx).parse_args(list(args))
            helps = self.get_help_option(ctx)
            if helps is None or helps.name not in said:  # help is there whatever a file says
                speech.settle(_general(ctx, said))
                settings = ctx.meta[_SETTINGS] = read_settings(_general(ctx, said), ctx.find_root().command)
                ctx.default_map = settings.defaults(names_of(ctx), ctx)
                speech.settle(_general(ctx, said))
        return super().parse_args(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The description, and the examples."""
        super().format_help_text(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options under the headings that their fields declare."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*get_args(Group), UNGROUPED)}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is not None:
                rows[one.field.flag.group or UNGROUPED if isinstance(one, FieldOption) else "General"].append(record)
        widest = max(len(left) for found in rows.values() for left, _ in found)
        for name, found in rows.items():
            if found:
                with formatter.section(name):
                    formatter.write_dl([(left.ljust(min(widest, 30)), right) for left, right in found])


class CommandGroup(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


def names_of(context: click.Context) -> tuple[str, ...]:
    """The names that call a command, without the program's."""
    found: list[str] = []
    while context.parent is not None:
        found.insert(0, context.info_name or "")
        context = context.parent
    return tuple(found)


def settings_of(context: click.Context) -> Settings:
    """What the settings file says that the command of this context has read."""
    found: Settings = context.meta[_SETTINGS]
    return found


def _general(context: click.Context, said: Any) -> GeneralOptions:
    """The general options as arguments, environment and, once it is read, the settings file have them."""
    options = options_of(context.command)
    values = {}
    for field in declared(GeneralOptions):
        option = options[field.flag.name[2:]]
        values[field.name] = option.process_value(context, option.consume_value(context, said)[0])
    return GeneralOptions(**values)
