"""Bounds of an operator's result from bounds of its operands: interval arithmetic over the operator's meaning.

The bounds hold for real numbers: roundings are left to the margin of whoever compares.  A value that no bound is known
of (a quotient by an interval with zero in it, a root of what may be negative) is bounded by the infinities.  The two
reads of x - x are two independent values, so bounds are wide; they are never too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array
from taso_py.graph.sizes import element_variables, symbols
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import TYPE_CODES, Apply, Choose, Compare, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.ops.numeric import FUNCTIONS, size_value
from taso_py.ops.operator import Operator

_Places: TypeAlias = dict[str, npt.NDArray[np.int64]]

_TINY = float(np.finfo(np.float32).tiny)
_INCREASING = frozenset({"add", "max", "min", "log", "sqrt", "erf", "relu", "tanh", "sigmoid", "softplus"})
_BENT_AT_ZERO = frozenset({"abs", "leakyrelu", "prelu", "elu"})
"""Monotone in each argument on either side of zero of the first."""
_TRUTHS = frozenset({"equal", "less", "greater", "lessorequal", "greaterorequal", "not", "and", "or"})
_UNCHANGED = frozenset(float(TYPE_CODES[name]) for name in ("float32", "float64"))
"""What a cast of a float leaves as it is; other targets are not bounded."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """low <= value <= high, element by element; NaN as a bound stands for none."""

    low: Array
    high: Array

    @staticmethod
    def point(array: npt.ArrayLike) -> Bounds:
        """A value that is known."""
        known = np.asarray(array, dtype=np.float64)
        return Bounds(known, known)

    def within(self, limit: float) -> bool:
        """Whether |value| <= limit at every element."""
        return bool(np.all(self.low >= -limit) and np.all(self.high <= limit))


def bounds(operator: Operator, operands: Sequence[Bounds], types: Sequence[TensorType]) -> Bounds:
    """Bounds of the operator's result, of ``infer``'s shape; all sizes are concrete."""
    shape = tuple(int(str(d)) for d in operator.infer(*types).dims)
    names = element_variables(len(shape))
    places: _Places = dict(zip(names, np.indices(shape, dtype=np.int64, sparse=True), strict=True))
    views = tuple(Operand(k, t) for k, t in enumerate(types))
    meaning = operator.element(views, tuple(s.size for s in names))
    with np.errstate(all="ignore"):
        found = _Bounds(operands).of(meaning, places)
    return Bounds(np.broadcast_to(found.low, shape), np.broadcast_to(found.high, shape))


class _Bounds:
    def __init__(self, operands: Sequence[Bounds]) -> None:
        self.operands = operands
        self.latest: dict[int, tuple[list[Array], Bounds]] = {}
        """Of a reduction the places that it was last computed for: a mean within a variance is computed once."""

    def of(self, meaning: Scalar, places: _Places) -> Bounds:
        """Bounds of a value; what is read outside of an operand is zero."""
        match meaning:
            case Number(value):
                return Bounds.point(value)
            case Integer(value):
                return Bounds.point(size_value(value, places))
            case Read():
                return self._read(meaning, places)[0]
            case Apply("mul", (one, other)) if one is other:
                return _known(applied("pow", [self.of(one, places), Bounds.point(2.0)]))
            case Apply(function, arguments, attributes):
                return _known(applied(function, [self.of(a, places) for a in arguments], attributes))
            case Choose(conditions, then, otherwise):
                holds = _holds(conditions, places)
                met, unmet = self.of(then, places), self.of(otherwise, places)
                return Bounds(np.where(holds, met.low, unmet.low), np.where(holds, met.high, unmet.high))
            case Reduce():
                return self._once(meaning, places)

    def _once(self, reduce: Reduce, places: _Places) -> Bounds:
        depends = [places[name] for name in sorted(_variables(reduce))]
        known = self.latest.get(id(reduce))
        if known is None or any(a is not b for a, b in zip(known[0], depends, strict=True)):
            known = self.latest[id(reduce)] = (depends, self._reduced(reduce, places))
        return known[1]

    def _read(self, read: Read, places: _Places) -> tuple[Bounds, Array]:
        """The element's bounds, and where there is one."""
        operand = self.operands[read.operand]
        index = [np.asarray(size_value(i, places)) for i in read.index]
        shape = np.broadcast_shapes(*(i.shape for i in index))
        if operand.low.size == 0:
            return Bounds.point(np.zeros(shape)), np.zeros(shape, dtype=bool)
        present: Array = np.asarray(True)
        for i, extent in zip(index, operand.low.shape, strict=True):
            present = present & (i >= 0) & (i < extent)
        inside = tuple(np.clip(i, 0, extent - 1) for i, extent in zip(index, operand.low.shape, strict=True))
        low, high = (np.where(present, bound[inside], 0.0) for bound in (operand.low, operand.high))
        return Bounds(low, high), present

    def _reduced(self, reduce: Reduce, places: _Places) -> Bounds:
        """The reduction, its range as long as the longest of any element."""
        extent = np.asarray(size_value(reduce.extent, places))
        total = Bounds.point(0.0 if reduce.kind == "sum" else -np.inf)
        for k in range(int(extent.max(initial=0))):
            part, present = self._part(reduce, {**places, reduce.variable: np.asarray(k)})
            taken = present & (k < extent)
            if reduce.kind == "sum":
                low, high = (np.where(taken, bound, 0.0) for bound in (part.low, part.high))
                total = Bounds(total.low + low, total.high + high)
            else:
                low, high = (np.where(taken, bound, -np.inf) for bound in (part.low, part.high))
                total = Bounds(np.maximum(total.low, low), np.maximum(total.high, high))
        return _known(total)

    def _part(self, reduce: Reduce, places: _Places) -> tuple[Bounds, Array]:
        if isinstance(reduce.body, Read):
            return self._read(reduce.body, places)
        return self.of(reduce.body, places), np.asarray(True)


