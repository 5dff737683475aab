"""What kind of equation an operator can take part in, read off its meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from taso_py.graph.sizes import Expression, Size, element_variables
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Integer, Number, Operand, Read, Reduce, Scalar, numbered_anew
from taso_py.ops.operator import Operator

Algebra: TypeAlias = Literal["move", "ring", "real"]

_RING = frozenset({"add", "mul", "neg"})


@lru_cache(maxsize=65536)
def algebra(operator: Operator, types: tuple[TensorType, ...]) -> Algebra:
    """``move``: copies elements or constants; ``ring``: only + - × and integers; ``real``: anything else."""
    rank = operator.infer(*types).rank
    if operator.positions is not None:
        return "move"  # its meaning names the one element that is copied by a sum over all of them
    views: Sequence[Operand] = tuple(Operand(k, t) for k, t in enumerate(types))
    with numbered_anew():
        return _kind(operator.element(views, tuple(s.size for s in element_variables(rank))))


def moves(operator: Operator, types: Sequence[TensorType]) -> bool:
    """Whether every element of the result is one of an operand's, or a constant."""
    try:
        return algebra(operator, tuple(types)) == "move"
    except RecursionError:  # the meaning of a thousand operands is as deep
        return False


def _kind(expression: Scalar) -> Algebra:
    match expression:
        case Read() | Integer():
            return "move"
        case Number(value):
            # A real attribute that is not known stands there as an expression.
            return "move" if _is_whole(value) else "real"
        case Choose(_, then, otherwise):
            return _worst(_kind(then), _kind(otherwise))
        case Apply("where", arguments, _):
            return _worst(*map(_kind, arguments))
        case Apply(function, arguments, _):
            own: Algebra = "ring" if function in _RING else "real"
            return _worst(own, *map(_kind, arguments))
        case Reduce(kind, _, _, body):
            return _worst("ring" if kind == "sum" else "real", _kind(body))


def _is_whole(value: float | Size) -> bool:
    """Whether a constant is an integer or an infinity; a real attribute that is not known is neither."""
    if isinstance(value, Expression):
        return False
    return math.isinf(value) or float(value).is_integer()


def _worst(*kinds: Algebra) -> Algebra:
    order: tuple[Algebra, ...] = ("move", "ring", "real")
    return max(kinds, key=order.index)
