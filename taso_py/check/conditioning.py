"""How far the elements of an output move where the inputs move in their last bits: no rewrite can be held to less.

A softmax of huge scores, the sine of a large product, a sum that cancels: there an error of rounding decides, and every
correct rewrite makes another one.  The original says so itself, run on inputs whose floats are each some steps beside
what they were; so does a float64 evaluation that it is far from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Feeds, ModelRef
from taso_py.check.compare import Deviation
from taso_py.check.oracle import OracleCase
from taso_py.errors import ModelError, WorkerError

_DRAWS = 4
"""Runs of the original beside each set of inputs."""
_STEPS = 8
"""Units in the last place by which an input is moved: sums of hundreds of products are off by as much."""
_AMPLIFIED = 2.0
"""Times as far as the original moves that a rewrite may."""
_COMPARED = 0.9
"""Part of an output's elements that must be held to the tolerance itself, in some set of inputs."""
_CASES = 4
"""Sets of inputs among which that is looked for."""


class Conditioning:
    """Asks the original of one check; what it says is remembered."""

    def __init__(self, worker: Worker, original: ModelRef, cases: Sequence[OracleCase]) -> None:
        self._worker, self._original, self._cases = worker, original, cases
        self._moves: dict[str, Mapping[str, Array]] = {}

    def excuse(self, case: OracleCase, one: Deviation, found: Any, allowed: float) -> str | None:
        """A remark, where the inputs' last bits explain how far an output is from the original's; else None.

        ``found`` is the candidate's output, ``allowed`` the tolerance relative to the largest value of the original's.
        """
        expected: Any = case.expected.get(one.output)
        if one.malformed or not _is_plain(expected) or not _is_plain(found):
            return None
        ours, theirs = expected.astype(np.float64), found.astype(np.float64)
        if ours.shape != theirs.shape or not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
            return None
        finite = np.isfinite(ours)
        moved, limit = self._moved(case, one.output), allowed * _largest(ours)
        if moved is None or np.any(np.abs(theirs - ours, where=finite, out=np.zeros(ours.shape)) > limit + moved):
            return None
        if not any(self._is_firm(other, one.output, allowed) for other in (case, *self._cases[:_CASES])):
            return None
        loose = int((moved > limit).sum())
        return (
            f"output '{one.output}': {loose} of {ours.size} elements hang on the last bits of the inputs ({case.label})"
        )

    def _is_firm(self, case: OracleCase, output: str, allowed: float) -> bool:
        """Whether most elements can be held to the tolerance."""
        moved = self._moved(case, output)
        return moved is not None and float(np.mean(moved <= allowed * _largest(case.expected[output]))) >= _COMPARED

    def _moved(self, case: OracleCase, output: str) -> Array | None:
        """How far each element may move; None where that cannot be told."""
        if case.label not in self._moves:
            self._moves[case.label] = self._asked(case)
        found = self._moves[case.label].get(output)
        reference = None if case.reference is None else case.reference.get(output)
        if found is None or not _is_plain(reference):
            return found
        far: Array = np.abs(np.asarray(reference, np.float64) - np.asarray(case.expected[output], np.float64))
        return np.asarray(np.maximum(found, np.nan_to_num(far, nan=0.0)))

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


def _is_plain(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in (np.float16, np.float32, np.float64)


def _largest(values: Array) -> float:
    finite = np.isfinite(values)
    return float(np.abs(values, where=finite, out=np.zeros(values.shape)).max(initial=0.0))
