"""What each rewrite was to save and what all of them saved together, as rows that add up."""

from __future__ import annotations

from collections.abc import Sequence

from taso_py.result import BACKWARDS, Result, RuleReport

HEADER = ("rule", "times", "where", "saves")
TITLE = "Rewrites, and the share of the time that each was predicted to save"
TIDIES = "tidies"
"""In place of a gain: the rule tidies up after others, and what that saves is a part of theirs."""
_COMMON = ("proved", "any arity")
_LEAST_NAME = 10


def rewrite_rows(
    result: Result, rule_width: int | None = None, place_width: int | None = None
) -> list[tuple[str, ...]]:
    """A row for each rule, and those of the sum: what was not predicted, and what was measured.

    In tenths of a percent the rows above the last add up to it.  Widths in columns; None: names are not shortened.
    """
    rows = [
        (
            _fitted(named(rule), rule_width),
            str(rule.sites),
            places_text(rule.places, place_width),
            TIDIES if rule.gain is None else _percent(_tenths(rule.gain)),
        )
        for rule in result.rules
    ]
    return [*rows, *(("", "", _fitted(words, place_width), figure) for words, figure in _sums(result))]


def _sums(result: Result) -> list[tuple[str, str]]:
    predicted = sum(_tenths(rule.gain) for rule in result.rules if rule.gain is not None)
    if not result.rules:
        return []
    if not result.improved or not result.speedup:
        return [("predicted together, not timed", _percent(predicted))]
    measured = _tenths(1 - 1 / result.speedup)
    rest = [("interaction, not predicted", _percent(measured - predicted))] if measured != predicted else []
    return [*rest, ("measured together", _percent(measured))]


def places_text(places: Sequence[str], width: int | None = None) -> str:
    """One or two names and how many more there are; where two do not fit into `width` columns, one, shortened."""
    lines = [" ".join(place.split()) for place in places[:2]]
    both = ", ".join(lines) + _more(len(places) - 2)
    if width is None or len(both) <= width:
        return both
    more = _more(len(places) - 1)
    return shortened(lines[0], max(_LEAST_NAME, width - len(more))) + more


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def shortened(text: str, width: int) -> str:
    """A name in at most so many columns: what is left out is in the middle."""
    if len(text) <= width:
        return text
    kept = max(0, width - 3)
    tail = (kept + 1) // 2
    return f"{text[: kept - tail]}...{text[len(text) - tail :]}"[: max(width, 0)]


def _fitted(text: str, width: int | None) -> str:
    line = " ".join(text.split())
    return line if width is None else shortened(line, width)


def named(rule: RuleReport) -> str:
    """The rule's name, with its status where that is not the usual one."""
    name = f"{rule.name}{BACKWARDS}" if rule.backwards else rule.name
    return name if rule.status in _COMMON else f"{name} ({rule.status})"


def _tenths(share: float) -> int:
    return round(1000 * share)


def _percent(tenths: int) -> str:
    return f"{tenths / 10:.1f} %"
