"""Scalars as graphs: what an output element is made of, down to the elements of the leaves, every sum written out.

Equal scalars are the same object, so that two sides which read the same elements are equal at a glance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from taso_py.graph.sizes import Entry, Floor, Size, Symbol, as_symbol, element_variables, symbols
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Compare, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.ops.operator import Operator

Exact: TypeAlias = Fraction | float
"""A constant: a fraction, or a float that is infinite."""


_SIMPLE = 4096


class OutOfTable(Exception):
    """An index definition reads a table of positions beside it: the operator's meaning leaves the value open."""


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """function(arguments...); ``leaf`` has (tensor, place) as its attributes and ``number`` its value.

    ``nothing`` is the maximum of no elements.
    """

    function: str
    arguments: tuple[Element, ...] = ()
    attributes: tuple[object, ...] = ()


@dataclass(slots=True)
class Forest:
    """All elements of one instance, each once."""

    known: dict[tuple[object, ...], Element] = field(default_factory=dict)

    def element(self, function: str, arguments: Sequence[Element] = (), attributes: tuple[object, ...] = ()) -> Element:
        """The element of that description."""
        key = (function, attributes, *map(id, arguments))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Element(function, tuple(arguments), attributes)
        return found

    def number(self, value: float | int | Fraction) -> Element:
        """A constant."""
        return self.element("number", (), (exact(value),))


def exact(value: float | int | Fraction) -> Exact:
    """The number that is meant: the simple fraction to which a float is nearest (1/6), else the float itself."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        simple = Fraction(value).limit_denominator(_SIMPLE)
        return simple if float(simple) == value else Fraction(value)
    return Fraction(value)


_Environment: TypeAlias = dict[str, int]
_Place: TypeAlias = Callable[[_Environment], int]
_Value: TypeAlias = Callable[[_Environment], Element | None]
"""The element, or None where it is a read outside of its operand."""


@dataclass(slots=True)
class Meaning:
    """The elements of one operator's result, from those of its operands (flat, row-major)."""

    forest: Forest
    operands: Sequence[Sequence[Element]]
    types: Sequence[TensorType]

    def result(self, operator: Operator, shape: Sequence[int]) -> list[Element]:
        """All elements of the result, row-major."""
        names = element_variables(len(shape))
        views = tuple(Operand(k, t) for k, t in enumerate(self.types))
        value = self._value(operator.element(views, tuple(s.size for s in names)))
        zero = self.forest.number(0)
        return [value(dict(zip(names, place, strict=True))) or zero for place in _places(shape)]

    def _value(self, scalar: Scalar) -> _Value:
        match scalar:
            case Number(value):
                return _constantly(self.forest.number(value))
            case Integer(size):
                place = _place(size)
                return lambda env: self.forest.number(place(env))
            case Read(operand, index):
                return self._read(operand, index)
            case Apply(function, arguments, attributes):
                return self._applied(function, arguments, tuple(_attribute(a) for a in attributes))
            case Choose(conditions, then, otherwise):
                tests = [_test(c) for c in conditions]
                first, second = self._value(then), self._value(otherwise)
                return lambda env: first(env) if all(t(env) for t in tests) else second(env)
            case Reduce():
                return self._reduced(scalar)

    def _applied(self, function: str, arguments: Sequence[Scalar], attributes: tuple[object, ...]) -> _Value:
        values = [self._value(a) for a in arguments]
        zero = self.forest.number(0)
        return lambda env: self.forest.element(function, [v(env) or zero for v in values], attributes)

    def _read(self, operand: int, index: Sequence[Size]) -> _Value:
        dims = [int(d) if isinstance(d, int) else 0 for d in self.types[operand].dims]
        places = [_place(i) for i in index]
        elements = self.operands[operand]

        def value(env: _Environment) -> Element | None:
            flat = 0
            for place, dim in zip(places, dims, strict=True):
                at = place(env)
                if not 0 <= at < dim:
                    return None
                flat = flat * dim + at
            return elements[flat]

        return value

    def _reduced(self, reduce: Reduce) -> _Value:
        body, extent, variable = self._value(reduce.body), _place(reduce.extent), reduce.variable
        nothing = self.forest.number(0) if reduce.kind == "sum" else self.forest.element("nothing")
        function = reduce.kind
        known: dict[tuple[int | None, ...], Element] = {}
        names = sorted(_free(reduce))

        def value(env: _Environment) -> Element:
            # A mean inside of a variance is the same for all of its terms.
            key = tuple(env.get(n) for n in names)
            found = known.get(key)
            if found is None:
                found = known[key] = reduced(env)
            return found

        def reduced(env: _Environment) -> Element:
            parts = [body({**env, variable: k}) for k in range(extent(env))]
            present = [p for p in parts if p is not None]
            if len(present) == 1:
                return present[0]
            return self.forest.element(function, present) if present else nothing

        return value


def _free(scalar: Scalar) -> frozenset[str]:
    """The index variables on which a scalar depends."""
    match scalar:
        case Number():
            return frozenset()
        case Integer(size):
            return symbols(size)
        case Read(_, index):
            return frozenset().union(*map(symbols, index))
        case Apply(_, arguments, _):
            return frozenset().union(*map(_free, arguments))
        case Choose(conditions, then, otherwise):
            tested = (symbols(c.left) | symbols(c.right) for c in conditions)
            return (_free(then) | _free(otherwise)).union(*tested)
        case Reduce(_, variable, extent, body):
            return (_free(body) - {variable}) | symbols(extent)


def _attribute(value: object) -> object:
    return exact(value) if isinstance(value, (int, float)) else value


def _constantly(element: Element) -> _Value:
    return lambda env: element


def _test(condition: Compare) -> Callable[[_Environment], bool]:
    left, right = _place(condition.left), _place(condition.right)
    match condition.relation:
        case "<":
            return lambda env: left(env) < right(env)
        case "<=":
            return lambda env: left(env) <= right(env)
        case "==":
            return lambda env: left(env) == right(env)


def _place(size: Size) -> _Place:
    """An index expression as a function of the index variables."""
    if isinstance(size, int):
        constant = size
        return lambda env: constant
    name = as_symbol(size)
    if name is not None:
        return lambda env: env[name]
    terms = [(coefficient, [_atom(a) for a in monomial]) for monomial, coefficient in size.terms]

    def value(env: _Environment) -> int:
        total = 0
        for coefficient, atoms in terms:
            for atom in atoms:
                coefficient *= atom(env)
            total += coefficient
        return total

    return value


def _atom(atom: object) -> _Place:
    match atom:
        case Symbol():
            name = str(atom)
            return lambda env: env[name]
        case Floor(numerator, denominator):
            above, below = _place(numerator), _place(denominator)
            return lambda env: above(env) // below(env)
        case Entry(table, index):
            at = _place(index)
            return lambda env: _looked_up(table, at(env))
        case _:
            raise OutOfTable(f"{atom} has no value")


def _looked_up(table: Sequence[int], at: int) -> int:
    if not 0 <= at < len(table):
        raise OutOfTable(f"entry {at} of {len(table)}")
    return table[at]


def _places(shape: Sequence[int]) -> Iterable[tuple[int, ...]]:
    if not shape:
        return [()]
    return [(*head, k) for head in _places(shape[:-1]) for k in range(shape[-1])]
