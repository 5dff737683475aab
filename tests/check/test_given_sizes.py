"""Sizes that are given, by options and by arrays: they count, or one line says why they cannot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from taso_py import api
from taso_py.check.facts import InputSpec, read_facts
from taso_py.check.inputs import make_feeds, override_shapes, with_arrays
from taso_py.check.shapes import Shape, resolve_shapes, second_sizes
from taso_py.errors import UsageError
from tests.conftest import tiny_network


def relus(**dims: tuple[int | str, ...]) -> onnx.ModelProto:
    """y_i = Relu(x_i), of inputs with these dims."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(d)) for name, d in dims.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_", TensorProto.FLOAT, list(d)) for name, d in dims.items()]
    nodes = [helper.make_node("Relu", [name], [f"{name}_"]) for name in dims]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def specs(**dims: tuple[int | str, ...]) -> tuple[InputSpec, ...]:
    return read_facts(relus(**dims)).inputs


def test_what_is_only_called_unknown_is_no_size_of_two_axes() -> None:
    found = resolve_shapes(specs(x=("?", "?")), {"x": (2, 3)})
    assert found.shapes["x"] == (2, 3)


@pytest.mark.parametrize("dim", ["n - 1000", "1000 - n", "10 - n", "n // 200 - 3"])
def test_default_sizes_are_such_that_there_is_an_input(dim: str) -> None:
    inputs = specs(a=("n",), x=(1, dim))
    found = resolve_shapes(inputs, {})
    assert all(size >= 0 for size in found.shapes["x"])
    for other in second_sizes(inputs, found):
        assert all(size >= 0 for size in other.shapes["x"])
        make_feeds(inputs, other)
    assert api.check(relus(a=("n",), x=(1, dim)), relus(a=("n",), x=(1, dim))).passed


@pytest.mark.parametrize(
    ("dim", "given"),
    [("n // 0", {}), ("n // m", {"m": (0,)}), ("n - 1000", {"n": (5,)})],
)
def test_a_dimension_without_a_size_is_one_error(dim: str, given: Mapping[str, Shape]) -> None:
    with pytest.raises(UsageError, match=r"dimension '.*' has no size at .*: choose others"):
        resolve_shapes(specs(a=("n",), b=("m",), x=(1, dim)), given)


@pytest.mark.parametrize(
    "dim", ["n\0m", f"n{' + n' * 4000}", f"{'-' * 100_000}n", f"{'(' * 150}n", "n" * 300, "2021-2022"]
)
def test_a_dimension_that_is_no_expression_is_a_symbol(dim: str) -> None:
    found = resolve_shapes(specs(x=(1, dim)), {"x": (1, 3)})
    assert found.shapes == {"x": (1, 3)}
    assert found.sizes == {dim: 3}


@pytest.mark.parametrize(
    ("dim", "size", "sizes"),
    [("n + 1", 5, {"n": 4}), ("2 * n", 6, {"n": 3}), ("n - 1000", 24, {"n": 1024}), ("n + m", 7, {"m": 2, "n": 5})],
)
def test_the_size_of_a_computed_axis_says_that_of_its_symbol(dim: str, size: int, sizes: dict[str, int]) -> None:
    given: dict[str, Shape] = {"x": (1, size)} | ({"m": (2,)} if "m" in sizes else {})
    found = resolve_shapes(specs(a=("n",), b=("m",), x=(1, dim)), given)
    assert found.shapes["x"] == (1, size)
    assert {name: found.sizes[name] for name in sizes} == sizes


@pytest.mark.parametrize(
    ("dim", "given"),
    [("2 * n", {"x": (1, 5)}), ("n + m", {"x": (1, 5)}), ("n + 1", {"n": (7,), "x": (1, 5)}), ("n * n", {"x": (1, 5)})],
)
def test_a_computed_axis_is_never_another_than_was_said(dim: str, given: Mapping[str, Shape]) -> None:
    with pytest.raises(UsageError, match=r"shapes\['x'\]=1,5: its symbols make it 1,\d+"):
        resolve_shapes(specs(a=("n",), b=("m",), x=(1, dim)), given)


def test_what_is_wrong_with_an_array_is_said_of_the_array() -> None:
    inputs = specs(x=(1, 8))
    for arrays, words in (
        ({"x": np.zeros((1, 9), np.float32)}, r"inputs\['x'\].*an array of shape 1,9: axis 1 is fixed to 8"),
        ({"x": np.zeros(8, np.float32)}, r"inputs\['x'\].*an array of shape 8: the input has 2 axes"),
        ({"zz": np.zeros(8, np.float32)}, r"inputs\['zz'\].*: the model has no such input: use one of x"),
    ):
        with pytest.raises(UsageError, match=words):
            resolve_shapes(inputs, override_shapes(arrays))


@pytest.mark.parametrize("command", [api.check, api.inspect])
def test_a_size_and_an_array_that_contradict_each_other_are_one_error(command: object) -> None:
    model, array = relus(x=("n", 4)), {"x": np.zeros((3, 4), np.float32)}
    arguments = (model, model) if command is api.check else (model,)
    with pytest.raises(UsageError, match=r"shapes\['x'\]=7,4: the array that is given for it has shape 3,4"):
        command(*arguments, shapes={"x": (7, 4)}, inputs=array)
    assert with_arrays({"x": (3, 4), "n": (3,)}, array) == {"x": (3, 4), "n": (3,)}


def test_inspect_takes_the_sizes_of_arrays(tmp_path: Path) -> None:
    model = relus(x=("n", 4))
    assert api.inspect(model, inputs={"x": np.zeros((3, 4), np.float32)}).shapes == {"x": (3, 4)}
    (tmp_path / "x.npy").write_text("nonsense")
    with pytest.raises(UsageError, match=r"numpy\.save wrote"):
        api.inspect(model, inputs={"x": tmp_path / "x.npy"})


@pytest.mark.parametrize("dtype", [np.dtype([("a", "<i2"), ("b", "<i2")]), np.dtype("V4")])
def test_records_and_raw_bytes_are_no_numbers(dtype: np.dtype[np.void]) -> None:
    with pytest.raises(UsageError, match="the model expects float32"):
        api.check(tiny_network(), tiny_network(), inputs={"x": np.zeros((1, 3, 8, 8), dtype)})


def test_raw_bytes_are_no_texts_but_extension_types() -> None:
    for element, raw in ((TensorProto.STRING, "V8"), (TensorProto.BFLOAT16, "V2")):
        info = [helper.make_tensor_value_info(name, element, [3]) for name in "st"]
        graph = helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "g", info[:1], info[1:])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        given = {"s": np.zeros(3, raw)}
        inputs = read_facts(made).inputs
        sizes = resolve_shapes(inputs, override_shapes(given))
        if element == TensorProto.STRING:
            with pytest.raises(UsageError, match="the model expects object"):
                make_feeds(inputs, sizes, overrides=given)
        else:
            assert make_feeds(inputs, sizes, overrides=given)["s"].dtype == ml_dtypes.bfloat16
