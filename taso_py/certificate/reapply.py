"""Decisions made again on a model: every step found anew with all its conditions, by laws that were judged here.

Nothing depends on the steps being those of this very model: what no longer matches is an error, or is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx_ir as ir

from taso_py.certificate import describe
from taso_py.certificate.describe import Labels
from taso_py.certificate.document import CertifiedStep
from taso_py.certificate.record import Way
from taso_py.certificate.replay import Made, Replayed, require_whole
from taso_py.errors import CertificateError, DecisionsError
from taso_py.graph.table import Table
from taso_py.onnx_io.load import Loaded
from taso_py.options.spelling import spelled_on
from taso_py.rules.rule import Rule

_GROWTH, _FEW = 10, 1000
"""A graph of so many times its nodes, and a few more, is no result of a search."""


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A step, counted from 1, that was left out at some places, and why at the first of these."""

    number: int
    rule: str
    places: int
    of: int
    reason: str

    def words(self) -> str:
        """Which step, where, and why."""
        return f"step {self.number} ({self.rule}) at {self.places} of {self.of} places: {self.reason}"


@dataclass(slots=True)
class Reapplied:
    """The steps that were made, described as a certificate of them has it, and those that were not."""

    loaded: Loaded
    replay: Replayed
    labels: Labels = field(init=False)
    laws: dict[str, Rule] = field(default_factory=dict)
    steps: list[CertifiedStep] = field(default_factory=list)
    skipped: list[SkippedStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.labels = Labels.of(self.loaded.values)

    @staticmethod
    def of(loaded: Loaded, laws: Mapping[str, Rule]) -> Reapplied:
        """Nothing made yet; ``laws`` are those that may be used, by id."""
        return Reapplied(loaded, Replayed(loaded, laws))

    def run(self, steps: Sequence[CertifiedStep], *, partial: bool) -> Table:
        """The table after the last step; `DecisionsError` for one that does not hold, unless ``partial``."""
        most = _GROWTH * len(self.loaded.table.nodes) + _FEW
        for number, step in enumerate(steps, 1):
            where = f"step {number} of {len(steps)} ({step.rule})"
            if partial:
                self._make_part(number, step)
            else:
                try:
                    self._note(self.replay.make(step))
                except CertificateError as error:
                    raise DecisionsError(f"{where}: {error}; {spelled_on('partial')} makes what still holds") from None
            if len(self.replay.view.table.nodes) > most:
                raise DecisionsError(f"{where}: the graph has over {most} nodes")
        try:
            require_whole(self.loaded, self.replay.view.table)
        except CertificateError as error:
            raise DecisionsError(str(error)) from None
        return self.replay.view.table

    def way(self, source: Path | onnx.ModelProto, exported: ir.Model, *, freeze_initializers: bool) -> Way:
        """What a certificate is made from."""
        return Way(
            source=source, loaded=self.loaded, exported=exported, freeze_initializers=freeze_initializers,
            labels=self.labels, laws=self.laws, steps=tuple(self.steps),
        )  # fmt: skip

    def _make_part(self, number: int, step: CertifiedStep) -> None:
        made, lost = self.replay.make_part(step)
        if made is not None:
            self._note(made)
        places = len(step.places) - (0 if made is None else len(made.matches))
        if places:
            self.skipped.append(SkippedStep(number, step.rule, places, len(step.places), lost[0]))

    def _note(self, made: Made) -> None:
        described, laws = describe.step(self.labels, made.view, made.matches, made.table)
        self.steps.append(described)
        for law in laws:
            self.laws.setdefault(law.id, law)
