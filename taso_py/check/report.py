"""The verdict of a check, with everything a report or a reproduction needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from taso_py.backend.protocol import Feeds
from taso_py.check.compare import Deviation

StopReason = Literal["completed", "time budget"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One set of inputs, e.g. "negative at x=2,3": largest errors over the outputs at ORT_DISABLE_ALL."""

    label: str
    relative: float
    absolute: float
    outputs: tuple[Deviation, ...] = field(default=(), repr=False)
    """Of each output whose values are not random in the original."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """Whether a model keeps an error budget against another, on samples.

    The error is |y - y'|_2 / |y|_2 of the worst output of the worst sample, or what the metric says.
    """

    budget: float
    metric: str | None
    calibration: str | None
    """The file with the samples; None: random data, which says nothing of real inputs."""
    samples: int
    error: float
    output: str
    """The worst output; empty with a metric."""
    sample: int | None
    """The number of the worst sample, from 0 on."""
    kept: bool
    warrant: str | None
    """What the samples warrant, in words; None where the budget is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Whether the candidate computes the original's function; ``reason`` is one line when it does not.

    ``max_rel_error`` = max|y-y'| / max|y| over all cases and outputs at ORT_DISABLE_ALL; ``tolerance``
    belongs to the output that came closest to its own, and is None where ``rtol`` and ``atol`` were given for every
    element; ``own_error`` is the original's distance between
    ENABLE_ALL and DISABLE_ALL; ``reference_error`` the candidate's to a float64 evaluation (None: none).
    """

    passed: bool
    reason: str | None
    max_rel_error: float
    max_abs_error: float
    tolerance: float | None
    own_error: float
    reference_error: float | None
    cases: tuple[CaseResult, ...]
    worst: Deviation | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    elapsed_s: float
    rtol: float | None = None
    atol: float | None = None
    failing_case: str | None = None
    incomparable: bool = False
    """It is not `passed`, but nothing speaks against it: an output hangs on the last bits of whatever it is given."""
    stop_reason: StopReason = "completed"
    """"time budget": nothing differs so far, but not everything was compared, so that it is not `passed`."""
    budget: BudgetReport | None = None
    """Instead of all other figures where an error budget was given."""
    failing_feeds: Feeds | None = field(default=None, repr=False, compare=False)


def refused(reason: str) -> CheckReport:
    """The report for models that cannot be compared at all."""
    return CheckReport(
        passed=False,
        reason=reason,
        max_rel_error=float("inf"),
        max_abs_error=float("inf"),
        tolerance=0.0,
        own_error=0.0,
        reference_error=None,
        cases=(),
        worst=None,
        warnings=(),
        notes=(),
        elapsed_s=0.0,
    )
