"""One-node ONNX models of operator cases, and ONNX nodes as operator classes read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from taso_py.graph.types import TensorType
from taso_py.ops.operator import Constant, OnnxCall, Operator, Writing
from tests.helpers.operator_cases import Case

IR_VERSION = 10

onnxruntime.set_default_logger_severity(4)


@dataclass(frozen=True)
class Example:
    """A case with element types and values chosen."""

    operator: Operator
    types: tuple[TensorType, ...]
    arrays: tuple[np.ndarray, ...]


def example(case: Case, floating: str = "float64", seed: int = 7) -> Example:
    """The case with seeded random operands."""
    generator = np.random.default_rng(seed)
    types = tuple(TensorType(d, s) for d, s in zip(case.element_types(floating), case.shapes, strict=True))
    arrays = tuple(_draw(generator, t, positive=k in case.positive) for k, t in enumerate(types))
    return Example(case.operator.normal(*types), types, arrays)


def _draw(generator: np.random.Generator, type_: TensorType, *, positive: bool) -> np.ndarray:
    shape = type_.dims
    if type_.dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if "int" in type_.dtype:
        low = 1 if positive or type_.dtype.startswith("u") else -9
        return generator.integers(low, 10, shape).astype(type_.dtype)
    values = generator.uniform(0.5, 2.0, shape) if positive else generator.standard_normal(shape)
    return np.asarray(values).astype(type_.dtype)


def input_name(k: int) -> str:
    """Name of the graph input that is operand k."""
    return f"x{k}"


def node_of(writing: Writing, outputs: Sequence[str]) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
    """The node that a writing spells, and its constant inputs as initializers."""
    names: list[str] = []
    constants: list[onnx.TensorProto] = []
    for position, given in enumerate(writing.inputs):
        if given is None:
            names.append("")
        elif isinstance(given, Constant):
            names.append(f"c{position}")
            constants.append(numpy_helper.from_array(np.asarray(given.value), names[-1]))
        else:
            names.append(input_name(given.operand))
    return helper.make_node(writing.op_type, names, list(outputs), **writing.attributes), constants


def model_of(instance: Example, opset: int) -> onnx.ModelProto:
    """A model of the one node that the operator is written as; its result is the graph output ``y``."""
    writing = instance.operator.write(opset, instance.types)
    assert writing is not None, f"{instance.operator} cannot be written at opset {opset}"
    node, constants = node_of(writing, output_names(instance.operator))
    inputs = [
        helper.make_tensor_value_info(input_name(k), helper.np_dtype_to_tensor_dtype(np.dtype(t.dtype)), t.dims)
        for k, t in enumerate(instance.types)
    ]
    graph = helper.make_graph([node], "case", inputs, [onnx.ValueInfoProto(name="y")], initializer=constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)


def output_names(operator: Operator) -> list[str]:
    """The result is ``y``; one part of a Split stands beside the other parts."""
    return ["y" if k == operator.port else f"other{k}" for k in range(operator.least_outputs)]


def inferred(model: onnx.ModelProto) -> tuple[onnx.ModelProto, TensorType]:
    """The model with ONNX's own type of its output filled in, and that type."""
    known = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    tensor = known.graph.output[0].type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    if not tensor.HasField("shape"):
        return known, TensorType(dtype, None)
    return known, TensorType(dtype, tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim))


def run(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The value of ``y`` in ONNX Runtime with its optimiser off."""
    return run_model(model, {input_name(k): a for k, a in enumerate(arrays)}, "y")


def run_model(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], output: str) -> np.ndarray:
    """One output in ONNX Runtime with its optimiser off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run([output], dict(feeds))[0])


def call_of(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, TensorType],
    constants: Mapping[str, np.ndarray],
    used: Sequence[bool] | None = None,
) -> OnnxCall:
    """The node as a class reads it; ``constants`` are inputs of fixed value, typed in ``types`` as well."""
    values = tuple(constants.get(name) for name in node.input)
    sizes = tuple(
        tuple(int(i) for i in v.reshape(-1)) if v is not None and v.ndim <= 1 and v.dtype.kind in "iu" else None
        for v in values
    )
    return OnnxCall(
        op_type=node.op_type,
        opset=opset,
        attributes={a.name: helper.get_attribute_value(a) for a in node.attribute},
        inputs=tuple(types[name] if name else None for name in node.input),
        constants=values,
        sizes=sizes,
        used_outputs=tuple(used) if used is not None else tuple(bool(name) for name in node.output),
    )


def type_of(array: np.ndarray) -> TensorType:
    """Element type and shape of an array."""
    return TensorType(array.dtype.name, array.shape)
