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
    bits = (_BITS - terms.bit_length()) // 2
    tops = np.abs(a).max(axis=-1, keepdims=True), np.abs(b).max(axis=-2, keepdims=True)
    if not all(_is_tame(top) for top in tops):
        return None
    left, right = (list(_slices(factor, top, bits)) for factor, top in zip((a, b), tops, strict=True))
    pairs = [(p, q) for p in range(_SLICES) for q in range(_SLICES - p)]
    total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
    for p, q in sorted(pairs, key=lambda pair: (-sum(pair), pair)):  # the smallest first
        total += left[p] @ right[q]
    return total


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
