"""What a contest found, for people: tables, means, and the clauses that were asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.table import Table

from scripts.bench.contest_rows import APPROXIMATE, ModelRow
from scripts.bench.contestants import Who
from scripts.bench.report import interval_text
from taso_py.approximate.measure import warranted_share
from taso_py.backend.statistics import geometric_mean
from taso_py.options.providers import short_name

EXACT_MEAN, APPROXIMATE_MEAN, REWRITING, REWRITTEN, UNSEEN = 1.02, 1.1, 1.03, 3, 299
"""What is asked: both geometric means, the gain by rewriting on OpenVINO and of how many models, unseen samples."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing that was asked, and whether it holds."""

    text: str
    holds: bool

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}: {self.text}"


def clauses(rows: Sequence[ModelRow]) -> list[Clause]:
    """The clauses of the acceptance that such a run can decide, for the models that were run."""
    if not rows:
        return []
    lossless = rows[0].budget is None
    beside = "the better of ours-cpu and openvino" if lossless else "the best whole model that keeps the budget"
    ratios = [row.over_rival for row in rows]
    known = [interval.median for interval in ratios if interval is not None]
    mean, asked = (geometric_mean(known) if known else math.nan), EXACT_MEAN if lossless else APPROXIMATE_MEAN
    below = [row.model for row in rows if row.below]
    without = [row.model for row in rows if row.failure is not None or row.over_rival is None]
    part = [row.model for row in rows if row.model not in without and not _all_ran(row)]
    named = f" ({', '.join(below)})" if below else ""
    named += f"; nothing to compare: {', '.join(without)}" if without else ""
    named += f"; not all rivals ran: {', '.join(part)}" if part else ""
    ran = all(row.keeps(row.ours) for row in rows)
    common = [
        Clause(f"{len(below)} of {len(rows)} models below {beside}{named}", not below and ran),
        Clause(f"geometric mean over {beside}: {mean:.3f} of {len(known)} models, asked {asked:g}", mean >= asked),
    ]
    return [*common, _rewriting(rows)] if lossless else [*common, _unseen(rows)]


def _all_ran(row: ModelRow) -> bool:
    return all(who in row.entries and row.entries[who].failure is None for who in row.rivals)


def _rewriting(rows: Sequence[ModelRow]) -> Clause:
    found = {row.model: row.rewriting for row in rows}
    gained = [f"{name} {one.median:.3f}" for name, one in found.items() if one is not None and one.median >= REWRITING]
    named = f" ({', '.join(gained)})" if gained else ""
    text = f"{len(gained)} models gain {REWRITING:g} or more by rewriting on OpenVINO{named}, asked {REWRITTEN}"
    return Clause(text, len(gained) >= REWRITTEN)


def _unseen(rows: Sequence[ModelRow]) -> Clause:
    kept = [row.entries[Who.OURS_BUDGET].samples for row in rows if row.keeps(Who.OURS_BUDGET)]
    enough = [samples for samples in kept if samples >= UNSEEN]
    share = math.floor(1000 * warranted_share(min(enough, default=0))) / 10
    text = (
        f"{len(enough)} of {len(rows)} results keep the budget on {UNSEEN} unseen samples or more without a violation: "
        f"with 95 % confidence {share:g} % of such inputs do, for each result by itself"
    )
    return Clause(text, len(enough) == len(rows))


def means(rows: Sequence[ModelRow]) -> dict[str, tuple[float, int]]:
    """Geometric mean over the original on the CPU provider, and of how many models, of each that ran and may count."""
    found: dict[str, tuple[float, int]] = {}
    for who in _columns(rows):
        speeds = [row.over(who, Who.ORIGINAL) for row in rows if row.keeps(who)]
        medians = [interval.median for interval in speeds if interval is not None]
        if medians:
            found[who] = (geometric_mean(medians), len(medians))
    return found


