"""`superopt rules`: list, show NAME, derive, rank MODEL."""

from __future__ import annotations

from pathlib import Path

import click

from taso_py import api
from taso_py.cli.command import CommandGroup
from taso_py.cli.outcome import emit
from taso_py.cli.shared import FILE, SETTINGS, complete_rule, progress_on_stderr, takes
from taso_py.options import DeriveGoals, DeriveOptions, Display, RankOptions, RuleOptions, ShowOptions
from taso_py.stop import StopFlag, stop_on_interrupt


@click.group(cls=CommandGroup, context_settings=SETTINGS)
def rules() -> None:
    """Look at the rewrite rules."""


@rules.command(
    "list",
    context_settings=SETTINGS,
    short_help="All rules, and what is known of each.",
    examples=(
        "superopt rules list",
        "superopt rules list --json",
        "superopt rules list --rules my.rules",
    ),
)
@takes(options=RuleOptions, display=Display)
def list_rules(options: RuleOptions, display: Display) -> None:
    """One line per rule: name, status, file and line."""
    from taso_py.report.rules import rules_json, rules_text

    found = api.list_rules(options)
    emit(rules_json(found) if display.as_json else rules_text(found))


@rules.command(
    "show",
    context_settings=SETTINGS,
    short_help="One rule, and its proof or what refutes it.",
    examples=(
        "superopt rules show matmul-shared-weight",
        "superopt rules show matmul-shared-weight --obligations",
        "superopt rules show polarization --rules my.rules",
    ),
)
@click.argument("name", shell_complete=complete_rule)
@takes(options=RuleOptions, shown=ShowOptions)
def show(name: str, options: RuleOptions, shown: ShowOptions) -> None:
    """The text of one rule, its status, its proof or the counterexample against it."""
    from taso_py.report.rules import rule_json, rule_text

    found = api.find_rule(name, options)
    proof = api.proof_of(found.rule) if shown.obligations else None
    emit(rule_json(found, proof) if shown.as_json else rule_text(found, proof))


@rules.command(
    "derive",
    context_settings=SETTINGS,
    short_help="Which laws follow from other rules?",
    examples=(
        "superopt rules derive --goal goals.rules",
        "superopt rules derive --goal goals.rules --from own.rules",
        "superopt rules derive --goal goals.rules --states 500 --json",
    ),
)
@takes(goals=DeriveGoals, options=DeriveOptions, display=Display)
def derive(goals: DeriveGoals, options: DeriveOptions, display: Display) -> None:
    """Which laws follow from other rules by rewriting; exit code 1 when one does not.

    TASO's substitutions are read with equal shapes for element-wise operators and explicit groups.
    """
    found = api.derive(goals.goals, options)
    emit(found.to_json() if display.as_json else found.text())
    found.require_all()


@rules.command(
    "rank",
    context_settings=SETTINGS,
    short_help="Which rules pay on a model?",
    examples=(
        "superopt rules rank model.onnx",
        "superopt rules rank model.onnx faster.onnx --time-budget 30",
        "superopt rules rank model.onnx --shape batch=8 --rules my.rules --json",
    ),
)
@click.argument("models", type=FILE, nargs=-1, required=True)
@takes(options=RankOptions, display=Display)
def rank(models: tuple[Path, ...], options: RankOptions, display: Display) -> None:
    """Which rules pay on MODELS by themselves, the most useful one first.

    Each rule is applied wherever it matches, and the places that it changes are timed inside ONNX Runtime as the search
    would time them; the gain is that of the places that get faster, as a share of the model's time. Gains of several
    rules do not add up: one may stand in for another, and a rule that only prepares others shows none.
    """
    from taso_py.report.terminal import ranking_text

    with stop_on_interrupt(StopFlag()) as stop, progress_on_stderr(0) as progress:
        ranking = api.rank(models, options, progress=progress, stop=stop)
    emit(ranking.to_json() if display.as_json else ranking_text(ranking))
