"""ONNX's own test cases cross the border: untouched, and with every node that has an operator written anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnxruntime.capi import onnxruntime_pybind11_state as ort

from taso_py.graph.table import Node
from taso_py.onnx_io.carry import difference
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize, writable
from taso_py.onnx_io.load import Loaded, load
from taso_py.onnx_io.onnx_types import LIKE_FIRST, REDUCING
from taso_py.ops.operator import NEWEST_OPSET, Operator
from tests.helpers.onnx_io_models import session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore::UserWarning"),
]


@lru_cache(maxsize=1)
def cases() -> tuple[Any, ...]:
    found = tuple(collect_testcases(None))
    assert len(found) > 1500
    return found


def test_untouched_cases_leave_as_they_came() -> None:
    for case in cases():
        loaded = load(case.model)
        if loaded.unsupported is not None:
            assert loaded.table.opset < 7, f"{case.name}: {loaded.unsupported}"
            continue
        returned = onnx_ir.to_proto(export(loaded, loaded.table))
        assert difference(case.model, returned) is None, case.name
        assert difference(returned, case.model) is None, case.name


def test_what_is_said_to_reduce_its_first_input_has_the_shape_of_onnxs_results() -> None:
    """The sizes of the input have names, of which ONNX's own inference knows nothing behind a Reshape."""
    seen = set[str]()
    for case in cases():
        (node, *more) = case.model.graph.node
        if more or node.op_type not in REDUCING:
            continue
        for given, expected in case.data_sets:
            proto = onnx.ModelProto.FromString(case.model.SerializeToString())
            proto.opset_import[0].version = min(proto.opset_import[0].version, NEWEST_OPSET)
            for axis, dim in enumerate(proto.graph.input[0].type.tensor_type.shape.dim):
                dim.dim_param = f"d{axis}"
            if len(given) > 1:
                proto.graph.initializer.append(onnx.numpy_helper.from_array(given[1], proto.graph.input.pop().name))
            loaded = load(proto)
            found = loaded.values.types[loaded.ids[node.output[0]]].dims
            known = {f"d{axis}": size for axis, size in enumerate(given[0].shape)}
            assert tuple(d if isinstance(d, int) else known[str(d)] for d in found) == expected[0].shape, case.name
            seen.add(node.op_type)
    assert seen == REDUCING


def test_what_is_said_to_keep_its_first_inputs_type_keeps_it() -> None:
    """ONNX's own results have the type of the first input, whatever operator has it."""
    seen = set[str]()
    for case in cases():
        (node, *more) = case.model.graph.node
        if more or node.op_type not in LIKE_FIRST or not node.input[0]:
            continue
        for given, expected in case.data_sets:
            assert (expected[0].shape, expected[0].dtype) == (given[0].shape, given[0].dtype), case.name
            seen.add(node.op_type)
    assert LIKE_FIRST - seen <= {"GroupNormalization", "Scatter"}


def written_anew(loaded: Loaded) -> onnx.ModelProto | None:
    """The model with all nodes that have an operator replaced by new ones; None when there are none."""
    nodes = {
        i: Node(n.operator, n.inputs)
        for i, n in loaded.table.nodes.items()
        if isinstance(n.operator, Operator) and writable(n, loaded.table)
    }
    if not nodes:
        return None
    exported = export(loaded, loaded.table.rebind(nodes))
    assert check_contract(loaded.proto, exported) == []
    return onnx.ModelProto.FromString(serialize(exported))


def test_cases_written_anew_compute_the_same() -> None:
    compared = 0
    for case in cases():
        loaded = load(case.model)
        anew = written_anew(loaded) if loaded.unsupported is None else None
        if anew is None:
            continue
        try:
            before = session(case.model)
        except (ort.Fail, ort.InvalidGraph, ort.NotImplemented):
            continue  # not a case that ONNX Runtime knows
        after = session(anew)
        for inputs, _ in case.data_sets:
            names = [info.name for info in case.model.graph.input]
            feeds = dict(zip(names, map(as_fed, inputs), strict=False))
            try:
                expected = before(feeds)
            except (ort.Fail, ort.InvalidArgument, ort.RuntimeException):
                continue
            assert_same(case.name, expected, after(feeds))
            compared += 1
    assert compared > 500


def as_fed(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def assert_same(name: str, before: Sequence[Any], after: Sequence[Any]) -> None:
    for a, b in zip(before, after, strict=True):
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, name
            # ONNX Runtime computes float16 in float32, and where it rounds depends on the nodes beside.
            rtol = 2.0**-10 if a.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(b, a, rtol=rtol, atol=1e-5, err_msg=name)
