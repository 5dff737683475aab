"""`superopt rules`: list, show NAME, derive, rank MODEL."""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from taso_py.cli.outcome import emit
from taso_py.cli.shared import SETTINGS, json_option, option, progress_on_stderr, runtime_options
from taso_py.errors import UnprovedError, UsageError
from taso_py.options import Options, parse_ep_options, parse_rules, parse_shapes

if TYPE_CHECKING:
    from taso_py.prove.verdict import Proved
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
    lines = [f"{rule.name:<{width}}  {rule.status:<9}  {Path(rule.file).name}:{rule.line}" for rule in found]
    emit("\n".join([*lines, f"{len(found)} rules"]))


@rules.command("show", context_settings=SETTINGS)
@click.argument("name")
@files_option
@click.option("--obligations", is_flag=True,
              help="Prove it again and list what had to be shown, and by what; exit code 1 if not proved.")  # fmt: skip
@json_option
def show(name: str, files: tuple[str, ...], obligations: bool, as_json: bool) -> None:
    """The text of one rule, its status, its proof or the counterexample against it."""
    found = _load(files) + ([] if files else _unused_laws())
    rule = next((rule for rule in found if rule.name == name or (len(name) >= 8 and rule.id.startswith(name))), None)
    if rule is None:
        near = difflib.get_close_matches(name, [rule.name for rule in found], n=1)
        hint = f"did you mean '{near[0]}'?" if near else "`superopt rules list` names them all"
        raise UsageError(f"there is no rule '{name}': {hint}")
    from taso_py.report.proofs import columns, obligations_plain, obligations_text, proof_lines
    from taso_py.rules.lock import load_lock

    proof = _proof(rule) if obligations else None
    if as_json:
        shown = {} if proof is None else {"obligations": obligations_plain(rule, proof)}
        emit(json.dumps(_fields(rule) | shown, indent=2))
        return
    if proof is not None:
        emit(f"{rule.text().rstrip()}\n\n{obligations_text(rule, proof)}")
        return
    facts = [("status", rule.status), ("id", rule.id), ("file", f"{rule.file}:{rule.line}")]
    emit(f"{rule.text().rstrip()}\n\n{columns([*facts, *proof_lines(load_lock().record(rule))])}")


@rules.command("derive", context_settings=SETTINGS)
@option("--from", "sources", multiple=True, metavar="FILE",
        help="Rules to derive from (repeatable); default: the library.")  # fmt: skip
@option("--goal", "goals", multiple=True, required=True, metavar="FILE",
        help="Laws to be derived: a rule file, or TASO's shipped substitutions as JSON (repeatable).")  # fmt: skip
@option("--states", type=click.IntRange(min=1), default=2000, show_default=True,
        help="Terms looked at for one output of a law.")  # fmt: skip
@json_option
def derive(sources: tuple[str, ...], goals: tuple[str, ...], states: int, as_json: bool) -> None:
    """Which laws follow from other rules by rewriting; exit code 1 when one does not.

    TASO's substitutions are read with equal shapes for element-wise operators and explicit groups.
    """
    from taso_py.generate.kept.derive import Rules, derivable

    known = Rules.of(_load(sources))
    laws = [law for file in goals for law in _goals(Path(file))]
    found = {law.name: derivable(law, known, states=states) for law in laws}
    missing = [name for name, derived in found.items() if not derived]
    if as_json:
        emit(json.dumps({"schema": 1, "derived": found}, indent=2))
    else:
        lines = [f"{'follows' if derived else 'open':<8} {name}" for name, derived in found.items()]
        emit("\n".join([*lines, f"{len(found) - len(missing)} of {len(found)} laws follow"]))
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise UnprovedError(f"{len(missing)} of {len(found)} laws were not derived: {names}")


@rules.command("rank", context_settings=SETTINGS)
@click.argument("models", type=click.Path(path_type=Path), nargs=-1, required=True)
@files_option
@runtime_options
@option("--shape", "shapes", multiple=True, metavar="NAME=SIZES",
        help="Sizes of an input or a symbol (repeatable).")  # fmt: skip
@option("--time-budget", type=float, default=120.0, show_default=True, metavar="SECONDS", help="For each model.")
@option("--cache", type=click.Path(path_type=Path), metavar="FILE", help="Database of measured regions.")
@json_option
def rank(models: tuple[Path, ...], files: tuple[str, ...], time_budget: float, as_json: bool, **arguments: Any) -> None:
    """Which rules pay on MODELS by themselves, the most useful one first.

    Each rule is applied wherever it matches, and the places that it changes are timed inside ONNX Runtime as the search
    would time them; the gain is that of the places that get faster, as a share of the model's time. Gains of several
    rules do not add up: one may stand in for another, and a rule that only prepares others shows none.
    """
    options = Options(
        ep_options=parse_ep_options(arguments.pop("ep_options")),
        shapes=parse_shapes(arguments.pop("shapes")),
        rules=parse_rules(files),
        time_budget_s=time_budget,
        **arguments,
    )

    from taso_py.backend.runtime import require_runtime
    from taso_py.files import require_model_file
    from taso_py.run import pipeline
    from taso_py.stop import StopFlag, stop_on_interrupt

    require_runtime()
    for model in models:
        require_model_file(model)
    with stop_on_interrupt(StopFlag()) as stop, progress_on_stderr(0) as progress:
        ranking = pipeline.rank(models, options, progress=progress, stop=stop)
    if as_json:
        emit(ranking.to_json())
        return

    from taso_py.report.terminal import ranking_text

    emit(ranking_text(ranking))


def _proof(rule: Rule) -> Proved:
    from taso_py.prove.prover import prove
    from taso_py.prove.verdict import Proved
    from taso_py.prove.verify import in_words

    verdict = prove(rule)
    if not isinstance(verdict, Proved):
        raise UnprovedError(f"rule {rule.name} is {in_words(verdict)}")
    return verdict


def _goals(path: Path) -> list[Rule]:
    """The laws of a rule file, or of TASO's substitutions."""
    from taso_py.rules.library import load_file

    if path.suffix != ".json":
        return list(load_file(path))

    from taso_py.rules.taso.declarations import DeclaredSizes
    from taso_py.rules.taso.reader import law, read

    try:
        substitutions = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--goal {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"--goal {path}: no substitutions of TASO's in JSON") from None
    return [replace(law(s, DeclaredSizes.EXPLICIT), name=f"shipped-{s.id:03}") for s in substitutions]


def _unused_laws() -> list[Rule]:
    """The laws of the files that are never used: they are shown, with what refutes them, but not listed."""
    from taso_py.rules.library import GENERATED, NEVER, load_file
    from taso_py.rules.location import rules_directory
    from taso_py.rules.lock import load_lock

    paths = sorted(p for p in rules_directory().glob("*.rules") if p.name in NEVER | {GENERATED})
    return [rule for path in paths for rule in load_lock().stamped(load_file(path))]


def _load(files: tuple[str, ...]) -> list[Rule]:
    from taso_py.rules.library import load_library

    return list(load_library(parse_rules(files), (), ()))


def _fields(rule: Rule) -> dict[str, Any]:
    from taso_py.rules.lock import load_lock
    from taso_py.rules.printer import condition_text

    record = load_lock().record(rule)
    return {
        "name": rule.name,
        "id": rule.id,
        "status": rule.status,
        "file": str(rule.file),
        "line": rule.line,
        "conditions": [condition_text(condition) for condition in rule.conditions],
        "text": rule.text(),
        "proof": None if record is None else record.plain(),
    }
