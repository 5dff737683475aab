"""How long it takes to compute an operator's value from constants, told from its meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from taso_py.graph.sizes import Symbol, element_variables, symbols
from taso_py.graph.types import INTEGERS, TensorType
from taso_py.ops.meaning import Apply, Choose, Integer, Operand, Read, Reduce, Scalar
from taso_py.ops.operator import Operator
from taso_py.ops.reduce import Reduction

MAXIMAL_STEPS = 2**17
LEAST_WORK = 2**20
"""Steps of a loop below which nobody asks how long an operator will take."""


def bytes_of(operator: Operator, types: Sequence[TensorType]) -> float:
    """What operands and result take in float64, and what counts the positions of their axes where they are empty."""
    sizes = [size for t in (*types, operator.infer(*types)) for size in (t.elements, *t.dims)]
    return 8.0 * sum(n if isinstance(n, int) else math.inf for n in sizes)


def has_kernel(operator: Operator, types: Sequence[TensorType]) -> bool:
    floats = isinstance(operator, Reduction) and types[0].dtype not in INTEGERS
    return type(operator).kernel is not Operator.kernel and not floats


def work(operator: Operator, types: Sequence[TensorType]) -> float:
    """About how many steps the innermost loops make to compute the operator's value."""
    if bytes_of(operator, types) < 8 * math.sqrt(LEAST_WORK):
        return 0.0
    elements = operator.infer(*types).elements
    assert isinstance(elements, int)
    return elements * max(1.0, min(steps(operator, tuple(types)), MAXIMAL_STEPS))


@lru_cache(maxsize=4096)
def steps(operator: Operator, types: tuple[TensorType, ...]) -> float:
    """How many times the innermost body of the operator's reductions is evaluated for one element of its result."""
    index = tuple(s.size for s in element_variables(operator.infer(*types).rank))
    views = tuple(Operand(k, t) for k, t in enumerate(types))
    try:
        return sum(iterations for iterations, _ in loops(operator.element(views, index))[0])
    except RecursionError:  # the meaning of a thousand operands is as deep
        return math.inf


_Loops: TypeAlias = list[tuple[float, frozenset[Symbol]]]
"""Iterations of reductions, each with the indices that they are made again for."""


def loops(meaning: Scalar) -> tuple[_Loops, frozenset[Symbol]]:
    """How often the innermost bodies of reductions are evaluated, and the indices that a meaning depends on.

    What depends on no index of the reduction around it is computed once, as `evaluate` does: a mean in a variance.
    """
    match meaning:
        case Reduce(_, variable, extent, body):
            inner, depends = loops(body)
            length = extent if isinstance(extent, int) else math.inf
            depends = depends - {variable} | symbols(extent)
            again = [variable in on for _, on in inner]
            found = [(n * length, depends) if a else (n, on) for a, (n, on) in zip(again, inner, strict=True)]
            return found if any(again) else [*found, (length, depends)], depends
        case Apply(_, arguments):
            return _together(arguments)
        case Choose(conditions, then, otherwise):
            found, depends = _together((then, otherwise))
            return found, depends.union(*(symbols(c.left) | symbols(c.right) for c in conditions))
        case Read(_, index):
            return [], frozenset().union(*map(symbols, index))
        case Integer(value):
            return [], frozenset(symbols(value))
        case _:
            return [], frozenset()


def _together(parts: Sequence[Scalar]) -> tuple[_Loops, frozenset[Symbol]]:
    found = [loops(part) for part in parts]
    return [one for several, _ in found for one in several], frozenset().union(*(depends for _, depends in found))
