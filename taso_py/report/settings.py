"""What `superopt config` tells: the settings that count, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taso_py.report.table import TextTable
from taso_py.report.terminal import render, table
from taso_py.result import plain

SCHEMA = "superopt.config/1"


@dataclass(frozen=True, slots=True)
class Effective:
    """One option of one command: its value, and its source (``default``, ``environment`` or ``file``).

    `place` is the variable, or the file with its table; None for a default.
    """

    command: str
    option: str
    value: Any
    source: str
    place: str | None


def settings_json(file: Path | None, found: Iterable[Effective]) -> str:
    """One JSON object."""
    return json.dumps({"schema": SCHEMA, "file": plain(file), "settings": plain(list(found))}, indent=2)


def settings_text(file: Path | None, found: Iterable[Effective]) -> str:
    """The file, and a line for each option; commands in which it has the same value from the same source share one."""
    commands: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        commands.setdefault((one.option, _text(one.value), one.place or one.source), []).append(one.command)
    every = {name for names in commands.values() for name in names}
    rows = tuple(
        (*key, "all" if {*names} == every and len(every) > 1 else ", ".join(names))
        for key, names in sorted(commands.items())
    )
    return render(table(TextTable(f"Settings file: {file or 'none'}", ("option", "value", "from", "commands"), rows)))


def _text(value: Any) -> str:
    """As a settings file has it; a dash for what is not set."""
    if value is None or value == () or value == {}:
        return "-"
    return json.dumps(plain(value)) if isinstance(value, Mapping | tuple | bool) else str(value)
