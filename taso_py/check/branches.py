"""Checks of branches that no input takes: every If of both models is made to go either way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import onnx

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.check import Checker
from taso_py.check.facts import ModelFacts, read_facts
from taso_py.check.report import CheckReport
from taso_py.errors import ModelError
from taso_py.onnx_io.branches import BRANCHES, Lifted, Scope, branches_of, is_shell, lifted, needed, reads
from taso_py.onnx_io.carry import skeleton

Way = tuple[str, ...]
"""The branch that an If takes, by how many others it lies within."""
_NOT_RUN = "a branch that it changes does not run on any inputs made up here, so nothing compares it"
_NOT_RUN_EITHER = "a branch of an If does not run on any inputs made up here, so nothing compares it"


class BranchedChecker(Checker):
    """A checker of rewrites of ``flat``, the original with its branches lifted, wherever their conditions lead.

    ``unlike``: of any other models, whose weights may differ where their nodes do not; that a branch of the original
    does not run is not held against them.
    """

    def __init__(
        self,
        original: ModelRef,
        config: WorkerConfig,
        *,
        flat: onnx.ModelProto,
        scopes: Mapping[str, Scope],
        facts: ModelFacts,
        worker: Worker | None = None,
        unlike: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(original, config, facts=facts, worker=worker, **options)
        self._options, self._flat, self._unlike = options, Lifted(flat, scopes), unlike
        self._ways: list[Way] = list(product(BRANCHES, repeat=max(len(scope) for scope in scopes.values())))
        bare = skeleton(flat)
        self._nodes = {way: _nodes(forced(Lifted(bare, scopes), way)) for way in self._ways}
        self._checkers: dict[Way, Checker] = {}

    def check(self, candidate: ModelRef | Path | bytes, **limits: Any) -> CheckReport:
        """As `Checker.check`; then of each way through the branches that the candidate changes."""
        report = super().check(candidate, **limits)
        if not report.passed:
            return report
        reference = ModelRef.of(candidate)
        proto = read(reference)
        bare = lifted(skeleton(proto))
        compared, not_run = set[bytes](), set[bytes]()
        for way in self._ways:
            changed = _nodes(forced(bare, way)) ^ self._nodes[way]
            if self._unlike:
                changed |= self._nodes[way]
            if not changed:
                continue
            other = self._check_way(way, proto, reference, limits)
            if other is None:
                not_run |= changed
                continue
            compared |= changed
            report = _worse(report, other, way)
            if not report.passed:
                return report
        if not_run <= compared:
            return report
        if self._unlike:
            return replace(report, warnings=(*report.warnings, _NOT_RUN_EITHER))
        return replace(report, passed=False, incomparable=True, reason=_NOT_RUN)

    def close(self, *, at_once: bool = False) -> None:
        """End the workers of all ways."""
        for checker in self._checkers.values():
            checker.close(at_once=at_once)
        super().close(at_once=at_once)

    def _check_way(
        self, way: Way, proto: onnx.ModelProto, reference: ModelRef, limits: Mapping[str, Any]
    ) -> CheckReport | None:
        """None where the original does not run that way, whatever it is fed."""
        try:
            if way not in self._checkers:
                self._checkers[way] = self._checker(way)
            self._checkers[way].prepare()
        except ModelError:
            return None
        made = _reference(reference, forced(lifted(proto), way))
        return self._checkers[way].check(made, **limits)

    def _checker(self, way: Way) -> Checker:
        original = forced(self._flat, way)
        facts = replace(read_facts(original), inputs=self.facts.inputs)
        reference = _reference(self.original, original)
        return Checker(reference, self.config, facts=facts, worker=self._deployed, **self._options)


def forced(flat: Lifted, way: Sequence[str]) -> onnx.ModelProto:
    """A model whose branches are lifted as it is where every If goes this way, without what that leaves unread."""
    model = onnx.ModelProto()
    model.CopyFrom(flat.proto)
    graph, nodes = model.graph, list[onnx.NodeProto]()
    for node in graph.node:
        branches = branches_of(node)
        if len(branches) < len(BRANCHES) or not all(map(is_shell, branches.values())):
            nodes.append(node)
            continue
        taken = branches[way[min(len(flat.scopes.get(node.output[0], ())), len(way) - 1)]]
        sources = {identity.output[0]: identity.input[0] for identity in taken.node}
        for name, result in zip(node.output, taken.output, strict=True):
            nodes.append(onnx.helper.make_node("Identity", [sources[result.name]], [name]))
    kept = needed(nodes, [value.name for value in graph.output])
    read = {name for node in kept for name in reads(node)} | {value.name for value in graph.output}
    for k in reversed(range(len(graph.initializer))):
        if graph.initializer[k].name not in read:
            del graph.initializer[k]
    graph.ClearField("node")
    graph.ClearField("value_info")
    graph.node.extend(kept)
    return model


def _worse(report: CheckReport, other: CheckReport, way: Way) -> CheckReport:
    """Both in one: the failure, if there is one, else the largest errors."""
    label = ", ".join(name.removesuffix("_branch") for name in way)
    if not other.passed:
        return replace(other, reason=f"where If goes '{label}': {other.reason}")
    return replace(
        report,
        max_rel_error=max(report.max_rel_error, other.max_rel_error),
        max_abs_error=max(report.max_abs_error, other.max_abs_error),
        warnings=tuple(dict.fromkeys((*report.warnings, *other.warnings))),
        notes=tuple(dict.fromkeys((*report.notes, *other.notes))),
    )


def read(reference: ModelRef) -> onnx.ModelProto:
    """A model without its external data."""
    if isinstance(reference.model, Path):
        model: onnx.ModelProto = onnx.load(reference.model, format="protobuf", load_external_data=False)
    else:
        model = onnx.ModelProto.FromString(reference.model)
    return model


def _reference(source: ModelRef, model: onnx.ModelProto) -> ModelRef:
    """How that model is opened, whose external data lies where the source's does."""
    folder = source.model.parent if isinstance(source.model, Path) else source.base_dir
    return ModelRef(source.name, model.SerializeToString(deterministic=True), folder)


def _nodes(model: onnx.ModelProto) -> set[bytes]:
    return {node.SerializeToString(deterministic=True) for node in model.graph.node}
