"""How far an approximation is from what it stands for, and what samples without a violation warrant.

error = |y - y'|_2 / |y|_2 of one output on one sample; the worst output of the worst sample counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.protocol import Outputs
from taso_py.check.compare import is_floating

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Deviation:
    """The error of one sample: that of its worst output."""

    error: float
    output: str = ""


def deviation(expected: Outputs, found: Outputs) -> Deviation:
    """The worst output of one sample; inf where an output is missing or has another form."""
    worst = Deviation(0.0, next(iter(expected), ""))
    for name, value in expected.items():
        error = _error(value, found.get(name)) if name in found else math.inf
        if error > worst.error:
            worst = Deviation(error, name)
    return worst


def _error(expected: Any, found: Any) -> float:
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return max((_error(one, other) for one, other in zip(expected, found, strict=True)), default=0.0)
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        return relative_error(expected, found)
    return 0.0 if type(expected) is type(found) and not isinstance(expected, list) and expected == found else math.inf


def relative_error(expected: Array, found: Array) -> float:
    """|y - y'|_2 / |y|_2 in float64; of integers, bools and strings the share of elements that differ.

    inf for another form, for NaN and infinities in other places, and for anything but 0 where |y|_2 is 0.
    """
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return math.inf
    if expected.size == 0:
        return 0.0
    if not is_floating(expected.dtype):
        return float(np.mean(np.asarray(expected != found)))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    ours, theirs = expected.astype(wide), found.astype(wide)
    finite = np.isfinite(ours)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(theirs[finite]).all():
        return math.inf
    # Squares of float64 leave its range beyond 1e154 and below 1e-162: all is scaled first, exactly, by a power of two.
    pair = np.stack([ours[finite], theirs[finite]]).view(np.float64)
    ours, theirs = np.ldexp(pair, -np.frexp(np.abs(pair).max(initial=0.0))[1])
    distance, scale = _norm(ours - theirs), _norm(ours)
    if distance == 0:
        return 0.0
    return distance / scale if scale > 0 else math.inf


def _norm(values: Array) -> float:
    """The 2-norm of real numbers of at most 1, whose squares may be too small."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest * float(np.linalg.norm(values / largest)) if largest > 0 else 0.0


def has_new_nonfinite(expected: Outputs, found: Outputs) -> bool:
    """Whether NaN or Inf stands where the original has none: beyond any budget, whatever a metric says."""
    return any(_is_broken(value, found.get(name)) for name, value in expected.items())


def _is_broken(expected: Any, found: Any) -> bool:
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) != len(found) or any(_is_broken(a, b) for a, b in zip(expected, found, strict=True))
    if not isinstance(expected, np.ndarray) or not isinstance(found, np.ndarray):
        return type(expected) is not type(found)
    if not is_floating(expected.dtype) or not is_floating(found.dtype):
        return False
    if expected.shape != found.shape:
        return not np.isfinite(found.astype(np.complex128)).all()
    finite = np.isfinite(expected.astype(np.complex128))
    return not bool(np.isfinite(found.astype(np.complex128)[finite]).all())


def warranted_share(samples: int, models: int = 1) -> float:
    """The share of inputs that keep the budget with 95 % confidence, after ``samples`` of which all did: 0.05^(1/n).

    It takes the samples for independent draws from what the model will meet: 299 give 0.99.  Where ``models`` were
    tested on them, one after the other until one kept the budget, each has its part of the 5 %: (0.05/k)^(1/n).
    """
    return ((1 - CONFIDENCE) / models) ** (1 / samples) if samples > 0 else 0.0


def warrant(samples: int, *, random: bool, unseen: bool = True, models: int = 1, given: int | None = None) -> str:
    """What may be said after so many samples that all kept the budget; ``unseen``: they were used for nothing else.

    ``models`` were tested on them, of which this is the last, or one of those that are compared; ``given``: how many
    samples there were, where the time was too short for all.
    """
    if random:
        return f"{samples} random samples kept the budget, which says nothing of real inputs: give a calibration file"
    share = math.floor(1000 * warranted_share(samples, models)) / 10  # rounded down: never more than is warranted
    claim = f"with 95 % confidence {share:g} % keep the budget"
    if unseen:
        before = "" if models == 1 else f", on which {models - 1} faster failed before"
        part = "" if given in (None, samples) else f" of {given}, for want of time,"
        return f"{samples}{part} unseen samples without a violation{before}: {claim}"
    each = "" if models == 1 else f" for each of {models} models at once"
    return f"{samples} samples without a violation{each}: {claim}, if none of them was used to make the model"
