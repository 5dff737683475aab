"""How far two sets of outputs lie apart.

error = max|y - y'| / max|y| per output, over the finite elements of y; where max|y| = 0, or nothing is
finite, the absolute error stands for it. Under a `Closeness` each element is held to its own bound instead.
NaN and ±Inf must sit in the same places; integers, bools and strings must be equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.protocol import Outputs
from taso_py.check.tolerance import Closeness

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Difference of one output; ``relative`` is inf where it cannot be measured, and ``reason`` says why."""

    output: str
    dtype: str
    relative: float
    absolute: float
    _: KW_ONLY
    excess: float = 0.0
    """The largest |y - y'| over what a `Closeness` allows there: more than 1 is too far. Without one 0, or inf where
    the values cannot be compared."""
    index: Index | None = None
    """Place of the worst element; a sequence's element number comes first."""
    reference: str = ""
    candidate: str = ""
    reason: str | None = None
    malformed: bool = False
    """Type, shape or length differ, whatever the values are."""

    def describe(self) -> str:
        """One clause naming output, place and both values."""
        place = "" if self.index is None else f"[{','.join(map(str, self.index))}]"
        values = f"{self.reference} became {self.candidate}" if self.reference or self.candidate else ""
        if self.reason is not None:
            return f"output '{self.output}'{place}: {self.reason}" + (f" ({values})" if values else "")
        return f"output '{self.output}'{place}: {values}, relative error {self.relative:.2g}"


def compare_outputs(
    reference: Outputs, candidate: Outputs, closeness: Closeness | None = None
) -> tuple[Deviation, ...]:
    """One deviation per output of the reference, in its order."""
    return tuple(
        compare_values(name, value, candidate[name], closeness)
        if name in candidate
        else _unlike(name, value, "is missing")
        for name, value in reference.items()
    )


def compare_values(name: str, reference: Any, candidate: Any, closeness: Closeness | None = None) -> Deviation:
    """The worst deviation between two values of one output, with its `excess` where there is a ``closeness``."""
    if isinstance(reference, list) and isinstance(candidate, list):
        return _compare_sequences(name, reference, candidate, closeness)
    if isinstance(reference, dict) and isinstance(candidate, dict):
        return _compare_maps(name, reference, candidate, closeness)
    if not isinstance(reference, np.ndarray) or not isinstance(candidate, np.ndarray):
        same = _form(reference) == _form(candidate)
        reason = f"{_form(reference)} became {_form(candidate)}"
        return Deviation(name, _form(reference), 0.0, 0.0) if same else _unlike(name, reference, reason)
    if reference.dtype != candidate.dtype:
        return _unlike(name, reference, f"element type {reference.dtype} became {candidate.dtype}")
    if reference.shape != candidate.shape:
        return _unlike(name, reference, f"shape {reference.shape} became {candidate.shape}")
    if reference.size == 0:
        return Deviation(name, str(reference.dtype), 0.0, 0.0)
    return _compare_arrays(name, reference, candidate, closeness)


def _compare_sequences(name: str, reference: list[Any], candidate: list[Any], closeness: Closeness | None) -> Deviation:
    if len(reference) != len(candidate):
        return _unlike(name, reference, f"length {len(reference)} became {len(candidate)}")
    worst = Deviation(name, "sequence", 0.0, 0.0)
    for number, deviation in enumerate(
        compare_values(name, ours, theirs, closeness) for ours, theirs in zip(reference, candidate, strict=True)
    ):
        if number == 0 or _badness(deviation, closeness) > _badness(worst, closeness):
            worst = replace(deviation, index=(number, *(deviation.index or ())))
    return worst


def _badness(deviation: Deviation, closeness: Closeness | None) -> float:
    return deviation.relative if closeness is None else deviation.excess


def _compare_maps(
    name: str, reference: dict[Any, Any], candidate: dict[Any, Any], closeness: Closeness | None
) -> Deviation:
    """ONNX's maps, from integers or strings to numbers or strings."""
    if reference.keys() != candidate.keys():
        return _unlike(name, reference, "the keys differ")
    ours, theirs = np.array([*reference.values()]), np.array([candidate[key] for key in reference])
    return compare_values(name, ours, theirs, closeness)


