"""Error against speed: one line for each model through its results under several budgets, as an SVG.

    python -m scripts.bench.curve curve.svg bench_1e-3/contest.json bench_1e-2/contest.json ... --model resnet50

Each file is what a contest with a budget leaves.  A filled point is our result: its error on unseen samples and how
many times faster it is than the original on the CPU provider, with its interval.  Open points are the models of others
that run, whatever their error; one that is beyond the right edge stands on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click

from scripts.bench.contest_rows import APPROXIMATE, ModelRow, rows_of
from scripts.bench.contestants import Who
from taso_py.backend.statistics import Interval

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 460, 60, 150, 20, 50
_LEAST, _MOST = 1e-6, 1.0
"""Errors between which points lie; what is exact stands on the left edge."""
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")


@dataclass(frozen=True, slots=True)
class Point:
    """One contestant under one budget."""

    who: str
    budget: float
    error: float
    speed: Interval


def points(rows: Sequence[ModelRow], model: str) -> list[Point]:
    """Of one model, ours and others', by budget; those of others, which no budget changes, once."""
    found: list[Point] = []
    seen: set[str] = set()
    for row in sorted((row for row in rows if row.model == model), key=lambda row: row.budget or 0.0):
        for who in (Who.OURS_BUDGET, *APPROXIMATE):
            entry, speed = row.entries.get(who), row.over(who, Who.ORIGINAL)
            if entry is None or entry.error is None or speed is None or row.budget is None or who in seen:
                continue
            found.append(Point(who, row.budget, entry.error, speed))
            seen |= {who} - {Who.OURS_BUDGET}
    return found


@dataclass(frozen=True, slots=True)
class Axes:
    """Where figures stand on the page: errors by logarithm, speeds up to ``most``."""

    most: float

    def x(self, error: float) -> float:
        """In pixels from the left."""
        share = math.log(min(max(error, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, speed: float) -> float:
        """In pixels from the top."""
        return _HEIGHT - _BOTTOM - speed / self.most * (_HEIGHT - _TOP - _BOTTOM)

    def lines(self) -> Iterator[str]:
        """Both axes with their numbers and names."""
        bottom, right = self.y(0), self.x(_MOST)
        for power in range(round(math.log10(_LEAST)), 1):
            x = self.x(10.0**power)
            yield f'<path d="M{x:.1f} {_TOP}V{bottom:.1f}" class="grid"/>'
            name = "exact" if power == round(math.log10(_LEAST)) else f"{100 * 10.0**power:g} %"
            yield _text(x, bottom + 16, name, "middle")
        step = 10.0 ** math.floor(math.log10(self.most / 2)) if self.most > 0 else 1.0
        step *= 5 if self.most / step > 10 else 1
        for number in range(int(self.most / step) + 1):
            y = self.y(number * step)
            yield f'<path d="M{_LEFT} {y:.1f}H{right:.1f}" class="grid"/>'
            yield _text(_LEFT - 6, y + 4, f"{number * step:g}", "end")
        yield _text((_LEFT + right) / 2, _HEIGHT - 10, "worst relative error on unseen samples", "middle")
        middle = (_TOP + bottom) / 2
        name = "times faster than the original on the CPU provider"
        yield f'<text transform="translate(16 {middle:.1f}) rotate(-90)" text-anchor="middle">{name}</text>'


def svg(rows: Sequence[ModelRow], models: Sequence[str]) -> str:
    """The whole picture."""
    by_model = {model: points(rows, model) for model in models}
    speeds = [point.speed.high for found in by_model.values() for point in found]
    axes = Axes(1.1 * max(speeds, default=1.0))
    body = list(axes.lines())
    for number, (model, found) in enumerate(by_model.items()):
        body += _curve(axes, model, found, _COLOURS[number % len(_COLOURS)])
        y = _TOP + 16 * (number + 1)
        body.append(
            f'<circle cx="{_WIDTH - _RIGHT + 14}" cy="{y - 4}" r="4" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        )
        body.append(_text(_WIDTH - _RIGHT + 24, y, model, "start"))
    style = "text{font:12px sans-serif}.grid{stroke:#ddd;fill:none}"
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
    return "\n".join([opening, f"<style>{style}</style>", *body, "</svg>"]) + "\n"


def _curve(axes: Axes, model: str, found: Sequence[Point], colour: str) -> Iterator[str]:
    ours = sorted((one for one in found if one.who == Who.OURS_BUDGET), key=lambda one: one.budget)
    path = " ".join(f"{axes.x(one.error):.1f},{axes.y(one.speed.median):.1f}" for one in ours)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}"/>'
    for one in found:
        x, y = axes.x(one.error), axes.y(one.speed.median)
        mine = one.who == Who.OURS_BUDGET
        fill = colour if mine else "none"
        error = "infinite" if math.isinf(one.error) else f"{100 * one.error:.2g} %"
        words = f"{model}, {one.who}, budget {100 * one.budget:g} %: {one.speed.median:.2f} at {error}"
        if mine:
            low, high = axes.y(one.speed.low), axes.y(one.speed.high)
            yield f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}"/>'
        title = f"<title>{escape(words)}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}">{title}</circle>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


# click rewraps help paragraphs unless they begin with a backspace character.
@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--model", "models", multiple=True, help="Default: all that are in every file (repeatable).")
def main(*, target: Path, files: tuple[Path, ...], models: tuple[str, ...]) -> None:
    found = [rows_of(file) for file in files]
    everywhere = [name for name in found[0] if all(name in rows for rows in found)]
    for name in models:
        if name not in everywhere:
            raise click.UsageError(f"{name!r} is not in every file; these are: {', '.join(everywhere) or 'none'}")
    rows = [row for rows in found for row in rows.values()]
    if any(row.budget is None for row in rows):
        raise click.UsageError("a contest without a budget has no errors to draw")
    target.write_text(svg(rows, models or everywhere), encoding="utf-8")


if __name__ == "__main__":
    main()
