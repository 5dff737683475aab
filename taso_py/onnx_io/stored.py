"""Random weights and inputs of models that are only timed; the weights lie in a file.

ONNX Runtime maps external data into memory: a model whose weights lie in a file need not carry them, and what two
models read at one place is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from taso_py.folders import RunFolder

_NAME = "weights"
_PAGE = 4096
_DRAWN = 2**16
_SCALE = 2.0**-4
"""Keeps what a dozen layers of any usual width make of a normal input far from overflow and from denormals."""


def normal_values(random: np.random.Generator, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Normally distributed values; large tensors repeat what was drawn, because drawing takes longer than timing."""
    some = random.standard_normal(min(int(np.prod(shape)), _DRAWN))
    return np.resize(some.astype(dtype), tuple(shape))


class StoredWeights:
    """Normally distributed float32 numbers in a temporary directory of their own, which goes when this does.

    The file is as long as the longest model needs; `OSError` when it cannot be written.
    """

    def __init__(self) -> None:
        self._folder = RunFolder()
        self.directory = self._folder.path
        """Where models find the file: their ``base_dir``."""
        self._length = 0
        drawn = normal_values(np.random.default_rng(0), (_DRAWN,), np.float32)
        self._drawn = (np.float32(_SCALE) * drawn).tobytes()

    @classmethod
    def if_possible(cls) -> StoredWeights | None:
        """None where no temporary directory can be made."""
        try:
            return cls()
        except OSError:
            return None

    def tensor(self, name: str, shape: tuple[int, ...], after: int) -> tuple[ir.ExternalTensor, int]:
        """A float32 tensor that begins at the first page from byte ``after`` on, and the byte behind its last."""
        begin = -(-after // _PAGE) * _PAGE
        length = 4 * int(np.prod(shape))
        self._reserve(begin + length)
        tensor = ir.ExternalTensor(
            _NAME, begin, length, ir.DataType.FLOAT, shape=ir.Shape(shape), name=name, base_dir=str(self.directory)
        )
        return tensor, begin + length

    def _reserve(self, length: int) -> None:
        with (self.directory / _NAME).open("ab") as file:
            while self._length < length:
                file.write(self._drawn)
                self._length += len(self._drawn)