def _variables(meaning: Scalar) -> frozenset[str]:
    """The index variables that a value depends on."""
    match meaning:
        case Integer(value):
            return symbols(value)
        case Read(_, index):
            return frozenset().union(*map(symbols, index))
        case Apply(_, arguments, _):
            return frozenset().union(*map(_variables, arguments))
        case Choose(conditions, then, otherwise):
            tested = (symbols(c.left) | symbols(c.right) for c in conditions)
            return frozenset().union(_variables(then), _variables(otherwise), *tested)
        case Reduce(_, variable, extent, body):
            return (_variables(body) - {variable}) | symbols(extent)
        case _:
            return frozenset()


def applied(function: str, arguments: Sequence[Bounds], attributes: Sequence[float] = ()) -> Bounds:
    """Bounds of a named scalar function; the infinities for one of which nothing is known."""
    found = _applied(function, arguments, attributes)
    if function == "exp":
        return found  # a known value may be lost, too
    exact = np.asarray(FUNCTIONS[function](*(a.low for a in arguments), *attributes), dtype=np.float64)
    certain = np.logical_and.reduce(np.broadcast_arrays(*(a.low == a.high for a in arguments)))
    return Bounds(np.where(certain, exact, found.low), np.where(certain, exact, found.high))


def _applied(function: str, arguments: Sequence[Bounds], attributes: Sequence[float]) -> Bounds:
    if function in _INCREASING:
        f = FUNCTIONS[function]
        return Bounds(f(*(a.low for a in arguments)), f(*(a.high for a in arguments)))
    if function in _BENT_AT_ZERO:
        return _bent(FUNCTIONS[function], arguments, attributes)
    if function in _TRUTHS:
        shape = np.broadcast_shapes(*(a.low.shape for a in arguments))
        return Bounds(np.zeros(shape), np.ones(shape))
    special = _SPECIAL.get(function)
    return _unbounded(arguments) if special is None else special(arguments, attributes)


