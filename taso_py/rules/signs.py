"""Which names of a rule may be negative: the others stand for sizes, counts and positions in its proof.

A match solves the equations of a rule, which may have negative solutions that the proof does not speak of.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache

from taso_py.ops.operator import Operator
from taso_py.rules.rule import Rule, axis_names
from taso_py.rules.term import Comparison, Listing, Membership, Name, names_in

_SIZES = ("shape", "sizes")


def is_real(operator: type[Operator], field_name: str) -> bool:
    """Whether an attribute, or each entry of it, is a real number."""
    return any(f.name == field_name and "float" in str(f.type) for f in fields(operator))


def is_signed(operator: type[Operator], field_name: str) -> bool:
    """Whether an integer attribute, or an entry of it, may be negative: pads that crop."""
    return field_name == "pads" and operator.onnx == "Pad"


@lru_cache(maxsize=4096)
def natural_names(rule: Rule) -> frozenset[str]:
    """Names that a proof takes to be never negative, and that the operators of a match may not keep from being it.

    Not what stands for one of the values of a menu, each of which is looked at, what is real or a pad and nothing else
    on the left side, or what is itself a size of the graph.
    """
    listed = {c.variable for c in (*rule.choices, *rule.conditions) if isinstance(c, Membership)}
    real, signed, counted, sizes = set[str](), set[str](), set[str](), set[str]()
    for term in rule.left.applications():
        for attribute, expression in term.attributes:
            pads = signed if is_signed(term.operator, attribute) else counted
            (real if is_real(term.operator, attribute) else pads).update(names_in(expression))
            items = expression.items if isinstance(expression, Listing) else (expression,)
            sizes |= {i.name for i in items if attribute in _SIZES and isinstance(i, Name)}
    axes = [axis for d in rule.declarations for axis in d.axes]
    sizes |= {axis.name for axis in axes if isinstance(axis, Name)}
    declared = {name for axis in axes for name in axis_names(axis)}
    compared = [c for c in rule.conditions if isinstance(c, Comparison)]
    stated = {name for c in compared for side in (c.left, c.right) for name in names_in(side)}
    return frozenset((counted | declared | (stated - signed)) - real - listed - sizes)
