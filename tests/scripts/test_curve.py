"""The picture of error against speed: every point stands where its figures say. All figures are invented."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from scripts.bench import curve
from scripts.bench.contest_rows import Entry, ModelRow, write
from scripts.bench.contestants import Who


def row(budget: float, seconds: float, error: float, *, model: str = "m") -> ModelRow:
    def entry(value: float, error: float) -> Entry:
        return Entry(seconds=dict.fromkeys(range(5), value), error=error, samples=300)

    entries = {Who.ORIGINAL: entry(6.0, 0.0), Who.OURS_BUDGET: entry(seconds, error), Who.BF16: entry(1.0, math.inf)}
    return ModelRow(model=model, budget=budget, entries=entries)


ROWS = [row(0.1, 2.0, 0.05), row(0.01, 3.0, 0.009), row(0.1, 2.0, 0.05, model="other")]


def test_points_are_ours_by_budget_and_others_once() -> None:
    found = [(one.who, one.budget, one.error, one.speed.median) for one in curve.points(ROWS, "m")]
    assert found == [
        (Who.OURS_BUDGET, 0.01, 0.009, 2.0),
        (Who.BF16, 0.01, math.inf, 6.0),
        (Who.OURS_BUDGET, 0.1, 0.05, 3.0),
    ]


def test_axes() -> None:
    axes = curve.Axes(2.0)
    assert axes.x(0.0) == axes.x(1e-6) < axes.x(1e-3) < axes.x(1.0) == axes.x(math.inf)
    assert axes.x(1e-3) == pytest.approx((axes.x(1e-6) + axes.x(1.0)) / 2)
    assert axes.y(1.0) == pytest.approx((axes.y(0.0) + axes.y(2.0)) / 2)


def test_the_picture_is_xml_with_a_title_for_each_point(tmp_path: Path) -> None:
    for number, rows in enumerate((ROWS[1:2], [ROWS[0], ROWS[2]])):
        (tmp_path / str(number)).mkdir()
        write(rows, {}, tmp_path / str(number))
    files = [str(tmp_path / str(number) / "contest.json") for number in range(2)]
    done = CliRunner().invoke(curve.main, [str(tmp_path / "c.svg"), *files])
    assert done.exit_code == 0, done.output
    picture = ET.fromstring((tmp_path / "c.svg").read_text())
    titles = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "m, ours-budget, budget 1 %: 2.00 at 0.9 %", "m, openvino-bf16, budget 1 %: 6.00 at infinite",
        "m, ours-budget, budget 10 %: 3.00 at 5 %",
    ]  # fmt: skip
    unknown = CliRunner().invoke(curve.main, [str(tmp_path / "c.svg"), *files, "--model", "other"])
    assert unknown.exit_code == 2
    assert "'other' is not in every file" in unknown.output


def test_nothing_to_draw_is_an_empty_picture() -> None:
    assert ET.fromstring(curve.svg([], ["m"])).tag.endswith("svg")
    lone = ModelRow(model="m", budget=0.1, entries={Who.OURS_BUDGET: Entry(failure="no")})
    assert curve.points([lone], "m") == []
