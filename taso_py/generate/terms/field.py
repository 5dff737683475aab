"""Values over two finite fields: an operator's meaning evaluated on stacks of operands, and their fingerprints.

A tensor is a stack of residue arrays, one modulo P and one modulo Q with P = 2·Q + 1 both prime.  Equal real functions
have equal residues as far as this algebra goes, so what it respects decides which laws can be found:

- sums, differences, products and quotients of rationals: all laws of a field (a quotient by 0 is 0);
- max and relu: the greatest under a keyed total order of residues, hence associative, commutative, idempotent;
  relu(x) = max(x, 0).  Small fractions, which constants are made of, are in their usual order.  Of the others 6 in 10
  lie below 0, so that even among the residues of a window all may, and every input has residues on both sides.
  Laws that mix it with sums or products, such as max(x + c, y + c) = max(x, y) + c, are missed;
- exp: maps Z_Q to Z_P with exp(a + b) = exp(a)·exp(b); what depends on one is compared modulo P only;
- every other function: a keyed hash of (name, attributes, arguments), which has no laws but equality.

A false collision costs time, because every candidate is proved, and the laws of one of the two values.  Its probability
is below 2^-50 for two values, unless max and relu leave few different residues of them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.sizes import Size, Symbol, element_variables
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.ops.numeric import size_value
from taso_py.ops.operator import Operator

Residues: TypeAlias = tuple[Array, Array]

P, Q = 2**31 - 69, 2**30 - 35
"""Primes with P = 2·Q + 1: products of residues fit into int64, and Z_P has a subgroup of order Q for exp."""
PRIMES = (P, Q)
_GENERATOR = 4
"""A square, hence of order Q in Z_P."""
_CHUNK = 1 << 20
"""Residues that one step of an evaluation may hold."""


def reduced(x: Array, prime: int) -> Array:
    """x modulo ``prime``; a division by a known number is much faster than numpy's remainder."""
    return np.asarray(x - x // prime * prime)


def power(base: Array, exponent: int, prime: int) -> Array:
    """base ** exponent modulo ``prime``."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = reduced(result * base, prime)
        base = reduced(base * base, prime)
        exponent >>= 1
    return result


def _exponential(x: Array) -> Array:
    """_GENERATOR ** x modulo P for residues x modulo Q."""
    result = np.ones_like(x)
    base = _GENERATOR
    for bit in range(Q.bit_length()):
        result = np.where(x >> bit & 1, reduced(result * base, P), result)
        base = base * base % P
    return result


def mixed(x: Array, seed: int) -> Array:
    """A keyed hash of residues: 64 bits (the finaliser of splitmix64)."""
    z = x.astype(np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


@lru_cache(maxsize=64)
def _multipliers(count: int) -> Array:
    return np.random.default_rng(count).integers(1, 2**63, count, dtype=np.uint64) | np.uint64(1)


def fingerprints(values: Array, *, exact: bool) -> Array:
    """64-bit fingerprints of a stack [n, 2, elements]; without ``exact`` the residues modulo Q do not count."""
    weights = _multipliers(values.shape[2])
    result = (mixed(values[:, 0], 1) * weights).sum(axis=1, dtype=np.uint64)
    if exact:
        result ^= (mixed(values[:, 1], 2) * weights).sum(axis=1, dtype=np.uint64)
    return np.asarray(result)


def draw(shape: Sequence[int], number: int) -> Array:
    """The residues [2, elements] of the input of this shape and number: always the same ones."""
    random = np.random.default_rng(zlib.crc32(repr((tuple(shape), number)).encode()))
    while True:
        found = np.stack([random.integers(1, prime, math.prod(shape)) for prime in PRIMES])
        above = np.stack([_order(x, prime) >= np.uint64(_ZERO) for x, prime in zip(found, PRIMES, strict=True)])
        # A single number is above 0 modulo the one prime and below modulo the other.
        if above.any() and not above.all() and (above.shape[1] == 1 or (above.any(1) & ~above.all(1)).all()):
            return found.astype(np.uint32)


@dataclass(slots=True)
class Kernel:
    """An operator over operands of known concrete types, ready to be evaluated on stacks of residues."""

    operator: Operator
    types: tuple[TensorType, ...]
    result: TensorType = field(init=False)
    meaning: Scalar = field(init=False)
    axes: dict[str, Array] = field(init=False)
    taints: bool = field(init=False)
    """Whether it applies exp, so that the residues modulo Q of its result mean nothing."""
    depth: int = field(init=False)
    reads: dict[int, tuple[Array, Array | None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.result = self.operator.infer(*self.types)
        names = element_variables(self.result.rank)
        views = tuple(Operand(k, t) for k, t in enumerate(self.types))
        self.meaning = self.operator.element(views, tuple(s.size for s in names))
        extents = dict(zip(names, self.result.dims, strict=True))
        self.taints = _collect(self.meaning, extents)
        self.depth = len(extents)
        self.axes = {
            name: np.arange(_concrete(extent)).reshape([-1 if k == axis else 1 for k in range(self.depth)])
            for axis, (name, extent) in enumerate(extents.items())
        }

    @property
    def elements(self) -> int:
        """Elements of the result."""
        return math.prod(_concrete(d) for d in self.result.dims)

    def run(self, operands: Sequence[Array]) -> Array:
        """The result's residues [n, 2, elements] for operands' residues [n, 2, elements of each]."""
        count = operands[0].shape[0]
        step = max(1, _CHUNK // max(1, math.prod(len(a.reshape(-1)) for a in self.axes.values())))
        parts = [self._chunk([o[at : at + step] for o in operands]) for at in range(0, count, step)]
        return np.concatenate(parts) if parts else np.zeros((0, 2, self.elements), np.uint32)

    def constant(self) -> Array:
        """The residues [2, elements] of an operator without operands."""
        return np.asarray(self._chunk([])[0])

    def _chunk(self, operands: Sequence[Array]) -> Array:
        wide = [o.astype(np.int64) for o in operands]
        (left, right), _ = self._value(self.meaning, wide)
        bound = (1,) * (self.depth - self.result.rank)
        shape = (len(wide[0]) if wide else 1, *map(_concrete, self.result.dims), *bound)
        flat = [np.broadcast_to(x, shape).reshape(shape[0], -1) for x in (left, right)]
        return np.stack(flat, axis=1).astype(np.uint32)

    def _value(self, expression: Scalar, operands: Sequence[Array]) -> tuple[Residues, Array | None]:
        """Residues with a leading stack axis, and where they are present (None: everywhere)."""
        match expression:
            case Number(value):
                left, right = _number(value)
                return (self._wide(np.asarray(left)), self._wide(np.asarray(right))), None
            case Integer(value):
                whole = self._wide(size_value(value, self.axes))
                return (whole % P, whole % Q), None
            case Read():
                return self._read(expression, operands)
            case Apply(function, arguments, attributes):
                return _apply(function, [self._value(a, operands)[0] for a in arguments], attributes), None
            case Choose(conditions, then, otherwise):
                holds: Array = np.asarray(True)
                for c in conditions:
                    test = {"<": np.less, "<=": np.less_equal, "==": np.equal}[c.relation]
                    holds = np.logical_and(holds, test(size_value(c.left, self.axes), size_value(c.right, self.axes)))
                holds = self._wide(holds)
                one, two = self._value(then, operands)[0], self._value(otherwise, operands)[0]
                return (np.where(holds, one[0], two[0]), np.where(holds, one[1], two[1])), None
            case Reduce():
                return self._reduce(expression, operands)

    def _wide(self, x: Array) -> Array:
        """x with the stack axis and all index axes: every array of an evaluation has the same ones."""
        return x.reshape(1, *((1,) * (self.depth - x.ndim)), *x.shape)

    def _read(self, read: Read, operands: Sequence[Array]) -> tuple[Residues, Array | None]:
        if id(read) not in self.reads:
            self.reads[id(read)] = self._places(read)
        places, present = self.reads[id(read)]
        left, right = (operands[read.operand][:, k][:, places] for k in range(2))
        if present is None:
            return (left, right), None
        return (left * present, right * present), present

    def _places(self, read: Read) -> tuple[Array, Array | None]:
        """Flat positions in the operand, and which of them lie in it."""
        flat, present = np.asarray(0), np.asarray(True)
        for size, dim in zip(read.index, self.types[read.operand].dims, strict=True):
            extent = _concrete(dim)
            place = size_value(size, self.axes)
            present = np.logical_and(present, (place >= 0) & (place < extent))
            flat = flat * extent + np.clip(place, 0, max(extent - 1, 0))
        flat = np.broadcast_to(flat, np.broadcast_shapes(flat.shape, (1,) * self.depth))
        return flat, None if present.all() else np.broadcast_to(present, flat.shape)[None]

    def _reduce(self, reduce: Reduce, operands: Sequence[Array]) -> tuple[Residues, Array | None]:
        (left, right), present = self._value(reduce.body, operands)
        axis = 1 + list(self.axes).index(reduce.variable)
        extent = self.axes[reduce.variable].size
        if reduce.kind == "sum":
            # A body that does not depend on the variable is summed as often.
            times = extent if left.shape[axis] == 1 else 1
            left, right = (times * x.sum(axis=axis, keepdims=True) for x in (left, right))
            return (reduced(left, P), reduced(right, Q)), None
        if present is None:
            return (_greatest(left, axis, P), _greatest(right, axis, Q)), None
        anywhere = np.asarray(present.any(axis=axis, keepdims=True))
        return (_greatest(left, axis, P, present), _greatest(right, axis, Q, present)), anywhere


def _greatest(x: Array, axis: int, prime: int, present: Array | None = None) -> Array:
    keys = _order(x, prime) if present is None else np.where(present, _order(x, prime), np.uint64(0))
    return np.take_along_axis(x, keys.argmax(axis=axis, keepdims=True), axis=axis)


_ZERO = 2**64 // 10 * 6
"""The key of 0 in the order of residues."""
_NUMERATORS, _DENOMINATORS = 36, 9
"""The largest ones of fractions whose order is known."""


def _order(x: Array, prime: int) -> Array:
    """Keys of the total order of residues; none is 0, which stands for absent."""
    residues, keys = _fractions(prime)
    place = np.minimum(np.searchsorted(residues, x), len(residues) - 1)
    return np.where(residues[place] == x, keys[place], mixed(x, 120) | np.uint64(1))


@lru_cache(maxsize=2)
def _fractions(prime: int) -> tuple[Array, Array]:
    """Residues of small fractions, ascending, and their keys."""
    found = {Fraction(p, q) for p in range(-_NUMERATORS, _NUMERATORS + 1) for q in range(1, _DENOMINATORS + 1)}
    ordered = sorted(found)
    first = _ZERO - ordered.index(Fraction(0))
    by_residue = sorted(
        (f.numerator * pow(f.denominator, -1, prime) % prime, first + rank) for rank, f in enumerate(ordered)
    )
    residues, keys = zip(*by_residue, strict=True)
    return np.array(residues, dtype=np.int64), np.array(keys, dtype=np.uint64)


def _number(value: float) -> tuple[int, int]:
    if not math.isfinite(value):
        seed = zlib.crc32(repr(value).encode())
        return seed % P, seed % Q
    ratio = Fraction(value)
    return ratio.numerator * pow(ratio.denominator, -1, P) % P, ratio.numerator * pow(ratio.denominator, -1, Q) % Q


def _apply(function: str, arguments: Sequence[Residues], attributes: Sequence[float]) -> Residues:
    match function:
        case "exp":
            left = _exponential(arguments[0][1])
            return left, np.zeros_like(left)
        case _:
            left, right = (
                _apply_modulo(function, [a[k] for a in arguments], attributes, prime) for k, prime in enumerate(PRIMES)
            )
            return left, right


def _apply_modulo(function: str, x: Sequence[Array], attributes: Sequence[float], prime: int) -> Array:
    match function:
        case "add":
            return reduced(x[0] + x[1], prime)
        case "mul":
            return reduced(x[0] * x[1], prime)
        case "neg":
            return reduced(prime - x[0], prime)
        case "div":
            return reduced(x[0] * power(x[1], prime - 2, prime), prime)
        case "reciprocal":
            return power(x[0], prime - 2, prime)
        case "relu":
            return np.where(_order(x[0], prime) >= np.uint64(_ZERO), x[0], 0)
        case "max":
            return np.where(_order(x[0], prime) >= _order(x[1], prime), x[0], x[1])
        case "min":
            return np.where(_order(x[0], prime) >= _order(x[1], prime), x[1], x[0])
        case _:
            state = mixed(np.zeros(1, np.int64), zlib.crc32(repr((function, tuple(attributes))).encode()))
            for k, argument in enumerate(x):
                state = mixed(np.asarray(state + argument.astype(np.uint64)), k + 4)
            return np.asarray(state % np.uint64(prime)).astype(np.int64)


def _collect(expression: Scalar, extents: dict[Symbol, Size]) -> bool:
    """Adds the bound variables with their extents; whether exp occurs."""
    match expression:
        case Apply(function, arguments, _):
            found = [_collect(a, extents) for a in arguments]  # all of them: each adds its variables
            return any(found) or function == "exp"
        case Choose(_, then, otherwise):
            first, second = _collect(then, extents), _collect(otherwise, extents)
            return first or second
        case Reduce(_, variable, extent, body):
            extents[variable] = extent
            return _collect(body, extents)
        case _:
            return False


def _concrete(size: Size) -> int:
    if not isinstance(size, int):
        raise TypingError(f"size {size} is symbolic; a concrete one is needed here")
    return size


@lru_cache(maxsize=4096)
def kernel(operator: Operator, types: tuple[TensorType, ...]) -> Kernel:
    """The evaluation of an operator over operands of these types; `TypingError` when it does not accept them."""
    return Kernel(operator, types)
