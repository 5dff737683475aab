"""Which of two sizes is larger, for all values of their symbols or under the assumptions of a proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from taso_py.graph.sizes import Entry, Expression, Floor, Image, Size, Symbol

_DECIDE: ContextVar[Callable[[Size], bool | None] | None] = ContextVar("decide", default=None)


@contextmanager
def deciding(decide: Callable[[Size], bool | None]) -> Iterator[None]:
    """Within it `at_least` asks ``decide`` whether a difference is >= 0 where its form does not tell."""
    token = _DECIDE.set(decide)
    try:
        yield
    finally:
        _DECIDE.reset(token)


def proving() -> bool:
    """Whether sizes stand for all sizes under assumptions, as in a proof."""
    return _DECIDE.get() is not None


def at_least(a: Size, b: Size) -> bool | None:
    """Whether a >= b for all non-negative symbol values; None when that cannot be told."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    difference = a - b
    known = _form_tells(difference)
    decide = _DECIDE.get()
    return decide(difference) if known is None and decide is not None else known


def equal(a: Size, b: Size) -> bool:
    """Whether a == b for all symbol values, by form or, in a proof, by its assumptions."""
    return a == b or (proving() and at_least(a, b) is True and at_least(b, a) is True)


def _form_tells(difference: Size) -> bool | None:
    if isinstance(difference, int):
        return difference >= 0
    constant = sum(c for m, c in difference.terms if not m)
    others = [c for m, c in difference.terms if m]
    if any(isinstance(atom, (Entry, Image)) for m, _ in difference.terms for atom in m):
        return None
    if proving() and not all(a.natural for m, _ in difference.terms for a in m if isinstance(a, Symbol)):
        return None
    if all(c > 0 for c in others) and constant >= 0 and _floors_non_negative(difference):
        return True
    if all(c < 0 for c in others) and constant < 0 and _floors_non_negative(difference):
        return False
    return None


def _floors_non_negative(expression: Expression) -> bool:
    floors = [a for m, _ in expression.terms for a in m if isinstance(a, Floor)]
    return all(at_least(f.numerator, 0) for f in floors)
