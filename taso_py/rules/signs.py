"""Which names of a rule may be negative: the others stand for sizes, counts and positions in its proof.

A match solves the equations of a rule, which may have negative solutions that the proof does not speak of.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from taso_py.ops.operator import Operator, field_types
from taso_py.rules.rule import Rule, axis_names
from taso_py.rules.term import Comparison, Listing, Membership, Name, Quantity, names_in

_SIZES = ("shape", "sizes")


def is_real(operator: type[Operator], field_name: str) -> bool:
    """Whether an attribute, or each entry of it, is a real number."""
    return "float" in field_types(operator).get(field_name, "")


def is_signed(operator: type[Operator], field_name: str) -> bool:
    """Whether an integer attribute, or an entry of it, may be negative: pads that crop."""
    return field_name == "pads" and operator.onnx == "Pad"


@lru_cache(maxsize=4096)
def natural_names(rule: Rule) -> frozenset[str]:
    """Names of which a match has to show that they are not negative.

    All that counts something on the left side, stands in a declared size, or in a condition.  Not what is itself a size
    of the graph, nor one of the numbers of a menu, each of which a proof looks at; nor what conditions alone, pads and
    real attributes say something of: of that a proof assumes nothing (`never_negative`).
    """
    found = _Names.of(rule)
    return (found.counted | found.declared | (found.compared - found.signed - found.real)) - found.listed - found.sizes


@lru_cache(maxsize=4096)
def never_negative(rule: Rule) -> frozenset[str]:
    """Names that a proof may take to be at least 0: a match asks it, or has them from where nothing is negative."""
    stated = {name for c in rule.conditions if (name := _bounded(c)) is not None}
    return natural_names(rule) | _Names.of(rule).sizes | stated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The names of a rule by what they stand for on its left side and in its clauses."""

    real: frozenset[str]
    signed: frozenset[str]
    counted: frozenset[str]
    sizes: frozenset[str]
    """What is a size by itself: an axis, or an entry of a shape."""
    declared: frozenset[str]
    compared: frozenset[str]
    listed: frozenset[str]
    """What a menu of numbers has all values of."""

    @staticmethod
    def of(rule: Rule) -> _Names:
        members = [c for c in (*rule.choices, *rule.conditions) if isinstance(c, Membership)]
        listed = {c.variable for c in members if not any(names_in(e) for e in c.menu)}
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
        return _Names(
            real=frozenset(real), signed=frozenset(signed), counted=frozenset(counted), sizes=frozenset(sizes),
            declared=frozenset(declared), compared=frozenset(stated), listed=frozenset(listed),
        )  # fmt: skip


def _bounded(condition: object) -> str | None:
    """The name of which a condition says that it is not below some number that is not negative."""
    match condition:
        case Comparison(Name(name), ">=" | ">", Quantity(least)) | Comparison(Quantity(least), "<=" | "<", Name(name)):
            return name if isinstance(least, int) and least >= 0 else None
    return None
