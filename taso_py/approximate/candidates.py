"""Candidates of the second stage: 8-bit models of the exact one, made, compared and remembered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx
from google.protobuf.message import Error as ProtobufError

from taso_py.approximate.judge import Judge, Verdict
from taso_py.approximate.layers import Layer, approximate_nodes, quantised_layers
from taso_py.approximate.model import foreign_domains, restored
from taso_py.approximate.quantise import CALIBRATORS, Calibrator, QuantiseError, Quantiser
from taso_py.approximate.record import Kind, TriedApproximation
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.errors import ModelError, OutputError, RuntimeMissingError, TooLateError, WorkerError

GUARD = 0.9
"""The part of the budget that the error on the selection may take: on other samples it will be a little larger."""
_FEW = 8
"""Samples that a model which nobody chose layers for is judged by first; further ones where it keeps the budget."""
FAULTS = (QuantiseError, ModelError, OutputError, RuntimeMissingError, WorkerError, OSError, ProtobufError)
"""What costs the candidate that it befalls, and no other: a full disk, a model beyond 2 GiB and a process included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One approximate model, in a file, with what it was found to be."""

    kind: Kind
    calibrator: Calibrator | None
    reference: ModelRef
    layers: frozenset[str]
    """Those that it computes with 8 bits."""
    whole: bool
    verdict: Verdict
    nodes: tuple[str, ...] = ()
    """All nodes that compute with 8 bits or through them, by name."""
    config: WorkerConfig | None = None
    """How it runs, a provider's hint included; None: as the exact model does."""
    of_original: bool = False
    """Whether it is an approximation of the original, and the proved rewrites are no part of it."""

    def told(self, speedup: float | None = None, failure: str | None = None) -> TriedApproximation:
        """For the record."""
        return TriedApproximation(
            self.kind, self.calibrator, len(self.layers), whole=self.whole, error=self.verdict.error,
            speedup=speedup, failure=failure or self._unbounded(),
            ep=None if self.config is None else self.config.ep, of_original=self.of_original,
        )  # fmt: skip

    def _unbounded(self) -> str | None:
        """What an error without bound means."""
        if self.verdict.error < math.inf:
            return None
        output = f"'{self.verdict.output}' is" if self.verdict.output else "outputs are"
        return f"{output} NaN or infinite, or not 0 where it should be, on sample {self.verdict.sample}"


@dataclass(slots=True, kw_only=True)
class Bench:
    """Where candidates of one exact model are made and compared on the selection's samples."""

    exact: onnx.ModelProto
    quantiser: Quantiser
    judge: Judge
    selection: Sequence[int]
    budget: float
    allow_contrib: bool
    until: float
    """A time.monotonic() value after which nothing new is begun."""
    layers: tuple[Layer, ...] = ()
    failed: list[TriedApproximation] = field(default_factory=list)
    """Choices that no model was made of, or that did not run."""

    def whole_models(self, begun: Callable[[int], None]) -> list[Candidate]:
        """What the quantiser makes by itself of the whole model, by each calibrator, and dynamically."""
        found: list[Candidate] = []
        for number, method in enumerate(CALIBRATORS):
            begun(number)
            made = self._attempted("int8 static", method, partial(self.quantiser.static, method))
            found += [] if made is None else [made]
        begun(len(CALIBRATORS))
        # The quantiser makes products of Gemm first.
        kinds = sorted({"MatMul" if layer.operator == "Gemm" else layer.operator for layer in self.layers})
        # Integer convolutions may be slow, or not there, where products are fast.
        for some in dict.fromkeys((tuple(kinds), tuple(kind for kind in kinds if kind != "Conv"))):
            made = self._attempted("int8 dynamic", None, partial(self.quantiser.dynamic, some)) if some else None
            found += [] if made is None else [made]
        return found

    def all_layers(self) -> list[Candidate]:
        """Every layer made 8-bit and nothing else, by each calibrator: what is between layers may not bear it."""
        names = [layer.name for layer in self.layers]
        made = (
            self._attempted("int8 static", method, partial(self.quantiser.static, method, names), whole=False)
            for method in CALIBRATORS
        )
        return [one for one in made if one is not None]

    def _attempted(
        self, kind: Kind, method: Calibrator | None, make: Callable[[], Path], *, whole: bool = True
    ) -> Candidate | None:
        """A candidate, whatever its error; None, and a record of why, where there is none."""
        try:
            beyond = self.budget if whole else math.inf  # those of layers are compared with each other
            return self.candidate(kind, method, make(), whole=whole, beyond=beyond, least=_FEW)
        except (*FAULTS, TooLateError) as error:
            count = 0 if whole else len(self.layers)
            self.failed.append(TriedApproximation(kind, method, count, whole=whole, failure=str(error)))
            return None

    def static(self, method: Calibrator, names: Iterable[str], beyond: float, some: int | None = None) -> Candidate:
        """These layers made 8-bit; compared on ``some`` of the samples, until the error is more than ``beyond``.

        Raises QuantiseError, ModelError or WorkerError where that cannot be made or run.
        """
        made = self.quantiser.static(method, sorted(names))
        return self.candidate("int8 static", method, made, whole=False, beyond=beyond, some=some)

    def candidate(
        self,
        kind: Kind,
        method: Calibrator | None,
        made: Path,
        *,
        whole: bool,
        beyond: float,
        some: int | None = None,
        least: int | None = None,
    ) -> Candidate:
        """The quantiser's file made into a candidate; ModelError where it needs operators that are not allowed."""
        proto = restored(onnx.load(made), self.exact)
        foreign = [] if self.allow_contrib else foreign_domains(proto, self.exact)
        if foreign:
            raise ModelError(f"it needs operators of {foreign[0]}")
        layers = quantised_layers(self.layers, proto)
        if not layers:
            raise QuantiseError("ONNX Runtime's quantiser left every layer as it was")
        onnx.save(proto, made)
        reference = ModelRef(kind, made)
        verdict = self.judge.verdict(reference, self.selection[:some], beyond=beyond, until=self.until, least=least)
        return Candidate(
            kind=kind, calibrator=method, reference=reference, layers=layers, whole=whole, verdict=verdict,
            nodes=approximate_nodes(proto, self.exact),
        )  # fmt: skip

    def discard(self, candidate: Candidate) -> None:
        """Remove the file of a candidate that nobody needs any more."""
        if isinstance(candidate.reference.model, Path):
            candidate.reference.model.unlink(missing_ok=True)

    def keeps(self, candidate: Candidate) -> bool:
        """Whether it keeps the budget on the selection, with some room."""
        return candidate.verdict.error <= GUARD * self.budget
