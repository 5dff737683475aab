"""The original model's side of every check: inputs, reference outputs and its own error, computed once.

The oracle is ONNX Runtime's CPU provider at ORT_DISABLE_ALL: its optimizer is known to change values.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Feeds, ModelRef, Outputs
from taso_py.check.compare import Deviation, arrays_of, compare_outputs
from taso_py.check.facts import ModelFacts
from taso_py.check.fitting import FIT_S, fitted
from taso_py.check.inputs import Fill, advice, fills_for, make_feeds, with_arrays
from taso_py.check.shapes import Assignment, Shape, resolve_shapes, second_sizes
from taso_py.errors import ModelError, TooLateError, WorkerError

ALWAYS = 2  # normal(0,1) and all negative at the first size are run however little time there is
KEPT_BYTES = 2**28  # inputs and outputs beyond this are not kept, and comparing them takes seconds
REFERENCE_FLOPS = 1e8
REFERENCE_CASES = 2
REFERENCE_S = 20.0
_FEW = 256  # elements; of fewer that are drawn all may come out the same twice
_REPEATED = 1e-3  # how far a run may be from the one before; a model that drifts by less passes a comparison as it is


@dataclass(frozen=True, slots=True)
class OracleCase:
    """Inputs, what the original makes of them, and how far its own optimised session is from that."""

    label: str
    feeds: Feeds
    expected: Outputs
    own: tuple[Deviation, ...]
    reference: Outputs | None
    """The float64 evaluation, where there is one."""


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One case to come."""

    fill: Fill
    assignment: Assignment
    label: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """All cases of one original, and remarks on what was left out."""

    cases: tuple[OracleCase, ...]
    notes: tuple[str, ...]
    unstable: frozenset[str]
    """Outputs that differ between two runs of the original: only their form is compared."""
    left_out: int = 0
    """Sets of inputs for which there was no time."""
    evaluable: bool = False
    """Whether nothing in the original is random and, as far as is known, the float64 evaluation has its operators."""
    _own: dict[str, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Asked for each output of each candidate, of which there may be thousands.
        for one in (one for case in self.cases for one in case.own):
            self._own[one.output] = max(self._own.get(one.output, 0.0), one.relative)

    def own_error(self, output: str) -> float:
        """The original's largest error with the optimizer on, over all cases; inf where NaN or Inf moved."""
        return self._own.get(output, 0.0)

    def largest_own_error(self) -> float:
        """`own_error` over all outputs that can be compared."""
        return max((error for name, error in self._own.items() if name not in self.unstable), default=0.0)


@dataclass(frozen=True, slots=True)
class OracleLimits:
    """What bounds the work: time.monotonic() values, a number of cases, FLOPs of one run (None: unknown)."""

    deadline: float = float("inf")
    """After it only what is always compared is run."""
    until: float = float("inf")
    """And after this not even that: there is no verdict."""
    max_cases: int = 64
    flops: float | None = None


class Oracle:
    """Runs the original of a check in one worker."""

    def __init__(
        self,
        worker: Worker,
        original: ModelRef,
        facts: ModelFacts,
        workloads: Sequence[Mapping[str, Shape]],
        overrides: Mapping[str, Any],
        seed: int,
    ) -> None:
        self.worker = worker
        self.original = original
        self.facts = facts
        self.workloads = workloads
        self.overrides = overrides
        self.seed = seed
        self.notes: list[str] = []
        self.sizes: Mapping[str, int] = {}
        """Sizes of symbols with which the original is known to run."""
        self.left_out = 0
        self.evaluable = True  # until the float64 evaluation fails once

    def prepare(self, limits: OracleLimits) -> Prepared:
        """Run the original on every case that time and memory allow; ModelError when it cannot run."""
        exact = self._open_exact()
        optimised = self._open_optimised()
        try:
            plans = self._plans(exact, limits)[: max(ALWAYS, limits.max_cases)]
            cases = self._run(plans, exact, optimised, limits)
            unstable = self._unstable(exact, cases)
        finally:
            self.worker.close(exact)
            if optimised is not None:
                self.worker.close(optimised)
        if not cases:
            raise ModelError(f"{self.original.name}: ONNX Runtime runs it only sometimes: {self.notes[-1]}")
        evaluable = self.evaluable and not self.facts.random
        return Prepared(tuple(cases), tuple(self.notes), unstable, self.left_out, evaluable)

    def _open_exact(self) -> int:
        try:
            return self.worker.open(self.original, level="disable", ep=CPU)
        except WorkerError as error:
            raise ModelError(f"{self.original.name}: ONNX Runtime fails to load it: {error}") from None

    def _open_optimised(self) -> int | None:
        try:
            return self.worker.open(self.original, level="all", ep=CPU)
        except (ModelError, WorkerError) as error:
            self.notes.append(f"the original does not load with the optimizer on ({error})")
            return None

    def _plans(self, exact: int, limits: OracleLimits) -> list[PlannedCase]:
        """First fills and sizes before the rest; the second sizes only if the original runs there."""
        self._first_run(exact, limits)
        sizes = self._assignments()
        second = self._second(exact, sizes[0])
        if second is not None:
            sizes.insert(1, second)
        fills = fills_for(self.facts.inputs, self.overrides)
        order = [(fill, size) for size in sizes for fill in fills[:2]]
        order += [(fill, size) for size in sizes for fill in fills[2:]]
        return [PlannedCase(fill, size, f"{fill} at {size.describe()}") for fill, size in order]

    def _assignments(self) -> list[Assignment]:
        given = [with_arrays(options, self.overrides) for options in self.workloads or ({},)]
        return [resolve_shapes(self.facts.inputs, options, self.sizes) for options in given]

    def _second(self, exact: int, first: Assignment) -> Assignment | None:
        candidates = second_sizes(self.facts.inputs, first, tuple(self.overrides))
        for candidate in candidates:
            try:
                self.worker.run(exact, self._feeds("normal", candidate))
            except (ModelError, WorkerError):
                continue
            return candidate
        if candidates:
            self.notes.append("checked at one size only: the original does not run at others")
        return None

    def _first_run(self, exact: int, limits: OracleLimits) -> None:
        """A failure here is the model's (or the chosen shapes'), not a candidate's; without any other sizes."""
        first = self._assignments()[0]
        try:
            self.worker.run(exact, self._feeds("normal", first))
        except ModelError as error:
            if self._fitted(limits):
                self.notes.append(f"sizes and inputs found by trial: {self._assignments()[0].describe()}")
                return
            raise ModelError(f"{error} ({advice(self.facts.inputs, first, self.overrides)})") from None
        except WorkerError as error:
            raise ModelError(f"{self.original.name}: ONNX Runtime fails on the original: {error}") from None

    def _fitted(self, limits: OracleLimits) -> bool:
        """Whether there are other inputs with which the original runs."""
        given = with_arrays(next(iter(self.workloads), {}), self.overrides)
        seconds = min(FIT_S, max(1.0, limits.deadline - time.monotonic()))
        fit = fitted(self.worker, self.original, self.facts, given, self.overrides, seed=self.seed, seconds=seconds)
        if fit is None:
            return False
        self.facts, self.sizes = replace(self.facts, inputs=fit.inputs), fit.sizes
        return True

    def _feeds(self, fill: Fill, assignment: Assignment) -> Feeds:
        return make_feeds(self.facts.inputs, assignment, fill, seed=self.seed, overrides=self.overrides)

    def _run(
        self, plans: Sequence[PlannedCase], exact: int, optimised: int | None, limits: OracleLimits
    ) -> list[OracleCase]:
        cases: list[OracleCase] = []
        kept = 0
        for number, plan in enumerate(plans):
            begin = time.monotonic()
            if begin >= limits.until:
                raise TooLateError("no time is left to run the original")
            if number >= ALWAYS and (begin >= limits.deadline or kept > KEPT_BYTES):
                late = begin >= limits.deadline
                why = "no time" if late else "too much memory"
                self.left_out = len(plans) - number if late else 0
                self.notes.append(f"{len(plans) - number} of {len(plans)} input sets left out: {why}")
                break
            try:
                case = self._case(plan, exact, optimised, limits, with_reference=number < REFERENCE_CASES)
            except (ModelError, WorkerError) as error:
                self.notes.append(f"the original does not run on {plan.label} ({error})")
                continue
            cases.append(case)
            kept += sum(array.nbytes for array in arrays_of({**case.feeds, **case.expected}))
        return cases

    def _case(
        self, plan: PlannedCase, exact: int, optimised: int | None, limits: OracleLimits, *, with_reference: bool
    ) -> OracleCase:
        feeds = self._feeds(plan.fill, plan.assignment)
        expected = self.worker.run(exact, feeds)
        own: tuple[Deviation, ...] = ()
        if optimised is not None:
            try:
                own = compare_outputs(expected, self.worker.run(optimised, feeds))
            except (ModelError, WorkerError) as error:
                self.notes.append(f"the original does not run with the optimizer on ({error})")
        reference = self._reference(feeds, limits) if with_reference else None
        return OracleCase(plan.label, feeds, expected, own, reference)

    def _reference(self, feeds: Feeds, limits: OracleLimits) -> Outputs | None:
        """The float64 evaluation of a small model; a model it cannot evaluate is a remark, not an error."""
        left = limits.deadline - time.monotonic()
        small = limits.flops is not None and limits.flops <= REFERENCE_FLOPS
        if not small or left <= 0 or self.facts.random or not self.evaluable:
            return None
        try:
            return self.worker.reference(self.original, feeds, timeout=min(REFERENCE_S, left / 4))
        except (ModelError, WorkerError) as error:
            self.evaluable = False
            reason = str(error) if isinstance(error, ModelError) else "too slow"
            self.notes.append(f"no float64 reference: {reason}")
            return None

    def _unstable(self, exact: int, cases: Sequence[OracleCase]) -> frozenset[str]:
        """Outputs that the same session does not reproduce, and small ones that are drawn: these may repeat themselves.

        A generator's state advances, seeded or not, and a BatchNormalization in training writes into its own weights.
        Whether anything is drawn can hang on the inputs: all of them are run again where a model can draw.
        """
        same = 0.0 if self.facts.random else _REPEATED
        repeated = cases if self.facts.random else cases[:1]
        names = {n for one in repeated[:1] for n in self.facts.drawn if _elements(one.expected.get(n)) < _FEW}
        try:
            for case in repeated:
                again = self.worker.run(exact, case.feeds)
                names.update(one.output for one in compare_outputs(case.expected, again) if one.relative > same)
        except (ModelError, WorkerError) as error:
            self.notes.append(f"the original ran only once on the same inputs: {error}")
        if names:
            what = "random outputs" if self.facts.random else "outputs that the original does not reproduce"
            self.notes.append(f"{what}, only their form is checked: {', '.join(sorted(names))}")
        return frozenset(names)


def _elements(output: Any) -> int:
    return sum(array.size for array in arrays_of({"": output}))