_PART = 2**17
"""Elements that are compared at a time: what fits into a cache is compared several times as fast."""


def _compare_arrays(name: str, reference: Array, candidate: Array, closeness: Closeness | None) -> Deviation:
    if not is_floating(reference.dtype):
        unequal = np.asarray(reference != candidate)
        if not unequal.any():
            return Deviation(name, str(reference.dtype), 0.0, 0.0)
        reason = f"{int(unequal.sum())} of {reference.size} values differ"
        return _at(name, reference, candidate, int(np.argmax(unequal)), math.inf, math.inf, reason=reason)
    absolute, scale, most, place = 0.0, 0.0, -math.inf, 0
    flat = (np.ascontiguousarray(reference).reshape(-1), np.ascontiguousarray(candidate).reshape(-1))
    for begin in range(0, reference.size, _PART):
        ours, theirs = (_wide(whole[begin : begin + _PART]) for whole in flat)
        if _misplaced(ours, theirs).any():
            return _all_misplaced(name, reference, candidate)
        finite = np.isfinite(ours)
        distance = np.abs(np.subtract(ours, theirs, out=np.zeros_like(ours), where=finite))
        sizes = np.abs(ours, where=finite, out=np.zeros(ours.shape))
        absolute, scale = max(absolute, float(distance.max())), max(scale, float(sizes.max()))
        shares = distance if closeness is None else closeness.excess(sizes, distance)
        at = int(np.argmax(shares))
        if shares[at] > most:
            most, place = float(shares[at]), begin + at
    found = _at(name, reference, candidate, place, absolute / scale if scale > 0 else absolute, absolute)
    return found if closeness is None else replace(found, excess=most)


def _wide(part: Array) -> Array:
    return part.astype(np.complex128 if part.dtype.kind == "c" else np.float64)


def _all_misplaced(name: str, reference: Array, candidate: Array) -> Deviation:
    misplaced = _misplaced(_wide(reference), _wide(candidate))
    reason = f"NaN or Inf in {int(misplaced.sum())} of {reference.size} other places"
    return _at(name, reference, candidate, int(np.argmax(misplaced)), math.inf, math.inf, reason=reason)


def _misplaced(ours: Array, theirs: Array) -> Array:
    """Where exactly one is NaN, or one is infinite and the other is not the same infinity."""
    infinite = np.isinf(ours) | np.isinf(theirs)
    nan = np.isnan(ours) | np.isnan(theirs)
    return np.asarray((infinite & ~nan & (ours != theirs)) | (np.isnan(ours) != np.isnan(theirs)))


def _at(
    name: str,
    reference: Array,
    candidate: Array,
    place: int,
    relative: float,
    absolute: float,
    *,
    reason: str | None = None,
) -> Deviation:
    index = tuple(int(i) for i in np.unravel_index(place, reference.shape))
    return Deviation(
        name,
        str(reference.dtype),
        relative,
        absolute,
        index=index,
        reference=_show(reference[index]),
        candidate=_show(candidate[index]),
        reason=reason,
        excess=0.0 if reason is None else math.inf,
    )


def _unlike(name: str, reference: Any, reason: str) -> Deviation:
    dtype = str(reference.dtype) if isinstance(reference, np.ndarray) else _form(reference)
    return Deviation(name, dtype, math.inf, math.inf, excess=math.inf, reason=reason, malformed=True)


def _form(value: Any) -> str:
    if value is None:
        return "an empty optional"
    if isinstance(value, dict):
        return "a map"
    return "a sequence" if isinstance(value, list) else "a tensor"


def _show(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value}"


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether values of this type are rounded: floats (float8 and bfloat16 too) and complex numbers."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def arrays_of(outputs: Outputs) -> Iterator[Array]:
    """Every array in the outputs, those inside sequences included."""
    for value in outputs.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, np.ndarray):
                yield item
