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
from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.algebra import algebra
from taso_py.ops.constants import Fill, rounded, rounded_alike
from taso_py.ops.numeric import evaluate, working_dtype
from taso_py.ops.reading import concrete
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Term, Variable

_POINTWISE, _OTHERS = 1 << 24, 1 << 12
"""How many elements are looked at: of what is filled or made element by element, and of what else is made."""


class NotHeld(Exception):
    """What constants make is, in their element type, another number than the law says, or cannot be looked at."""


@dataclass(slots=True)
class Constants:
    """Values of constant nodes by id, as the law says and as their types hold them after every step."""

    nodes: dict[int, tuple[Node, TensorType]] = field(default_factory=dict)
    exact: dict[int, Array] = field(default_factory=dict)
    held: dict[int, Array] = field(default_factory=dict)

    def add(self, value: int, node: Node, types: Sequence[TensorType], result: TensorType) -> None:
        """Takes note of a node if it is of constants alone; `NotHeld` where its type makes other numbers of it."""
        if any(i is not None and i not in self.nodes for i in node.inputs):
            return
        self.nodes[value] = node, result
        if not node.inputs or algebra(node.operator, tuple(types)) == "move":
            return  # as good as its operands, which are computed when something is made of them
        exact, held = self._value(value, self.exact), self._value(value, self.held)
        if not rounded_alike(result.dtype, exact, held):
            raise NotHeld(f"{node.operator} of constants makes other numbers in {result.dtype}")

    def _value(self, value: int, known: dict[int, Array]) -> Array:
        if value not in known:
            node, result = self.nodes[value]
            inputs = [i for i in node.inputs if i is not None]
            types = [self.nodes[i][1] for i in inputs]
            most, shape = _POINTWISE if node.operator.pointwise or not inputs else _OTHERS, concrete(result.dims)
            if shape is None or any(not isinstance(t.elements, int) or t.elements > most for t in (*types, result)):
                raise NotHeld(f"{node.operator} of constants of {', '.join(map(str, types))} is not looked at")
            if isinstance(node.operator, Fill):  # whose meaning is what a half type holds
                array = np.full(shape, node.operator.value, np.dtype(working_dtype(result.dtype)))
            else:
                with np.errstate(all="ignore"):
                    array = evaluate(node.operator, [self._value(i, known) for i in inputs], types)
            known[value] = rounded(result.dtype, array) if known is self.held else array
        return known[value]


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
