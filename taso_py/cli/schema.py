"""`superopt schema`: what the JSON that the program writes looks like."""

from __future__ import annotations

import click

from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, takes


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="The JSON Schemas of all that --json prints.",
    examples=("superopt schema", "superopt schema superopt.result/1"),
)
@click.argument("name", required=False)
@takes()
def schema(name: str | None) -> None:
    """List the JSON Schemas of everything that superopt writes as JSON, or print the one called NAME.

    NAME is what the field "schema" holds (superopt.result/1), or the word in it (result) for its newest version. Within
    a version fields are added, and never changed or taken away.
    """
    from taso_py.report.schemas import schema_text, schemas_text

    emit(schemas_text() if name is None else schema_text(name))
