"""Values that depend on each other are never computed together: among many that read one operand, most pairs may.

In a recurrent network that is unrolled, every step multiplies its state by the same weight; a rule that joins two such
products would match each pair of steps, be built each time, and then close a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

from taso_py.graph.table import Table
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Side, Term, Variable
from taso_py.search.topology import Ranks
from taso_py.search.view import View

_CROWD = 8
"""Fewer candidates than this are cheaper to try than to tell apart."""


def joins(rule: Rule) -> bool:
    """Whether the rule's outputs are independent wherever it can be applied.

    So it is where each of the new ones reads all that the old ones read, and no old one is a part of another: if one
    depended on another, it would do so by something that it reads, and the other would then depend on itself.
    """
    left, right = rule.left, rule.right
    if len(left.outputs) < 2 or any(_read(right, o)[1] < left.variables() for o in right.outputs):
        return False
    parts = [_read(left, o)[0] - {left.resolve(o)} for o in left.outputs]
    return not any(left.resolve(o) in part for o in left.outputs for part in parts)


def _read(side: Side, output: Term) -> tuple[set[Term], set[str]]:
    """The applications and the tensor variables that an output is computed from, itself included."""
    stack, terms, names = [output], set[Term](), set[str]()
    while stack:
        term = side.resolve(stack.pop())
        if isinstance(term, Application) and term not in terms:
            terms.add(term)
            stack.extend(term.arguments)
        elif isinstance(term, Variable):
            names.add(term.name)
    return terms, names


def independent(view: View, outputs: Sequence[int], candidates: Sequence[int]) -> Sequence[int]:
    """The candidates but for those of which it is known that they and one of the outputs depend on each other."""
    if len(candidates) < _CROWD:
        return candidates
    chosen = tuple(candidates)
    if chosen not in view.ancestors:
        view.ancestors[chosen] = _ancestors(view.table, view.ranks(), chosen)
    above = view.ancestors[chosen]
    bits = {value: 1 << k for k, value in enumerate(chosen)}
    return [
        value
        for value, bit in bits.items()
        if not any(above.get(o, 0) & bit or above.get(value, 0) & bits.get(o, 0) for o in outputs)
    ]


def _ancestors(table: Table, ranks: Ranks, chosen: Sequence[int]) -> dict[int, int]:
    """By id, which of the chosen ones it is computed from, as a set of bits; what is computed from none is left out."""
    bits = {value: 1 << k for k, value in enumerate(chosen)}
    first = min((ranks[value] for value in chosen if value in ranks), default=0)
    found: dict[int, int] = {}
    for value in sorted((v for v, rank in ranks.items() if rank >= first), key=ranks.__getitem__):
        node = table.nodes.get(value)
        below = 0
        for i in node.inputs if node is not None else ():
            if i is not None:
                below |= found.get(i, 0) | bits.get(i, 0)
        if below:
            found[value] = below
    return found
