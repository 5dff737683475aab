"""How far outputs of the result are from the original's."""

from __future__ import annotations

from taso_py.report.names import clipped
from taso_py.report.table import TextTable
from taso_py.result import Result

_MOST = 200


def error_table(result: Result) -> TextTable:
    """One row for each output and set of inputs, the largest relative error first."""
    worst = sorted(result.errors, key=lambda error: -error.relative)
    rows = [
        (clipped(e.output, 60), clipped(e.inputs, 80), f"{e.relative:.1e}", f"{e.absolute:.1e}") for e in worst[:_MOST]
    ]
    if len(worst) > _MOST:
        rows.append((f"{len(worst) - _MOST} more, all smaller", "", "", ""))
    limit = "" if result.tolerance is None else f"; the tolerance of the relative error is {result.tolerance:.1e}"
    header = ("output", "inputs", "relative error", "absolute error")
    return TextTable(f"Errors against the original{limit}", header, tuple(rows), frozenset({2, 3}))
