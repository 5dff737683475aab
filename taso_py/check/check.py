"""Does the candidate compute what the original computes? One verdict for any number of candidates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.conditioning import Conditioning
from taso_py.check.facts import ModelFacts, read_facts
from taso_py.check.fitting import Fit
from taso_py.check.headroom import cramped
from taso_py.check.oracle import ALWAYS, Oracle, OracleLimits, Prepared
from taso_py.check.report import CheckReport
from taso_py.check.shapes import Shape
from taso_py.check.tolerance import Closeness
from taso_py.check.trial import CandidateTrial
from taso_py.errors import ModelError, TooLateError, WorkerError
from taso_py.stop import is_hurried


class Checker:
    """Checks candidates against one original, whose outputs are computed once; a context manager.

    ``workloads`` are assignments as for `resolve_shapes` (none: the default shapes); ``overrides`` are arrays
    that replace generated inputs; ``sizes`` are those of symbols for which no workload says others; ``closeness``
    stands in place of the tolerances of the element types. ``worker``
    lends a worker of the same configuration; it is left running.
    At most two sessions are alive at any time.
    """

    def __init__(
        self,
        original: ModelRef | Path | bytes,
        config: WorkerConfig,
        *,
        workloads: Sequence[Mapping[str, Shape]] = (),
        overrides: Mapping[str, Any] | None = None,
        seed: int = 0,
        limits: OracleLimits | None = None,
        closeness: Closeness | None = None,
        facts: ModelFacts | None = None,
        sizes: Mapping[str, int] | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.original = ModelRef.of(original)
        self.config = config
        self.limits = limits or OracleLimits()
        self.closeness = closeness
        self.facts = facts or read_facts(self.original)
        self._lent = worker
        self._deployed = worker or Worker(config)
        # The oracle is the CPU provider of our own ONNX Runtime, wherever candidates run.
        plain = replace(config, ort_level="all", threads=1) == WorkerConfig()
        self._worker = self._deployed if plain else Worker(WorkerConfig(threads=config.threads))
        self._oracle = Oracle(self._worker, self.original, self.facts, workloads, dict(overrides or {}), seed)
        self._oracle.sizes = sizes or {}
        self._prepared: Prepared | None = None
        self._conditioning: Conditioning | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(at_once=is_hurried(kind))

    def close(self, *, at_once: bool = False) -> None:
        """End the workers, except one that was lent."""
        for worker in (self._worker, self._deployed):
            if worker is not self._lent:
                worker.stop(at_once=at_once)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Within the block no worker is waited for beyond the limit, and nothing holds that was found after it.

        TooLateError: a worker that did not answer then says nothing of a model, neither good nor bad.
        """
        try:
            with self._worker.keeping_to(self.limits.until), self._deployed.keeping_to(self.limits.until):
                yield
        except (ModelError, WorkerError):
            self._require_time()
            raise
        self._require_time()

    def _require_time(self) -> None:
        if time.monotonic() >= self.limits.until:
            raise TooLateError("no time is left to compare models")

    def prepare(self) -> Prepared:
        """Run the original on all cases (once); ModelError when ONNX Runtime cannot run it."""
        if self._prepared is None:
            with self._in_time():
                self._prepared = self._oracle.prepare(self.limits)
        return self._prepared

    def fit(self) -> Fit:
        """Inputs and sizes with which the original runs: those that its other runs should have too.

        ModelError when ONNX Runtime cannot run it.
        """
        self.prepare()
        return Fit(self._oracle.facts.inputs, self._oracle.sizes)

    def check(
        self,
        candidate: ModelRef | Path | bytes,
        *,
        deadline: float = math.inf,
        deployed: bool = True,
        first_failure: bool = False,
    ) -> CheckReport:
        """The verdict on one candidate; its failures are in the report, only the original's raise.

        ``deployed`` False leaves out the session as it will run; ``first_failure`` stops at the first
        mismatch (both for bisection). After ``deadline`` (time.monotonic()) only the first two cases are run.
        TooLateError where the checker's own last moment passes.
        """
        begin = time.monotonic()
        prepared = self.prepare()
        if self._conditioning is None:
            self._conditioning = Conditioning(self._worker, self.original, prepared)
        trial = CandidateTrial(
            candidate=ModelRef.of(candidate),
            original=self.original,
            prepared=prepared,
            facts=self.facts,
            config=self.config,
            oracle=self._worker,
            worker=self._deployed,
            deadline=deadline,
            until=self.limits.until,
            first_failure=first_failure,
            conditioning=self._conditioning,
            closeness=self.closeness,
        )
        with self._in_time():
            trial.at_oracle()
            if deployed and trial.reason is None:
                trial.as_deployed()
        return trial.report(time.monotonic() - begin)

    def cramped(self, candidate: ModelRef) -> str | None:
        """Why float16 values of a candidate have too little room for inputs larger than the check's; None: enough."""
        if self.facts.narrowest != "float16":
            return None
        cases = [case.feeds for case in self.prepare().cases[:ALWAYS]]
        try:
            with self._in_time():
                return cramped(self._worker, self.original, candidate, cases)
        except (ModelError, WorkerError) as error:
            return f"its values cannot be looked at: {error}"
