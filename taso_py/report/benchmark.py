"""What `superopt bench` has measured, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from taso_py.backend.timing import BenchRow
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

    def to_json(self) -> str:
        """One JSON object."""
        rows = [{**plain(row), "path": name} for name, row in zip(self.models, self.rows, strict=True)]
        head = {"schema": SCHEMA, "rounds": self.rounds, "threads": self.threads, "ep": self.ep}
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
        )
        for row in benchmark.rows
    )
    header = ("model", "p50 ms", "p90 ms", "p99 ms", "times faster", "95 % interval")
    shapes = shape_text(benchmark.shapes, separator="; ")
    title = f"{benchmark.rounds} paired rounds, threads {benchmark.threads}, {benchmark.ep}, {shapes}"
    return render(Group(table(TextTable(title, header, rows, frozenset(range(1, 6))))))
