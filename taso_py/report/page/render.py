"""The pages: contents and pictures put into the templates of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taso_py.difference.compare import Difference
from taso_py.report.approximation import approximation_tables
from taso_py.report.changes import summary, tables_of
from taso_py.report.content import conditions, figures, sentence, tables
from taso_py.report.deployment import deployment
from taso_py.report.errors import error_table
from taso_py.report.page.charts import error_chart, interval_chart, latency_chart, time_table, times_chart
from taso_py.report.page.drawing import Drawing, drawings
from taso_py.report.page.families import FAMILIES
from taso_py.report.story import Change, LawCard, Story, node_lines, operators_text, story, story_of
from taso_py.report.table import TextTable
from taso_py.result import Result

if TYPE_CHECKING:
    import jinja2

_MOST_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """One kind of place with its two pictures, and what they show in words."""

    change: Change
    before: Drawing
    after: Drawing
    before_words: str
    after_words: str
    before_lines: Sequence[str]
    after_lines: Sequence[str]
    laws: tuple[LawCard, ...]
    """Those that no earlier place has."""
    again: tuple[tuple[LawCard, int], ...]
    """The others, with the number of the place that has them first."""


def result_page(result: Result) -> str:
    """The report of one optimisation."""
    told = story_of(result)
    views = _views(told)
    shown: dict[str, Any] = {
        "title": sentence(result).replace(" -> ", " → "),
        "conditions": conditions(result),
        "notes": result.notes,
        "interval": interval_chart(result) if result.improved and (result.rules or not result.approximate) else None,
        "approximation": approximation_tables(result),
        "times": times_chart(result),
        "time_table": time_table(result),
        "story": told,
        "summary": "" if told.difference is None else summary(told.difference),
        "views": views,
        "families": _families(views),
        "latencies": latency_chart(result),
        "errors": error_chart(result),
        "error_table": error_table(result),
        "reason": "" if result.reason is None else result.reason.words,
        "tried": _tried(result),
        "deployment": deployment(result),
        "figures": figures(result),
    }
    return _environment().get_template("result.html.jinja").render(style=_style(), **shown)


def difference_page(names: tuple[str, str], difference: Difference) -> str:
    """The report of `superopt diff`."""
    told = story(difference)
    views = _views(told)
    return (
        _environment()
        .get_template("difference.html.jinja")
        .render(
            style=_style(),
            title=f"{Path(names[0]).name} and {Path(names[1]).name}",
            summary=summary(difference),
            tables=tables_of(difference),
            story=told,
            views=views,
            families=_families(views),
        )
    )


def _views(told: Story) -> tuple[_View, ...]:
    difference = told.difference
    first: dict[str, int] = {}
    for number, change in enumerate(told.changes, start=1):
        for card in change.laws:
            first.setdefault(card.name, number)
    return () if difference is None else tuple(_view(k, c, difference, first) for k, c in enumerate(told.changes, 1))


def _view(number: int, change: Change, difference: Difference, first: Mapping[str, int]) -> _View:
    region = change.region
    before, after = drawings(region, difference.before, difference.after)
    return _View(
        change=change,
        before=before,
        after=after,
        before_words=operators_text(region.before.nodes),
        after_words=operators_text(region.after.nodes),
        before_lines=node_lines(region.before, difference.before, _MOST_LINES),
        after_lines=node_lines(region.after, difference.after, _MOST_LINES),
        laws=tuple(card for card in change.laws if first[card.name] == number),
        again=tuple((card, first[card.name]) for card in change.laws if first[card.name] < number),
    )


def _families(views: Sequence[_View]) -> list[tuple[str, str]]:
    """The colours that the pictures use, and what they stand for."""
    used = {box.family for view in views for drawing in (view.before, view.after) for box in drawing.boxes}
    return [(key, words) for key, words in FAMILIES.items() if key in used]


def _tried(result: Result) -> list[TextTable]:
    """Candidates and rewrites that are not in the result."""
    return [table for table in tables(result) if table.title != "Rewrites"]


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@lru_cache(maxsize=1)
def _style() -> Any:
    from markupsafe import Markup

    return Markup((Path(__file__).parent / "style.css").read_text(encoding="utf-8"))  # noqa: S704  # our own file
