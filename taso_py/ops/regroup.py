"""Row-major positions: from an index under one shape to the index under another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from taso_py.graph.sizes import Size, floor_divide, product


def regroup(index: Sequence[Size], dims: Sequence[Size], wanted: Sequence[Size]) -> tuple[Size, ...]:
    """The index under shape ``wanted`` that has the flat position of ``index`` under shape ``dims``.

    Both shapes are cut wherever their leading sizes have the same product, so floors and remainders appear
    only inside a run of axes that changes; the first axis of a run needs no remainder.
    """
    if 0 in dims:
        return (0,) * len(wanted)
    result: list[Size] = []
    for (begin, end), (first, last) in itertools.pairwise(_cuts(dims, wanted)):
        flat = _flat(index[begin:first], dims[begin:first])
        result += _unflat(flat, wanted[end:last])
    return tuple(result)


def _cuts(dims: Sequence[Size], wanted: Sequence[Size]) -> list[tuple[int, int]]:
    """Pairs of positions at which both shapes have the same leading product; the first and last included."""
    cuts = [(0, 0)]
    for i in range(1, len(dims)):
        leading = product(dims[:i])
        found = [j for j in range(cuts[-1][1] + 1, len(wanted)) if product(wanted[:j]) == leading]
        if found:
            cuts.append((i, found[0]))
    return [*cuts, (len(dims), len(wanted))]


def _flat(index: Sequence[Size], dims: Sequence[Size]) -> Size:
    position: Size = 0
    for i, d in zip(index, dims, strict=True):
        position = position * d + (0 if d == 1 else i)
    return position


def _unflat(position: Size, dims: Sequence[Size]) -> list[Size]:
    result: list[Size] = []
    wide = [axis for axis, d in enumerate(dims) if d != 1]
    for axis in reversed(range(len(dims))):
        d = dims[axis]
        if d == 1:
            result.append(0)
        elif axis == wide[0]:
            result.append(position)
        else:
            result.append(position - floor_divide(position, d) * d)
            position = floor_divide(position, d)
    return result[::-1]
