"""Small exact inputs for both sides of a law, and the sizes at which it is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from scripts.audit.mutation.deep import DEEP
from scripts.audit.mutation.large import large
from scripts.audit.mutation.scope import FAMILY, LISTS
from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.table import Values
from taso_py.ops.elementwise import Identity
from taso_py.rules.build import NotBuildable
from taso_py.rules.instances import PLAIN, Instance, Manner, draw
from taso_py.rules.menus import array_kind
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rule import Rule, axis_names
from taso_py.rules.term import (
    Application,
    Block,
    Comparison,
    Condition,
    Listing,
    Membership,
    Name,
    Predicate,
    Quantity,
    Side,
    Variable,
)
from taso_py.rules.unify import Unbound

Regime: TypeAlias = Literal["any", "primes", "equal", "ones", "wild", "large", "deep"]

REGIMES: tuple[Regime, ...] = ("primes", "wild", "equal", "large", "any", "deep", "ones", "wild", "deep", "large")
"""Sizes that differ, sizes as they come, sizes that coincide, axes longer than any window or cut, unusual attributes,
sizes of which some are 1, up to six axes."""
SETS = ("integers", "nonzero", "positive", "quarters")
"""Kinds of values that every instance is run with."""
BAD_DRAW = (
    NotBuildable, TypingError, Unbound, TypeError, ValueError, LookupError, ArithmeticError, AttributeError,
    AssertionError, RecursionError,
)  # fmt: skip
"""What a law that makes no sense may raise while it is drawn or built."""
_PRIMES = (2, 3, 5, 7, 11)
_FIRST_PATIENCE = 300
_PATIENCE: Mapping[Regime, int] = {
    "any": 100, "primes": 40, "equal": 40, "ones": 40, "wild": 60, "large": 60, "deep": 60,
}  # fmt: skip
"""Attempts at an instance: the first one of a law, and each later one."""
_ENOUGH = 2
"""Failures after which a regime is given up."""
_WILD: Mapping[str, Sequence[float]] = {
    "pad": (-1, 0, 1, 2, -2), "stride": (1, 2, 3, -1), "dilation": (1, 2, 3), "group": (1, 2, 3, 4),
    "window": (1, 2, 3, 4), "axis": (0, 1, 2, 3), "cut": (0, 1, 2, 3, 4, 5), "index": (0, 1, 2, 3),
    "constant": (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0),
}  # fmt: skip
"""Values of attributes, more of them than a network has; most will not type."""


def instances(
    pattern: Rule,
    regimes: Sequence[Regime],
    random: np.random.Generator,
    values: Values,
    failed: Counter[Regime] | None = None,
) -> list[Instance]:
    """Instances of the left side and the clauses of ``pattern`` alone, about one per regime; none when it has none.

    ``failed`` keeps from one call to the next which regimes the pattern does not allow.
    """
    outputs = tuple(Application(Identity, (t,)) for t in pattern.left.outputs)
    probe = replace(pattern, right=Side(pattern.left.lets, outputs))
    found: list[Instance] = []
    failed = Counter() if failed is None else failed
    for regime in regimes:
        instance = None
        if failed[regime] < _ENOUGH:
            special = _special(probe, regime, random)
            patience = _PATIENCE[regime] if found or regime != "any" else _FIRST_PATIENCE
            manner = DEEP if regime == "deep" else PLAIN
            instance = _drawn(special, random, values, patience, manner)
            failed[regime] += 1 if instance is None else 0
        if instance is None and regime != "any" and found and failed["any"] < _ENOUGH:
            instance = _drawn(probe, random, values, _PATIENCE["any"])
        if instance is not None:
            found.append(instance)
        elif regime == "any" and not found:
            failed["any"] = _ENOUGH
    return found


def _special(rule: Rule, regime: Regime, random: np.random.Generator) -> Rule:
    """The rule with some of what a draw chooses freely fixed."""
    if regime in ("any", "deep"):
        return rule
    if regime == "wild":
        more = _wild(rule, random)
        return replace(rule, choices=(*more, *rule.choices)) if more else rule
    if regime == "large" or (regime == "equal" and not _free_sizes(rule)):
        declared = large(rule, random, cube=regime == "equal")
        return replace(rule, declarations=(*rule.declarations, *declared)) if declared else rule
    pins = _pins(rule, regime, random)
    fixed: list[Condition] = [Comparison(Name(n), "==", Quantity(v)) for n, v in pins.items()]
    return replace(rule, conditions=(*fixed, *rule.conditions)) if pins else rule


def _drawn(
    rule: Rule, random: np.random.Generator, values: Values, attempts: int, manner: Manner = PLAIN
) -> Instance | None:
    try:
        return draw(rule, random, values, attempts, manner=manner)
    except BAD_DRAW:
        return None


def _pins(rule: Rule, regime: Regime, random: np.random.Generator) -> dict[str, int]:
    """Sizes of declared axes: what the draw would choose freely is fixed instead."""
    names = _free_sizes(rule)
    if regime == "equal":
        return dict.fromkeys(names, int(random.choice((2, 3))))
    if regime == "ones":
        return {n: 1 for n in names if random.random() < 0.5}
    primes = [int(p) for p in random.permutation(_PRIMES)]
    return dict(zip(names, primes, strict=False))


def _free_sizes(rule: Rule) -> list[str]:
    """Names of declared axes that no condition or choice fixes already."""
    fixed = _chosen(rule)
    for c in rule.conditions:
        if isinstance(c, Comparison) and c.relation == "==":
            fixed |= {e.name for e in (c.left, c.right) if isinstance(e, Name)}
    return [n for n in _declared(rule) if n not in fixed]


def _declared(rule: Rule) -> dict[str, None]:
    found: dict[str, None] = {}
    variables = rule.left.variables()
    for declaration in rule.declarations:
        for axis in declaration.axes if declaration.variable in variables else ():
            if not isinstance(axis, Block):
                found.update(dict.fromkeys(sorted(axis_names(axis))))
    return found


def _chosen(rule: Rule) -> set[str]:
    return {c.variable for c in (*rule.choices, *rule.conditions) if isinstance(c, Membership)}


def _wild(rule: Rule, random: np.random.Generator) -> list[Membership]:
    """Unusual values for most of the attributes that the left side names."""
    menus: dict[str, Membership] = {}
    length = int(random.integers(1, 4))
    taken = _chosen(rule) | _declared(rule).keys()
    for application in rule.left.applications():
        for attribute, expression in application.attributes:
            numbers = _WILD.get(FAMILY.get(attribute, ""), ())
            items = expression.items if isinstance(expression, Listing) else (expression,)
            for item in items if numbers else ():
                if isinstance(item, Name) and item.name not in taken and random.random() < 0.7:
                    whole = attribute in LISTS and item is expression
                    entries = length * (2 if attribute == "pads" else 1) if whole else 0
                    menus[item.name] = _menu(item.name, numbers, entries, random)
            if attribute == "perm" and isinstance(expression, Name):
                menus[expression.name] = _orders(expression.name, random)
    return list(menus.values())


def _menu(name: str, numbers: Sequence[float], length: int, random: np.random.Generator) -> Membership:
    """The numbers, or with a ``length`` lists of that many."""
    if not length:
        return Membership(name, tuple(map(Quantity, numbers)))
    few = [numbers[int(k)] for k in random.integers(0, len(numbers), 3)]
    lists = [[few[int(k)] for k in random.integers(0, 3, length)] for _ in range(8)]
    return Membership(name, tuple(Listing(tuple(map(Quantity, entries))) for entries in lists))


def _orders(name: str, random: np.random.Generator) -> Membership:
    """Orders of three or four axes that are not their own inverses."""
    length = int(random.integers(3, 5))
    start = [int(a) for a in random.permutation(length)]
    turned = [tuple((a + k) % length for a in start) for k in range(length)]
    return Membership(name, tuple(Listing(tuple(map(Quantity, p))) for p in turned))


# ---- values ------------------------------------------------------------------------------------------------------


def arrays(instance: Instance, kind: str, random: np.random.Generator) -> dict[int, Array]:
    """Values for the tensor variables of an instance, by id; literals keep theirs.

    They are small integers, or quarters of such: float32 holds every sum and product of them exactly.
    """
    domains = _domains(instance.rule)
    predicates: dict[str, list[Predicate]] = {}
    for c in instance.rule.conditions:
        if isinstance(c, Predicate):
            for v in c.variables:
                predicates.setdefault(v, []).append(c)
    given = {**instance.feeds, **instance.weights}
    for name, value in sorted(instance.binding.tensors.items()):
        old = given[value]
        new = _values(domains.get(name, kind), old.shape, random)
        if old.dtype == np.bool_:
            new = np.asarray(random.random(old.shape) < 0.5)
        for p in predicates.get(name, []):
            if not PREDICATES[p.kind].holds(new, *p.arguments):
                new = _meeting(p, old.shape, random)
        given[value] = np.asarray(new, dtype=old.dtype).reshape(old.shape)
    return given


def _values(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[Any]:
    if kind == "positive":
        return random.integers(1, 5, shape)
    if kind == "nonzero":
        return np.asarray(random.integers(1, 4, shape) * random.choice((-1, 1), shape))
    if kind == "quarters":
        return random.integers(-8, 9, shape) / 4
    return random.integers(-3, 4, shape)


def _meeting(p: Predicate, shape: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[Any]:
    known = {"positive": "positive", "nonzero": "nonzero"}.get(p.kind)
    if known is not None:
        return _values(known, shape, random)
    if p.kind == "nonnegative":
        return random.integers(0, 4, shape)
    return np.asarray(PREDICATES[p.kind].sample(random, shape, *p.arguments))


def _domains(rule: Rule) -> dict[str, str]:
    """Variables that an operator of the left side reads where it is not defined everywhere."""
    found: dict[str, str] = {}
    for application in rule.left.applications():
        for k, argument in enumerate(application.arguments):
            kind = array_kind(application.operator, k)
            if isinstance(argument, Variable) and kind:
                found[argument.name] = kind
    return found
