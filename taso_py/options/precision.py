"""The error budget: how far an approximation may be from the model, measured on which data, by which metric."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from taso_py.options.field import OptionRecord, Range, option, record
from taso_py.options.spelling import spelled
from taso_py.options.text import demand

_KIND = "rel"


def parse_budget(texts: Iterable[str]) -> float | None:
    """``["rel=1e-2"]`` -> 0.01; None for no text."""
    given = list(texts)
    if not given:
        return None
    demand(len(given) == 1, "--error-budget is given twice: keep one")
    (text,) = given
    kind, equals, number = (part.strip() for part in text.partition("="))
    demand(bool(equals) and kind == _KIND, f"--error-budget '{text}' is not of the form rel=X, as in rel=1e-2")
    try:
        budget = float(number)
    except ValueError:
        budget = math.nan
    demand(
        math.isfinite(budget) and budget > 0, f"--error-budget '{text}': X must be a number more than 0, as in rel=1e-2"
    )
    return budget


@record
class BudgetOptions(OptionRecord):
    """What an approximation may cost; without a budget there is none."""

    error_budget: float | None = option(
        "--error-budget",
        None,
        "Allow |y - y'|_2 <= X*|y|_2 in each output on each sample; optimize may then make layers 8-bit as well.",
        metavar="rel=X",
        within=Range(above=0),
        parse=parse_budget,
        group="Precision",
    )
    """None: everything that is done is exact."""
    calibration: Path | None = option(
        "--calibration",
        None,
        "Data for the budget: an array for each input, named by it, its first axis the samples.",
        metavar="FILE.npz",
        group="Precision",
        per_run=True,
    )
    """None, with a budget: random data, and a warning."""
    metric: str | None = option(
        "--metric",
        None,
        "Python function of (expected, found), both name -> array, whose number is the error of a sample instead.",
        metavar="FILE.py:FUNCTION",
        group="Precision",
        per_run=True,
    )
    """Not for a settings file: whoever lays one into a folder must not run code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("calibration", "metric"):
            demand(
                self.error_budget is not None or getattr(self, name) is None,
                f"{spelled(name)} is for an error budget: give {spelled('error_budget', metavar='rel=X')} as well",
            )
        demand(
            self.error_budget is None or self.metric is not None or self.error_budget < 1,
            f"{spelled('error_budget', f'rel={self.error_budget}')}: 1 is the error of an output of zeros: use less",
        )
        file, colon, function = (self.metric or "f.py:f").rpartition(":")
        demand(
            bool(colon) and file.endswith(".py") and function.isidentifier(),
            f"{spelled('metric', self.metric)} is not of the form FILE.py:FUNCTION",
        )
