"""What the bench found, as records, a terminal table, Markdown and JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.table import Table

from taso_py.backend.statistics import Interval
from taso_py.search.state import StopReason

# Speed-ups asked of two AVX-512 threads, and the share of the hand-written graph's speed asked anywhere.
GOALS = {
    "nasrnn": 1.7, "mobileone_s0": 3.2, "repvgg_a0": 1.14, "resnext50": 1.06, "bert_lora": 1.05, "fastvit_t8": 1.33,
    "repvit_m1": 1.2, "ghostnet": 1.2, "decoder": 1.15, "dlrm": 1.25,
}  # fmt: skip
SHARE_GOAL = 0.97
# Times faster than ours that another tool's model may be before it counts as better.
PEER_MARGIN = 1.01
# Two networks that gain so much that they hide the others in a mean.
OUTLIERS = frozenset({"mobileone_s0", "nasrnn"})


class Verdict(StrEnum):
    """Whether the promise "never slower" held for a model."""

    FASTER = "ok"
    SAME = "ok, same bytes"
    UNCLEAR = "unclear"
    SLOWER = "FAIL, slower"
    CHANGED = "FAIL, not improved but bytes differ"
    BROKEN = "FAIL, no result"

    @property
    def failed(self) -> bool:
        return self.value.startswith("FAIL")


@dataclass(frozen=True, slots=True)
class Column:
    """One tool's model: speed-up over the original, None when it is the same file or could not be run."""

    tool: str
    nodes: int | None
    seconds: float
    same_bytes: bool
    speedup: Interval | None
    _: KW_ONLY
    failure: str | None = None
    growth: float | None = None
    """Bytes of its file for each byte of the original."""
    over_ours: Interval | None = None
    """Latency of our model divided by its: above 1 it is the faster one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model of the bench; ``improved`` is what the program itself said."""

    model: str
    nodes: int
    latency_ms: float
    improved: bool | None
    ours: Column
    others: tuple[Column, ...]
    reference: Interval | None = None
    """Speed-up of the hand-written graph over the original."""
    share: Interval | None = None
    """Latency of the hand-written graph divided by ours: 1 means as fast."""
    result: Mapping[str, Any] | None = None
    """The JSON that our run printed: phases, candidates that were raced, reasons."""

    @property
    def verdict(self) -> Verdict:
        if self.ours.failure is not None:
            return Verdict.BROKEN
        if self.ours.same_bytes:
            return Verdict.SAME
        if self.improved is False:
            return Verdict.CHANGED
        if self.ours.speedup is None or self.ours.speedup.high < 1:
            return Verdict.SLOWER
        return Verdict.FASTER if self.ours.speedup.low >= 1 else Verdict.UNCLEAR

    @property
    def missed(self) -> tuple[str, ...]:
        """The goals that this model misses, one line each; only meaningful on two AVX-512 threads."""
        reached = self.ours.speedup.median if self.ours.speedup else 1.0
        equal_share = self.share is not None and self.share.median >= SHARE_GOAL
        lines = []
        goal = GOALS.get(self.model)
        # bert_lora may instead be as fast as its merged reference.
        if goal is not None and reached < goal and not (self.model == "bert_lora" and equal_share):
            lines.append(f"{self.model}: {reached:.3f} times faster, goal {goal:g}")
        if self.share is not None and not equal_share:
            lines.append(f"{self.model}: {self.share.median:.3f} of its reference, goal {SHARE_GOAL:g}")
        better = [c for c in self.others if c.over_ours is not None and c.over_ours.low > PEER_MARGIN]
        lines += [f"{self.model}: {c.tool}'s is {interval_text(c.over_ours)} times as fast as ours" for c in better]
        return tuple(lines)


def interval_text(interval: Interval | None) -> str:
    """``1.10 [1.08, 1.12]``; a dash for None."""
    if interval is None:
        return "-"
    return f"{interval.median:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _column_text(column: Column) -> str:
    if column.failure is not None:
        return "failed"
    return "same file" if column.same_bytes else interval_text(column.speedup)


