"""What `superopt check` has found, as a sentence and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from taso_py.check.report import CheckReport
from taso_py.report.content import tolerance_text
from taso_py.result import plain

SCHEMA = "superopt.check/1"
FIELDS = (
    *("passed", "reason", "max_rel_error", "max_abs_error", "tolerance", "rtol", "atol", "own_error"),
    *("reference_error", "failing_case", "worst", "cases", "warnings", "notes", "elapsed_s"),
)


def comparison_text(first: Path, second: Path, report: CheckReport) -> str:
    """One sentence about two models that agree."""
    return (
        f"{first} and {second} agree on {len(report.cases)} sets of inputs: largest relative error "
        f"{report.max_rel_error:.1e}, tolerance {tolerance_text(report.tolerance, report.rtol, report.atol)}"
    )


def comparison_json(first: Path, second: Path, report: CheckReport) -> str:
    """One JSON object."""
    head = {"schema": SCHEMA, "first": str(first), "second": str(second)}
    return json.dumps(head | {name: plain(getattr(report, name)) for name in FIELDS}, indent=2)
