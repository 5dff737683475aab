"""How far the elements of an output move where the inputs move in their last bits: no rewrite can be held to less.

A softmax of huge scores, the sine of a large product, a sum that cancels: there an error of rounding decides, and every
correct rewrite makes another one.  The original says so itself, run on inputs whose floats are each some steps beside
what they were; so does a float64 evaluation that it is far from: an Elu of tiny numbers is exp(x) - 1, and all that is
left of its last bits is rounding.  And so does that evaluation with errors of rounding in all that is computed: they
matter where the inputs' own hardly do, as where a bias is much larger.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Feeds, ModelRef, Outputs
from taso_py.check.compare import Deviation
from taso_py.check.oracle import REFERENCE_S, OracleCase, Prepared
from taso_py.check.tolerance import OWN_FACTOR, tolerance_for
from taso_py.errors import ModelError, WorkerError

_DRAWS = 4
"""Runs of the original beside each set of inputs."""
_NOISES = 4
"""Evaluations of it with errors of rounding."""
_STEPS = 8
"""Units in the last place by which an input is moved: sums of hundreds of products are off by as much."""
_AMPLIFIED = 2.0
"""Times as far as the original moves that a rewrite may."""
_COMPARED = 0.9
"""Part of an output's elements that must be held to the tolerance itself, in some set of inputs."""
_CASES = 4
"""Sets of inputs among which that is looked for."""
_EVALUATED_BYTES = 2**27
"""Larger models are not evaluated in float64."""


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why nothing speaks against an output that is beyond its tolerance, in words."""

    words: str
    holds: bool
    """Whether enough of the output was held to the tolerance elsewhere; else nothing speaks for it either."""


class Conditioning:
    """Asks the original of all checks; what it says is remembered."""

    def __init__(self, worker: Worker, original: ModelRef, prepared: Prepared) -> None:
        self._worker, self._original, self._cases = worker, original, prepared.cases
        self.deadline = math.inf
        """After it (time.monotonic()) nothing is evaluated in float64 any more."""
        self._evaluable = prepared.evaluable and _size(original) <= _EVALUATED_BYTES
        self._moves: dict[str, Mapping[str, Array]] = {}
        self._exact: dict[str, Outputs] = {}
        self._noisy: dict[str, tuple[Outputs, ...]] = {}

    def excuse(self, case: OracleCase, one: Deviation, found: Any, allowed: float) -> Excuse | None:
        """Where the inputs' last bits explain how far an output is from the original's; else None.

        ``found`` is the candidate's output, ``allowed`` the tolerance relative to the largest value of the original's.
        """
        expected: Any = case.expected.get(one.output)
        if one.malformed or not _is_plain(expected) or not _is_plain(found):
            return None
        ours, theirs = expected.astype(np.float64), found.astype(np.float64)
        if ours.shape != theirs.shape or not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
            return None
        moved, limit = self._moved(case, one.output), allowed * _largest(ours)
        if moved is None:
            return None
        loose = int((moved > limit).sum())
        words = f"output '{one.output}': {loose} of {ours.size} elements hang on the last bits of what they are made of"
        holds = any(self._is_firm(other, one.output, allowed) for other in (case, *self._cases[:_CASES]))
        # Some draws tell how far elements move, not how far each of them may; where it hardly passes that is enough.
        reach = moved if holds else float(np.max(moved, initial=0.0))
        gap = np.abs(theirs - ours, where=np.isfinite(ours), out=np.zeros(ours.shape))
        if np.any(gap > limit + reach):
            return None
        if holds:
            return Excuse(f"{words} ({case.label})", holds=True)
        words = f"{words}, and hardly fewer for any others: no rewrite of it can be compared (inputs: {case.label})"
        return Excuse(words, holds=False)

    def _is_firm(self, case: OracleCase, output: str, allowed: float) -> bool:
        """Whether most elements can be held to the tolerance."""
        moved = self._moved(case, output)
        return moved is not None and float(np.mean(moved <= allowed * _largest(case.expected[output]))) >= _COMPARED

    def _moved(self, case: OracleCase, output: str) -> Array | None:
        """How far each element may move; None where that cannot be told."""
        if case.label not in self._moves:
            self._moves[case.label] = self._asked(case)
        found = self._moves[case.label].get(output)
        reference = self._reference(case).get(output)
        if found is None or not _is_plain(reference):
            return found
        ours = case.expected[output]
        far = np.nan_to_num(np.abs(np.asarray(reference, np.float64) - np.asarray(ours, np.float64)), nan=0.0)
        # Where rounding happens to be exact in the original it need not be in a rewrite: its elements share one noise.
        noise = OWN_FACTOR * float(np.quantile(far, _COMPARED)) if far.size else 0.0
        typical = min(noise, tolerance_for(str(ours.dtype)).cap * _largest(ours))
        for noisy in (noisy[output] for noisy in self._rounded(case)):
            if _is_plain(noisy) and noisy.shape == found.shape:
                gap = np.abs(noisy.astype(np.float64) - np.asarray(reference, np.float64))
                found = np.maximum(found, _AMPLIFIED * np.nan_to_num(gap, nan=0.0, posinf=np.inf))
        return np.asarray(np.maximum(found, np.maximum(far, typical)))

    def _reference(self, case: OracleCase) -> Outputs:
        """The float64 evaluation, made now where there is none yet and time; empty where it cannot be had."""
        if case.reference is not None:
            return case.reference
        if case.label not in self._exact and (found := self._evaluated(case)) is not None:
            self._exact[case.label] = found
        return self._exact.get(case.label, {})

    def _rounded(self, case: OracleCase) -> tuple[Outputs, ...]:
        """The float64 evaluation with errors of rounding, as often as there is time for."""
        if case.label not in self._noisy:
            found: list[Outputs] = []
            while len(found) < _NOISES and (one := self._evaluated(case, len(found))) is not None:
                found.append(one)
            self._noisy[case.label] = tuple(found)
        return self._noisy[case.label]

    def _evaluated(self, case: OracleCase, noise: int | None = None) -> Outputs | None:
        left = min(REFERENCE_S, (self.deadline - time.monotonic()) / 4)
        if not self._evaluable or left <= 0:
            return None
        try:
            return self._worker.reference(self._original, case.feeds, noise=noise, timeout=left)
        except (ModelError, WorkerError):
            self._evaluable &= noise is not None  # an index that is computed may be out of range with them alone
            return None

    def _asked(self, case: OracleCase) -> Mapping[str, Array]:
        random = np.random.default_rng(0)
        plain = {name: value for name, value in case.expected.items() if _is_plain(value)}
        found = {name: np.zeros(value.shape) for name, value in plain.items()}
        try:
            handle = self._worker.open(self._original, level="disable", ep=CPU)
            try:
                for _ in range(_DRAWS):
                    beside = self._worker.run(handle, _beside(case.feeds, random))
                    for name, value in plain.items():
                        if not _is_plain(beside.get(name)) or beside[name].shape != value.shape:
                            return {}
                        gap = np.abs(beside[name].astype(np.float64) - value.astype(np.float64))
                        found[name] = np.maximum(found[name], _AMPLIFIED * np.nan_to_num(gap, nan=0.0, posinf=np.inf))
            finally:
                self._worker.close(handle)
        except (ModelError, WorkerError):
            return {}
        return found


def _beside(feeds: Feeds, random: np.random.Generator) -> Feeds:
    """Every float some steps up or down."""

    def moved(value: Array) -> Array:
        signs = random.choice([-1.0, 1.0], value.shape)
        return np.asarray(value * (1 + _STEPS * np.finfo(value.dtype).eps * signs)).astype(value.dtype)

    return {name: moved(value) if _is_plain(value) else value for name, value in feeds.items()}


def _size(model: ModelRef) -> float:
    """Bytes of a model's own file; inf where it cannot be looked at."""
    try:
        return model.model.stat().st_size if isinstance(model.model, Path) else len(model.model)
    except OSError:
        return math.inf


def _is_plain(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in (np.float16, np.float32, np.float64)


def _largest(values: Array) -> float:
    finite = np.isfinite(values)
    return float(np.abs(values, where=finite, out=np.zeros(values.shape)).max(initial=0.0))
