"""One candidate on its way to a verdict: at ORT_DISABLE_ALL, against float64, and as it will be deployed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, ModelRef, Outputs, WorkerConfig
from taso_py.check.compare import Deviation, compare_outputs, compare_values, is_floating
from taso_py.check.conditioning import Conditioning
from taso_py.check.facts import ModelFacts
from taso_py.check.oracle import ALWAYS, OracleCase, Prepared
from taso_py.check.report import CaseResult, CheckReport
from taso_py.check.tolerance import OWN_FACTOR, Closeness, Limit, deployed_tolerance, tolerance_for
from taso_py.errors import ModelError, TooLateError, WorkerError


@dataclass(slots=True, kw_only=True)
class CandidateTrial:
    """Collects what the candidate does; the first failure is the verdict's reason."""

    candidate: ModelRef
    original: ModelRef
    prepared: Prepared
    facts: ModelFacts
    config: WorkerConfig
    oracle: Worker
    worker: Worker
    """Runs sessions as deployed; may be the oracle's worker."""
    deadline: float
    until: float
    """After this there is no verdict; both are time.monotonic() values."""
    first_failure: bool
    conditioning: Conditioning
    closeness: Closeness | None
    """The user's own tolerance, in place of those of the element types."""
    reason: str | None = None
    failing: OracleCase | None = None
    incomparable: bool = False
    """Whether the reason is no difference, but that there is nothing to hold an output to."""
    worst: tuple[float, Limit, Deviation] | None = None  # share of the limit, limit, deviation
    reference_error: float | None = None
    cases: list[CaseResult] = field(default_factory=list)
    cut: bool = False
    """Whether there was no time for some sets of inputs."""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def at_oracle(self) -> None:
        """Both models at ORT_DISABLE_ALL on the CPU; small ones against the float64 evaluation too."""
        try:
            handle = self.oracle.open(self.candidate, level="disable", ep=CPU)
        except (ModelError, WorkerError) as error:
            self._fail(str(error), None)
            return
        for case in self._affordable():
            try:
                outputs = self.oracle.run(handle, case.feeds)
            except (ModelError, WorkerError) as error:
                self._fail(f"{error} (inputs: {case.label})", case)
                break
            self._judge(case, compare_outputs(case.expected, outputs, self.closeness), outputs)
            if case.reference is not None:
                self._judge_against_float64(case, case.reference, outputs)
            if self.reason is not None and self.first_failure and not self.incomparable:
                break
        self.oracle.close(handle)

    def as_deployed(self) -> None:
        """The candidate at the chosen provider and level; what the original shows as well is a warning."""
        try:
            handle = self.worker.open(self.candidate)
        except (ModelError, WorkerError) as error:
            self._ask_original_to_load(error)
            return
        doubtful: list[tuple[OracleCase, Deviation | str]] = []
        for case in self._affordable():
            try:
                outputs = self.worker.run(handle, case.feeds)
            except (ModelError, WorkerError) as error:
                doubtful.append((case, str(error)))
                break
            found = self._stable(compare_outputs(case.expected, outputs, self.closeness))
            beyond = [one for one in found if _beyond(one, self._deployed_limit(one))]
            doubtful += [
                (case, one) for one in beyond if not self._excused(case, one, outputs, self._deployed_limit(one))
            ]
        self.worker.close(handle)
        if doubtful:
            self._ask_original(doubtful)

    def report(self, elapsed_s: float) -> CheckReport:
        """The verdict so far."""
        none = 0.0 if self.reason is None else math.inf
        _, limit, deviation = self.worst or (0.0, Limit(0.0), None)
        close = self.closeness
        return CheckReport(
            passed=self.reason is None,
            reason=self.reason,
            max_rel_error=max((case.relative for case in self.cases), default=none),
            max_abs_error=max((case.absolute for case in self.cases), default=none),
            tolerance=limit.relative if close is None else None,
            rtol=None if close is None else close.rtol,
            atol=None if close is None else close.atol,
            own_error=self.prepared.largest_own_error(),
            reference_error=self.reference_error,
            cases=tuple(self.cases),
            worst=deviation,
            warnings=tuple(dict.fromkeys(self.warnings)),
            notes=(*self.prepared.notes, *dict.fromkeys(self.notes)),
            stop_reason="time budget" if self.reason is None and (self.cut or self.prepared.left_out) else "completed",
            elapsed_s=elapsed_s,
            failing_case=None if self.failing is None else self.failing.label,
            failing_feeds=None if self.failing is None else self.failing.feeds,
            incomparable=self.incomparable,
        )

    def _affordable(self) -> Iterator[OracleCase]:
        """The cases; after the deadline only the first two.  TooLateError after the last moment."""
        for number, case in enumerate(self.prepared.cases):
            if time.monotonic() >= self.until:
                raise TooLateError("no time is left to compare models")
            if number >= ALWAYS and time.monotonic() >= self.deadline:
                self.cut = True
                self.notes.append(f"candidate compared on {number} of {len(self.prepared.cases)} input sets")
                return
            yield case

    def _stable(self, found: Sequence[Deviation]) -> list[Deviation]:
        """Without the values (not the form) of outputs that are random in the original."""
        return [one for one in found if one.output not in self.prepared.unstable or one.malformed]

    def _judge(self, case: OracleCase, found: Sequence[Deviation], outputs: Outputs) -> None:
        stable = self._stable(found)
        largest = max((one.relative for one in stable), default=0.0)
        farthest = max((one.absolute for one in stable), default=0.0)
        self.cases.append(CaseResult(case.label, largest, farthest, tuple(stable)))
        for one in stable:
            limit = self._limit(one)
            beyond = _beyond(one, limit)
            if beyond and self._excused(case, one, outputs, limit):
                continue
            share = limit.share(one.relative, one.excess)
            if self.worst is None or share > self.worst[0]:
                self.worst = (share, limit, one)
            if beyond:
                self._fail(f"{one.describe()}, allowed {limit} (inputs: {case.label})", case)

    def _judge_against_float64(self, case: OracleCase, reference: Outputs, outputs: Outputs) -> None:
        """The candidate may not be farther from float64 than the tolerance, where the original is not."""
        for name, exact in reference.items():
            if name in self.prepared.unstable or not isinstance(exact, np.ndarray):
                continue
            ours, theirs = case.expected.get(name), outputs.get(name)
            if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray):
                continue
            if not is_floating(exact.dtype) or not is_floating(ours.dtype) or theirs.dtype != ours.dtype:
                continue
            limit = self._limit(compare_values(name, ours, theirs))
            if _beyond(compare_values(name, exact, ours.astype(exact.dtype), self.closeness), limit):
                self.notes.append(f"output '{name}': float64 evaluation not used, the original is far from it")
                continue
            distance = compare_values(name, exact, theirs.astype(exact.dtype), self.closeness)
            self.reference_error = max(self.reference_error or 0.0, distance.relative)
            if _beyond(distance, limit) and not self._excused(case, distance, outputs, limit):
                text = f"{distance.describe()} against a float64 evaluation, allowed {limit}"
                self._fail(f"{text} (inputs: {case.label})", case)

    def _excused(self, case: OracleCase, one: Deviation, outputs: Outputs, limit: Limit) -> bool:
        """Whether the original moves as far where its inputs do in their last bits; the user's tolerance stands."""
        if self.closeness is not None:
            return False
        self.conditioning.deadline = min(self.deadline, self.until)
        excuse = self.conditioning.excuse(case, one, outputs.get(one.output), limit.relative)
        if excuse is None:
            return False
        if excuse.holds:
            self.notes.append(excuse.words)
        elif self.reason is None:
            self.reason, self.failing, self.incomparable = excuse.words, case, True
        return True

    def _limit(self, one: Deviation) -> Limit:
        allowed = tolerance_for(one.dtype, narrowest=self.facts.narrowest)
        return Limit(allowed.allow(self.prepared.own_error(one.output)), self.closeness)

    def _deployed_limit(self, one: Deviation) -> Limit:
        allowed = deployed_tolerance(one.dtype, self.config.ep, self.config.ep_options, narrowest=self.facts.narrowest)
        return Limit(allowed.allow(self.prepared.own_error(one.output)), self.closeness)

    def _ask_original_to_load(self, error: Exception) -> None:
        try:
            self.worker.close(self.worker.open(self.original))
        except (ModelError, WorkerError):
            self.warnings.append(f"as deployed, neither model loads: {error}")
        else:
            self._fail(f"as deployed: {error}", None)

    def _ask_original(self, doubtful: Sequence[tuple[OracleCase, Deviation | str]]) -> None:
        """Run the original as deployed on the doubtful cases: its own deviation excuses the candidate's."""
        try:
            handle = self.worker.open(self.original)
        except (ModelError, WorkerError) as error:
            self.warnings.append(f"as deployed, the original does not load: {error}")
            return
        for case, ours in doubtful:
            try:
                outputs = self.worker.run(handle, case.feeds)
            except (ModelError, WorkerError) as error:
                self.warnings.append(f"as deployed, the original does not run on {case.label}: {error}")
                continue
            if isinstance(ours, str):
                self._fail(f"as deployed: {ours} (inputs: {case.label})", case)
                continue
            deviations = compare_outputs(case.expected, outputs, self.closeness)
            own = next(one for one in deviations if one.output == ours.output)
            limit = self._deployed_limit(ours)
            if _beyond(own, limit) and ours.relative <= OWN_FACTOR * own.relative:
                self.warnings.append(
                    f"as deployed, {ours.describe()} (inputs: {case.label}); so does the original "
                    f"({own.relative:.2g}): ONNX Runtime's optimizer or provider changes this model"
                )
            else:
                text = f"as deployed, {ours.describe()}, allowed {limit}"
                self._fail(f"{text}, original {own.relative:.2g} (inputs: {case.label})", case)
        self.worker.close(handle)

    def _fail(self, reason: str, case: OracleCase | None) -> None:
        """A difference, which says more than that there is nothing to compare."""
        if self.reason is None or self.incomparable:
            self.reason, self.failing, self.incomparable = reason, case, False


def _beyond(one: Deviation, limit: Limit) -> bool:
    return limit.exceeded(one.relative, one.excess)
