"""How one match is typed, as far as a proof for it must know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Site:
    """How one match is typed: its axes of size 1, the ranks of its blocks, and what its names of axes and flags are."""

    ones: Mapping[str, tuple[bool, ...]]
    """For each tensor variable and axis, whether the size is 1."""
    blocks: Mapping[str, int]
    names: Mapping[str, Any]
    lengths: Mapping[str, int]
    """For names of whole shapes, how many axes those have."""
    dtype: str
    """Element type of the numbers."""
