"""Writing a certificate: the winner's trail is walked once more, and every step of it described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from taso_py.certificate import describe
from taso_py.certificate.describe import Labels
from taso_py.certificate.digest import digest
from taso_py.certificate.document import Certificate, CertifiedStep, Decisions, Law
from taso_py.difference.graph import Graph
from taso_py.errors import SuperoptError
from taso_py.graph.table import Table
from taso_py.onnx_io.artifact import require_unchanged
from taso_py.onnx_io.carry import carry
from taso_py.onnx_io.export import folded_weights, new_types
from taso_py.onnx_io.load import Loaded
from taso_py.onnx_io.ours import free_keys, metadata_of
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Applied
from taso_py.search.rewriter import rewrite_all
from taso_py.search.rounding import rounding_bodies
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
        return self._way().certificate(optimised)

    def decisions(self, measured: Mapping[str, Any]) -> str:
        """The text of the decisions; ``measured`` is for whoever reviews them."""
        return self._way().decisions(measured)

    def graphs(self) -> tuple[Graph, Graph]:
        """The original's graph and the result's, to be compared."""
        return _graphs(self.loaded, self.exported)

    def of_nothing(self) -> Trail:
        """The way to the original itself."""
        return replace(self, applied=(), table=None, exported=None)

    def _way(self) -> Way:
        made = _Record(self)
        model = made.walk()
        if self.table is not None and model.nodes != self.table.nodes:
            raise SuperoptError("the steps on record do not lead to the model that was written; please report this")
        return Way(
            source=self.source,
            loaded=self.loaded,
            exported=self.exported,
            freeze_initializers=self.freeze_initializers,
            labels=made.labels,
            laws=made.laws,
            steps=tuple(made.steps),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The steps from the original to ``exported``, described; without it, the original itself."""

    source: Path | onnx.ModelProto
    loaded: Loaded
    exported: ir.Model | None
    freeze_initializers: bool
    labels: Labels = field(default_factory=lambda: Labels({}))
    laws: Mapping[str, Rule] = field(default_factory=dict)
    """By id, in the order of their first use."""
    steps: tuple[CertifiedStep, ...] = ()

    def certificate(self, optimised: Path | onnx.ModelProto) -> str:
        """The certificate's text; without steps when the result is the original."""
        require_unchanged(self.loaded.stamps)
        folded = folded_weights(self.exported) if self.exported is not None else {}
        return Certificate(
            original=digest(self.source),
            optimised=digest(optimised),
            freeze_initializers=self.freeze_initializers,
            metadata=self._metadata(),
            rules=self.rules(),
            steps=self.steps,
            weights=describe.weights(self.labels, self.loaded.values, folded),
        ).to_json()

    def decisions(self, measured: Mapping[str, Any]) -> str:
        """The text of the decisions; ``measured`` is for whoever reviews them."""
        require_unchanged(self.loaded.stamps)
        return Decisions(
            original=digest(self.source),
            freeze_initializers=self.freeze_initializers,
            metadata=self._metadata(),
            measured=measured,
            rules=self.rules(),
            steps=self.steps,
        ).to_json()

    def _metadata(self) -> dict[str, str]:
        metadata = self.exported.metadata_props if self.exported is not None else {}
        free = free_keys(metadata_of(self.loaded.proto))
        return {key: text for key, text in metadata.items() if key in free}

    def rules(self) -> tuple[Law, ...]:
        """The laws as a file states them."""
        return tuple(Law(law.id, law.name, law.text()) for law in self.laws.values())

    def graphs(self) -> tuple[Graph, Graph]:
        """The original's graph and the result's, to be compared."""
        return _graphs(self.loaded, self.exported)


def _graphs(loaded: Loaded, exported: ir.Model | None) -> tuple[Graph, Graph]:
    """Both graphs with the types that the search knows."""
    types = {name: loaded.values.types[value] for name, value in loaded.ids.items()}
    before = Graph.of(carry(loaded.given, loaded.path), types)
    if exported is None:
        return before, before
    return before, Graph.of(exported, {**types, **new_types(exported)})


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
        view = View.of(
            loaded.table, self.trail.canonical.expand, loaded.folder.value, rounding=rounding_bodies(loaded.proto)
        )
        for matches in self.trail.applied:
            step = rewrite_all(view, matches)
            if step is None:
                raise SuperoptError(f"rule {matches[0].rule.name} cannot be applied again; please report this")
            self._describe(view, matches, step.table)
            view = view.after(step.table)
        return view.table

    def _describe(self, view: View, matches: Applied, after: Table) -> None:
        step, laws = describe.step(self.labels, view, matches, after)
        self.steps.append(step)
        for law in laws:
            self.laws.setdefault(law.id, law)
