"""What `superopt check` has found, as a sentence and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from taso_py.approximate.record import figure
from taso_py.check.report import BudgetReport, CheckReport
from taso_py.report.content import tolerance_text
from taso_py.result import plain

SCHEMA = "superopt.check/1"
FIELDS = (
    *("passed", "reason", "max_rel_error", "max_abs_error", "tolerance", "rtol", "atol", "own_error"),
    *("reference_error", "failing_case", "worst", "cases", "warnings", "notes", "elapsed_s", "budget", "stop_reason"),
    "incomparable",
)


def comparison_text(first: Path, second: Path, report: CheckReport) -> str:
    """One sentence about two models that agree."""
    if report.budget is not None:
        told = report.budget
        allowed = figure(told.budget, told.metric)
        return f"{second} keeps the budget of {allowed} against {first}: error {budget_words(told)}; {told.warrant}"
    return (
        f"{first} and {second} agree on {len(report.cases)} sets of inputs: largest relative error "
        f"{report.max_rel_error:.1e}, tolerance {tolerance_text(report.tolerance, report.rtol, report.atol)}"
    )


def budget_words(told: BudgetReport) -> str:
    """``0.7 % on 300 samples, worst in output 'y' of sample 12``."""
    where = f" of output '{told.output}'" if told.output else ""
    worst = "" if told.sample is None or not told.error else f", the worst{where} on sample {told.sample}"
    data = "random samples" if told.calibration is None else "samples"
    return f"{figure(told.error, told.metric)} on {told.samples} {data}{worst}"


def beyond_budget(name: str, told: BudgetReport) -> str:
    """Why a model does not keep the budget."""
    return f"{name}: the error is {budget_words(told)}, the budget {figure(told.budget, told.metric)}"


def comparison_json(first: Path, second: Path, report: CheckReport) -> str:
    """One JSON object."""
    head = {"schema": SCHEMA, "first": str(first), "second": str(second)}
    return json.dumps(head | {name: plain(getattr(report, name)) for name in FIELDS}, indent=2)
