"""The language in which operators state their meaning: one output element as a guarded sum of products.

Every `Read` of an operand carries the guard 0 <= index < dim(operand): outside of it the read is *absent* (0 in a
sum, nothing in a maximum).  Interpreters add that guard; an operator that wants something else outside, such as
the padding value, says so with `choose`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from taso_py.graph.sizes import Role, Size, Symbol
from taso_py.graph.types import TensorType

# TensorProto.DataType of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, those that NumPy has.
TYPE_CODES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip

Relation: TypeAlias = Literal["<", "<=", "=="]


@dataclass(frozen=True, slots=True)
class Number:
    """A real constant (or an infinity)."""

    value: float


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer expression used as a value: a size, a count, an index."""

    value: Size


@dataclass(frozen=True, slots=True)
class Read:
    """operand[index...]; ``operand`` is the operand's position."""

    operand: int
    index: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """A named scalar function of scalars; its identity is (name, attributes, ordered arguments)."""

    function: str
    arguments: tuple[Scalar, ...]
    attributes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """The sum or the maximum of ``body`` over 0 <= variable < extent."""

    kind: Literal["sum", "max"]
    variable: Symbol
    extent: Size
    body: Scalar


@dataclass(frozen=True, slots=True)
class Compare:
    """left relation right, over integer expressions."""

    left: Size
    relation: Relation
    right: Size


@dataclass(frozen=True, slots=True)
class Choose:
    """``then`` where all conditions hold, else ``otherwise``."""

    conditions: tuple[Compare, ...]
    then: Scalar
    otherwise: Scalar


Scalar: TypeAlias = Number | Integer | Read | Apply | Reduce | Choose
Index: TypeAlias = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand as its operator sees it: a type, and elements by index."""

    position: int
    type: TensorType

    def __getitem__(self, index: Sequence[Size]) -> Scalar:
        if len(index) != self.type.rank:
            raise ValueError(f"operand {self.position} has rank {self.type.rank}, index {tuple(index)}")
        return Read(self.position, tuple(index))

    @property
    def dims(self) -> tuple[Size, ...]:
        """Shape of the operand."""
        return self.type.dims


_NUMBERS: ContextVar[Iterator[int]] = ContextVar("numbers")
_LASTING = itertools.count()


@contextmanager
def numbered_anew() -> Iterator[None]:
    """Index variables that are made inside are numbered from 0, whatever was computed before."""
    token = _NUMBERS.set(itertools.count())
    try:
        yield
    finally:
        _NUMBERS.reset(token)


def _reduce(kind: Literal["sum", "max"], extent: Size, body: Callable[[Size], Scalar]) -> Scalar:
    variable = Symbol(str(next(_NUMBERS.get(_LASTING))), Role.BOUND)
    return Reduce(kind, variable, extent, body(variable.size))


def total(extent: Size, body: Callable[[Size], Scalar]) -> Scalar:
    """Σ_{0 <= k < extent} body(k)."""
    return _reduce("sum", extent, body)


def maximum(extent: Size, body: Callable[[Size], Scalar]) -> Scalar:
    """max_{0 <= k < extent} body(k); absent reads do not take part."""
    return _reduce("max", extent, body)


def over(
    reduce: Callable[[Size, Callable[[Size], Scalar]], Scalar],
    extents: Sequence[Size],
    body: Callable[[tuple[Size, ...]], Scalar],
) -> Scalar:
    """``reduce`` nested over several index ranges: over(total, (R, S), f) = Σ_r Σ_s f((r, s))."""
    if not extents:
        return body(())
    return reduce(extents[0], lambda first: over(reduce, extents[1:], lambda rest: body((first, *rest))))


def choose(conditions: Sequence[Compare], then: Scalar, otherwise: Scalar) -> Scalar:
    """``then`` where all conditions hold, else ``otherwise``."""
    return Choose(tuple(conditions), then, otherwise)


def inside(index: Sequence[Size], dims: Sequence[Size]) -> list[Compare]:
    """0 <= index < dims, axis by axis."""
    return [c for i, d in zip(index, dims, strict=True) for c in (Compare(0, "<=", i), Compare(i, "<", d))]


def apply(function: str, *arguments: Scalar, attributes: Sequence[float] = ()) -> Scalar:
    """function(arguments...)."""
    return Apply(function, arguments, tuple(attributes))


def add(a: Scalar, b: Scalar) -> Scalar:
    """a + b."""
    return Apply("add", (a, b))


def mul(a: Scalar, b: Scalar) -> Scalar:
    """a · b."""
    return Apply("mul", (a, b))


def sub(a: Scalar, b: Scalar) -> Scalar:
    """a - b."""
    return Apply("add", (a, Apply("mul", (Number(-1.0), b))))


def div(a: Scalar, b: Scalar) -> Scalar:
    """a / b, stated as a · (1/b)."""
    return Apply("div", (a, b))


def cast(value: Scalar, dtype: str) -> Scalar:
    """``value`` as an element of ``dtype``, truncated when that holds integers."""
    return apply("cast", value, attributes=(float(TYPE_CODES[dtype]),))
