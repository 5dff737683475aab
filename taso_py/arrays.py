"""What an array is to the type checker."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""A NumPy array of any shape and element type; who takes one says which."""
