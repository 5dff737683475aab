"""Values of elements at points: exact fractions as long as no irrational function takes part, floats beyond."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from taso_py.graph.types import INTEGERS
from taso_py.prove.expansion.canonical import TYPES, LeafFacts
from taso_py.prove.expansion.elements import Element

Number: TypeAlias = Fraction | float
Place: TypeAlias = tuple[object, ...]
"""(tensor, flat index) of a leaf's element."""
Point: TypeAlias = Mapping[Place, Number]

ROUNDS = 12
_TOLERANCE = 1e-7
_FRAGILE = 1e-6
_ROUNDED = Fraction(1, 10**12)
_MOST_POWER = 64
_MOST_ZEROS = 12


class NotDefined(Exception):
    """A division by zero, a root or a logarithm of a negative number, or infinity minus infinity."""


class NotDecided(Exception):
    """Rounding or overflow decides what the value is: nothing is concluded at this point."""


@dataclass(slots=True)
class PointValues:
    """The values of elements at one point; an operand that no condition selects is not looked at."""

    point: Point
    done: dict[Element, Number] = field(default_factory=dict)
    largest: float = 1.0

    def value(self, element: Element) -> Number:
        """The element's value; `NotDefined` where it has none."""
        found = self.done.get(element)
        if found is None:
            found = self.done[element] = self._value(element)
            if isinstance(found, float):
                self._seen(element, found)
        return found

    def _seen(self, element: Element, value: float) -> None:
        if math.isnan(value):
            raise NotDefined
        if math.isfinite(value):
            self.largest = max(self.largest, abs(value))
            return
        finite = all(math.isfinite(self.value(a)) for a in element.arguments if element.function != "where")
        if finite and element.function not in ("number", "nothing", "where"):
            # What is finite became too large for a float: a fact about floats, not about the law.
            raise NotDecided

    def _value(self, element: Element) -> Number:
        match element.function:
            case "leaf":
                return self.point[element.attributes]
            case "number":
                value = element.attributes[0]
                assert isinstance(value, (Fraction, float))
                return value
            case "nothing":
                return -math.inf
            case "where":
                condition = self.value(element.arguments[0])
                return self.value(element.arguments[1 if condition else 2])
        arguments = [self.value(a) for a in element.arguments]
        try:
            return _FUNCTIONS[element.function](self, arguments, element.attributes)
        except OverflowError:
            raise NotDecided from None

    # ---- functions -------------------------------------------------------------------------------------------------

    def difference(self, a: Number, b: Number) -> Number:
        """a - b, where rounding does not decide its sign."""
        if isinstance(a, float) and a == b:
            return Fraction(0)
        found = a - b
        if (
            0
            < _modulus(found)
            < (_FRAGILE * self.largest if isinstance(found, float) else _ROUNDED * max(Fraction(1), _modulus(a)))
        ):
            raise NotDecided
        return found

    def divided(self, a: Number, b: Number) -> Number:
        """a / b."""
        if isinstance(b, float) and abs(b) < _FRAGILE * self.largest:
            raise NotDecided
        if b == 0:
            raise NotDefined
        return a / b

    def root(self, a: Number) -> Number:
        """√a."""
        if isinstance(a, float) and -_FRAGILE * self.largest < a < 0:
            raise NotDecided
        if a < 0:
            raise NotDefined
        if isinstance(a, Fraction):
            exact = Fraction(math.isqrt(a.numerator), math.isqrt(a.denominator))
            if exact * exact == a:
                return exact
        return math.sqrt(a)

    def logarithm(self, a: Number) -> Number:
        """ln a."""
        if isinstance(a, float) and abs(a) < _FRAGILE * self.largest:
            raise NotDecided
        if a <= 0:
            raise NotDefined
        return Fraction(0) if a == 1 else math.log(a)

    def power(self, a: Number, exponent: Number) -> Number:
        """a ** exponent."""
        if exponent == int(exponent) and _modulus(exponent) <= _MOST_POWER:
            if exponent < 0:
                return self.divided(Fraction(1), self.power(a, -exponent))
            return a ** int(exponent)
        if a < 0:
            raise NotDefined
        return self.divided(Fraction(1), float(a) ** float(-exponent)) if exponent < 0 else float(a) ** float(exponent)


_Function: TypeAlias = Callable[[PointValues, Sequence[Number], Sequence[object]], Number]


