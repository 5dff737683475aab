"""Constant tables of positions, written as plain arithmetic where they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from taso_py.graph.sizes import Size, entry

LARGEST = 4096
"""Entries; longer tables make no good formula."""


def lookup(table: Sequence[int], index: Size) -> Size:
    """table[index]; an arithmetic progression a, a+d, ... becomes a + d·index."""
    if not table:
        return index
    step = table[1] - table[0] if len(table) > 1 else 0
    if all(later - earlier == step for earlier, later in itertools.pairwise(table)):
        return table[0] + index * step
    return entry(table, index)
