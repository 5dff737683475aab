"""How far a proof reaches: for which numbers of axes and which element types it claims the law."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taso_py.graph.table import Node, Values
from taso_py.graph.types import FLOATS, INTEGERS
from taso_py.ops.algebra import Algebra, algebra
from taso_py.rules.element_types import holds_literals, typed
from taso_py.rules.rule import Rule


def kinds_of(nodes: Mapping[int, Node], values: Values) -> frozenset[Algebra]:
    """What operators compute: copies, sums and products, or anything."""
    types = (tuple(values.types[i] for i in node.inputs if i is not None) for node in nodes.values())
    return frozenset(algebra(node.operator, t) for node, t in zip(nodes.values(), types, strict=True))


def proved_types(rule: Rule, kinds: Iterable[Algebra]) -> tuple[str, ...] | None:
    """The element types of numbers: those of the proof where the rule depends on them, else by what is computed.

    Those only that hold the rule's literals; none where the type of the proof does not.  None: any type there is.
    """
    if not any(holds_literals(rule, t) for t in ("float32", "float64")):
        return ()
    found = set(kinds)
    if typed(rule):
        possible = {"float32"}
    elif "real" in found:
        possible = set(FLOATS)
    elif "ring" in found:
        possible = set(FLOATS | INTEGERS)
    else:
        possible = set(FLOATS | INTEGERS | {"bool"})
        if all(holds_literals(rule, t) for t in possible):
            return None
    return tuple(sorted(t for t in possible if holds_literals(rule, t)))
