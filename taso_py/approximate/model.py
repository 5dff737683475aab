"""A quantised model made into one that can replace the exact one: its interface, its metadata, plain ONNX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

STANDARD = frozenset({"", "ai.onnx", "ai.onnx.ml"})
_LEAST_IR = 4
"""Of the first version in which an initializer need not be an input."""


@dataclass(frozen=True, slots=True)
class ApproximateModel:
    """A finished approximate model, all its weights inside."""

    text: bytes

    def proto(self) -> onnx.ModelProto:
        """The model."""
        import onnx

        model = onnx.ModelProto()
        model.ParseFromString(self.text)
        return model

    def write(self, folder: Path, target: Path) -> None:
        """One file, without external data."""
        (folder / target.name).write_bytes(self.text)


def restored(quantised: onnx.ModelProto, exact: onnx.ModelProto) -> onnx.ModelProto:
    """The quantised model with the inputs, outputs, metadata and doc strings of the exact one.

    Shapes of values inside go, as do the operator sets that no node is of.
    """
    held = {tensor.name for tensor in exact.graph.initializer}
    graph = quantised.graph
    del graph.input[:], graph.output[:], graph.value_info[:], quantised.metadata_props[:]
    graph.input.extend(value for value in exact.graph.input if value.name not in held)
    graph.output.extend(exact.graph.output)
    graph.name, graph.doc_string = exact.graph.name, exact.graph.doc_string
    quantised.metadata_props.extend(exact.metadata_props)
    for name in ("doc_string", "producer_name", "producer_version", "domain", "model_version"):
        setattr(quantised, name, getattr(exact, name))
    quantised.ir_version = max(quantised.ir_version if quantised.functions else 0, exact.ir_version, _LEAST_IR)
    used = set(_domains(quantised))
    kept = [entry for entry in quantised.opset_import if entry.domain in used or entry.domain in ("", "ai.onnx")]
    del quantised.opset_import[:]
    quantised.opset_import.extend(kept)
    return quantised


def foreign_domains(model: onnx.ModelProto, exact: onnx.ModelProto) -> list[str]:
    """Domains of operators that are no part of ONNX and that the exact model has none of."""
    return sorted(set(_domains(model)) - STANDARD - set(_domains(exact)))


def _domains(model: onnx.ModelProto) -> Iterator[str]:
    return (node.domain for _, node in every_node(model))


def every_node(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Each node, those of branches, loops and functions too, with the function that it is in: empty for the graph."""
    yield from (("", node) for node in _within(model.graph.node))
    for function in model.functions:
        called = f"{function.domain}::{function.name}::{function.overload}"
        yield from ((called, node) for node in _within(function.node))


def _within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _within(graph.node)
