"""`superopt eps`: the execution providers that can be used here."""

from __future__ import annotations

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, takes
from taso_py.options import Display, EpsOptions


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Execution providers: which can be used here, and why others cannot.",
    examples=(
        "superopt eps",
        "superopt eps --json",
    ),
)
@takes(options=EpsOptions, display=Display)
def eps(options: EpsOptions, display: Display) -> None:
    """List the execution providers that this machine can use, and for the others why not and what would help.

    Looked at are those built into the ONNX Runtime that is installed, plugin libraries that are installed as packages
    or named by --ep-library, and those of other environments, named by their interpreters with --ep-python: the
    distributions of ONNX Runtime exclude each other, so that each needs an environment of its own, with numpy beside
    it. Every provider is tried in a process of its own.
    """
    from taso_py.report.eps import offers_json, offers_text

    found = api.eps(options)
    emit(offers_json(found) if display.as_json else offers_text(found))
