"""Activations that ONNX Runtime computes in one kernel although a model writes them out.

A rewrite that takes one of their factors away makes several kernels of one.  The forms are those that ONNX Runtime 1.31
was seen to fuse for its CPU provider: x · sigmoid(x) and x · sigmoid(a · x); erf(x / s) + 1, times x, times a half, in
two of three orders, and not where x is multiplied by 1/s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from taso_py.graph.table import Table


def fused(table: Table) -> frozenset[int]:
    """The values that are computed on the way to such an activation, by its kernel; in no case its result."""
    last: dict[int, int] = {}
    for value, node in table.nodes.items():
        if node.operator.onnx == "Mul":
            last |= dict.fromkeys(_swish(table, value) or _gelu(table, value), value)
    if not last:
        return frozenset()
    shared = _shared(table, last)
    broken = {last[value] for value in shared}
    return frozenset(value for value, activation in last.items() if activation not in broken)


def _swish(table: Table, value: int) -> tuple[int, ...]:
    """What x · sigmoid(x) or x · sigmoid(a · x) computes before its product; nothing where it is neither."""
    for x, s in _either(table, value):
        for inner in _operands(table, s, "Sigmoid"):
            if inner == x:
                return (s,)
            if any(other == x and _is_number(table, factor) for other, factor in _either(table, inner)):
                return (s, inner)
    return ()


def _gelu(table: Table, value: int) -> tuple[int, ...]:
    """What a Gelu computes before its last product: (x · half) · sum, or (x · sum) · half."""
    for product, other in _either(table, value):
        for x, rest in _either(table, product):
            total, half = (rest, other) if _is_number(table, other) else (other, rest)
            inner = _error_function(table, total, x) if _is_number(table, half) else ()
            if inner:
                return (product, *inner)
    return ()


def _error_function(table: Table, total: int, x: int) -> tuple[int, ...]:
    """erf(x / s) + 1: the sum, the function, and the quotient."""
    for erf, one in _either(table, total, "Add"):
        for quotient in _operands(table, erf, "Erf"):
            divided = _operands(table, quotient, "Div")
            if divided and divided[0] == x and _is_number(table, divided[1]) and _is_number(table, one):
                return (total, erf, quotient)
    return ()


def _operands(table: Table, value: int, operator: str) -> tuple[int, ...]:
    """What an operator of that name computes a value from; nothing where another one does."""
    node = table.nodes.get(value)
    if node is None or node.operator.onnx != operator:
        return ()
    return tuple(i for i in node.inputs if i is not None)


def _either(table: Table, value: int, operator: str = "Mul") -> tuple[tuple[int, int], ...]:
    """The two operands of a commutative operator, in both orders."""
    found = _operands(table, value, operator)
    return ((found[0], found[1]), (found[1], found[0])) if len(found) == 2 else ()


def _is_number(table: Table, value: int) -> bool:
    return value in table.values.constant and table.type(value).known and table.type(value).elements == 1


def _shared(table: Table, inner: Mapping[int, int]) -> Set[int]:
    """Those of the values that more is computed from than one activation, or that are results themselves."""
    read = Counter(i for node in table.nodes.values() for i in node.inputs if i in inner)
    return {value for value in inner if read[value] > 1 or value in table.roots}
