"""The error of a candidate on samples: as it would be deployed, against the original with the optimiser off."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from taso_py.approximate.measure import Deviation, deviation, has_new_nonfinite
from taso_py.approximate.metric import Metric
from taso_py.approximate.samples import Samples
from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, ModelRef, Outputs
from taso_py.check.compare import arrays_of
from taso_py.errors import TooLateError

_KEPT_BYTES = 2**28
"""Of the original's outputs; those of further samples are computed again each time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst error over some samples; inf where the values cannot be compared, or NaN or Inf came in."""

    error: float
    output: str
    """The worst output; empty with a metric of the user's."""
    sample: int | None
    """The number of the worst sample."""
    samples: int
    """How many were looked at: fewer than there are where the first ones decided."""
    mean: float = 0.0
    """Root of the mean square of these samples' errors."""


@dataclass(slots=True)
class Judge:
    """Compares models with the original, each request within ``patience_s`` seconds.

    ``worker`` runs the models as they are deployed, ``oracle`` the original on our own CPU provider.
    """

    original: ModelRef
    samples: Samples
    worker: Worker
    oracle: Worker
    metric: Metric | None = None
    patience_s: float = 120.0
    _handle: int | None = field(default=None, init=False)
    _kept: dict[int, Outputs] = field(default_factory=dict, init=False)
    _kept_bytes: int = field(default=0, init=False)

    def verdict(
        self,
        model: ModelRef,
        numbers: Sequence[int],
        *,
        beyond: float = math.inf,
        until: float = math.inf,
        least: int | None = None,
    ) -> Verdict:
        """The worst error over these samples; no further ones are looked at once it is more than ``beyond``.

        The first ``least`` are looked at in any case. Where time.monotonic() passes ``until`` it is the worst of those
        looked at, if they are ``least`` or more or one is beyond; otherwise TooLateError.  ModelError or WorkerError
        where a model does not run.
        """
        handle = self.worker.open(model, timeout=self.patience_s)
        try:
            worst, errors = Verdict(0.0, "", None, 0), list[float]()
            for number in numbers:
                looked = len(errors) >= (least or 0)
                if looked and worst.error > beyond:
                    break
                try:
                    one = self._error(number, handle, until)
                except TooLateError:
                    if worst.error > beyond or (looked and least is not None):
                        break
                    raise
                errors.append(one.error)
                if one.error > worst.error or worst.sample is None:
                    worst = Verdict(one.error, one.output, number, 0)
        finally:
            self.worker.close(handle)
        mean = float(np.sqrt(np.mean(np.square(errors)))) if errors else 0.0
        return Verdict(worst.error, worst.output, worst.sample, len(errors), mean)

    def on(self, worker: Worker) -> Judge:
        """The same judge for models that another worker runs."""
        other = Judge(self.original, self.samples, worker, self.oracle, self.metric, self.patience_s)
        other._handle, other._kept, other._kept_bytes = self._handle, self._kept, self._kept_bytes
        return other

    def expected(self, number: int) -> Outputs:
        """What the original makes of a sample; ModelError where it does not run on it."""
        if number in self._kept:
            return self._kept[number]
        if self._handle is None:
            self._handle = self.oracle.open(self.original, level="disable", ep=CPU, timeout=self.patience_s)
        outputs = self.oracle.run(self._handle, self.samples.feeds(number), timeout=self.patience_s)
        size = sum(array.nbytes for array in arrays_of(outputs))
        if self._kept_bytes + size <= _KEPT_BYTES:
            self._kept[number] = outputs
            self._kept_bytes += size
        return outputs

    def _error(self, number: int, handle: int, until: float) -> Deviation:
        if time.monotonic() >= until:
            raise TooLateError("no time is left to compare models")
        expected = self.expected(number)
        found = self.worker.run(handle, self.samples.feeds(number), timeout=self.patience_s)
        if self.metric is None:
            return deviation(expected, found)
        if has_new_nonfinite(expected, found):
            return Deviation(math.inf)
        return Deviation(self.metric.error(expected, found, until=until))
