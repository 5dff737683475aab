"""What terms are made of: inputs, and constants that are computed from a few sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from taso_py.graph.sizes import Size
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.rules.term import Application, AttributeExpression, Binary, Listing, Quantity, Term

Shape: TypeAlias = tuple[int, ...]
Kind: TypeAlias = Literal["activation", "weight", "scalar", "constant", "parameter"]
"""A parameter is an operand only of the templates that name it."""
Dims: TypeAlias = Sequence[AttributeExpression]

DTYPE = "float32"


@dataclass(frozen=True, slots=True)
class Construction:
    """How a constant is computed from a few sizes: the term, and the shape that it has."""

    term: Callable[[Dims], Term]
    shape: Callable[..., tuple[Size, ...]]
    sizes: Shape
    """What the sizes are in an enumeration."""
    groups: int = 0
    """How many of the sizes, from the first one on, are numbers of groups."""

    def enumerated(self) -> Term:
        """The term for those sizes."""
        return self.term([Quantity(d) for d in self.sizes])


@dataclass(frozen=True, slots=True)
class Source:
    """An input, or with ``build`` a constant.  Sources of one ``family`` may stand for each other."""

    name: str
    family: str
    kind: Kind
    shape: Shape
    build: Construction | None = None

    @property
    def type(self) -> TensorType:
        """Its type."""
        return TensorType(DTYPE, self.shape)


def _apply(name: str, *arguments: Term, **attributes: AttributeExpression) -> Application:
    return Application(OPERATORS[name], arguments, tuple(attributes.items()))


def _integers(*values: int) -> Listing:
    return Listing(tuple(Quantity(v) for v in values))


def _ones(sizes: Dims) -> Term:
    return _apply("Fill", value=Quantity(1.0), shape=Listing(tuple(sizes)))


def _eye(sizes: Dims) -> Term:
    return _apply("Eye", size=sizes[0])


def _taps(sizes: Dims) -> Term:
    """The kernel of a mean: every tap is 1 / (number of taps)."""
    ones = _ones((*sizes, Quantity(1), Quantity(3), Quantity(3)))
    return _apply("Div", ones, _apply("Fill", value=Quantity(9.0), shape=Listing(())))


def _unit_kernel(sizes: Dims) -> Term:
    """The kernel of the identity: 1 in the middle of the diagonal."""
    single = _apply("Reshape", _eye(sizes), shape=Listing((sizes[0], sizes[0], Quantity(1), Quantity(1))))
    return _apply("Pad", single, pads=_integers(0, 0, 1, 1, 0, 0, 1, 1))


def _two_blocks(sizes: Dims) -> Term:
    """1 where the weights of two groups in one lie, for each of g groups with twice o outputs and twice c channels."""
    one, two = Quantity(1), Quantity(2)
    g, o, c = sizes
    diagonal = _apply("Reshape", _apply("Eye", size=two), shape=_integers(1, 2, 1, 2, 1))
    blocks = _apply("Mul", diagonal, _ones((g, one, o, one, c)))
    outputs, channels = Binary("*", Binary("*", g, two), o), Binary("*", two, c)
    return _apply("Reshape", blocks, shape=Listing((outputs, channels, one, one)))


def _constant(name: str, kind: Kind, build: Construction) -> Source:
    shape = tuple(d for d in build.shape(*build.sizes) if isinstance(d, int))
    return Source(name, name, kind, shape, build)


MEAN3 = _constant("mean3", "constant", Construction(_taps, lambda n: (n, 1, 3, 3), (4,)))
UNIT3 = _constant("unit3", "constant", Construction(_unit_kernel, lambda n: (n, n, 3, 3), (4,)))
EYE = _constant("eye", "constant", Construction(_eye, lambda n: (n, n), (4,)))
ONES = _constant("ones", "constant", Construction(_ones, lambda *sizes: sizes, (2, 4, 5, 5)))
BLOCKS = _constant(
    "blocks", "parameter", Construction(_two_blocks, lambda g, o, c: (2 * g * o, 2 * c, 1, 1), (1, 2, 4), groups=1)
)
