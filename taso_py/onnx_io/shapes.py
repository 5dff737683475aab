"""Arithmetic on shapes: what integer vectors hold when they are computed from the sizes of tensors.

Exporters spell ``x.view(n, -1)`` as Shape, Gather, Mul, Concat, Reshape.  Here such vectors (rank 0 or 1) are
followed entry by entry as sizes, so that an operator can be read although no initializer holds its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import onnx

from taso_py.errors import TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Atom, Entry, Floor, Image, Size, floor_divide
from taso_py.graph.types import INTEGERS
from taso_py.ops.operator import OnnxCall
from taso_py.ops.slicing import Range, resolve

Entries: TypeAlias = tuple[Size, ...]
Vector: TypeAlias = tuple[Entries, int]
"""The entries in order, and the rank: 0 or 1."""

MAXIMAL_LENGTH = 1024
MAXIMAL_TERMS = 256
"""Of a size: a product of sums of symbols has as many as the product of theirs."""
_INTEGER_TYPES: Mapping[int, str] = {onnx.TensorProto.INT64: "int64", onnx.TensorProto.INT32: "int32"}


_UNFOLLOWED = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What a rule may meet in a node that no runtime would run, or never does: nothing is known of its result."""


def follow(call: OnnxCall) -> Vector | None:
    """The entries of the first output of a node, None when it is not a short integer vector that is known."""
    rule = _RULES.get(call.op_type)
    try:
        vector = rule(call) if rule is not None else None
    except _UNFOLLOWED:
        return None
    return None if vector is None or len(vector[0]) > MAXIMAL_LENGTH else vector


def _entries(call: OnnxCall, *positions: int) -> list[Entries] | None:
    found = [call.integers(k) for k in positions]
    return None if any(e is None for e in found) else [e for e in found if e is not None]


def _concrete(entries: Entries | None) -> list[int] | None:
    if entries is None or not all(isinstance(e, int) for e in entries):
        return None
    return [e for e in entries if isinstance(e, int)]


def _rank(call: OnnxCall, k: int) -> int:
    type_ = call.inputs[k]
    return len(type_.shape) if type_ is not None and type_.shape is not None else -1


def _shape(call: OnnxCall) -> Vector | None:
    type_ = call.inputs[0]
    if type_ is None or type_.shape is None:
        return None
    start, end = call.attributes.get("start", 0), call.attributes.get("end", len(type_.shape))
    return type_.shape[start:end], 1


def _size(call: OnnxCall) -> Vector | None:
    type_ = call.inputs[0]
    found = None if type_ is None or type_.shape is None else _short_product(type_.shape)
    return None if found is None else ((found,), 0)


def _terms(size: Size) -> int:
    """Its terms, those inside of floors and tables included: what a size is computed with grows with its text."""
    if isinstance(size, int):
        return 1
    atoms = (atom for monomial, _ in size.terms for atom in monomial)
    return len(size.terms) + sum(map(_inner_terms, atoms))


@lru_cache(maxsize=4096)
def _inner_terms(atom: Atom) -> int:
    if isinstance(atom, Floor):
        return _terms(atom.numerator) + _terms(atom.denominator)
    return _terms(atom.index) if isinstance(atom, (Entry, Image)) else 0


def _short_product(sizes: Iterable[Size]) -> Size | None:
    """Their product, None where it may have more terms than anybody can use."""
    found: Size = 1
    for size in sizes:
        if _terms(found) * _terms(size) > MAXIMAL_TERMS:
            return None
        found = found * size
    return found


def _gather(call: OnnxCall) -> Vector | None:
    data, places = call.integers(0), _concrete(call.integers(1))
    if data is None or places is None or _rank(call, 0) != 1 or _rank(call, 1) > 1:
        return None
    if any(not -len(data) <= p < len(data) for p in places):
        return None
    return tuple(data[p] for p in places), _rank(call, 1)


