"""What lies already where a result would be written."""

from __future__ import annotations

import filecmp
from dataclasses import replace
from pathlib import Path
from typing import Any

from taso_py.errors import ModelError, OutputError
from taso_py.files import parse_json, same_file
from taso_py.onnx_io.artifact import external_locations
from taso_py.onnx_io.ours import Key
from taso_py.onnx_io.read import parsed
from taso_py.options import Options
from taso_py.paths import is_file
from taso_py.progress import Progress
from taso_py.providers.record import session_file, standing_record
from taso_py.report.standing import Standing
from taso_py.run import provenance
from taso_py.run.subject import prepare
from taso_py.run.usable import stated_rules
from taso_py.version import VERSION


def standing(model: Path, output: Path, options: Options, progress: Progress) -> Standing:
    """How the file ``output`` relates to a run of ``model`` with these options; OutputError without such a file.

    It goes by the metadata of the file: whoever alters the model and leaves them is believed.
    """
    progress.phase("compare with what is there")
    # What cannot be meant is told before anything that is in the way.
    prepare(model, replace(options, ep="cpu", ep_python=()) if options.is_race else options)
    if not is_file(output) or same_file(model, output):
        raise OutputError(f"{output} is not a file beside {model}: there is nothing to compare")
    try:
        proto = parsed(output)
        told = provenance.stated(proto)
        known = standing_record(output)
        if known is not None and known.approximation is not None:
            return Standing(model, output, told, "the session file beside it makes an approximation of it")
        if filecmp.cmp(output, model, shallow=False):
            return Standing(model, output, told, f"it is a copy of {model}", copy=True)
        lost = [name for name in sorted(external_locations(proto)) if not is_file(output.parent / name)]
    except (OSError, ModelError):
        return Standing(model, output, {}, "it is not a model of superopt's")
    if Key.ORIGINAL not in told:
        return Standing(model, output, told, "it is not a result of superopt's, or does not say so")
    if lost:
        return Standing(model, output, told, f"it is superopt's result, but its weights {lost[0]!r} are not beside it")
    if options.is_race:
        return Standing(model, output, told, "providers are raced anew every time")
    if options.error_budget is not None:
        return Standing(model, output, told, "approximations are chosen anew every time")
    if not options.is_default_session and not is_file(session_file(output)):
        return Standing(model, output, told, "its session file is not beside it")
    wanted = provenance.identity(model, options, stated_rules(options))
    return Standing(model, output, told, _unlike(told, wanted))


def _unlike(told: dict[str, str], wanted: dict[str, str]) -> str | None:
    """Why a result is not that of this run; None where it is."""
    version = told.get(Key.VERSION, "")
    same = [key for key in (Key.ORIGINAL, Key.DATA) if told.get(key) == wanted.get(key)]
    if len(same) < 2:
        return "it is superopt's result for another model"
    if version != VERSION:
        return f"it is a result of superopt {' '.join(version.split())[:40]}, and this is {VERSION}"
    if Key.APPROXIMATE in told:
        return "it is superopt's result for this model with approximations"
    if Key.APPLIED in told:
        return "superopt apply made it by decisions for other weights, and nothing was timed"
    if Key.INTERRUPTED in told:
        return "it is the result of a run that was interrupted"
    if told.get(Key.OPTIONS) != wanted[Key.OPTIONS]:
        changed = _changed(told.get(Key.OPTIONS, ""), wanted[Key.OPTIONS])
        return f"it is superopt's result for this model with other options ({changed})"
    if told.get(Key.RULES) != wanted[Key.RULES]:
        return "it is superopt's result for this model with other rules"
    unlike = provenance.differences(told, wanted)
    if unlike:
        return f"it is superopt's result for this model, made for {', '.join(unlike)}"
    return None


def _changed(told: str, wanted: str) -> str:
    """The options that differ, by name."""
    before, after = _parsed(told), _parsed(wanted)
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return ", ".join(f"--{' '.join(name.split())[:40]}" for name in names) or "unknown ones"


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
