"""`superopt cache`: the database of measured regions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, json_option, option

if TYPE_CHECKING:
    from taso_py.cost.cache import Cache

FILE = click.Path(path_type=Path)
place_option = option(
    "--cache",
    "place",
    type=FILE,
    metavar="FILE",
    help="The database; default: in the user's cache directory.",
)


@click.group(context_settings=SETTINGS)
def cache() -> None:
    """Look after the database of measured regions."""


@cache.command(context_settings=SETTINGS)
@place_option
@json_option
def show(place: Path | None, as_json: bool) -> None:
    """Where it lies, how many measurements it holds, how old they are."""
    with _open(place) as opened:
        stats = opened.show()
    facts = {
        "path": str(stats.path or "memory"),
        "entries": stats.entries,
        "size_bytes": stats.size_bytes,
        "oldest": _date(stats.oldest),
        "newest": _date(stats.newest),
        "ort_versions": dict(stats.ort_versions),
    }
    if as_json:
        emit(json.dumps(facts, indent=2))
        return
    versions = ", ".join(f"{name} ({number})" for name, number in stats.ort_versions.items())
    shown = {**facts, "ort_versions": versions, "size_bytes": f"{stats.size_bytes:,}"}
    emit("\n".join(f"{name.replace('_', ' '):<13} {value or 'none'}" for name, value in shown.items()))


@cache.command(context_settings=SETTINGS)
@place_option
def clear(place: Path | None) -> None:
    """Forget every measurement."""
    with _open(place) as opened:
        emit(f"{opened.clear()} measurements forgotten")


@cache.command("export", context_settings=SETTINGS)
@click.argument("file", type=FILE)
@place_option
def export(file: Path, place: Path | None) -> None:
    """Write every measurement to FILE as JSON lines."""
    with _open(place) as opened:
        emit(f"{opened.export(file)} measurements written to {file}")


@cache.command("import", context_settings=SETTINGS)
@click.argument("file", type=FILE)
@place_option
def import_(file: Path, place: Path | None) -> None:
    """Add the measurements of an exported FILE."""
    with _open(place) as opened:
        emit(f"{opened.import_(file)} measurements read from {file}")


def _open(place: Path | None) -> Cache:
    from taso_py.cost.cache import Cache

    return Cache(place)


def _date(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