def _known(found: Bounds) -> Bounds:
    """Bounds without NaN: what is not known is infinite."""
    low, high = found.low, found.high
    return Bounds(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def _unbounded(arguments: Sequence[Bounds]) -> Bounds:
    shape = np.broadcast_shapes(*(a.low.shape for a in arguments))
    return Bounds(np.full(shape, -np.inf), np.full(shape, np.inf))


def _hull(candidates: Sequence[Array]) -> Bounds:
    """The least interval around values; NaN among them makes it unknown."""
    values = np.broadcast_arrays(*candidates)
    return Bounds(np.minimum.reduce(values), np.maximum.reduce(values))


def _bent(f: Callable[..., Array], arguments: Sequence[Bounds], attributes: Sequence[float]) -> Bounds:
    first, *rest = arguments
    places = (first.low, np.clip(0.0, first.low, first.high), first.high)
    if not rest:
        return _hull([f(x, *attributes) for x in places])
    return _hull([f(x, y, *attributes) for x in places for y in (rest[0].low, rest[0].high)])


def _negated(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    return Bounds(-arguments[0].high, -arguments[0].low)


def _exponential(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    """What may be lost below the smallest float32 may be zero."""
    low = np.exp(arguments[0].low)
    return Bounds(np.where(low < _TINY, 0.0, low), np.exp(arguments[0].high))


def _product(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    a, b = arguments
    return _hull([x * y for x in (a.low, a.high) for y in (b.low, b.high)])


def _reciprocal(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    divisor = arguments[0]
    zero = (divisor.low <= 0) & (divisor.high >= 0)
    return Bounds(np.where(zero, -np.inf, 1 / divisor.high), np.where(zero, np.inf, 1 / divisor.low))


def _quotient(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    return _product([arguments[0], _reciprocal(arguments[1:], ())], ())


def _power(arguments: Sequence[Bounds], attributes: Sequence[float]) -> Bounds:
    """Of a positive base, or to one whole exponent >= 0, which may be an attribute."""
    base, exponent = (*arguments, *map(Bounds.point, attributes))
    n = float(exponent.low.flat[0]) if exponent.low.size else math.nan
    if n >= 0 and n.is_integer() and np.all(exponent.low == n) and np.all(exponent.high == n):
        return _hull([np.power(x, n) for x in (base.low, np.clip(0.0, base.low, base.high), base.high)])
    if not np.all(base.low > 0):
        return _unbounded(arguments)
    return _hull([np.power(x, y) for x in (base.low, base.high) for y in (exponent.low, exponent.high)])


def _wave(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    within = np.isfinite(arguments[0].low) & np.isfinite(arguments[0].high)
    return Bounds(np.where(within, -1.0, -np.inf), np.where(within, 1.0, np.inf))


def _selected(arguments: Sequence[Bounds], _: Sequence[float]) -> Bounds:
    """Either value, one of them where the condition is known."""
    condition, then, otherwise = arguments
    true = (condition.low > 0) | (condition.high < 0)
    false = (condition.low == 0) & (condition.high == 0)
    low = np.where(true, then.low, np.where(false, otherwise.low, np.minimum(then.low, otherwise.low)))
    high = np.where(true, then.high, np.where(false, otherwise.high, np.maximum(then.high, otherwise.high)))
    return Bounds(low, high)


def _converted(arguments: Sequence[Bounds], attributes: Sequence[float]) -> Bounds:
    if attributes[0] == TYPE_CODES["bool"]:
        return Bounds(np.zeros_like(arguments[0].low), np.ones_like(arguments[0].high))
    return arguments[0] if attributes[0] in _UNCHANGED else _unbounded(arguments)


_SPECIAL: Mapping[str, Callable[[Sequence[Bounds], Sequence[float]], Bounds]] = {
    "neg": _negated,
    "exp": _exponential,
    "mul": _product,
    "reciprocal": _reciprocal,
    "div": _quotient,
    "pow": _power,
    "sin": _wave,
    "cos": _wave,
    "where": _selected,
    "cast": _converted,
}


def _holds(conditions: Sequence[Compare], places: _Places) -> Array:
    holds: Array = np.asarray(True)
    for c in conditions:
        left, right = size_value(c.left, places), size_value(c.right, places)
        holds = holds & {"<": np.less, "<=": np.less_equal, "==": np.equal}[c.relation](left, right)
    return holds
