"""`superopt eps`: the execution providers that can be used here."""

from __future__ import annotations

import click

from taso_py import api
from taso_py.cli.command import Command
from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, takes
from taso_py.options import EpsDelivery, EpsOptions


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Execution providers: which can be used here, and why others cannot.",
    examples=(
        "superopt eps",
        "superopt eps --json",
        "superopt eps --test cpu",
    ),
)
@takes(options=EpsOptions, delivery=EpsDelivery)
def eps(options: EpsOptions, delivery: EpsDelivery) -> None:
    """List the execution providers that this machine can use, and for the others why not and what would help.

    Looked at are those built into the ONNX Runtime that is installed, plugin libraries that are installed as packages
    or named by --ep-library, and those of other environments, named by their interpreters with --ep-python: the
    distributions of ONNX Runtime exclude each other, so that each needs an environment of its own, with numpy beside
    it. Every provider is tried in a process of its own.

    --test NAME runs the checks that a provider has to pass, and says of each what was found; exit code 1 if one fails.
    """
    from taso_py.report.eps import conformance_json, conformance_text, offers_json, offers_text

    if delivery.test is None:
        offers = api.eps(options)
        emit(offers_json(offers) if delivery.as_json else offers_text(offers))
        return
    found = api.conform(delivery.test, options)
    emit(conformance_json(found) if delivery.as_json else conformance_text(found))
    found.require_passed()
