"""What a side computes of constants alone, as an element type computes it: a law holds there if it rounds no more than
a literal may be rounded.

3 * 683 - 2048 is 1, and 0 in float16; the square of 1e-30 is 0 in float32; two slopes may be one number of float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.algebra import algebra
from taso_py.ops.constants import Fill, rounded, rounded_alike
from taso_py.ops.numeric import evaluate, working_dtype
from taso_py.ops.reading import concrete
from taso_py.ops.resize import Resize
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Term, Variable

_MOST, _MOST_SUMMED, _MOST_NEAR = 1 << 24, 1 << 12, 1 << 18
"""How many elements are looked at, where some are summed, and where those are neighbours."""
_BITS = 53
"""Of a number in float64."""
_LEAST = float(np.finfo(np.float64).smallest_normal)
_SCALING, _ADDING = ("Mul", "Div"), ("Add", "Sub")
_CHOOSING = (
    "Neg", "Abs", "Relu", "Max", "Min", "Where", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not",
    "And", "Or",
)  # fmt: skip
"""Operators that round nothing."""
_SUMMING = ("ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "MatMul", "Conv", "Resize")
"""Sums of products, which lose nothing that is seen where no term is negative. What is not named is not looked at."""
_NEAR = ("AveragePool", "Resize")
"""Those of them that sum neighbours."""


class NotHeld(Exception):
    """What constants make is, in their element type, another number than the law says, or cannot be looked at."""


@dataclass(slots=True)
class Constants:
    """Values of constant nodes by id, as the law says and as their types hold them after every step."""

    nodes: dict[int, tuple[Node, TensorType]] = field(default_factory=dict)
    exact: dict[int, Array] = field(default_factory=dict)
    """Computed in float64, by steps that are exact there or are among the inexact ones."""
    held: dict[int, Array] = field(default_factory=dict)
    inexact: set[int] = field(default_factory=set)
    """What float64 rounds: no difference or comparison may show by how much."""

    def add(self, value: int, node: Node, types: Sequence[TensorType], result: TensorType) -> None:
        """Takes note of a node if it is of constants alone; `NotHeld` where its type makes other numbers of it."""
        if any(i is not None and i not in self.nodes for i in node.inputs):
            return
        self.nodes[value] = node, result
        inputs = [i for i in node.inputs if i is not None]
        if any(i in self.inexact for i in inputs):
            self.inexact.add(value)
        if not inputs or algebra(node.operator, tuple(types)) == "move":
            return  # as good as its operands, which are computed when something is made of them
        if node.operator.onnx not in (*_SCALING, *_ADDING, *_SUMMING, *_CHOOSING):
            raise NotHeld(f"{node.operator} of constants is not looked at")
        exact, held = self._value(value, self.exact), self._value(value, self.held)
        if node.operator.onnx not in _CHOOSING and not np.isfinite(exact).all():
            raise NotHeld(f"{node.operator} of constants is infinite in float64")
        if not self._is_known(value, node.operator.onnx, [self.exact[i] for i in inputs], exact):
            raise NotHeld(f"{node.operator} of constants is not computed exactly")
        if not rounded_alike(result.dtype, exact, held):
            raise NotHeld(f"{node.operator} of constants makes other numbers in {result.dtype}")

    def _is_known(self, value: int, name: str, operands: Sequence[Array], result: Array) -> bool:
        """Whether float64 lost nothing of what the law says that is seen afterwards."""
        if name in _SUMMING:
            self.inexact.add(value)
            operator = self.nodes[value][0].operator
            if isinstance(operator, Resize):  # whose weights may be negative
                return _sums_nothing(operator, operands[0])
            return all((a >= 0).all() for a in operands)
        spans = [_span(a) for a in operands]
        if name in _SCALING:
            if name == "Div" or sum(high - low for low, high in spans) > _BITS:
                self.inexact.add(value)
            small = np.abs(result) < _LEAST
            return not np.any(small & (operands[0] != 0) & (operands[-1] != 0))
        if name in _ADDING:
            if max(high for _, high in spans) + 1 - min(low for low, _ in spans) > _BITS:
                self.inexact.add(value)
            added = [operands[0], operands[-1] if name == "Add" else -operands[-1]]
            return value not in self.inexact or any(all((s * a >= 0).all() for a in added) for s in (1, -1))
        return value not in self.inexact

    def _value(self, value: int, known: dict[int, Array]) -> Array:
        if value not in known:
            node, result = self.nodes[value]
            inputs = [i for i in node.inputs if i is not None]
            types, shape = [self.nodes[i][1] for i in inputs], concrete(result.dims)
            summed = _MOST_NEAR if node.operator.onnx in _NEAR else _MOST_SUMMED
            most = summed if node.operator.onnx in _SUMMING else _MOST
            counts = [t.elements for t in (*types, result)]
            if shape is None or min(shape, default=0) < 0 or any(not isinstance(n, int) or n > most for n in counts):
                raise NotHeld(f"{node.operator} of constants of {', '.join(map(str, types))} is not looked at")
            if isinstance(node.operator, Fill):  # whose meaning is what a half type holds
                array = np.full(shape, node.operator.value, np.dtype(working_dtype(result.dtype)))
            else:
                try:
                    with np.errstate(all="ignore"):
                        array = evaluate(node.operator, [self._value(i, known) for i in inputs], types)
                except TypingError as error:
                    raise NotHeld(str(error)) from None
            known[value] = rounded(result.dtype, array) if known is self.held else array
        return known[value]


def _sums_nothing(operator: Resize, array: Array) -> bool:
    """Whether it interpolates along one axis, on which at most one number is not 0."""
    axes = [axis for axis, scale in enumerate(operator.scales) if scale != 1]
    return len(axes) == 1 and bool((np.count_nonzero(array, axis=axes[0]) <= 1).all())


def _span(array: Array) -> tuple[int, int]:
    """Exponents of the lowest and above the highest bit of any number: what is not 0 is a multiple of 2^low."""
    numbers = np.unique(np.abs(array[array != 0].astype(np.float64)))
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return 0, 0
    parts, exponents = np.frexp(numbers)
    whole = np.ldexp(parts, _BITS).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return int((exponents - _BITS + lowest).min()), int(exponents.max())


@lru_cache(maxsize=4096)
def computes_constants(rule: Rule) -> bool:
    """Whether the left side applies an operator to nothing but constants that it makes."""
    side = rule.left

    @cache
    def constant(term: Term) -> bool:
        term = side.resolve(term)
        if isinstance(term, Application):
            return all(map(constant, term.arguments))
        return not isinstance(term, Variable)

    return any(term.arguments and constant(term) for term in side.applications())
