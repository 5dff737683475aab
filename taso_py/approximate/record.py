"""What became of an error budget: the second book, beside that of proved rewrites."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from taso_py.options.providers import short_name
from taso_py.providers.record import ProviderRun

Kind = Literal[
    "int8 static", "int8 dynamic", "bf16 by provider hint",
    "int8 static, the rest bf16 by provider hint", "int8 dynamic, the rest bf16 by provider hint",
]  # fmt: skip
HINT: Kind = "bf16 by provider hint"
"""A model without 8-bit layers, run with less precision."""
_WITH_HINT: Mapping[Kind, Kind] = {
    "int8 static": "int8 static, the rest bf16 by provider hint",
    "int8 dynamic": "int8 dynamic, the rest bf16 by provider hint",
}
ReasonCode = Literal[
    "unsupported", "nothing to quantise", "quantiser failed", "beyond the budget",
    "beyond the budget on unseen samples", "nothing faster", "not confirmed", "too noisy", "too little time",
    "did not run", "metric failed", "interrupted",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ApproximationReason:
    """Why nothing was approximated."""

    code: ReasonCode
    words: str
    """The same with its figures, and what to do where something can be done."""


@dataclass(frozen=True, slots=True)
class ApproximatedLayer:
    """One layer that could be made 8-bit."""

    name: str
    operator: str
    approximated: bool
    """Whether it is, in the result."""
    _: KW_ONLY
    error_alone: float | None = None
    """The worst error on the samples of the selection with this layer alone made 8-bit; null: not looked at."""
    gain_s: float | None = None
    """Seconds of one run that it saves by the kernel profiles; null: not known."""


@dataclass(frozen=True, slots=True)
class TriedApproximation:
    """One candidate of the second stage."""

    kind: Kind
    calibrator: str | None
    """How ranges of activations are taken from samples: MinMax, Entropy or Percentile; null: otherwise."""
    layers: int
    """How many layers it approximates."""
    _: KW_ONLY
    whole: bool = False
    """Whether it is a choice for the whole model, as the tool makes it by itself."""
    error: float | None = None
    """The worst on the samples of the selection, or the first that was beyond the budget; null: not measured."""
    speedup: float | None = None
    """Median of the race over the exact result; null: not timed."""
    failure: str | None = None
    ep: str | None = None
    """The provider that it runs on, by a hint or not; null: it runs where the exact model does."""
    of_original: bool = False
    """Whether it is an approximation of the original, without the proved rewrites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximation:
    """The approximate stage of one run, which works on the exact result; nothing in it is proved.

    Errors are |y - y'|_2 / |y|_2 of the worst output of the worst sample against the original, or what the metric says.
    Speed-ups are medians of paired ratios with 95 % intervals. Null: not measured.
    """

    budget: float
    metric: str | None
    calibration: str | None
    """The file with the samples; null: random data."""
    random_data: bool
    """Nobody gave samples: the error says nothing of real inputs."""
    calibration_samples: int
    selection_samples: int
    test_samples: int
    """Samples used for nothing but `error`."""
    applied: bool
    """Whether the result is the approximation."""
    reason: ApproximationReason | None = None
    """Why it is not; null where it is."""
    kind: Kind | None = None
    calibrator: str | None = None
    provider: ProviderRun | None = None
    """The provider, with its hint if there is one, on which the result runs; null: where the exact model ran."""
    of_original: bool = False
    """Whether the original was approximated, not what proved rewrites made of it; `speedup` is over the original then.
    """
    exact_sha256: str | None = None
    """Of the exact model that was approximated, as a file without external data."""
    nodes: int | None = None
    """Nodes of the approximate model; of the exact one where a hint alone approximates."""
    speedup: float | None = None
    """Of the result over the exact model: what approximation alone gains."""
    speedup_low: float | None = None
    speedup_high: float | None = None
    exact_speedup: float = 1.0
    """Of the exact model over the original: what proved rewrites gain; 1 where they found nothing."""
    exact_low: float = 1.0
    exact_high: float = 1.0
    exact_reason: str | None = None
    """Why proved rewrites gained nothing; null where they did."""
    latency_exact_ms: float | None = None
    latency_ms: float | None = None
    rounds_ms: tuple[tuple[float, float], ...] = ()
    """The paired rounds of its confirmation: the exact model and the approximate one."""
    error: float | None = None
    """The worst on the test samples."""
    worst_output: str | None = None
    worst_layer: str | None = None
    """The approximated layer with the largest error alone."""
    warrant: str | None = None
    """What the test samples warrant, in words."""
    layers: tuple[ApproximatedLayer, ...] = ()
    approximate_nodes: tuple[str, ...] = ()
    """Names of all nodes of the result that compute with 8 bits or through them, its layers included."""
    tried: tuple[TriedApproximation, ...] = ()

    @property
    def total_speedup(self) -> float | None:
        """Both gains together: the product of two confirmed medians."""
        return None if self.speedup is None else self.exact_speedup * self.speedup

    @property
    def total_interval(self) -> tuple[float, float, float] | None:
        """Low, median and high of the product; the products of the bounds hold at once with more than 90 %."""
        if self.speedup is None or self.speedup_low is None or self.speedup_high is None:
            return None
        low, high = self.exact_low * self.speedup_low, self.exact_high * self.speedup_high
        return low, self.exact_speedup * self.speedup, high

    @property
    def approximated(self) -> tuple[ApproximatedLayer, ...]:
        """The layers that are approximate in the result."""
        return tuple(layer for layer in self.layers if layer.approximated)

    def sentence(self) -> str:
        """Both books on one line."""
        allowed = f"budget {self.figure(self.budget)}"
        if not self.applied or self.speedup is None:
            why = "" if self.reason is None else f": {self.reason.words}"
            return f"no approximation within the {allowed}{why}"
        exact, more = f"{self.exact_speedup:.2f} from proved rewrites", f"{self.speedup:.2f} from approximations"
        error = f"error {self.figure(self.error)} on {self.test_samples} unseen samples ({allowed})"
        worst = "" if self.worst_layer is None else f", worst layer {self.worst_layer}"
        together = f"{self.total_speedup or 0:.2f} together"
        return f"{exact}, {more}, {together}; {error}{worst}; not proved: {self._what()}"

    def figure(self, error: float | None) -> str:
        """An error in its unit."""
        return "unknown" if error is None else figure(error, self.metric)

    def session_words(self) -> str | None:
        """What the session file says of it; None where no provider's hint is part of it."""
        if not self.applied or self.provider is None:
            return None
        error = f"error {self.figure(self.error)} on {self.test_samples} unseen samples"
        return f"{self.kind}: {error}, budget {self.figure(self.budget)}; not proved"

    def _what(self) -> str:
        where = "" if self.provider is None else f", {short_name(self.provider.ep)}"
        if self.kind == HINT:
            return f"the whole model ({self.kind}{where})"
        count = len(self.approximated)
        others = max(0, len(self.approximate_nodes) - count)
        more = f" and {others} other {'node' if others == 1 else 'nodes'}" if others else ""
        return f"{count} {'layer' if count == 1 else 'layers'}{more} ({self.kind}{where})"


def with_hint(kind: Kind) -> Kind:
    """What a model with 8-bit layers is where a provider's hint makes the rest less precise as well."""
    return _WITH_HINT[kind]


def figure(error: float, metric: str | None) -> str:
    """An error in percent, or as the user's metric says it."""
    return percent(error) if metric is None else f"{error:.3g}"


def percent(share: float) -> str:
    """0.0071 -> ``0.71 %``, with two significant digits; an error without bound has no figure."""
    return "without bound" if math.isinf(share) else f"{100 * share:.2g} %"
