"""The second book: what approximations gain and cost, and what was tried, beside what is proved."""

from __future__ import annotations

import shlex

from taso_py.approximate.record import HINT, ApproximatedLayer, Approximation
from taso_py.options.providers import short_name
from taso_py.report.table import TextTable
from taso_py.result import Result

_MOST_LAYERS = 40
NEW_SAMPLES = "new.npz"
"""What a command calls a file of samples that the model was not chosen by."""


def books(result: Result) -> TextTable | None:
    """What is proved and what is not, each with its gain; None without an approximation in the result."""
    told = result.approximation
    total = None if told is None else told.total_interval
    if told is None or not told.applied or total is None:
        return None
    sites = sum(rule.sites for rule in result.rules)
    done = f"{len(result.rules)} rules in {sites} places" if result.rules else "none that pays"
    exact = "" if result.max_rel_error is None else f", largest relative error {result.max_rel_error:.1e}"
    error = f"error {told.figure(told.error)} on {told.test_samples} unseen samples, budget {told.figure(told.budget)}"
    rows = (
        ("proved rewrites", _interval(told.exact_low, told.exact_speedup, told.exact_high), done, f"proved{exact}"),
        ("approximations", _interval(*_own(told)), what(told), f"not proved; {error}"),
        ("together", _interval(*total), "", told.warrant or ""),
    )
    return TextTable("Two books", ("book", "gain, 95 % interval", "what was done", "what it rests on"), rows)


def what(told: Approximation) -> str:
    """``30 of 32 layers: int8 static, Percentile``."""
    where = "" if told.provider is None else f" on {short_name(told.provider.ep)}"
    of = " of the original" if told.of_original else ""
    if told.kind == HINT:
        return f"the whole model{of}{where}: {told.kind}"
    by = "" if told.calibrator is None else f", {told.calibrator}"
    return f"{len(told.approximated)} of {len(told.layers)} layers{of}{where}: {told.kind}{by}"


def layer_table(told: Approximation, most: int = _MOST_LAYERS) -> TextTable:
    """The layers that could be made 8-bit, those with the largest error alone first."""
    layers = sorted(told.layers, key=lambda one: -(one.error_alone or 0.0))
    rows = tuple(_row(told, one) for one in layers[:most])
    rest = len(layers) - len(rows)
    more = () if rest <= 0 else ((f"and {rest} more", "", "", "", ""),)
    header = ("layer", "operator", "8-bit", "error alone", "saves ms")
    return TextTable("Layers", header, (*rows, *more), frozenset({3, 4}))


def _row(told: Approximation, one: ApproximatedLayer) -> tuple[str, ...]:
    error = "" if one.error_alone is None else told.figure(one.error_alone)
    saved = "" if one.gain_s is None else f"{1000 * one.gain_s:.3f}"
    return one.name, one.operator, "yes" if one.approximated else "no", error, saved


def tried_table(told: Approximation) -> TextTable:
    """The candidates of the second stage: their errors where they were chosen, and how fast they are."""
    rows = tuple(
        (
            f"{one.kind}{'' if one.calibrator is None else f' {one.calibrator}'}"
            f"{'' if one.ep is None else f', {short_name(one.ep)}'}",
            "whole model" if one.whole else f"{one.layers} layers",
            "" if one.error is None else told.figure(one.error),
            "" if one.speedup is None else f"{one.speedup:.3f}",
            one.failure or "",
        )
        for one in told.tried
    )
    header = ("approximation", "of", "error where chosen", "over the exact model", "")
    return TextTable("Approximations tried", header, rows, frozenset({2, 3}))


def approximation_tables(result: Result) -> tuple[TextTable, ...]:
    """All of it; nothing without a budget."""
    told = result.approximation
    if told is None:
        return ()
    both = books(result)
    found = (*([] if both is None else [both]), layer_table(told), tried_table(told))
    return tuple(table for table in found if table.rows)


def figure_rows(told: Approximation | None) -> tuple[tuple[str, str], ...]:
    """Name and value, for the table of all figures."""
    if told is None:
        return ()
    own = _interval(*_own(told)) if told.applied else ""
    total = _interval(*told.total_interval) if told.total_interval is not None else ""
    data = "random" if told.random_data else told.calibration or "given"
    return (
        ("error budget", told.figure(told.budget) if told.metric is None else f"{told.budget:g} by {told.metric}"),
        ("data of the budget", f"{data}: {_parts(told)}"),
        ("approximations' speed-up, 95 % interval", own),
        ("both gains together", total),
        ("error on unseen samples", "" if told.error is None else told.figure(told.error)),
    )


def budget_flags(told: Approximation) -> str:
    """The budget as the command line spells it, behind a blank, with samples that did not choose the model."""
    data = "" if told.calibration is None else f" --calibration {NEW_SAMPLES}"
    metric = "" if told.metric is None else f" --metric {shlex.quote(told.metric)}"
    return f" --error-budget rel={told.budget:g}{data}{metric}"


def _parts(told: Approximation) -> str:
    chosen = f"{told.calibration_samples} to calibrate, {told.selection_samples} to select"
    return f"{chosen}, {told.test_samples} to test"


def _own(told: Approximation) -> tuple[float, float, float]:
    middle = told.speedup or 1.0
    return told.speedup_low or middle, middle, told.speedup_high or middle


def _interval(low: float, middle: float, high: float) -> str:
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
