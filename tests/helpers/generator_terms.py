"""Terms of the generator's template sets, as several test files write them."""

from __future__ import annotations

from taso_py.generate.laws.pairs import VARIABLE, Tree
from taso_py.generate.terms.templates import SETS

TASO, DEFAULT = SETS["taso"](), SETS["default"]()


def template(name: str) -> int:
    """The number of a template of TASO's set."""
    return [t.name for t in TASO.templates].index(name)


def in_default(name: str) -> int:
    """The number of a template of the default set."""
    return [t.name for t in DEFAULT.templates].index(name)


def variable(*shape: int, number: int = 0) -> Tree:
    """A tensor variable of a shape; those of one shape are told apart by their numbers."""
    return (VARIABLE, shape, number)


X, Y = variable(2, 4), variable(2, 4, number=1)
V, W = variable(4, 4), variable(4, 4, number=1)
IMAGE, SMALL, LARGE = variable(2, 4, 5, 5), variable(4, 4, 1, 3), variable(4, 4, 3, 3)
