"""ONNX's own test cases: every float32 node of our classes is understood, and means what ONNX says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test.loader as loader
from onnx import helper, numpy_helper

from taso_py.errors import TypingError
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Reading
from tests.helpers.operator_cases import FIRST_OPSET, LAST_OPSET
from tests.helpers.operator_models import call_of

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

ATTRIBUTE_INPUTS: dict[str, tuple[int, ...]] = {
    "Clip": (1, 2),
    "Expand": (1,),
    "Gather": (1,),
    "Pad": (1, 2, 3),
    "Pow": (1,),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "ScatterND": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""Inputs that are attributes in our classes: a node is understood when they are constants."""


@dataclass(frozen=True, kw_only=True)
class NodeCase:
    """One node of a test model: types and constants; feeds and results where it is the only node."""

    name: str
    node: onnx.NodeProto
    opset: int
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    feeds: dict[str, np.ndarray]
    results: tuple[np.ndarray, ...]
    tolerance: float

    @property
    def attribute_inputs(self) -> set[str]:
        """Names of the inputs that play the role of attributes."""
        places = ATTRIBUTE_INPUTS.get(self.node.op_type, ())
        return {name for k, name in enumerate(self.node.input) if k in places and name}

    def read(self, constants: dict[str, np.ndarray]) -> Reading | None:
        """The reading of the node, typed; None when it is opaque."""
        call = call_of(self.node, self.opset, self.types, constants)
        reading = OPERATORS[self.node.op_type].read(call)
        if reading is None:
            return None
        types = [call.inputs[k] for k in reading.operands]
        assert all(t is not None for t in types)
        operands = [t for t in types if t is not None]
        declared = reading.operator.dtypes
        if operands and declared is not None and operands[0].dtype not in declared:
            return None
        try:
            operator = reading.operator.normal(*operands)
            operator.infer(*operands)
        except TypingError:
            return None
        return Reading(operator, reading.operands)


def _node_cases() -> Iterator[NodeCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX computes its cases at load time, overflows included
        models = [case for kind in KINDS for case in loader.load_model_tests(kind=kind)]
    for case in models:
        model = case.model if case.model is not None else onnx.load(f"{case.model_dir}/model.onnx")
        opset = next((i.version for i in model.opset_import if i.domain == ""), 0)
        if FIRST_OPSET <= opset <= LAST_OPSET:
            yield from _of_model(case, model, opset)


def _of_model(case: loader.TestCase, model: onnx.ModelProto, opset: int) -> Iterator[NodeCase]:
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except onnx.shape_inference.InferenceError:
        graph = model.graph
    infos = [*graph.input, *graph.value_info, *graph.output]
    types = {v.name: t for v in infos if (t := _type(v)) is not None}
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    types |= {name: TensorType(a.dtype.name, a.shape) for name, a in constants.items()}
    alone = sum(node.op_type != "Constant" for node in graph.node) == 1
    for node in graph.node:
        known = all(name in types for name in node.input if name)
        if node.domain == "" and node.op_type in OPERATORS and known and _float32(node, types):
            feeds, results = _data(case, graph) if alone else ({}, ())
            yield NodeCase(
                name=case.name,
                node=node,
                opset=opset,
                types=types,
                constants=constants,
                feeds=feeds,
                results=results,
                tolerance=case.rtol,
            )


def _data(case: loader.TestCase, graph: onnx.GraphProto) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, ...]]:
    """The first data set of a test model: its inputs by name, and its outputs."""
    inputs, outputs = case.data_sets[0] if case.data_sets else (_stored(case, "input"), _stored(case, "output"))
    fixed = {t.name for t in graph.initializer}
    names = [v.name for v in graph.input if v.name not in fixed]
    return dict(zip(names, inputs, strict=False)), tuple(outputs)


def _stored(case: loader.TestCase, kind: str) -> list[np.ndarray]:
    folder = Path(case.model_dir) / "test_data_set_0"
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [numpy_helper.to_array(onnx.load_tensor(folder / f"{kind}_{k}.pb")) for k in range(count)]


def _type(info: onnx.ValueInfoProto) -> TensorType | None:
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    if any(not d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return TensorType(str(dtype), tuple(d.dim_value for d in tensor.shape.dim))


def _float32(node: onnx.NodeProto, types: dict[str, TensorType]) -> bool:
    """Whether floats are float32 and the node has one: what the operators promise to understand."""
    names = {types[name].dtype for name in (*node.input, *node.output) if name in types}
    return "float32" in names and names <= {"float32", "int64", "int32", "bool"}


@lru_cache(maxsize=1)
def node_cases() -> tuple[NodeCase, ...]:
    """All cases that count."""
    return tuple(_node_cases())


OPAQUE: dict[str, str] = {
    "test_gathernd_example_*": "indices of several axes at once",
    "test_maxpool_with_argmax_2d_*": "indices as a second output: positions as values, by a search",
    "test_resize_downsample_scales_*_align_corners": "ONNX and ONNX Runtime disagree on where the corner is",
    "test_scatternd_*": "updates that are combined with what they meet, or places given twice",
}
"""Cases that no class defines, and why."""


def _pinned(case: NodeCase) -> dict[str, np.ndarray]:
    """The constants, and the values that attribute-like graph inputs have in the test data."""
    return {**case.constants, **{name: case.feeds[name] for name in case.attribute_inputs & set(case.feeds)}}


def _pattern(name: str) -> str:
    return next((pattern for pattern in OPAQUE if fnmatchcase(name, pattern)), name)


def test_every_float32_node_is_understood() -> None:
    """A node counts when its attribute-like inputs are constants, as they are in the file or pinned."""
    fixed = [case for case in node_cases() if case.attribute_inputs <= set(case.constants)]
    assert len(fixed) > 3000
    assert {_pattern(case.name) for case in fixed if case.read(case.constants) is None} <= set(OPAQUE)
    pinned = [case for case in node_cases() if case.feeds]
    assert len(pinned) > 350
    assert {_pattern(case.name) for case in pinned if case.read(_pinned(case)) is None} == set(OPAQUE)


def test_nodes_mean_what_onnx_computes() -> None:
    wrong, compared = set(), 0
    for case in node_cases():
        reading = case.read(_pinned(case))
        if reading is not None:
            for port, result in enumerate(case.results):
                compared += 1
                if not _same(_value(case, reading, port), result, case):
                    wrong.add(case.name)
    assert compared > 380
    assert not wrong


def _value(case: NodeCase, reading: Reading, port: int) -> np.ndarray:
    names = [case.node.input[k] for k in reading.operands]
    arrays = [(case.feeds | case.constants)[name] for name in names]
    return evaluate(reading.operator.at_port(port), arrays, [case.types[name] for name in names])


def _same(value: np.ndarray, expected: np.ndarray, case: NodeCase) -> bool:
    if value.shape != expected.shape:
        return False
    return np.allclose(value, expected, rtol=case.tolerance, atol=1e-5, equal_nan=True)
