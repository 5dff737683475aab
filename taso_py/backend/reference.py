"""A float64 evaluation of a model by the onnx package, independent of ONNX Runtime.

The model is rewritten first: every float32 and float16 constant, type and cast becomes float64.  Evaluated so with
errors of rounding that are drawn at random, it shows how far those go in it (stochastic arithmetic, as in CESTAC:
Vignes, "Discrete Stochastic Arithmetic for Validating Results of Numerical Software", 2004).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from taso_py.backend.protocol import Feeds, Outputs
from taso_py.backend.reference_ops import DOMAIN, OPERATORS, replace_misread
from taso_py.errors import ModelError

_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)
# Integer attributes that name an element type of a tensor the node makes.
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "stash_type"})


_ROUNDED, _DOMAIN = "Rounded", "superopt.rounding"
_STEPS = 8
"""Units in the last place of float32 by which a value may be off: sums of hundreds of products are."""


def evaluate(model: Any, feeds: Feeds, noise: int | None = None) -> Outputs:
    """Outputs by name, float64 where the model says float32 or float16; ModelError when the evaluator cannot do it.

    ``noise`` is the seed of errors of rounding, as float32 makes them, one for each value that a node computes; None:
    none.  A model with numbers in float64 is not evaluated so: there these are no errors of rounding.
    """
    if isinstance(model, str):
        proto = onnx.load(Path(model), format="protobuf")
    else:
        proto = onnx.ModelProto.FromString(bytes(model))
    if noise is not None and _has_doubles(proto):
        raise ModelError("it computes in float64")
    try:
        widen(proto)
        for nodes, imports in _bodies(proto):
            replace_misread(nodes, imports)
        for importing in (proto, *proto.functions):
            importing.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
        operators = OPERATORS
        if noise is not None:
            _round(proto)
            operators = [*OPERATORS, _rounded(np.random.default_rng(noise))]
        evaluator = _evaluator(proto, operators)
        with np.errstate(all="ignore"):
            results = evaluator.run(None, {name: _widen_feed(value) for name, value in feeds.items()})
    except Exception as error:  # the evaluator raises whatever its numpy code meets
        text = " ".join(str(error).split())[:200]
        raise ModelError(f"{type(error).__name__}: {text}") from error
    return dict(zip((value.name for value in proto.graph.output), results, strict=True))


def _evaluator(model: onnx.ModelProto, operators: list[type[OpRun]]) -> ReferenceEvaluator:
    """Of the graph; one of the model itself would know none of ``operators`` in its functions."""
    functions: list[Any] = []
    for function in model.functions:
        functions.append(ReferenceEvaluator(function, functions=list(functions), new_ops=operators))
    opsets = {one.domain: one.version for one in model.opset_import}
    return ReferenceEvaluator(model.graph, opsets=opsets, functions=functions, new_ops=operators)


def _has_doubles(model: onnx.ModelProto) -> bool:
    """Whether a model says float64 anywhere."""
    graphs, functions = list(_graphs(model.graph)), model.functions
    graphs += [inner for one in functions for node in one.node for sub in _subgraphs(node) for inner in _graphs(sub)]
    values = [value for graph in graphs for value in (*graph.input, *graph.output, *graph.value_info)]
    nodes = [node for body in (*graphs, *functions) for node in body.node]
    attributes = [attribute for node in nodes for attribute in node.attribute]
    said = {value.type.tensor_type.elem_type for value in values}
    said |= {tensor.data_type for graph in graphs for tensor in graph.initializer}
    said |= {attribute.t.data_type for attribute in attributes}
    said |= {attribute.i for attribute in attributes if attribute.name in _TYPE_ATTRIBUTES}
    return TensorProto.DOUBLE in said


def _round(model: onnx.ModelProto) -> None:
    """Put a node that rounds after each node of the graphs, in place."""
    model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    names = {name for graph in _graphs(model.graph) for node in graph.node for name in (*node.input, *node.output)}
    exact = "/exact"
    while any(name.endswith(exact) for name in names):  # of no value in the model
        exact += "/"
    for graph in _graphs(model.graph):
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            results = [(index, name) for index, name in enumerate(node.output) if name]
            for index, name in results:
                node.output[index] = name + exact
            rounds = [onnx.helper.make_node(_ROUNDED, [name + exact], [name], domain=_DOMAIN) for _, name in results]
            nodes += [node, *rounds]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _rounded(random: np.random.Generator) -> type[OpRun]:
    class Rounded(OpRun):
        """A value of float32 stays what it is, any other becomes one up to some steps beside it."""

        op_domain = _DOMAIN

        def _run(self, value: Any) -> tuple[Any]:
            if not isinstance(value, np.ndarray) or value.dtype != np.float64:
                return (value,)
            steps = random.uniform(-_STEPS, _STEPS, value.shape)  # of one size they would cancel in pairs
            beside = (value * (1 + np.finfo(np.float32).eps * steps)).astype(np.float32).astype(np.float64)
            # What overflows in float32 alone is no error of rounding.
            stays = (value == value.astype(np.float32)) | ~np.isfinite(beside)
            return (np.where(stays, value, beside),)

    return Rounded


def widen(model: onnx.ModelProto) -> None:
    """Replace float32 and float16 by float64 in every constant, declared type and cast of the model, in place."""
    del model.graph.value_info[:]
    for graph in _graphs(model.graph):
        for value in [*graph.input, *graph.output]:
            _widen_type(value.type)
        for tensor in graph.initializer:
            _widen_tensor(tensor)
    for nodes, _ in _bodies(model):
        _widen_nodes(nodes)


def _widen_nodes(nodes: Any) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.name in _TYPE_ATTRIBUTES and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE
            elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                array = np.array(onnx.helper.get_attribute_value(attribute), dtype=np.float64)
                attribute.Clear()
                attribute.name, attribute.type = "value", AttributeProto.TENSOR
                attribute.t.CopyFrom(numpy_helper.from_array(array))


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _NARROW:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _widen_type(declared: onnx.TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type" and declared.tensor_type.elem_type in _NARROW:
        declared.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(declared, kind).elem_type)


def _widen_feed(value: Any) -> Any:
    if isinstance(value, list):
        return [_widen_feed(item) for item in value]
    narrow = isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float16)
    return value.astype(np.float64) if narrow else value


def _bodies(model: onnx.ModelProto) -> Iterator[tuple[Any, Any]]:
    """The nodes of every graph and function, each with the opsets that it imports."""
    for graph in _graphs(model.graph):
        yield graph.node, model.opset_import
    for function in model.functions:
        yield function.node, function.opset_import
        for node in function.node:
            for graph in _subgraphs(node):
                for inner in _graphs(graph):
                    yield inner.node, function.opset_import


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _graphs(inner)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs
