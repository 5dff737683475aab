"""Element types for an instance: every type that the operators of the left side accept."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from taso_py.ops.comparison import And, Cast, Not, Or, Where
from taso_py.ops.comparison import Relational as ComparingOperator
from taso_py.rules.element_types import DEFAULT, ElementTypes, asked
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Quantity, Scalar, Term, Variable

MENU = ("float32", "float32", "float64", "float16", "int32", "int64", "uint8", "int8", "int16", "bool")
"""Types that a tensor may have; the first is drawn twice as often."""
_PLAIN = 0.5
"""How often all that is free is float32."""
_RESULT = "result"
"""Stands for the first output, whose type literals and constants without operands have."""


@dataclass(slots=True)
class _Classes:
    """Terms that must have one element type; some have a type that is given."""

    parent: dict[object, object] = field(default_factory=dict)
    given: dict[object, str] = field(default_factory=dict)

    def find(self, key: object) -> object:
        while (above := self.parent.get(key, key)) != key:
            key = above
        return key

    def join(self, *keys: object) -> None:
        first, *others = map(self.find, keys)
        for other in map(self.find, others):
            if other != first:
                self.parent[other] = first
                if other in self.given:
                    self.given.setdefault(first, self.given.pop(other))

    def give(self, key: object, dtype: str) -> None:
        self.given[self.find(key)] = dtype


@lru_cache(maxsize=64)
def _classes(rule: Rule) -> tuple[tuple[tuple[object, object], ...], tuple[tuple[object, str], ...]]:
    """Of each leaf of the left side, and of the first output, its class; the types of classes that are given."""
    side = rule.left
    classes = _Classes()
    for term in side.applications():
        _join(classes, term, [side.resolve(a) for a in term.arguments])
    classes.join(_RESULT, side.resolve(side.outputs[0]))
    bools = asked(rule)
    operands = [side.resolve(a) for t in side.applications() for a in t.arguments]
    leaves: list[Term] = [t for t in operands if not isinstance(t, Application)]
    for leaf in leaves:
        if isinstance(leaf, Variable) and leaf.name in bools:
            classes.give(leaf, "bool")
    found = tuple((leaf, classes.find(leaf)) for leaf in [*dict.fromkeys(leaves), _RESULT])
    return found, tuple(classes.given.items())


def _join(classes: _Classes, term: Application, arguments: list[Term]) -> None:
    operator = term.operator
    if operator in (And, Or, Not):
        for key in (*arguments, term):
            classes.give(key, "bool")
    elif issubclass(operator, ComparingOperator):
        classes.join(*arguments)
        classes.give(term, "bool")
    elif operator is Where:
        classes.give(arguments[0], "bool")
        classes.join(term, *arguments[1:])
    elif operator is Cast:
        to = dict(term.attributes).get("to", Quantity(DEFAULT))
        if isinstance(to, Quantity):
            classes.give(term, str(to.value))
    elif operator.positions is not None:
        classes.join(term, arguments[0])
        classes.give(arguments[operator.positions], "int64")
    elif not arguments:
        classes.join(term, _RESULT)
    else:
        classes.join(term, *arguments)


def free_types(rule: Rule, random: np.random.Generator) -> ElementTypes:
    """Any type for what the operators leave free: often float32 for all, else one for each class."""
    leaves, given = _classes(rule)
    plain = random.random() < _PLAIN
    drawn: dict[object, str] = dict(given)
    for _, key in leaves:
        if key not in drawn:
            drawn[key] = DEFAULT if plain else MENU[int(random.integers(len(MENU)))]
    types = {leaf: drawn[key] for leaf, key in leaves}
    variables = {leaf.name: dtype for leaf, dtype in types.items() if isinstance(leaf, Variable)}
    literals = {leaf: dtype for leaf, dtype in types.items() if isinstance(leaf, Scalar)}
    return ElementTypes(variables, literals, types[_RESULT])
