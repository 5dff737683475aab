"""What a contest says: ratios of the same rounds, rivals, clauses. All figures are invented."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from scripts.bench import contest_report
from scripts.bench.contest_rows import Entry, ModelRow, load, write
from scripts.bench.contestants import Who
from taso_py.backend.statistics import Interval
from taso_py.options.providers import OPENVINO

CPU = "CPUExecutionProvider"
SECONDS = {Who.ORIGINAL: 12.0, Who.OURS_CPU: 6.0, Who.OURS_AUTO: 3.0, Who.OPENVINO: 4.0, Who.BF16: 1.0}


def entry(seconds: float, error: float | None = None, **further: object) -> Entry:
    return Entry(ep=CPU, seconds=dict.fromkeys(range(21), seconds), error=error, samples=300 if error else 0, **further)


def row(seconds: Mapping[Who, float] = SECONDS, *, model: str = "m", on: str = OPENVINO) -> ModelRow:
    entries = {who: entry(value) for who, value in seconds.items()}
    if Who.OURS_AUTO in entries:
        entries[Who.OURS_AUTO] = Entry(ep=on, seconds=entries[Who.OURS_AUTO].seconds)
    return ModelRow(model=model, budget=None, entries=entries)


def budgeted(errors: Mapping[Who, tuple[float, float]], *, model: str = "m") -> ModelRow:
    entries = {who: entry(seconds, error) for who, (seconds, error) in errors.items()}
    return ModelRow(model=model, budget=0.01, entries={Who.ORIGINAL: entry(12.0, 1e-7)} | entries)


def exactly(value: float) -> Interval:
    return Interval(value, value, value)


def test_ours_is_compared_with_the_better_of_the_exact_ones() -> None:
    found = row()
    assert found.rival is Who.OPENVINO
    assert found.over_rival == exactly(4 / 3)
    assert found.rewriting == exactly(4 / 3)
    assert not found.below
    assert row(on=CPU).rewriting is None
    slower = row({**SECONDS, Who.OURS_AUTO: 5.0})
    assert slower.over_rival == exactly(0.8)
    assert slower.below
    assert row({**SECONDS, Who.OPENVINO: 8.0}).rival is Who.OURS_CPU
    assert row({**SECONDS, Who.OURS_AUTO: 4.0}).below is False  # as fast as the rival


def test_only_rounds_in_which_both_ran_count() -> None:
    ours = Entry(seconds={0: 1.0, 1: 1.0, 5: 100.0})
    other = Entry(seconds={0: 2.0, 1: 2.0, 7: 1.0})
    assert ours.over(other) == exactly(2.0)
    assert ours.over(Entry(seconds={9: 1.0})) is None
    assert ours.over(Entry(seconds=other.seconds, failure="it crashed")) is None


def test_a_rival_beyond_the_budget_is_shown_and_does_not_count() -> None:
    found = budgeted({
        Who.OURS_BUDGET: (4.0, 0.009), Who.BF16: (2.0, math.inf), Who.ORT_STATIC: (3.0, 0.011),
        Who.ORT_DYNAMIC: (6.0, 0.01), Who.NNCF: (8.0, 0.001),
    })  # fmt: skip
    assert found.rival is Who.ORT_DYNAMIC
    assert found.over_rival == exactly(1.5)
    assert found.keeps(Who.OURS_BUDGET)
    cells = dict(zip(contest_report.head([found]), contest_report.cells(found, [*found.entries][1:]), strict=False))
    text = " ".join(contest_report.cells(found, [Who.BF16, Who.ORT_STATIC, Who.NNCF]))
    assert cells["ms"] == "12000.00"
    assert "6.000 [6.000, 6.000], infinite BEYOND" in text
    assert "4.000 [4.000, 4.000], 1.1 % BEYOND" in text
    assert "1.500 [1.500, 1.500], 0.1 %" in text
    assert contest_report.means([found])[Who.OURS_BUDGET] == (pytest.approx(3), 1)
    assert Who.BF16 not in contest_report.means([found])


def test_ours_beyond_the_budget_or_broken_is_below_whoever_keeps_it() -> None:
    rivals = {Who.BF16: (6.0, 0.001)}
    assert budgeted({Who.OURS_BUDGET: (1.0, 0.02), **rivals}).below
    failed = budgeted(rivals)
    assert not failed.below  # it takes no part
    assert not contest_report.clauses([failed])[0].holds
    assert ModelRow(model="m", budget=0.01, entries={**failed.entries, Who.OURS_BUDGET: Entry(failure="no")}).below
    assert budgeted({Who.OURS_BUDGET: (1.0, 0.02), Who.BF16: (6.0, math.inf)}).below
    assert not budgeted({Who.OURS_BUDGET: (1.0, 0.01), Who.BF16: (6.0, math.inf)}).below


def test_lossless_clauses() -> None:
    rows = [row(model=f"m{number}") for number in range(3)]
    told = list(map(str, contest_report.clauses(rows)))
    assert told[0] == "holds: 0 of 3 models below the better of ours-cpu and openvino"
    assert told[1] == "holds: geometric mean over the better of ours-cpu and openvino: 1.333 of 3 models, asked 1.02"
    assert told[2].startswith(
        "holds: 3 models gain 1.03 or more by rewriting on OpenVINO (m0 1.333, m1 1.333, m2 1.333)"
    )
    slow = row({**SECONDS, Who.OURS_AUTO: 5.0}, model="slow", on=CPU)
    part = row({who: SECONDS[who] for who in (Who.ORIGINAL, Who.OURS_CPU, Who.OURS_AUTO)}, model="part")
    nothing = ModelRow(model="nothing", budget=None, entries={}, failure="it does not load")
    told = list(map(str, contest_report.clauses([slow, part, nothing])))
    assert told[0].startswith("FAILS: 1 of 3 models below the better of ours-cpu and openvino (slow); ")
    assert told[0].endswith("nothing to compare: nothing; not all rivals ran: part")
    assert told[2].startswith("FAILS: 0 models gain")
    assert contest_report.clauses([]) == []
    assert contest_report.failures([slow, nothing]) == ["nothing: it does not load"]
    few = ModelRow(model="few", budget=None, rounds=30, entries={Who.ORIGINAL: entry(1.0)})
    assert contest_report.failures([few]) == ["few, original: 21 of 30 rounds count"]


def test_clauses_of_a_budget() -> None:
    good = budgeted({Who.OURS_BUDGET: (4.0, 0.009), Who.BF16: (6.0, 0.001)})
    told = list(map(str, contest_report.clauses([good])))
    assert told[0].startswith("holds: 0 of 1 models below the best whole model that keeps the budget")
    assert "1.500 of 1 models, asked 1.1" in told[1]
    assert told[2].startswith("holds: 1 of 1 results keep the budget on 299 unseen samples or more")
    assert "99 % of such inputs" in told[2]
    worse = budgeted({Who.OURS_BUDGET: (4.0, 0.02), Who.BF16: (6.0, 0.001)}, model="w")
    assert [clause.holds for clause in contest_report.clauses([worse])] == [False, False, False]


def test_a_file_holds_everything_and_another_environment_s_is_refused(tmp_path: Path) -> None:
    rows = [budgeted({Who.OURS_BUDGET: (4.0, 0.009), Who.BF16: (6.0, math.inf)}), row(model="exact")]
    write(rows, {"cpu": "c", "budget": None}, tmp_path)
    found = load(tmp_path, {"cpu": "c", "budget": None})
    assert list(found.values()) == rows
    assert load(tmp_path / "empty", {}) == {}
    with pytest.raises(click.UsageError, match="other settings"):
        load(tmp_path, {"cpu": "d", "budget": None})


def test_tables() -> None:
    found = row()
    same = ModelRow(model="same", budget=None, entries={**found.entries, Who.OURS_CPU: entry(12.0, same_as="original")})
    failed = ModelRow(model="bad", budget=None, entries={Who.OPENVINO: Entry(failure="crash")}, failure="no\nline")
    text = contest_report.markdown([found, same, failed], {"cpu": "c"})
    assert "| m | 12000.00 | 2.000 [2.000, 2.000] | 4.000 [4.000, 4.000] openvino | 3.000 [3.000, 3.000] |" in text
    assert "1.000 [1.000, 1.000] = original" in text
    assert "| bad | - | - | - | failed | - | no rival | FAIL, nothing ran |" in text
    assert "geometric mean over the original: ours-cpu 1.414 (of 2), ours-auto 4.000 (of 2)" in text
    assert "openvino-bf16 1" not in text  # no budget allows it
    assert contest_report.terminal_table([found, same, failed]).row_count == 3