def means_text(rows: Sequence[ModelRow]) -> str:
    """One line; a mean of fewer models than there are says so, and is no figure to set beside another."""
    told = [
        f"{who} {mean:.3f}" + ("" if count == len(rows) else f" (of {count})")
        for who, (mean, count) in means(rows).items()
    ]
    return "geometric mean over the original: " + ", ".join(told)


def _columns(rows: Sequence[ModelRow]) -> list[Who]:
    return [who for who in Who if who is not Who.ORIGINAL and any(who in row.entries for row in rows)]


def head(rows: Sequence[ModelRow]) -> tuple[str, ...]:
    """What the columns are called."""
    return ("model", "ms", *_columns(rows), "ours over the best rival", "below")


def cells(row: ModelRow, columns: Sequence[Who]) -> tuple[str, ...]:
    """The row as text, in the order of `head`."""
    base = row.entries.get(Who.ORIGINAL)
    latency = "-" if base is None or not base.seconds else f"{1000 * median(base.seconds.values()):.2f}"
    rival = "no rival" if row.rival is None else f"{interval_text(row.over_rival)} {row.rival}"
    verdict = "FAIL, nothing ran" if row.failure is not None else "below" if row.below else ""
    return (row.model, latency, *(_cell(row, who) for who in columns), rival, verdict)


def _cell(row: ModelRow, who: Who) -> str:
    entry = row.entries.get(who)
    if entry is None:
        return "-"
    if entry.failure is not None:
        return "failed"
    speed = row.over(who, Who.ORIGINAL)
    words = "not timed" if speed is None else interval_text(speed)
    if who in (Who.OURS_AUTO, Who.OURS_BUDGET) and entry.ep is not None:
        words += f" {short_name(entry.ep)}"
    if entry.same_as is not None:
        words += f" = {entry.same_as}"
    if entry.error is not None and who in (*APPROXIMATE, Who.OURS_BUDGET):
        words += f", {_percent(entry.error)}{'' if row.keeps(who) else ' BEYOND'}"
    return words


def _percent(error: float) -> str:
    return "infinite" if math.isinf(error) else f"{100 * error:.2g} %"


def terminal_table(rows: Sequence[ModelRow]) -> Table:
    """All rows for a terminal; what is below its rival in red."""
    table = Table(title="speed-up over the original on the CPU provider, 95 % interval")
    for name in head(rows):
        table.add_column(name, justify="left" if name in ("model", "below") else "right")
    for row in rows:
        table.add_row(*cells(row, _columns(rows)), style="red" if row.below or row.failure else None)
    return table


def failures(rows: Sequence[ModelRow]) -> list[str]:
    """Everything that did not run, or not in all rounds, a line each with its reason."""
    found: list[str] = []
    for row in rows:
        found += [f"{row.model}: {row.failure}"] if row.failure is not None else []
        for who, entry in row.entries.items():
            if entry.failure is not None:
                found.append(f"{row.model}, {who}: {entry.failure}")
            elif len(entry.seconds) < row.rounds:
                found.append(f"{row.model}, {who}: {len(entry.seconds)} of {row.rounds} rounds count")
    return found


def markdown(rows: Sequence[ModelRow], environment: Mapping[str, Any]) -> str:
    """Table, means, clauses and reasons, below one line that says where it was measured."""
    where = ", ".join(f"{name} {value}" for name, value in environment.items() if name != "contestants")
    names = head(rows)
    lines = [
        "# Contest", "", f"Speed-up over the original on the CPU provider with its 95 % interval ({where}).",
        "", f"| {' | '.join(names)} |", f"|{'---|' * len(names)}",
    ]  # fmt: skip
    lines += [f"| {' | '.join(cells(row, _columns(rows)))} |" for row in rows]
    lines += ["", means_text(rows), "", *(f"- {clause}" for clause in clauses(rows))]
    failed = failures(rows)
    lines += ["", "Failed, or timed in fewer rounds:", *(f"- {line}" for line in failed)] if failed else []
    return "\n".join(lines) + "\n"