def _slice(call: OnnxCall) -> Vector | None:
    data = call.integers(0)
    if data is None or _rank(call, 0) != 1:
        return None
    if call.opset < 10:
        bounds: list[Entries | None] = [call.attributes.get("starts"), call.attributes.get("ends"), (1,)]
    else:
        bounds = [call.integers(1), call.integers(2), call.integers(4) if call.present(4) else (1,)]
    concrete = [c[0] for c in map(_concrete, bounds) if c is not None and len(c) == 1]
    if len(concrete) < len(bounds) or concrete[2] == 0:
        return None
    try:
        found = resolve(Range(*concrete), len(data))
    except TypingError:  # what ONNX and ONNX Runtime do not agree on
        return None
    places = None if found is None else _concrete((found.start, found.end, found.step))
    return None if places is None else (data[slice(*places)], 1)


def _concat(call: OnnxCall) -> Vector | None:
    parts = _entries(call, *range(len(call.inputs)))
    if parts is None or any(_rank(call, k) != 1 for k in range(len(parts))):
        return None
    return tuple(e for part in parts for e in part), 1


def _of_rank(rank: int) -> Callable[[OnnxCall], Vector | None]:
    """Of the rule that takes an axis away from a vector of one entry, or gives a scalar one."""

    def rule(call: OnnxCall) -> Vector | None:
        data, axes = call.integers(0), call.attributes.get("axes")
        if call.present(1):
            axes = call.integers(1)
        elif axes is None and rank == 0:
            axes = (0,)  # all that have size 1
        if data is None or len(data) != 1 or _rank(call, 0) != 1 - rank or axes is None or len(axes) != 1:
            return None
        return data, rank

    return rule


def _cast(call: OnnxCall) -> Vector | None:
    target = _INTEGER_TYPES.get(call.attributes.get("to", 0))
    vector = _same(call)
    return vector if vector is not None and target is not None and _in_range(vector[0], target) else None


