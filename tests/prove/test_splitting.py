"""Ranges are split into runs of a length that is surely no less than 0."""

from __future__ import annotations

from fractions import Fraction

import pytest

from taso_py.graph.sizes import Role, Size, Symbol, floor_divide, symbol
from taso_py.prove.kernel.arithmetic import Context, Guard
from taso_py.prove.kernel.equality import divisors
from taso_py.prove.kernel.normal import Term, splitting

INDEX = Symbol("0", Role.INDEX)
SIGNED, SIZE = symbol("d", Role.INTEGER), symbol("n")


@pytest.mark.parametrize(
    ("length", "known", "splits"),
    [(SIZE, (), True), (SIGNED, (), False), (SIGNED, (Guard(SIGNED, ">="),), True), (-SIZE, (), False)],
)
def test_the_length_of_a_run_is_natural(length: Size, known: tuple[Guard, ...], splits: bool) -> None:
    extent = length * symbol("m", Role.INTEGER)
    context = Context(known, {INDEX: extent})
    found = splitting([floor_divide(INDEX.size, length)], {INDEX: extent}, context.is_natural)
    assert found == ((INDEX, length) if splits else None)


def test_a_coefficient_below_0_gives_runs_of_a_length_above_it() -> None:
    place = floor_divide(-2 * INDEX.size - 1, 2 * SIZE)
    extent = SIZE * symbol("m")
    assert splitting([place], {INDEX: extent}, Context((), {INDEX: extent}).is_natural) == (INDEX, SIZE)


def test_the_range_of_a_sum_is_split_by_what_is_natural() -> None:
    bound = Symbol("_0", Role.BOUND)
    term = Term(Fraction(1), (), ((bound, SIZE * SIGNED),), frozenset())
    assert divisors(term, Context(())) == [(bound, SIZE)]
