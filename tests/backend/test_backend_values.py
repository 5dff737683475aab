"""Values that enter and leave a session: elements that numpy lacks, sequences, optionals, sparse outputs."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import Value, WorkerConfig
from taso_py.errors import ModelError


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(WorkerConfig()) as one:
        yield one


def test_a_rank_0_input_bound_on_a_device_stays_rank_0() -> None:
    from taso_py.backend.accelerators import HOST
    from taso_py.backend.values import _as_ort_value

    assert _as_ort_value(np.asarray(2.5, np.float32), "float", HOST).shape() == []


@pytest.mark.parametrize(
    ("border", "body"),
    [
        ("float[2] z) => (bfloat16[2] y, seq(float[2]) t", "t = SequenceConstruct(z, z)"),
        ("float[2] z) => (bfloat16[2] y, float[2] t", "o = Optional(z) t = OptionalGetElement(o)"),
        ("string[2] s) => (float[2] y, string[2] t", "t = Identity(s)"),
    ],
)
def test_unusual_elements_beside_what_is_no_tensor_of_numbers(worker: Worker, border: str, body: str) -> None:
    last = "y = Identity(x)" if "bfloat16[2] y" in border else "y = Cast<to = 1>(x)"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (bfloat16[2] x, {border}) {{ {last} {body} }}'
    values = {"z": np.ones(2, np.float32), "s": np.array(["a", "b"], object)}
    name = "s" if "string" in border else "z"
    feeds = {"x": np.array([1.5, 2.5], ml_dtypes.bfloat16), name: values[name]}
    handle = worker.open(onnx.parser.parse_model(text).SerializeToString())
    found = worker.run(handle, feeds)
    assert found["y"].astype(np.float32).tolist() == [1.5, 2.5]
    expected = [values[name]] * 2 if "seq" in border else values[name]
    assert np.array_equal(np.array(found["t"]), np.array(expected))
    assert worker.time_blocks([handle], [feeds], rounds=1, block_s=0.001)
    worker.close(handle)


@pytest.mark.parametrize(
    ("border", "body", "value"),
    [
        ("seq(float[2]) s", "k = Constant<value_int = 0>() z = SequenceAt(s, k)", [np.ones(2, np.float32)]),
        ("optional(float[2]) s", "h = OptionalHasElement(s) z = Cast<to = 1>(h)", None),
        ("string[2] s", "e = Equal(s, s) z = Cast<to = 1>(e)", np.array(["a", "b"], object)),
    ],
)
def test_an_unusual_output_of_what_is_no_tensor_of_numbers_is_one_clear_line(
    worker: Worker, border: str, body: str, value: Value
) -> None:
    text = f'<ir_version: 8, opset_import: ["" : 19]> g ({border}) => (bfloat16[k] y) {{ {body} y = Cast<to = 16>(z) }}'
    handle = worker.open(onnx.parser.parse_model(text).SerializeToString())
    with pytest.raises(ModelError, match=r"it: outputs of bfloat16 cannot be read where an input .*, as 's' is"):
        worker.run(handle, {"s": value})
    worker.close(handle)


def test_a_sparse_output_is_the_array_that_it_stands_for(worker: Worker) -> None:
    values = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    places = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [3], [0, 4, 5])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("y", "w")],
        sparse_initializer=[onnx.helper.make_sparse_tensor(values, places, [2, 3])],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    handle = worker.open(proto.SerializeToString())
    assert worker.run(handle, {"x": np.ones(1, np.float32)})["w"].tolist() == [[1, 0, 0], [0, 2, 3]]
    worker.close(handle)
