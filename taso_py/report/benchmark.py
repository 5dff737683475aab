"""What `superopt bench` has measured, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from taso_py.approximate.record import figure
from taso_py.backend.timing import BenchRow
from taso_py.check.report import BudgetReport, StopReason
from taso_py.report.comparison import beyond_budget
from taso_py.report.content import shape_text, three_digits
from taso_py.report.table import TextTable
from taso_py.result import plain

SCHEMA = "superopt.bench/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Latencies of models (milliseconds), and how many times faster than the first each is, with 95 % intervals."""

    models: tuple[str, ...]
    """Their paths as they were given; "model" for one in memory."""
    rows: tuple[BenchRow, ...]
    """One for each model, in the order given."""
    rounds: int
    threads: int
    ep: str
    """As ONNX Runtime names it."""
    shapes: Mapping[str, tuple[int, ...]]
    """Input -> the sizes at which the figures hold."""
    budgets: tuple[BudgetReport | None, ...] = ()
    """For each model whether it keeps the error budget against the first; empty where none was given."""

    stop_reason: StopReason = "completed"
    """"time budget": it ended before all rounds were timed that were asked for."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, one line each; shown by the command line, not part of the JSON."""

    @property
    def beyond(self) -> str | None:
        """The first model that does not keep the budget, in words; None where all do."""
        found = zip(self.models, self.budgets, strict=False)
        return next((beyond_budget(name, told) for name, told in found if told is not None and not told.kept), None)

    def to_json(self) -> str:
        """One JSON object."""
        budgets = self.budgets or (None,) * len(self.rows)
        found = zip(self.models, self.rows, budgets, strict=True)
        rows = [{**plain(row), "path": name, "budget": plain(budget)} for name, row, budget in found]
        head = {"schema": SCHEMA, "rounds": self.rounds, "threads": self.threads, "ep": self.ep}
        head["stop_reason"] = self.stop_reason
        return json.dumps({**head, "shapes": plain(self.shapes), "models": rows}, indent=2)


def benchmark_text(benchmark: Benchmark) -> str:
    """One line for each model."""
    from rich.console import Group

    from taso_py.report.terminal import render, table

    rows = tuple(
        (
            row.name,
            *(three_digits(value) for value in (row.latency_ms.p50, row.latency_ms.p90, row.latency_ms.p99)),
            f"{row.speedup.median:.3f}",
            f"{row.speedup.low:.3f} to {row.speedup.high:.3f}",
            *([] if not benchmark.budgets else [_error(benchmark.budgets[number])]),
        )
        for number, row in enumerate(benchmark.rows)
    )
    header: tuple[str, ...] = ("model", "p50 ms", "p90 ms", "p99 ms", "times faster", "95 % interval")
    header += ("error",) if benchmark.budgets else ()
    shapes = shape_text(benchmark.shapes, separator="; ")
    title = f"{benchmark.rounds} paired rounds, threads {benchmark.threads}, {benchmark.ep}, {shapes}"
    return render(Group(table(TextTable(title, header, rows, frozenset(range(1, len(header)))))))


def _error(told: BudgetReport | None) -> str:
    """The error of a model against the first, which itself has none."""
    if told is None:
        return ""
    return figure(told.error, told.metric) + ("" if told.kept else ": beyond the budget")