def _in_range(entries: Iterable[Size], dtype: str) -> bool:
    """Whether arithmetic that wraps, as ONNX Runtime's does, has these entries.

    A size is far below what its type holds, so a few times a size, or a product of sizes, is within it.
    """
    limits = np.iinfo(dtype)
    most = 2 ** (limits.bits // 2 - 1)
    for entry in entries:
        if isinstance(entry, int):
            if not limits.min <= entry <= limits.max:
                return False
        elif dtype not in _INTEGER_TYPES.values() or not all(-most <= c < most for _, c in entry.terms):
            return False
    return True


def _same(call: OnnxCall) -> Vector | None:
    data = call.integers(0)
    return None if data is None else (data, _rank(call, 0))


def _reshape(call: OnnxCall) -> Vector | None:
    data, shape = call.integers(0), _concrete(call.integers(1))
    if data is None or shape is None or len(shape) > 1:
        return None
    return (data, len(shape)) if shape or len(data) == 1 else None


def _broadcast(call: OnnxCall, *positions: int) -> tuple[list[Entries], int] | None:
    parts = _entries(call, *positions)
    if parts is None:
        return None
    rank = max(_rank(call, k) for k in positions)
    length = max((len(p) for p in parts), default=1)
    if any(len(p) not in (1, length) for p in parts) or any(len(p) == 0 for p in parts):
        return None
    return [p * length if len(p) == 1 else p for p in parts], rank


def _binary(function: Callable[[Size, Size], Size | None]) -> Callable[[OnnxCall], Vector | None]:
    def rule(call: OnnxCall) -> Vector | None:
        sides = _broadcast(call, 0, 1) if len(call.inputs) == 2 else None
        if sides is None:
            return None
        results = [function(a, b) for a, b in zip(*sides[0], strict=True)]
        known = [r for r in results if r is not None and _terms(r) <= MAXIMAL_TERMS]
        if len(known) < len(results) or not _in_range(known, _integer_type(call)):
            return None
        return tuple(known), sides[1]

    return rule


def _integer_type(call: OnnxCall) -> str:
    """The type that a node computes in; truth values are few enough for any."""
    type_ = call.inputs[0]
    return type_.dtype if type_ is not None and type_.dtype in INTEGERS else "int64"


def _quotient(a: Size, b: Size) -> Size | None:
    # ONNX truncates; for a >= 0 and b >= 1 that is the floor.
    return floor_divide(a, b) if at_least(a, 0) and at_least(b, 1) else None


def _remainder(a: Size, b: Size) -> Size | None:
    quotient = _quotient(a, b)
    multiple = None if quotient is None else _short_product((quotient, b))
    return None if multiple is None else a - multiple


def _equal(a: Size, b: Size) -> Size | None:
    difference = a - b
    if isinstance(difference, int):
        return int(difference == 0)
    return 0 if at_least(a, b + 1) or at_least(b, a + 1) else None


def _less(a: Size, b: Size) -> Size | None:
    return _truth(at_least(b, a + 1))


def _truth(known: bool | None) -> Size | None:
    return None if known is None else int(known)


def _negated(call: OnnxCall) -> Vector | None:
    truth = _concrete(call.integers(0))
    return None if truth is None else (tuple(int(not t) for t in truth), _rank(call, 0))


def _larger(a: Size, b: Size) -> Size | None:
    return a if at_least(a, b) else b if at_least(b, a) else None


def _smaller(a: Size, b: Size) -> Size | None:
    return b if at_least(a, b) else a if at_least(b, a) else None


def _where(call: OnnxCall) -> Vector | None:
    sides = _broadcast(call, 0, 1, 2)
    if sides is None or _concrete(sides[0][0]) is None:
        return None
    return tuple(a if c else b for c, a, b in zip(*sides[0], strict=True)), sides[1]


def _constant_of_shape(call: OnnxCall) -> Vector | None:
    shape = _concrete(call.integers(0))
    value = np.asarray(call.attributes.get("value", 0.0))
    if shape is None or len(shape) > 1 or value.size != 1 or not np.issubdtype(value.dtype, np.integer):
        return None
    if shape and not 0 <= shape[0] <= MAXIMAL_LENGTH:
        return None
    return (int(value.reshape(-1)[0]),) * (shape[0] if shape else 1), len(shape)


def _range(call: OnnxCall) -> Vector | None:
    ends = [_concrete(call.integers(k)) for k in range(3)]
    bounds = [e[0] for e in ends if e]
    if len(bounds) != 3 or bounds[2] == 0:
        return None
    if not _in_range((bounds[1] - bounds[0],), _integer_type(call)):
        return None  # so does ONNX Runtime compute how many there are, and that wraps
    values = range(*bounds)
    return (tuple(values), 1) if len(values) <= MAXIMAL_LENGTH else None


def _product(call: OnnxCall) -> Vector | None:
    data = call.integers(0)
    if data is None or _rank(call, 0) != 1 or call.attributes.get("noop_with_empty_axes", 0):
        return None
    found = _short_product(data)
    if found is None or not _in_range((found,), _integer_type(call)):
        return None
    return (found,), int(call.attributes.get("keepdims", 1))


_RULES: Mapping[str, Callable[[OnnxCall], Vector | None]] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _of_rank(0),
    "Unsqueeze": _of_rank(1),
    "Cast": _cast,
    "Identity": _same,
    "Reshape": _reshape,
    "Add": _binary(lambda a, b: a + b),
    "Sub": _binary(lambda a, b: a - b),
    "Mul": _binary(lambda a, b: _short_product((a, b))),
    "Div": _binary(_quotient),
    "Mod": _binary(_remainder),
    "Equal": _binary(_equal),
    "Less": _binary(_less),
    "Greater": _binary(lambda a, b: _less(b, a)),
    "LessOrEqual": _binary(lambda a, b: _truth(at_least(b, a))),
    "GreaterOrEqual": _binary(lambda a, b: _truth(at_least(a, b))),
    "And": _binary(lambda a, b: a * b),
    "Or": _binary(lambda a, b: a + b - a * b),
    "Not": _negated,
    "Max": _binary(_larger),
    "Min": _binary(_smaller),
    "Where": _where,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "ReduceProd": _product,
}
