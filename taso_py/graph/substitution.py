"""Other sizes in the place of symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from taso_py.graph.sizes import Atom, Entry, Floor, Image, Size, Symbol, entry, floor_divide, image


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """``size`` with symbols replaced; symbols not in ``values`` stay."""
    return evaluate(size, lambda s: values.get(s.name, s.size))


def evaluate(size: Size, value: Callable[[Symbol], Size]) -> Size:
    """``size`` with every symbol mapped by ``value``."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        product: Size = coefficient
        for atom in monomial:
            product = product * _evaluate_atom(atom, value)
        total = total + product
    return total


def _evaluate_atom(atom: Atom, value: Callable[[Symbol], Size]) -> Size:
    match atom:
        case Symbol():
            return value(atom)
        case Floor(numerator, denominator):
            return floor_divide(evaluate(numerator, value), evaluate(denominator, value))
        case Entry(table, index):
            return entry(table, evaluate(index, value))
        case Image(function, extent, index):
            return image(function, evaluate(extent, value), evaluate(index, value))
