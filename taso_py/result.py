"""What `optimize`, `inspect` and the report share: frozen records of what was done and measured."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol

from taso_py.errors import SuperoptError, UsageError
from taso_py.finished import PlacedModel
from taso_py.gate import SPEEDUP, Condition, Measured, Verdict, judge, require
from taso_py.options.delivery import REPORT_SUFFIXES
from taso_py.options.gate import require_conditions
from taso_py.paths import name_in_json
from taso_py.version import VERSION

SCHEMA = "superopt.result/1"
BACKWARDS = ", backwards"
"""Behind the name of a law that was applied from right to left."""
INSPECTION_SCHEMA = "superopt.inspection/1"


@dataclass(frozen=True, slots=True)
class RuleReport:
    """One rule that took part in the result.

    `gain` is the part of the whole model's cost that its sites save together, as the search priced it:
    0.06 means 6 %; None where nothing was priced.
    """

    name: str
    id: str
    status: str
    sites: int
    gain: float | None
    _: KW_ONLY
    places: tuple[str, ...] = ()
    """ONNX names of the original's values that were replaced, or that are computed from what was replaced again."""
    law: str = ""
    """The rule's text."""
    backwards: bool = False
    """Whether the law was applied from right to left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputError:
    """How far one output of the result was from the original's on one set of inputs, at ORT_DISABLE_ALL."""

    inputs: str
    """The kind of inputs and their sizes: "negative at x=2,3"."""
    output: str
    relative: float
    """max|y-y'| / max|y|."""
    absolute: float


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """The kernels of one operator of the graph that ONNX Runtime made: how many, seconds of one run, share of all."""

    operator: str
    kernels: int
    seconds: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """Where a model's time goes: kernels only, without the time between them."""

    seconds: float
    """Of all kernels in one run."""
    operators: tuple[OperatorTime, ...]
    """The slowest first."""
    product_kernels: int
    """Convolutions and matrix products, whatever is fused into them."""
    products_share: float
    operations_per_second: float | None
    """Of those, multiplications and additions; None where their number is not known."""
    peak_operations_per_second: float | None
    """Of a large matrix product on this machine, in the same process."""

    @property
    def gain_of_the_rest(self) -> float:
        """How many times faster the model would be if nothing but its products took time."""
        return 1 / self.products_share if self.products_share > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rewrite that is barred from the result: it changed the model's values (its reproduction is saved), its
    weights leave the range of their element type, or nothing can tell whether it changed a value, as where rounding
    alone decides an output.
    """

    name: str
    id: str
    site: str
    reason: str
    reproduction: Path | None = None


ReasonCode = Literal[
    "unsupported", "nothing matched", "nothing faster", "all rejected", "lost the race", "not confirmed",
    "too noisy", "too little time", "race ended early", "interrupted",
]  # fmt: skip
_DOUBTS: Mapping[ReasonCode, Verdict] = {
    "too noisy": "too noisy",
    "too little time": "not decided",
    "race ended early": "not decided",
    "interrupted": "not decided",
}
"""Reasons that leave open whether a faster model was found; the others say that none was."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a model was returned as it was."""

    code: ReasonCode
    words: str
    """The same with its figures, and what to do where something can be done."""


@dataclass(frozen=True, slots=True)
class RacedCandidate:
    """A candidate that was raced against the original, by the rules that made it.

    `predicted_speedup` is what the search took it for, `speedup` the median of the race's paired ratios; None where it
    was not timed, and then `failure` says why.
    """

    rules: tuple[str, ...]
    predicted_speedup: float | None
    speedup: float | None
    rounds: int
    failure: str | None = None


