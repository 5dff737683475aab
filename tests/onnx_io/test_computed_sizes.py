"""A node that the search keeps does not wait for sizes at run time where it can say itself what it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.helpers.onnx_io_models import model, node, value, weight
from tests.helpers.onnx_io_rewrite import Rewrite, kinds, normal, op, same

Dims = Sequence[int | str]
SIZES = [node("Shape", "x", "sizes"), node("Gather", "sizes zero", "rows"), node("Unsqueeze", "rows front", "n")]
WEIGHTS = [weight("zero", 0, np.int64), weight("front", [0], np.int64)]


def view(dims: Dims, *wanted: int | str, sizes: Sequence[onnx.NodeProto] = SIZES, opset: int = 17) -> onnx.ModelProto:
    """``x.view(*wanted)`` as exporters write it for a free batch: names are vectors computed from the sizes of x."""
    numbers = [weight(f"c{k}", [w], np.int64) for k, w in enumerate(wanted) if isinstance(w, int)]
    parts = " ".join(w if isinstance(w, str) else f"c{k}" for k, w in enumerate(wanted))
    nodes = [
        *sizes,
        node("Concat", parts, "shape", axis=0),
        node("Neg", "x", "a"),
        node("Reshape", "a shape", "r"),
        node("Relu", "r", "y"),
    ]
    return model(nodes, [value("x", dims)], [value("y", [None] * len(wanted))], [*WEIGHTS, *numbers], opset=opset)


def rewritten(before: onnx.ModelProto) -> onnx.ModelProto:
    r = Rewrite(before)
    r.bind("a", op("Mul"), r["x"], r.add(op("Fill", value=-1.0, shape=())))
    return r.export()


def shape_of(proto: onnx.ModelProto) -> list[int]:
    reshape = next(n for n in proto.graph.node if n.op_type == "Reshape")
    found = next(t for t in proto.graph.initializer if t.name == reshape.input[1])
    return [int(e) for e in onnx.numpy_helper.to_array(found)]


@pytest.mark.parametrize(
    ("dims", "wanted", "spelled"),
    [
        (["batch", 4, 6], ["n", 2, 12], [0, 2, 12]),
        (["batch", 4, 6], ["n", 24], [0, 24]),
        (["batch", 4, 6], ["n", 2, -1], [0, 2, 12]),
        (["batch", 4, 6], [1, "n", 24], [1, -1, 24]),
    ],
)
def test_a_shape_with_one_free_size_is_a_constant(dims: Dims, wanted: Sequence[int | str], spelled: list[int]) -> None:
    before = view(dims, *wanted)
    after = rewritten(before)
    assert shape_of(after) == spelled
    assert not {"Shape", "Gather", "Unsqueeze", "Concat"} & set(kinds(after))
    for count in (1, 3):
        same(before, after, {"x": normal(count, 4, 6)})


def test_it_means_the_same_of_an_empty_batch() -> None:
    before = view(["batch", 4, 6], "n", 2, 12)
    after = rewritten(before)
    assert "Shape" not in kinds(after)
    same(before, after, {"x": normal(0, 4, 6)})


def test_a_size_that_an_empty_batch_leaves_open_is_computed() -> None:
    before = view(["batch", 4, "length"], "n", 2, 2, -1)
    after = rewritten(before)
    assert "Concat" in kinds(after)
    same(before, after, {"x": normal(2, 4, 5)})


def test_two_free_sizes_that_x_has_elsewhere_are_computed_as_before() -> None:
    both = [
        node("Shape", "x", "sizes"),
        node("Slice", "sizes one two", "m"),
        node("Slice", "sizes front one", "n"),
    ]
    before = view(["n", "m", 6], "m", "n", 2, 3, sizes=both)
    before.graph.initializer.extend([weight("one", [1], np.int64), weight("two", [2], np.int64)])
    after = rewritten(before)
    assert kinds(after).count("Shape") == 1
    same(before, after, {"x": normal(2, 5, 6)})


def test_a_size_of_another_value_is_one_of_x_where_the_types_say_so() -> None:
    of_z = [node("Shape", "z", "sizes"), *SIZES[1:]]
    for free, kept in (("batch", False), ("other", True)):
        before = view(["batch", 4, 6], "n", -1, sizes=of_z)
        before.graph.input.append(value("z", [free, 2]))
        after = rewritten(before)
        assert ("Shape" in kinds(after)) == kept
        same(before, after, {"x": normal(3, 4, 6), "z": normal(3, 2)})


def test_the_value_keeps_its_name_where_it_is_an_output() -> None:
    before = view(["batch", 4, 6], "n", 24)
    before.graph.output.append(value("r", ["batch", 24]))
    after = rewritten(before)
    assert [o.name for o in after.graph.output] == ["y", "r"]
    assert "Shape" not in kinds(after)
    same(before, after, {"x": normal(2, 4, 6)})


def test_a_size_that_is_an_output_too_is_still_computed() -> None:
    before = view(["batch", 4, 6], "n", 24)
    before.graph.output.append(value("shape", [2], TensorProto.INT64))
    after = rewritten(before)
    assert kinds(after).count("Concat") == 1
    same(before, after, {"x": normal(2, 4, 6)})


def test_an_untouched_model_keeps_its_sizes() -> None:
    before = view(["batch", 4, 6], "n", 24)
    assert Rewrite(before).export() == before


def test_an_element_type_that_another_value_has_stays_where_it_is_read() -> None:
    nodes = [node("Neg", "x", "a"), node("Exp", "x", "z"), node("CastLike", "a z", "r"), node("Relu", "r", "y")]
    before = model(nodes, [value("x", ["n", 2])], [value("y", ["n", 2]), value("z", ["n", 2])])
    assert "CastLike" in kinds(rewritten(before))
