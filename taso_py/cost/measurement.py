"""One measured time, as the cache keeps it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured region: its old and its new form and the noise in seconds, timed rounds, ONNX Runtime, Unix time."""

    before: float
    after: float
    noise: float
    samples: int
    ort_version: str
    created: float

    @staticmethod
    def now(before: float, after: float, noise: float, samples: int, ort_version: str) -> Measurement:
        """One taken at this moment."""
        return Measurement(before, after, noise, samples, ort_version, time.time())
