"""The residues of a table's values, type by type: in memory, or in files that the system pages in and out."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass, field

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import OutputError
from taso_py.graph.types import TensorType
from taso_py.options.spelling import spelled

_FIRST = 64
"""Rows for which a stack has room at first; then twice as many whenever it is full."""
_SMALL = 1 << 20
"""Bytes below which a stack stays in memory: there may be more types than a process may have files."""


@dataclass(slots=True)
class Stack:
    """Residues [2, elements] of values of one type, in rows."""

    elements: int
    on_disk: bool
    count: int = 0
    _room: Array = field(init=False)

    def __post_init__(self) -> None:
        self._room = np.zeros((0, 2, self.elements), np.uint32)

    def append(self, residues: Array) -> int:
        """Adds a value; its row."""
        if self.count == len(self._room):
            self._grow(max(_FIRST, 2 * self.count))
        self._room[self.count] = residues
        self.count += 1
        return self.count - 1

    def take(self, rows: Array) -> Array:
        """The residues [n, 2, elements] of the values in these rows."""
        return np.asarray(self._room[rows])

    def _grow(self, rows: int) -> None:
        wider = _room((rows, 2, self.elements), self.on_disk)
        wider[: self.count] = self._room
        self._room = wider


def _room(shape: tuple[int, ...], on_disk: bool) -> Array:
    """An array of residues; a large one lies in a file without a name, which goes with the process, if ``on_disk``."""
    size = 4 * math.prod(shape)
    if not on_disk or size < _SMALL:
        return np.zeros(shape, np.uint32)
    try:
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a disk that fills up under a mapping would kill the process
            return np.memmap(file, np.uint32, "r+", shape=shape)
    except OSError as error:
        raise OutputError(
            f"{tempfile.gettempdir()}: no room for {size / 1e9:.1g} GB of values ({error.strerror or error}): "
            f"let TMPDIR name a directory on a larger disk, or choose fewer {spelled('ops')}"
        ) from None


@dataclass(slots=True)
class Stacks:
    """A stack for each type."""

    on_disk: bool = False
    by_type: dict[TensorType, Stack] = field(default_factory=dict)

    def append(self, type_: TensorType, residues: Array) -> int:
        """Adds a value; its row among those of its type."""
        if type_ not in self.by_type:
            self.by_type[type_] = Stack(residues.shape[-1], self.on_disk)
        return self.by_type[type_].append(residues)

    def take(self, type_: TensorType, rows: Array) -> Array:
        """The residues [n, 2, elements] of the values of a type in these rows."""
        return self.by_type[type_].take(rows)
