"""What `superopt apply` has done, as a record, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from taso_py.certificate.document import Law
from taso_py.certificate.reapply import SkippedStep
from taso_py.finished import FinishedModel
from taso_py.result import plain

SCHEMA = "superopt.application/1"
FIELDS = (
    *("input", "output", "output_sha256", "same_model", "steps", "places", "skipped", "nodes_before", "nodes_after"),
    *("max_abs_error", "max_rel_error", "tolerance", "inputs", "notes", "decided"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application(FinishedModel):
    """What became of decisions on a model: which steps hold for it, and how far its outputs moved.

    Errors are the largest over all checked inputs and outputs; relative means max|y-y'| / max|y|. None: nothing was
    rewritten.
    """

    input: Path | None
    same_model: bool
    """Whether the model is, weights and all, the one that the decisions were made for."""
    steps: int
    places: int
    """Applications of rules, counted one by one."""
    skipped: tuple[SkippedStep, ...] = ()
    """Steps that do not hold everywhere for this model; none unless `partial` was asked for."""
    rules: tuple[Law, ...] = ()
    decided: str | None = None
    """Why the decisions are to leave the model as it is, if they are and say so."""
    nodes_before: int
    nodes_after: int
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    tolerance: float | None = None
    inputs: int = 0
    """Sets of inputs on which both models were run."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One JSON object."""
        rules = [{"name": law.name, "id": law.id} for law in self.rules]
        fields = {name: plain(getattr(self, name)) for name in FIELDS}
        return json.dumps({"schema": SCHEMA} | fields | {"rules": rules}, indent=2)

    def text(self) -> str:
        """A line for each step that was left out, and one sentence about the rest."""
        left_out = [f"left out: {step.words()}" for step in self.skipped]
        written = [] if self.output is None else [f"written: {self.output}"]
        return "\n".join([*left_out, self._sentence(), *written])

    def _sentence(self) -> str:
        name = self.input or "model"
        other = "" if self.same_model else "; the decisions were made for a model with other bytes"
        if not self.steps:
            why = f" ({self.decided})" if self.decided else ""
            return f"{name}: unchanged, the decisions are to leave it as it is{why}{other}"
        rules = "1 proved rule" if len(self.rules) == 1 else f"{len(self.rules)} proved rules"
        nodes = f"{self.nodes_before} -> {self.nodes_after} nodes"
        error = f"largest relative error {self.max_rel_error:.1e} on {self.inputs} sets of inputs"
        return f"{name}: {rules} in {self.places} places, {nodes}, {error}; not timed{other}"
