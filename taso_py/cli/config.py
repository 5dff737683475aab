"""`superopt config`: every setting that counts here, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from taso_py.cli.command import Command, settings_of
from taso_py.cli.outcome import emit
from taso_py.cli.settings import Settings, leaves, options_of
from taso_py.cli.shared import SETTINGS, takes
from taso_py.errors import UsageError
from taso_py.options import Display

if TYPE_CHECKING:
    from taso_py.report.settings import Effective


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Every setting, and where it comes from.",
    examples=("superopt config", "superopt config optimize", "superopt config rules rank --json"),
)
@click.argument("command", nargs=-1)
@takes(display=Display)
@click.pass_context
def config(context: click.Context, command: tuple[str, ...], display: Display) -> None:
    """Print the value of every option of COMMAND (default: all commands) and where it comes from.

    A flag counts before an environment variable SUPEROPT_*, that before superopt.toml or [tool.superopt] of
    pyproject.toml, that before the default. docs/configuration.md says what a settings file looks like.
    """
    from taso_py.report.settings import settings_json, settings_text

    settings = settings_of(context)
    rows = [row for names, found in _chosen(context, command) for row in _effective(context, settings, names, found)]
    emit(settings_json(settings.file, rows) if display.as_json else settings_text(settings.file, rows))


def _chosen(context: click.Context, asked: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    every = list(leaves(context.find_root().command))
    found = [(names, one) for names, one in every if names[: len(asked)] == asked]
    if not found:
        known = ", ".join(" ".join(names) for names, _ in every)
        raise UsageError(f"there is no command '{' '.join(asked)}': there are {known}")
    return found


def _effective(
    context: click.Context, settings: Settings, names: tuple[str, ...], command: click.Command
) -> list[Effective]:
    """Each option of one command as it would have it if its command line said nothing."""
    from taso_py.report.settings import Effective

    own = click.Context(command, info_name=names[-1], parent=context.find_root())
    own.default_map = settings.defaults(names, own)
    entries = settings.of(names, options_of(command))
    found = []
    for name, option in options_of(command).items():
        value, by = option.effective(own)
        kind, place = "default", None
        if by is ParameterSource.ENVIRONMENT:
            kind, place = "environment", option.field.flag.environment
        elif by is ParameterSource.DEFAULT_MAP:
            kind, place = "file", settings.place(entries[name])
        found.append(Effective(" ".join(names), name, value, kind, place))
    return found
