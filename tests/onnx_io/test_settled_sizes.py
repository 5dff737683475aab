"""What is computed from sizes that the model fixes is constant, with the bits that ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto

import taso_py
from taso_py.onnx_io.load import load
from taso_py.ops.operator import Operator
from tests.helpers.onnx_io_models import model, node, value, weight
from tests.helpers.onnx_io_rewrite import Rewrite, kinds, normal, op, same

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def by_ort(proto: onnx.ModelProto, name: str, feeds: dict[str, Any]) -> Any:
    """What ONNX Runtime computes of an inner value."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    proto.graph.output.append(onnx.ValueInfoProto(name=name))
    return ort.InferenceSession(proto.SerializeToString()).run([name], feeds)[0]


def scaled(size: int, factor: float, rounding: str) -> onnx.ModelProto:
    """A Slice of as many rows as the rounded product of a size and a factor, and a Relu of it."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "rows"),
        node("Cast", "rows", "real", to=FLOAT),
        node("Mul", "real factor", "product"),
        *([node(rounding, "product", "whole")] if rounding else []),
        node("Cast", "whole" if rounding else "product", "end", to=INT64),
        node("Unsqueeze", "end zero", "ends"),
        node("Slice", "x zero ends", "part"),
        node("Relu", "part", "y"),
    ]
    weights = [weight("zero", [0], np.int64), weight("factor", [factor], np.float32)]
    nodes[6 if rounding else 5] = node("Identity", "end", "ends")
    return model(nodes, [value("x", [size, 2])], [value("y", [None, 2])], weights)


@pytest.mark.parametrize("rounding", ["", "Floor", "Ceil", "Round"])
@pytest.mark.parametrize(("size", "factor"), [(10, 0.7), (10, 0.1), (49, 1 / 49), (7, 0.5), (9, 0.5), (30, 0.9)])
def test_sizes_that_floats_decide_are_those_of_onnx_runtime(size: int, factor: float, rounding: str) -> None:
    proto = scaled(size, factor, rounding)
    loaded = load(proto)
    feeds = {"x": np.ones((size, 2), np.float32)}
    assert loaded.opaque.total() == 0
    assert loaded.values.types[loaded.ids["y"]].dims == by_ort(proto, "y", feeds).shape


def test_a_constant_that_floats_decide_is_rounded_before_it_is_cast() -> None:
    """In float64 the product is below 7."""
    nodes = [node("Mul", "a b", "ab"), node("Cast", "ab", "k", to=INT64), node("Slice", "x zero k", "y")]
    weights = [weight("a", [10], np.float32), weight("b", [0.7], np.float32), weight("zero", [0], np.int64)]
    proto = model(nodes, [value("x", [10, 4])], [value("y", [None, 4])], weights)
    loaded = load(proto)
    assert loaded.values.types[loaded.ids["y"]].dims == (7, 4)
    assert loaded.folder.value(loaded.ids["k"], loaded.table.nodes) == [7]


def test_what_is_not_determined_to_the_last_bit_decides_no_size() -> None:
    nodes = [node("Exp", "a", "e"), node("Cast", "e", "k", to=INT64), node("Slice", "x zero k", "y")]
    weights = [weight("a", [1.0986123], np.float32), weight("zero", [0], np.int64)]
    loaded = load(model(nodes, [value("x", [10, 4])], [value("y", [None, 4])], weights))
    assert dict(loaded.opaque) == {"Slice": 1}


def padded_as_tensorflow(pads_of: str) -> onnx.ModelProto:
    """A strided convolution whose pads are computed from the size of what it reads, as exporters write SAME."""
    nodes = [
        node("Relu", "x", "r"),
        node("Shape", "r", "shape"),
        node("Gather", f"shape {pads_of}", "size"),
        node("Cast", "size", "real", to=FLOAT),
        node("Div", "real two", "half"),
        node("Ceil", "half", "count"),
        node("Cast", "count", "whole", to=INT64),
        node("Mul", "whole itwo", "covered"),
        node("Sub", "covered size", "odd"),
        node("Add", "odd one", "pad"),
        node("Concat", "none none none none none none pad pad", "pads", axis=0),
        node("Pad", "r pads", "p"),
        node("Conv", "p w", "c", strides=[2, 2]),
        node("Relu", "c", "y"),
    ]
    whole = {"third": [2], "itwo": [2], "one": [1], "none": [0]}
    weights = [weight(name, content, np.int64) for name, content in whole.items()]
    weights += [weight("two", [2], np.float32), weight("w", normal(4, 3, 3, 3), np.float32)]
    return model(nodes, [value("x", [1, 3, 9, 9])], [value("y", [1, 4, None, None])], weights)


def test_pads_that_sizes_determine_are_read_and_what_follows_has_a_size() -> None:
    loaded = load(padded_as_tensorflow("third"))
    assert loaded.opaque.total() == 0
    assert loaded.values.types[loaded.ids["y"]].dims == (1, 4, 5, 5)
    assert {str(n.operator.onnx) for n in loaded.table.nodes.values() if isinstance(n.operator, Operator)} == {
        "Relu", "Pad", "Conv",
    }  # fmt: skip


def test_a_rewritten_model_keeps_no_value_for_its_size_alone() -> None:
    before = padded_as_tensorflow("third")
    r = Rewrite(before)
    r.bind("p", op("Pad", pads=(0, 0, 0, 0, 0, 0, 2, 2), mode="constant", value=0.0), r.add(op("Abs"), r["x"]))
    kept = kinds(r.export())
    assert "Shape" not in kept
    assert kept.count("Relu") == 1


def test_a_dynamic_size_stays_open() -> None:
    proto = padded_as_tensorflow("third")
    proto.graph.input[0].CopyFrom(value("x", [1, 3, "h", 9]))
    assert {"Shape", "Ceil", "Pad"} <= set(load(proto).opaque)


def test_a_model_that_pads_as_tensorflow_is_optimised(tmp_path: Any) -> None:
    before = padded_as_tensorflow("third")
    result = taso_py.optimize(before, race=False, apply="all", strict=True)
    assert result.rules
    same(before, result.model, {"x": normal(1, 3, 9, 9)})


def test_a_size_that_is_an_output_is_still_one() -> None:
    nodes = [node("Abs", "x", "a"), node("Relu", "a", "y"), node("Shape", "a", "s"), node("Gather", "s one", "n")]
    outputs = [value("y", [2, 3]), value("s", [2], INT64), value("n", [], INT64)]
    before = model(nodes, [value("x", [2, 3])], outputs, [weight("one", 1, np.int64)])
    result = taso_py.optimize(before, race=False, apply="all", strict=True)
    assert sorted(kinds(result.model)) == ["Abs", "Identity", "Identity"]
    same(before, result.model, {"x": normal(2, 3)})


@pytest.mark.parametrize(("used", "unused"), ["ab", "ba"])
def test_an_output_that_nothing_reads_is_no_size(used: str, unused: str) -> None:
    nodes = [node("Split", "x parts", "a b", axis=0), node("Relu", used, "y")]
    proto = model(nodes, [value("x", [4, 3])], [value("y", [2, 3])], [weight("parts", [2, 2], np.int64)])
    loaded = load(proto)
    assert loaded.opaque.total() == 0
    assert used in loaded.ids
    assert unused not in loaded.ids
