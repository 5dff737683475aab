"""How much a rewrite adds to a model's file."""

from __future__ import annotations

from collections.abc import Callable

from taso_py.cost.roofline import tensor_bytes
from taso_py.graph.table import Table


def growth(original: Table) -> Callable[[Table], float]:
    """Bytes of folded constants that a table adds, less those of the original that it no longer needs."""
    before = _constant_bytes(original)
    return lambda table: _constant_bytes(table) - before


def _constant_bytes(table: Table) -> float:
    """Bytes of the constants that the running nodes of a table read."""
    constant = table.values.constant
    used = {i for v, n in table.nodes.items() if v not in constant for i in n.inputs if i is not None and i in constant}
    return float(sum(tensor_bytes(table.type(value)) for value in used))
