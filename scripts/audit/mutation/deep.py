"""Instances of up to six axes: laws that hold for few axes are told from those that hold for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taso_py.rules.instance import Manner
from taso_py.rules.menus import Menus, Shape

_RANKS = (2, 3, 3, 4, 4, 5, 5, 6, 6)
_BLOCKS = (0, 1, 2, 2, 3, 3, 4, 5)
_SIZES = (1, 2, 2, 3)


@dataclass(slots=True)
class Deep(Menus):
    """One draw's choices: many axes, small sizes, which often coincide, and axes and orders that are off any menu."""

    uniform: int = 0
    """The one size of all axes; 0: there is none."""

    def __post_init__(self) -> None:
        super(Deep, self).__post_init__()
        self.uniform = self._pick((0, 0, 2))
        self.pool = []
        self.common = self._sizes(self._pick(_RANKS))
        self.spatial = self._pick((1, 2, 3, 4))

    def size(self) -> int:
        """A small size."""
        return self.uniform or int(self._pick(_SIZES))

    def block(self) -> Shape:
        """Up to five axes, often the last ones that other tensors have."""
        width = int(self._pick(_BLOCKS))
        if self.random.random() < 0.5:
            return self.common[max(len(self.common) - width, 0) :]
        return self._sizes(width)

    def _sizes(self, count: int) -> Shape:
        return tuple(self.size() for _ in range(count))

    def _whole(
        self,
        op: str,
        name: str,
        rank: int,
        shapes: Sequence[Shape],
        known: Mapping[str, Any],
        entries: Sequence[Any] | None,
    ) -> Any:
        makers: Mapping[str, Callable[[], Any]] = {
            "perm": lambda: tuple(int(a) for a in self.random.permutation(rank)),
            "axis": lambda: int(self.random.integers(max(rank, 1))),
        }
        if name in makers:
            return makers[name]()
        return super(Deep, self)._whole(op, name, rank, shapes, known, entries)


DEEP = Manner(Deep)
