"""Medians, bootstrap intervals and percentiles of paired timings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with its bootstrap interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Percentiles:
    """p50, p90 and p99 in the unit of the samples."""

    p50: float
    p90: float
    p99: float


def bootstrap_interval(ratios: Sequence[float], *, level: float = 0.95, seed: int = 0) -> Interval:
    """Median of ``ratios`` and its percentile-bootstrap interval; the same seed gives the same interval.

    low, high = the (1 ± level)/2 quantiles of the medians of RESAMPLES resamples drawn with replacement.
    """
    if not ratios:
        raise ValueError("bootstrap_interval needs at least one ratio")
    values = np.asarray(ratios, dtype=np.float64)
    generator = np.random.default_rng(seed)
    resamples = generator.choice(values, size=(RESAMPLES, len(values)), replace=True)
    low, high = np.quantile(np.median(resamples, axis=1), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(np.median(values)), float(low), float(high))


def percentiles(samples: Sequence[float] | np.ndarray[Any, np.dtype[np.float64]]) -> Percentiles:
    """p50, p90, p99 of the samples (linear interpolation)."""
    p50, p90, p99 = np.percentile(np.asarray(samples, dtype=np.float64), [50, 90, 99])
    return Percentiles(float(p50), float(p90), float(p99))


def geometric_mean(values: Sequence[float]) -> float:
    """(Π v)^(1/n) of positive values."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=np.float64)))))