class Presenter(Protocol):
    """What shows a result in some medium."""

    def compact(self, result: Result) -> str:
        """A piece of HTML for a notebook."""
        ...

    def page(self, result: Result) -> str:
        """An HTML page that needs no other file."""
        ...

    def write(self, result: Result, path: Path, *, force: bool) -> None:
        """Write a report as the suffix says."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(PlacedModel):
    """The outcome of one optimisation: `to_json` holds the figures, `model` and `save` the model itself.

    Times in milliseconds are medians of the confirmation run, `speedup` is the median of the paired ratios
    before/after and [`speedup_low`, `speedup_high`] its 95 % bootstrap interval. Errors are the largest over
    all checked inputs and outputs; relative means max|y-y'| / max|y|. None: not measured.
    """

    input: Path | None
    improved: bool | None
    """None: not timed (``--no-race``)."""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    predicted_speedup: float | None = None
    latency_before_ms: float | None = None
    latency_after_ms: float | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    tolerance: float | None = None
    """Allowed relative error of the output that came closest to it; None where `rtol` and `atol` were given."""
    rtol: float | None = None
    atol: float | None = None
    """|y-y'| <= atol + rtol·|y| was allowed for every element; None: the tolerance of the element type."""
    nodes_before: int
    nodes_after: int
    opaque_nodes: int
    flops_before: int | None = None
    flops_after: int | None = None
    rules: tuple[RuleReport, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    raced: tuple[RacedCandidate, ...] = ()
    """Every candidate of the race, whether it won or lost."""
    reason: Reason | None = None
    """Why the model was not improved; None where it was."""
    profile: ModelProfile | None = None
    """Where the original's time goes; None where nothing was timed."""
    profile_after: ModelProfile | None = None
    """Where the result's time goes; None for a result that is the original, and where there is no `profile`."""
    rounds_ms: tuple[tuple[float, float], ...] = ()
    """The paired rounds of the confirmation: medians of the original and of the result, summed over the workloads."""
    errors: tuple[OutputError, ...] = ()
    """One for each set of inputs and output that was compared."""
    stop_reason: str
    elapsed_s: float
    phases_s: Mapping[str, float] = field(default_factory=dict)
    ep: str
    threads: int
    shapes: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    """One assignment input -> sizes per workload."""
    cpu: str
    gpu: str | None = None
    """By name; null where nothing is computed on one, or its driver does not tell."""
    ort_version: str
    seed: int
    notes: tuple[str, ...] = ()
    """Remarks for the reader, one line each."""
    warnings: tuple[str, ...] = ()
    """What was warned of while it was made."""
    gate: tuple[Condition, ...] = ()
    """The conditions that `judged` judged it by."""
    presenter: Presenter | None = field(default=None, repr=False)
    """What `report` and notebooks show it with."""
    unproved: str = ""
    """How many of the chosen rules were left out for want of a proof, in words; empty: none was."""
    recalled: bool = False
    """Whether the search was that of an earlier run: what it found was made, checked and timed anew."""
    suggested_budget_s: float | None = None
    """A time budget in seconds with which more might be found; None where time was not what ended the search."""

    @property
    def changed(self) -> bool:
        """Whether the resulting model differs from the one given."""
        return bool(self.rules) or self.approximate

    def save_decisions(self, path: str | PathLike[str], *, force: bool = False) -> None:
        """Write what was decided, for `taso_py.apply`, with what was measured for whoever reviews it.

        Raises OutputError like `save`.
        """
        told = {name: plain(getattr(self, name)) for name in _MEASURED}
        self._write_beside(path, self._evidence().decisions(told), force=force)

    @property
    def as_given(self) -> bool:
        """Whether the model came back as it was: its speed-up is 1, its error 0, its size the same."""
        return self.improved is False or self.reason is not None

    def judged(self, conditions: Mapping[str, float]) -> Result:
        """The result with a verdict in `gate` on each condition, of min-speedup, max-rel-error and max-size.

        UsageError for another, and for a number that cannot be meant.
        """
        require_conditions(conditions)
        return dataclasses.replace(self, gate=judge(conditions, self._measured()))

    def require_gate(self) -> None:
        """Raise GateError, TooNoisyError or UndecidedError unless every condition of `gate` is passed."""
        require(self.gate)

    def report(self, path: str | PathLike[str] | None = None, *, force: bool = False) -> str | None:
        """The report as the text of one HTML page, or, with ``path``, written there as .html, .md or .json.

        Raises UsageError for another suffix, OutputError like `save`.
        """
        if self.presenter is None:
            raise SuperoptError("this result was not made by optimize: there is nothing that a report is made with")
        if path is None:
            return self.presenter.page(self)
        target = Path(path)
        if target.suffix.lower() not in REPORT_SUFFIXES:
            raise UsageError(f"report {target}: the name must end in {', '.join(REPORT_SUFFIXES)}")
        self.presenter.write(self, target, force=force)
        return None

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None: it shows the representation."""
        return None if self.presenter is None else self.presenter.compact(self)

    def require_speedup(self, minimum: float) -> None:
        """Raise GateError unless the lower bound of the confirmed speed-up is at least `minimum`.

        It is SpeedupNotReachedError, TooNoisyError where the figures cannot tell, UndecidedError where there are none.
        """
        self.judged({SPEEDUP: minimum}).require_gate()

    def _measured(self) -> Measured:
        if self.as_given:
            reason = self.reason
            doubt, why = (None, "") if reason is None else (_DOUBTS.get(reason.code), reason.words)
            back = f"the model came back as it was{': ' if why else ''}{why}"
            return Measured(speedup=(1.0, 1.0, 1.0), rel_error=0.0, size=1.0, doubt=doubt, why=back)
        low, middle, high = self.speedup_low, self.speedup, self.speedup_high
        timed = None if low is None or middle is None or high is None else (low, middle, high)
        error, further = self.max_rel_error, self.approximation
        if further is not None and further.applied:  # the gate is about what is written
            timed = further.total_interval
            # A metric of the user's says nothing of relative errors.
            error = max(error or 0.0, further.error or 0.0) if further.metric is None else None
        before, after = self.bytes_before, self.bytes_after
        size = None if not before or after is None else after / before
        return Measured(speedup=timed, rel_error=error, size=size)

    def to_dict(self) -> dict[str, Any]:
        """The JSON fields, in their documented order, as plain values."""
        head = {"schema": SCHEMA, "superopt_version": VERSION}
        return head | {name: plain(getattr(self, name)) for name in JSON_FIELDS}

    def to_json(self) -> str:
        """One JSON object; figures that are not finite or were not measured are null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


_MEASURED = (
    *("improved", "speedup", "speedup_low", "speedup_high", "max_rel_error", "tolerance"),
    *("ep", "threads", "shapes", "cpu", "gpu", "ort_version", "reason", "stop_reason"),
)
"""What decisions say of the run that made them."""

JSON_FIELDS = (
    *("input", "output", "output_sha256", "improved", "speedup", "speedup_low", "speedup_high"),
    *("predicted_speedup", "latency_before_ms", "latency_after_ms", "max_abs_error", "max_rel_error"),
    *("tolerance", "rtol", "atol", "bytes_before", "bytes_after"),
    *("nodes_before", "nodes_after", "opaque_nodes", "flops_before", "flops_after", "rules"),
    *("rejected", "raced", "reason", "profile", "profile_after", "rounds_ms", "errors", "stop_reason", "recalled"),
    *("elapsed_s", "phases_s", "ep", "threads", "shapes", "cpu", "gpu", "ort_version"),
    *("seed", "notes", "warnings", "gate", "placement", "approximation"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What `superopt inspect` tells about a model, at the shapes given.

    `bytes_moved` counts what every operator reads and writes; `peak_activation_bytes` is the largest sum of
    live activations in the order of the file. None: some shape is unknown.
    """

    input: Path | None
    nodes: int
    operators: Mapping[str, int]
    """``domain::type`` (no domain for the standard one) -> how many."""
    opaque_types: Mapping[str, int]
    opsets: Mapping[str, int]
    ir_version: int
    inputs: Mapping[str, str]
    """Name -> type, as in ``float32[batch,3,224,224]``."""
    outputs: Mapping[str, str]
    parameters: int
    parameter_bytes: int
    flops: int | None
    bytes_moved: int | None
    peak_activation_bytes: int | None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The assignment at which the figures hold."""
    profile: ModelProfile | None = None
    """Where the time goes, if that was asked for."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """What superopt wrote into the model about how it was made: `superopt.` keys of its metadata."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader, one line each; shown by the command line, not part of the JSON."""

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values."""
        fields = {item.name: plain(getattr(self, item.name)) for item in dataclasses.fields(self)}
        return {"schema": INSPECTION_SCHEMA} | fields

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """Dataclasses, mappings, sequences and paths as JSON knows them; figures that are not finite as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return name_in_json(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return value