def head(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the columns are called: a column for each tool that was run beside ours."""
    return (
        *("model", "ms", "nodes", "seconds", "file", "superopt", *_tools(rows)),
        *("reference", "share", "never slower"),
    )


def _tools(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.tool for row in rows for column in row.others))


def geometric_means(rows: Sequence[Row]) -> dict[str, float]:
    """Of the speed-ups of each tool that was run on every model; the same file is 1, and so is a failure."""
    columns = [{column.tool: column for column in (row.ours, *row.others)} for row in rows]
    tools = [tool for tool in (columns[0] if columns else ()) if all(tool in of for of in columns)]
    found = {tool: [of[tool].speedup for of in columns] for tool in tools}
    return {tool: math.exp(fmean(math.log(s.median) if s else 0.0 for s in of)) for tool, of in found.items()}


def means_text(rows: Sequence[Row]) -> str:
    """One line: the geometric means, and each as a share of ours."""
    text = "geometric mean: " + _means(rows)
    others = [row for row in rows if row.model not in OUTLIERS]
    return (
        text if len(others) in (0, len(rows)) else f"{text}; without {' and '.join(sorted(OUTLIERS))}: {_means(others)}"
    )


def _means(rows: Sequence[Row]) -> str:
    return ", ".join(f"{tool} {mean:.3f}" for tool, mean in geometric_means(rows).items())


def searches_text(rows: Sequence[Row]) -> str:
    """One line: how many searches ended before their time did, and how long half of the runs took at most."""
    reasons = [row.result["stop_reason"] for row in rows if row.result is not None]
    by_themselves = sum(reason != StopReason.TIME.value for reason in reasons)
    seconds = median(row.ours.seconds for row in rows)
    ended = f"searches that ended by themselves: {by_themselves} of {len(reasons)}"
    return f"{ended}; half of the runs took at most {seconds:.0f} s"


def cells(row: Row, tools: Sequence[str]) -> tuple[str, ...]:
    """The row as text, in the order of `head`."""
    after = "-" if row.ours.nodes is None else str(row.ours.nodes)
    others = {column.tool: _column_text(column) for column in row.others}
    return (
        row.model, f"{row.latency_ms:.2f}", f"{row.nodes} → {after}", f"{row.ours.seconds:.0f}",
        "-" if row.ours.growth is None else f"{row.ours.growth:.2f}", _column_text(row.ours),
        *(others.get(tool, "-") for tool in tools),
        interval_text(row.reference), interval_text(row.share), str(row.verdict),
    )  # fmt: skip


def terminal_table(rows: Sequence[Row]) -> Table:
    """All rows for a terminal; failures in red."""
    table = Table(title="speed-up over ONNX Runtime on the original, 95 % interval")
    for name in head(rows):
        table.add_column(name, justify="left" if name in ("model", "never slower") else "right")
    for row in rows:
        table.add_row(*cells(row, _tools(rows)), style="red" if row.verdict.failed else None)
    return table


def markdown(rows: Sequence[Row], environment: dict[str, Any]) -> str:
    """The same table in Markdown, below one line that says where it was measured."""
    where = ", ".join(f"{name} {value}" for name, value in environment.items())
    names = head(rows)
    lines = [
        "# Bench", "", f"Speed-up over ONNX Runtime on the original file with its 95 % interval ({where}).",
        "", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}",
    ]  # fmt: skip
    lines += [f"| {' | '.join(cells(row, _tools(rows)))} |" for row in rows]
    lines += ["", means_text(rows), "", searches_text(rows)]
    missed = [line for row in rows for line in row.missed]
    lines += ["", "Goals missed:", *(f"- {line}" for line in missed)] if missed else []
    return "\n".join(lines) + "\n"


def to_dict(rows: Sequence[Row], environment: dict[str, Any]) -> dict[str, Any]:
    """The whole bench as plain values."""
    models = [dataclasses.asdict(row) | {"verdict": row.verdict.value, "missed": list(row.missed)} for row in rows]
    return {"schema": "superopt.zoo-bench/1", "environment": environment, "models": models}


def write(rows: Sequence[Row], environment: dict[str, Any], out: Path) -> None:
    """Write ``bench.json`` and ``bench.md`` into ``out``."""
    text = json.dumps(to_dict(rows, environment), indent=2, ensure_ascii=False)
    (out / "bench.json").write_text(text + "\n", encoding="utf-8")
    (out / "bench.md").write_text(markdown(rows, environment), encoding="utf-8")
