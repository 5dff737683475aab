"""Products of float64 matrices that come out the same whatever BLAS, thread count or CPU computes them.

The factors are cut into slices of so few bits that every sum of products of two slices is exact in float64, in any
order (Ozaki, Ogita, Oishi and Rump, "Error-free transformations of matrix multiplication", 2012).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_Matrix = npt.NDArray[np.float64]

_BITS = 53
_SLICES = 3
"""Of each factor: with 20 bits each they hold more than a float64 does, below the largest element of a row."""
_PAIRS = tuple((p, q) for p in range(_SLICES) for q in range(_SLICES - p))
"""Slices of the two factors whose products count."""
_BLOCK_ELEMENTS = 2**23
"""Elements of a factor of which slices are held at once."""
_LARGEST_EXPONENT = 300
"""Of factors whose slices and products stay clear of overflow and underflow."""
_LEAST_WORK, _LEAST_TERMS = 2**22, 2**12
"""Multiplications, and terms of one sum, from which on slicing pays."""


def product(a: _Matrix, b: _Matrix) -> _Matrix | None:
    """a · b for ``a [*s, m, k]`` and ``b [*t, k, n]``; None where a loop in a fixed order is as good.

    That is where the product is small, or has elements that are not finite or nearly so.
    """
    terms = a.shape[-1]
    if a.size * b.shape[-1] < _LEAST_WORK and terms < _LEAST_TERMS:
        return None
    tops = _tops(a, -1), _tops(b, -2)
    if not all(_is_tame(top) for top in tops):
        return None
    total = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
    for rows in _blocks(a.shape[-2], a.size):
        for columns in _blocks(b.shape[-1], b.size):
            parts = a[..., rows, :], b[..., columns]
            total[..., rows, columns] = _product(*parts, tops[0][..., rows, :], tops[1][..., columns])
    return total


def _product(a: _Matrix, b: _Matrix, a_tops: _Matrix, b_tops: _Matrix) -> _Matrix:
    """a · b from slices below the largest elements of rows and columns."""
    bits = (_BITS - a.shape[-1].bit_length()) // 2
    left, right = list(_slices(a, a_tops, bits)), list(_slices(b, b_tops, bits))
    first, *others = sorted(_PAIRS, key=lambda pair: (-sum(pair), pair))  # the smallest first
    total: _Matrix = left[first[0]] @ right[first[1]]
    for p, q in others:
        total += left[p] @ right[q]
    return total


def _tops(factor: _Matrix, axis: int) -> _Matrix:
    """The largest magnitude along an axis."""
    top: _Matrix = np.maximum(factor.max(axis=axis, keepdims=True), -factor.min(axis=axis, keepdims=True))
    return top


def _blocks(extent: int, elements: int) -> Iterator[slice]:
    """The rows or columns of a factor in blocks of so few elements that their slices take little memory."""
    count = max(1, -(-elements // _BLOCK_ELEMENTS))
    length = max(1, -(-extent // count))
    yield from (slice(begin, begin + length) for begin in range(0, extent, length))


def _is_tame(tops: _Matrix) -> bool:
    found = tops[tops > 0]
    if not np.isfinite(tops).all():
        return False
    return found.size == 0 or bool(np.abs(np.log2([found.min(), found.max()])).max() < _LARGEST_EXPONENT)


def _slices(factor: _Matrix, tops: _Matrix, bits: int) -> Iterator[_Matrix]:
    """Addends of the factor, each of so many bits below the largest element of its row (or column)."""
    exponents = np.frexp(tops)[1].astype(np.int64)  # |x| < 2^exponent
    rest = factor
    for number in range(_SLICES):
        # Adding and subtracting 3 · 2^(e - 1), whose last bit is worth 2^(e - 52), rounds to that bit.
        unit = np.ldexp(1.5, exponents - (number + 1) * bits + _BITS - 1)
        piece = (rest + unit) - unit
        yield piece
        rest = rest - piece