def _real(function: Callable[[float], float], *, at_zero: int | None = None) -> _Function:
    def value(_: PointValues, arguments: Sequence[Number], __: Sequence[object]) -> Number:
        if arguments[0] == 0 and at_zero is not None:
            return Fraction(at_zero)
        return function(float(arguments[0]))

    return value


def _modulus(value: Number) -> Number:
    return -value if value < 0 else value


def _truth(test: Callable[[Number], bool]) -> _Function:
    return lambda e, a, _: Fraction(int(test(e.difference(a[0], a[1]))))


def _product(_: PointValues, arguments: Sequence[Number], __: Sequence[object]) -> Number:
    total: Number = Fraction(1)
    for a in arguments:
        total = total * a
    return total


def _cast(evaluation: PointValues, arguments: Sequence[Number], attributes: Sequence[object]) -> Number:
    (value,), dtype = arguments, TYPES[float(attributes[0])]  # type: ignore[arg-type]
    if dtype == "bool":
        return Fraction(int(evaluation.difference(value, Fraction(0)) != 0))
    if isinstance(value, float) and not math.isfinite(value):
        raise NotDecided
    if dtype in INTEGERS:
        whole, bounds = math.trunc(value), np.iinfo(dtype)
        near = isinstance(value, float) and abs(value - round(value)) < _FRAGILE * evaluation.largest
        if near or not int(bounds.min) <= whole <= int(bounds.max):
            raise NotDecided
        return Fraction(whole)
    held = float(np.array(float(value), dtype=dtype))
    if not math.isfinite(held):
        raise NotDecided
    return Fraction(held)


def _slope(arguments: Sequence[Number], slope: Number) -> Number:
    return slope * arguments[0] if arguments[0] < 0 else arguments[0]


def _elu(arguments: Sequence[Number], alpha: Number) -> Number:
    return float(alpha) * math.expm1(arguments[0]) if arguments[0] < 0 else arguments[0]


def _exact(value: object) -> Number:
    assert isinstance(value, (Fraction, float))
    return value


