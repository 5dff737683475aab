"""Writing a certificate: the winner's trail is walked once more, and every step of it described."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx_ir as ir

from taso_py.certificate import describe
from taso_py.certificate.describe import Labels
from taso_py.certificate.digest import digest
from taso_py.certificate.document import Certificate, CertifiedStep, Law
from taso_py.errors import SuperoptError
from taso_py.graph.table import Table
from taso_py.onnx_io.contract import PROVENANCE
from taso_py.onnx_io.export import folded_weights
from taso_py.onnx_io.load import Loaded
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Applied
from taso_py.search.rewriter import rewrite_all
from taso_py.search.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What a search did on its way from the original to ``model``, and ``exported``, the ONNX model of that."""

    source: Path | onnx.ModelProto
    loaded: Loaded
    canonical: Canonicalizer
    applied: tuple[Applied, ...] = ()
    table: Table | None = None
    exported: ir.Model | None = None
    freeze_initializers: bool = False

    def certificate(self, optimised: Path | onnx.ModelProto) -> str:
        """The certificate's text; without steps when the result is the original."""
        made = _Record(self)
        model = made.walk()
        if self.table is not None and model.nodes != self.table.nodes:
            raise SuperoptError("the steps on record do not lead to the model that was written; please report this")
        folded = folded_weights(self.exported) if self.exported is not None else {}
        metadata = self.exported.metadata_props if self.exported is not None else {}
        return Certificate(
            original=digest(self.source),
            optimised=digest(optimised),
            freeze_initializers=self.freeze_initializers,
            metadata={key: text for key, text in metadata.items() if key.startswith(PROVENANCE)},
            rules=tuple(Law(law.id, law.name, law.text()) for law in made.laws.values()),
            steps=tuple(made.steps),
            weights=describe.weights(made.labels, self.loaded.values, folded),
        ).to_json()


@dataclass(slots=True)
class _Record:
    trail: Trail
    labels: Labels = field(init=False)
    laws: dict[str, Rule] = field(default_factory=dict)
    steps: list[CertifiedStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.labels = Labels.of(self.trail.loaded.values)

    def walk(self) -> Table:
        """Every step again, described; the table after the last."""
        loaded = self.trail.loaded
        view = View.of(loaded.table, self.trail.canonical.expand, loaded.folder.value)
        for matches in self.trail.applied:
            step = rewrite_all(view, matches)
            if step is None:
                raise SuperoptError(f"rule {matches[0].rule.name} cannot be applied again; please report this")
            self._describe(view, matches, step.table)
            view = view.after(step.table)
        return view.table

    def _describe(self, view: View, matches: Applied, after: Table) -> None:
        looks = describe.looked_through(view, matches)
        for rule in (matches[0].rule, *(expansion.match.rule for _, expansion in looks)):
            law, _ = describe.law_of(rule)
            self.laws.setdefault(law.id, law)
        self.steps.append(
            CertifiedStep(
                *describe.use_of(matches[0].rule),
                tuple(describe.look(self.labels, expansion) for _, expansion in looks),
                tuple(describe.place(self.labels, view, match) for match in matches),
                describe.changes(self.labels, view.table, after),
            )
        )
