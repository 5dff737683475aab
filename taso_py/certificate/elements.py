"""How far the elements of two tensors lie apart, and how far they may."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array

ULPS = 1
"""How far an element of a computed weight may be from what is computed here: exp differs between machines."""
_PER = 100_000


def admitted(elements: int) -> int:
    """How many elements of a computed weight may be that far away: 1 + n / 100,000."""
    return 1 + elements // _PER


@dataclass(frozen=True)
class Distance:
    """Two tensors, element by element."""

    wanted: Array
    found: Array

    def refused(self, *, computed: bool) -> str | None:
        """In words why ``found`` is not ``wanted``; ``computed``: a few floats may be their neighbours."""
        if self.wanted.dtype != self.found.dtype or self.wanted.shape != self.found.shape:
            return f"is {_form(self.found)}, and the certificate leads to {_form(self.wanted)}"
        if not self.unlike.any():
            return None
        if not computed or not self._floating:
            return self._at(int(self.unlike.argmax()), "bit for bit another value than")
        worst = int(self.ulps.argmax())
        if self.ulps[worst] > ULPS:
            return self._at(worst, f"{self.ulps[worst]} units in the last place from")
        count, most = int(self.unlike.sum()), admitted(self.wanted.size)
        if count > most:
            elements = f"{count} of {self.wanted.size} elements"
            return f"differs by a unit in the last place in {elements} from what the certificate leads to: {most} may"
        return None

    @property
    def largest(self) -> int:
        """The largest distance, in units in the last place, of a pair that is not refused."""
        return int(self.ulps.max()) if self.unlike.any() and self._floating else 0

    @property
    def _floating(self) -> bool:
        # The types that NumPy does not know by itself are of kind V; none of them is an integer of ONNX but these.
        return self.wanted.dtype.kind == "f" or self.wanted.dtype.name.startswith(("bfloat", "float"))

    def _at(self, at: int, unlike: str) -> str:
        place = [int(k) for k in np.unravel_index(at, self.wanted.shape)]
        one, other = self.wanted.reshape(-1)[at], self.found.reshape(-1)[at]
        return f"at {place} is {other}, {unlike} {one}, which the certificate leads to"

    @cached_property
    def unlike(self) -> npt.NDArray[np.bool_]:
        """Where the elements differ in a bit."""
        one, other = (np.ascontiguousarray(a).reshape(-1) for a in (self.wanted, self.found))
        if one.dtype.kind in "OSU":
            return np.asarray(one != other)
        rows = [a.view(np.uint8).reshape(a.size, a.itemsize) for a in (one, other)]
        return np.asarray((rows[0] != rows[1]).any(axis=1))

    @cached_property
    def ulps(self) -> npt.NDArray[np.uint64]:
        """How many floats lie between the elements; as good as infinitely many where one of them is no number."""
        a, b = (np.ascontiguousarray(x).reshape(-1) for x in (self.wanted, self.found))
        ranks = [_rank(x) for x in (a, b)]
        # Modulo 2^64 the difference is right even where it exceeds what int64 holds.
        far = np.maximum(*ranks).view(np.uint64) - np.minimum(*ranks).view(np.uint64)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            wide = [x.astype(np.float64) for x in (a, b)]
        far[np.isfinite(wide[0]) != np.isfinite(wide[1])] = np.iinfo(np.int64).max
        far[np.isnan(wide[0]) & np.isnan(wide[1])] = 0
        return far


def _form(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _rank(floats: Array) -> npt.NDArray[np.int64]:
    """Consecutive integers for consecutive floats; both zeros are 0."""
    bits = floats.view(np.dtype(f"int{8 * floats.itemsize}")).astype(np.int64)
    least = np.int64(-(2 ** (8 * floats.itemsize - 1)))
    return np.where(bits < 0, least - bits, bits)