_FUNCTIONS: Mapping[str, _Function] = {
    "add": lambda e, a, _: sum(a, Fraction(0)),
    "sum": lambda e, a, _: sum(a, Fraction(0)),
    "mul": _product,
    "neg": lambda e, a, _: -a[0],
    "div": lambda e, a, _: e.divided(a[0], a[1]),
    "reciprocal": lambda e, a, _: e.divided(Fraction(1), a[0]),
    "sqrt": lambda e, a, _: e.root(a[0]),
    "pow": lambda e, a, t: e.power(a[0], _exact(t[0]) if t else a[1]),
    "max": lambda e, a, _: max(a),
    "min": lambda e, a, _: min(a),
    "relu": lambda e, a, _: max(a[0], Fraction(0)),
    "abs": lambda e, a, _: _modulus(a[0]),
    "leakyrelu": lambda e, a, t: _slope(a, _exact(t[0])),
    "prelu": lambda e, a, _: _slope(a, a[1]),
    "elu": lambda e, a, t: _elu(a, _exact(t[0])),
    "exp": _real(math.exp, at_zero=1),
    "log": lambda e, a, _: e.logarithm(a[0]),
    "sigmoid": _real(lambda x: 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)),
    "tanh": _real(math.tanh, at_zero=0),
    "softplus": _real(lambda x: math.log1p(math.exp(x)) if x < 700 else x),
    "erf": _real(math.erf, at_zero=0),
    "sin": _real(math.sin, at_zero=0),
    "cos": _real(math.cos, at_zero=1),
    "less": _truth(lambda d: d < 0),
    "greater": _truth(lambda d: d > 0),
    "lessorequal": _truth(lambda d: d <= 0),
    "greaterorequal": _truth(lambda d: d >= 0),
    "equal": _truth(lambda d: d == 0),
    "not": lambda e, a, _: Fraction(int(not a[0])),
    "and": lambda e, a, _: Fraction(int(bool(a[0]) and bool(a[1]))),
    "or": lambda e, a, _: Fraction(int(bool(a[0]) or bool(a[1]))),
    "cast": _cast,
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A point at which the left element is defined and the right one is not (``right`` is None) or differs."""

    point: Point
    left: Number
    right: Number | None


def difference(
    left: Element, right: Element, leaves: Mapping[str, LeafFacts], rounds: int = ROUNDS
) -> Difference | None:
    """The first of the points at which the elements differ."""
    for point in points(left, right, leaves, rounds):
        evaluation = PointValues(point)
        try:
            value = evaluation.value(left)
            if isinstance(value, float) and not math.isfinite(value):
                continue
        except (NotDefined, NotDecided):
            continue
        try:
            other = evaluation.value(right)
        except NotDefined:
            return Difference(point, value, None)
        except NotDecided:
            continue
        if isinstance(value, Fraction) and isinstance(other, Fraction):
            # A number in the rule's text may be a rounded one.
            differs = _modulus(value - other) > _ROUNDED * max(Fraction(1), _modulus(value))
        else:
            differs = not _modulus(value - other) <= _TOLERANCE * evaluation.largest
        if differs:
            return Difference(point, value, other)
    return None


# ---- points --------------------------------------------------------------------------------------------------------


def points(left: Element, right: Element, leaves: Mapping[str, LeafFacts], rounds: int) -> Iterator[Point]:
    """Points of every kind: small fractions, few values, equal values, zeros, beside the constants, large, tiny."""
    places, numbers = _parts(left, right)
    draw = random.Random(0)  # noqa: S311
    near = sorted({v + d for n in numbers for v in (n, -n, 2 * n) for d in (0, 1, -1, Fraction(1, 2))} | {Fraction(3)})
    kinds: list[Callable[[list[Fraction]], Fraction]] = [
        lambda _: Fraction(draw.randint(-64, 64), 8),
        lambda _: Fraction(draw.choice((-1, 0, 1))),
        lambda common: common[0],
        lambda _: draw.choice(near),
        lambda _: Fraction(draw.gauss(0, 3)),
        lambda _: Fraction(draw.choice((0, draw.randint(-64, 64))), 8),
        lambda _: Fraction(draw.randint(-1000, 1000)),
        lambda _: Fraction(draw.randint(-16, 16), 2**14),
        draw.choice,
    ]
    if not any(leaves[str(p[0])].dtype != "bool" for p in places):
        kinds = kinds[:3]
    for turn in range(rounds):
        for kind in kinds:
            common = [Fraction((0, 1, -1, -3)[turn % 4]), Fraction(draw.randint(-16, 16), 4)]
            yield {p: _held(kind(common), leaves[str(p[0])], draw) for p in places}
    for zero in places[:_MOST_ZEROS]:
        # Each by itself zero, beside others that are not: a divisor under a condition.
        for _ in range(min(rounds, 4)):
            yield {p: _held(Fraction(draw.randint(1, 32) * (p != zero), 8), leaves[str(p[0])], draw) for p in places}


def _parts(*roots: Element) -> tuple[list[Place], list[Fraction]]:
    """Places of leaves in the order in which they are met, and constants."""
    places: dict[Place, None] = {}
    numbers: dict[Fraction, None] = {}
    seen: set[Element] = set()
    stack = list(reversed(roots))
    while stack:
        element = stack.pop()
        if element in seen:
            continue
        seen.add(element)
        if element.function == "leaf":
            places[element.attributes] = None
        for value in element.attributes:
            if isinstance(value, Fraction) and element.function != "cast" and len(numbers) < 8:
                numbers[value] = None
        stack += reversed(element.arguments)
    return list(places), list(numbers)


def _held(value: Fraction, leaf: LeafFacts, draw: random.Random) -> Number:
    """The nearest value that the element type and the predicates admit."""
    asked = leaf.predicates
    if "false" in asked:
        return Fraction(0)
    if leaf.dtype == "bool":
        return Fraction(1 if "true" in asked else draw.randint(0, 1))
    if leaf.dtype in INTEGERS:
        bounds = np.iinfo(leaf.dtype)
        wide = math.trunc(value) if draw.random() < 0.7 else draw.randint(int(bounds.min), int(bounds.max))
        value = Fraction(min(max(wide, int(bounds.min)), int(bounds.max)))
    else:
        value = Fraction(float(np.array(float(value), dtype=leaf.dtype)))
    if "positive" in asked or "nonnegative" in asked:
        value = abs(value)
    return Fraction(2) if value == 0 and asked & {"positive", "nonzero", "true"} else value
