"""The element types that an instance of a rule may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from taso_py.graph.types import FLOATS
from taso_py.ops.comparison import And, Cast, Not, Or, Where
from taso_py.ops.comparison import Relational as ComparingOperator
from taso_py.ops.constants import as_held, represents
from taso_py.ops.elementwise import Power
from taso_py.ops.normalization import LayerNormalization
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Quantity, Scalar, Side, Term, Variable

DEFAULT = "float32"
_TYPED = (Cast, Power)
"""Operators whose meaning depends on the element types of their operands."""
HELD = frozenset({"value", "min", "max", "extrapolation_value"})
"""Attributes that are elements of what their operator makes."""


@dataclass(frozen=True, slots=True)
class ElementTypes:
    """The element types of an instance: of variables, of literals on the left, and of what is built without operands.

    Without an entry a tensor of the left side is ``otherwise``.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    literals: Mapping[Scalar, str] = field(default_factory=dict)
    result: str = DEFAULT
    otherwise: str = DEFAULT

    def variable(self, name: str) -> str:
        """Of a tensor variable."""
        return self.variables.get(name, self.otherwise)

    def literal(self, literal: Scalar) -> str:
        """Of a literal operand."""
        return self.literals.get(literal, self.otherwise)


def ordinary_types(rule: Rule, _: np.random.Generator) -> ElementTypes:
    """What is asked for its truth is bool, what says which elements are read int64, all else is float32.

    Or float64, where float32 does not hold the rule's literals.
    """
    plain = plain_type(rule)
    given = {**dict.fromkeys(indexing(rule), "int64"), **dict.fromkeys(asked(rule), "bool")}
    return ElementTypes(given, result=plain, otherwise=plain)


def plain_type(rule: Rule) -> str:
    """The element type that stands for numbers of any: float32, or float64 where that does not hold the literals."""
    return next((t for t in (DEFAULT, "float64") if holds_literals(rule, t)), DEFAULT)


@lru_cache(maxsize=4096)
def typed(rule: Rule) -> bool:
    """Whether what a rule says depends on the element types of its numbers.

    The moments of a LayerNormalization are float32, whatever it normalises.
    """
    applications = [a for side in (rule.left, rule.right) for a in side.applications()]
    moments = [a for a in applications if a.operator is LayerNormalization and "output" in dict(a.attributes)]
    return bool(moments) or any(a.operator in _TYPED for a in applications)


@lru_cache(maxsize=1024)
def asked(rule: Rule) -> frozenset[str]:
    """Variables that stand for truth values: conditions of Where, operands of And, Or and Not."""
    found: set[str] = set()
    for side in (rule.left, rule.right):
        for a in side.applications():
            asked = a.arguments[:1] if a.operator is Where else a.arguments if a.operator in (And, Or, Not) else ()
            found.update(v.name for t in asked for v in sources(side, t))
    return frozenset(found)


@lru_cache(maxsize=1024)
def indexing(rule: Rule) -> frozenset[str]:
    """Variables that stand for indices: operands that say at run time which elements are read."""
    found: set[str] = set()
    for side in (rule.left, rule.right):
        for a in side.applications():
            if a.operator.positions is not None:
                found.update(v.name for v in sources(side, a.arguments[a.operator.positions]))
    return frozenset(found)


@lru_cache(maxsize=4096)
def index_terms(side: Side) -> frozenset[Term]:
    """The terms of a side that are indices: those, and what they are moved from."""
    found: set[Term] = set()
    level = [a.arguments[a.operator.positions] for a in side.applications() if a.operator.positions is not None]
    while level:
        term = level.pop()
        found |= {term, side.resolve(term)}
        level += copied(side.resolve(term))
    return frozenset(found)


def copied(term: Term) -> tuple[Term, ...]:
    """The operands whose elements the elements of a term are, as far as their types tell."""
    if not isinstance(term, Application) or issubclass(term.operator, ComparingOperator | Cast):
        return ()
    if term.operator.positions is not None:
        return term.arguments[:1]
    return term.arguments[1:] if term.operator is Where else term.arguments


def sources(side: Side, term: Term) -> list[Variable]:
    """Variables whose elements those of a term are chosen from; a comparison makes truth values of numbers."""
    term = side.resolve(term)
    if isinstance(term, Application):
        return [v for a in copied(term) for v in sources(side, a)]
    return [term] if isinstance(term, Variable) else []


@lru_cache(maxsize=4096)
def literals(rule: Rule) -> tuple[float, ...]:
    """The numbers that stand in a rule as tensors, or as attributes that become elements."""
    applications = [t for side in (rule.left, rule.right) for t in side.applications()]
    attributes = [e.value for t in applications for name, e in t.attributes if name in HELD and isinstance(e, Quantity)]
    arguments = (a for t in applications for a in t.arguments)
    ends = (t for side in (rule.left, rule.right) for t in (*side.outputs, *(term for _, term in side.lets)))
    operands = [t.value for t in (*arguments, *ends) if isinstance(t, Scalar)]
    return tuple(dict.fromkeys((*operands, *(v for v in attributes if isinstance(v, (int, float))))))


@lru_cache(maxsize=4096)
def literals_differ(rule: Rule, dtype: str) -> bool:
    """Whether different literals are different numbers in an element type, too."""
    if dtype not in FLOATS:
        return True
    held = [as_held(dtype, value) for value in literals(rule)]
    return len(set(held)) == len(held)


@lru_cache(maxsize=4096)
def holds_literals(rule: Rule, dtype: str) -> bool:
    """Whether an element type has all literals of a rule, so that the law may speak of it."""
    return literals_differ(rule, dtype) and all(represents(dtype, value) for value in literals(rule))
