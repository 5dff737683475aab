"""The two models in ONNX Runtime, on the same inputs: a comparison that knows nothing of rules and steps.

First the check of ``superopt check``; then inputs in which zeros, ones, negative, small and large numbers stand side by
side, so that a divisor may vanish where a condition selects another branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from taso_py.backend.client import Worker
from taso_py.backend.pool import WorkerPool, lent
from taso_py.backend.protocol import CPU, Feeds, ModelRef, Outputs, WorkerConfig
from taso_py.backend.runtime import available_threads
from taso_py.check.check import Checker
from taso_py.check.compare import compare_values, is_floating
from taso_py.check.conditioning import Conditioning
from taso_py.check.facts import InputSpec, interface_difference, read_facts
from taso_py.check.inputs import make_feeds, with_arrays
from taso_py.check.oracle import OracleCase
from taso_py.check.shapes import Assignment, Shape, resolve_shapes
from taso_py.check.tolerance import Closeness, Limit, tolerance_for
from taso_py.errors import CertificateError, ModelError, WorkerError

_MIXED = (0.0, 0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -8.0, 2.0**-10, -(2.0**-10))
"""Exact in every float type, so that sums of few of them are exact too."""
_DRAWS = 3


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the models are run on: sizes of inputs or symbols, arrays in place of generated ones, a seed."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    arrays: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    closeness: Closeness | None = None
    """What is allowed in place of the tolerances of the element types."""


def require_agreement(
    original: Path | onnx.ModelProto,
    optimised: Path | onnx.ModelProto,
    inputs: Inputs,
    pool: WorkerPool | None = None,
) -> int:
    """How many sets of inputs both models were run on; `CertificateError` for the first difference.

    `ModelError` when ONNX Runtime cannot run the original.
    """
    first, second = _reference(original, "the original"), _reference(optimised, "the optimised model")
    facts = read_facts(first)
    unlike = interface_difference(facts, read_facts(second))
    if unlike is not None:
        raise CertificateError(f"the models cannot be compared: {unlike}")
    with lent(pool, WorkerConfig(threads=available_threads())) as worker:
        checker = Checker(
            first,
            worker.config,
            workloads=(inputs.shapes,),
            overrides=inputs.arrays,
            seed=inputs.seed,
            closeness=inputs.closeness,
            facts=facts,
            worker=worker,
        )
        report = checker.check(second)
        if report.reason is not None:
            raise CertificateError(f"the models do not agree in ONNX Runtime: {report.reason}")
        return len(report.cases) + _Mixed(first, second, checker, worker).run(inputs)


def _reference(model: Path | onnx.ModelProto, name: str) -> ModelRef:
    if isinstance(model, Path):
        return ModelRef.of(model)
    try:
        return ModelRef(name, model.SerializeToString())
    except ValueError as error:
        raise ModelError(f"{name} is too large to be run from memory ({error}): give its file") from None


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Both models at ORT_DISABLE_ALL on numbers of all kinds; what counts is where the original is finite."""

    first: ModelRef
    second: ModelRef
    checker: Checker
    worker: Worker

    def run(self, inputs: Inputs) -> int:
        """How many draws both models were run on; of the sizes, counts and the like with which the check ran."""
        fit = self.checker.fit()
        sizes = resolve_shapes(fit.inputs, with_arrays(inputs.shapes, inputs.arrays), fit.sizes)
        handles = [self.worker.open(m, level="disable", ep=CPU) for m in (self.first, self.second)]
        try:
            return sum(self._draw(mixed_feeds(fit.inputs, sizes, inputs, k), inputs, *handles) for k in range(_DRAWS))
        finally:
            for handle in handles:
                self.worker.close(handle)

    def _draw(self, feeds: Feeds, inputs: Inputs, first: int, second: int) -> bool:
        """One draw; False when the original does not run on it, whose fault that is."""
        try:
            expected = self.worker.run(first, feeds)
        except (ModelError, WorkerError):
            return False
        try:
            found = self.worker.run(second, feeds)
        except (ModelError, WorkerError) as error:
            raise CertificateError(f"the optimised model does not run where the original does: {error}") from None
        case = OracleCase("zeros, small and large numbers mixed", feeds, expected, (), None)
        self._compare(case, found, inputs.closeness)
        return True

    def _compare(self, case: OracleCase, found: Outputs, closeness: Closeness | None) -> None:
        prepared, expected = self.checker.prepare(), case.expected
        conditioning = Conditioning(self.worker, self.first, prepared)
        for name, value in expected.items():
            if name in prepared.unstable:
                continue
            other = _where_finite(value, found.get(name))
            one = compare_values(name, value, other, closeness)
            allowed = tolerance_for(one.dtype, narrowest=self.checker.facts.narrowest).allow(prepared.own_error(name))
            limit = Limit(allowed, closeness)
            if limit.exceeded(one.relative, one.excess):
                if closeness is None and conditioning.excuse(case, one, other, allowed) is not None:
                    continue
                text = f"{one.describe()}, allowed {limit} (inputs: {case.label})"
                raise CertificateError(f"the models do not agree in ONNX Runtime: {text}")


def _where_finite(expected: Any, found: Any) -> Any:
    """What was found, but for the places where nothing finite was expected."""
    arrays = isinstance(expected, np.ndarray) and isinstance(found, np.ndarray)
    if not arrays or not is_floating(expected.dtype) or (expected.shape, expected.dtype) != (found.shape, found.dtype):
        return found
    return np.where(np.isfinite(expected.astype(np.complex128)), found, expected)


def mixed_feeds(specs: Sequence[InputSpec], sizes: Assignment, inputs: Inputs, number: int) -> Feeds:
    """Inputs whose floats are drawn from zero, ones, negative, small and large numbers; all else as in a check.

    A float that some node takes for a scale or the like is no number of that kind.
    """
    feeds = make_feeds(specs, sizes, seed=inputs.seed + number, overrides=inputs.arrays)
    random = np.random.default_rng([inputs.seed, number])
    kept = {spec.name for spec in specs if spec.role is not None} | set(inputs.arrays)
    return {name: v if name in kept else _mixed(v, random) for name, v in feeds.items()}


def _mixed(value: Any, random: np.random.Generator) -> Any:
    if isinstance(value, list):
        return [_mixed(entry, random) for entry in value]
    if not isinstance(value, np.ndarray) or not is_floating(value.dtype):
        return value
    return random.choice(_MIXED, value.shape).astype(value.dtype)
