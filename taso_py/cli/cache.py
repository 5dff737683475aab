"""`superopt cache`: the database of measured regions."""

from __future__ import annotations

from pathlib import Path

import click

from taso_py import api
from taso_py.cli.command import CommandGroup
from taso_py.cli.outcome import emit
from taso_py.cli.shared import FILE, SETTINGS, takes
from taso_py.options import CacheOptions, Display


@click.group(cls=CommandGroup, context_settings=SETTINGS)
def cache() -> None:
    """Look after the database of measured regions and of searches."""


@cache.command(
    context_settings=SETTINGS,
    examples=(
        "superopt cache show",
        "superopt cache show --json",
        "superopt cache show --cache other.sqlite",
    ),
)
@takes(options=CacheOptions, display=Display)
def show(options: CacheOptions, display: Display) -> None:
    """Where it lies, how many measurements and searches it holds, how old the measurements are."""
    from taso_py.report.measurements import measurements_json, measurements_text

    with api.open_cache(options, create=False) as opened:
        stats = opened.show()
    emit(measurements_json(stats) if display.as_json else measurements_text(stats))


@cache.command(
    context_settings=SETTINGS,
    examples=(
        "superopt cache clear",
        "superopt cache clear --cache other.sqlite",
    ),
)
@takes(options=CacheOptions)
def clear(options: CacheOptions) -> None:
    """Forget every measurement, and what searches found."""
    with api.open_cache(options, create=False) as opened:
        emit(f"{opened.clear()} measurements and searches forgotten")


@cache.command(
    "export",
    context_settings=SETTINGS,
    examples=("superopt cache export measurements.jsonl",),
)
@click.argument("file", type=FILE)
@takes(options=CacheOptions)
def export(file: Path, options: CacheOptions) -> None:
    """Write every measurement to FILE as JSON lines."""
    with api.open_cache(options, create=False) as opened:
        emit(f"{opened.export(file)} measurements written to {file}")


@cache.command(
    "import",
    context_settings=SETTINGS,
    examples=("superopt cache import measurements.jsonl",),
)
@click.argument("file", type=FILE)
@takes(options=CacheOptions)
def import_(file: Path, options: CacheOptions) -> None:
    """Add the measurements of an exported FILE."""
    with api.open_cache(options) as opened:
        emit(f"{opened.import_(file)} measurements read from {file}")
