"""How large an error is still rounding.

float32: max(1e-4, 4 × the original's own error), capped at 1e-2, where its own error is the distance between
its outputs with ONNX Runtime's optimizer on and off: what its user has accepted already.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from taso_py.arrays import Array

OWN_FACTOR = 4.0

# TF32 keeps 10 explicit bits of the mantissa: each factor of a product is off by up to 2^-11 = 4.9e-4, and
# errors partly cancel in a sum but add up over layers: ten times that.
TF32_TOLERANCE = 5e-3
TF32_PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``base`` applies always; the original's own error raises it up to ``cap``."""

    base: float
    cap: float

    def allow(self, own_error: float) -> float:
        """max(base, min(cap, 4 × own_error)); the base alone where own_error is inf (NaN or Inf moved)."""
        return max(self.base, min(self.cap, OWN_FACTOR * own_error)) if isfinite(own_error) else self.base


@dataclass(frozen=True, slots=True)
class Closeness:
    """``|y - y'| <= atol + rtol * |y|`` for every element of a rounded type, as `numpy.allclose`; y is the original's.

    It stands in place of the element type's tolerance, whatever the original's own error is.
    """

    rtol: float = 1e-5
    atol: float = 1e-8

    @staticmethod
    def of(rtol: float | None, atol: float | None) -> Closeness | None:
        """None where neither is given; for one alone the other is as numpy's default has it."""
        if rtol is None and atol is None:
            return None
        default = Closeness()
        return Closeness(default.rtol if rtol is None else rtol, default.atol if atol is None else atol)

    def excess(self, original: Array, distance: Array) -> Array:
        """By element, the distance over what is allowed: more than 1 is too far, inf where nothing is allowed."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            allowed = self.atol + self.rtol * np.abs(original)
            share = np.where(distance == 0, 0.0, distance / allowed)
            share = np.where(np.isnan(share), 1.0, share)  # inf of inf is allowed
            return np.asarray(np.where(distance > allowed, np.maximum(share, np.nextafter(1.0, 2.0)), share))


@dataclass(frozen=True, slots=True)
class Limit:
    """How far one output may be off: ``relative`` to its largest value, unless `closeness` speaks of each element."""

    relative: float
    closeness: Closeness | None = None

    def share(self, relative: float, excess: float) -> float:
        """How much of it a deviation takes, as `Deviation` has the two figures."""
        if self.closeness is not None:
            return excess
        return relative / self.relative if self.relative > 0 else (inf if relative > 0 else 0.0)

    def exceeded(self, relative: float, excess: float) -> bool:
        """Whether a deviation is too large."""
        return relative > self.relative if self.closeness is None else self.share(relative, excess) > 1

    def __str__(self) -> str:
        one = self.closeness
        return f"{self.relative:.2g}" if one is None else f"{one.atol:g} + {one.rtol:g}*|y| in every element"


FLOAT32 = Tolerance(1e-4, 1e-2)
# A few units in the last place (2^-10, 2^-7), as float32's 1e-4 is not: these formats leave no more room.
_BY_DTYPE = {
    "float32": FLOAT32,
    "complex64": FLOAT32,
    "float16": Tolerance(4e-3, 5e-2),
    "bfloat16": Tolerance(3.2e-2, 1e-1),
}
_WIDE = frozenset({"float32", "float64", "complex64", "complex128"})
# One unit in the last place of float16, or 4 times the error that the original shows itself.
_HALF_INSIDE = Tolerance(2.0**-10, 5e-2)
_FLOAT64 = Tolerance(1e-9, 1e-2)
_FLOAT8 = Tolerance(0.125, 0.25)
_EXACT = Tolerance(0.0, 0.0)


def tolerance_for(dtype: str, *, narrowest: str = "float32") -> Tolerance:
    """The tolerance of an element type in a model whose ``narrowest`` float type is this."""
    if dtype in _WIDE and narrowest == "float16":
        return _HALF_INSIDE
    if dtype in ("float64", "complex128"):
        return _FLOAT64 if narrowest == "float64" else FLOAT32
    if dtype.startswith(("float8", "float4")):
        return _FLOAT8
    return _BY_DTYPE.get(dtype, _EXACT)


def uses_tf32(ep: str, ep_options: tuple[tuple[str, str], ...]) -> bool:
    """Whether this provider multiplies float32 matrices in TF32 (the default; ``use_tf32=0`` stops it)."""
    return ep in TF32_PROVIDERS and dict(ep_options).get("use_tf32", "1") not in ("0", "False", "false")


def deployed_tolerance(
    dtype: str, ep: str, ep_options: tuple[tuple[str, str], ...], *, narrowest: str = "float32"
) -> Tolerance:
    """`tolerance_for`, widened for float32 on providers that compute in TF32."""
    plain = tolerance_for(dtype, narrowest=narrowest)
    if plain in (FLOAT32, _HALF_INSIDE) and uses_tf32(ep, ep_options):
        return Tolerance(max(plain.base, TF32_TOLERANCE), max(plain.cap, OWN_FACTOR * TF32_TOLERANCE))
    return plain
