"""`superopt rules list` and `superopt rules show NAME`."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, json_option, option
from taso_py.errors import UsageError
from taso_py.options import parse_rules

if TYPE_CHECKING:
    from taso_py.rules.rule import Rule

files_option = option(
    "--rules", "files", multiple=True, metavar="FILE", help="Rule files instead of the library (repeatable)."
)


@click.group(context_settings=SETTINGS)
def rules() -> None:
    """Look at the rewrite rules."""


@rules.command("list", context_settings=SETTINGS)
@files_option
@json_option
def list_rules(files: tuple[str, ...], as_json: bool) -> None:
    """One line per rule: name, status, file and line."""
    found = _load(files)
    if as_json:
        emit(json.dumps([_fields(rule) for rule in found], indent=2))
        return
    width = max((len(rule.name) for rule in found), default=0)
    lines = [f"{rule.name:<{width}}  {rule.status:<8}  {Path(rule.file).name}:{rule.line}" for rule in found]
    emit("\n".join([*lines, f"{len(found)} rules"]))


@rules.command("show", context_settings=SETTINGS)
@click.argument("name")
@files_option
@json_option
def show(name: str, files: tuple[str, ...], as_json: bool) -> None:
    """The text of one rule, its status and its id."""
    found = _load(files)
    rule = next((rule for rule in found if rule.name == name or (len(name) >= 8 and rule.id.startswith(name))), None)
    if rule is None:
        near = difflib.get_close_matches(name, [rule.name for rule in found], n=1)
        hint = f"did you mean '{near[0]}'?" if near else "`superopt rules list` names them all"
        raise UsageError(f"there is no rule '{name}': {hint}")
    if as_json:
        emit(json.dumps(_fields(rule), indent=2))
        return
    facts = (("status", rule.status), ("id", rule.id), ("file", f"{rule.file}:{rule.line}"))
    emit("\n".join([rule.text().rstrip(), "", *(f"  {key:<7} {value}" for key, value in facts)]))


def _load(files: tuple[str, ...]) -> list[Rule]:
    from taso_py.rules.library import load_library

    return list(load_library(parse_rules(files), (), ()))


def _fields(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "id": rule.id,
        "status": rule.status,
        "file": str(rule.file),
        "line": rule.line,
        "conditions": [str(condition) for condition in rule.conditions],
        "text": rule.text(),
    }
