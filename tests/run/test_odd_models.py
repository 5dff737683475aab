"""Models at which a guess, a reader or the contract once gave up: each is optimised, or refused in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from taso_py.cli import main
from taso_py.run.candidates import _save_arrays
from tests.conftest import RunCli
from tests.helpers.certified import overridable

FLOAT, INT, INT32, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.STRING
node, value = helper.make_node, helper.make_tensor_value_info


def constant(name: str, numbers: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(numbers, dtype), name)


def twice(x: str, y: str) -> list[onnx.NodeProto]:
    """A rewrite that every search finds, so that something is exported."""
    return [node("Relu", [x], ["once"]), node("Relu", ["once"], [y])]


def made(
    nodes: Iterable[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (), *, functions: Sequence[onnx.FunctionProto] = (),
    stated: Sequence[onnx.ValueInfoProto] = (), ir: int = 8,
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights), value_info=list(stated))
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid("local", 1) for _ in functions[:1])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir, functions=list(functions))


X, Y = value("x", FLOAT, ["N", 4]), value("y", FLOAT, None)


def range_of_all_integers() -> onnx.ModelProto:
    ends = [constant("a", -(2**63)), constant("b", 2**63 - 1), constant("c", 1)]
    return made([node("Range", ["a", "b", "c"], ["r"]), *twice("x", "y")], [X], [Y, value("r", INT, [None])], ends)


def constant_without_a_name() -> onnx.ModelProto:
    return made([node("Constant", [], [""], value=constant("c", [1.0])), *twice("x", "y")], [X], [Y])


def parts_of_nothing() -> onnx.ModelProto:
    nodes = [node("SplitToSequence", ["x", "split"], ["s"], axis=0), node("SequenceLength", ["s"], ["n"])]
    return made([*nodes, *twice("x", "y")], [X, value("split", INT, [0])], [value("n", INT, []), Y])


def scalar_reshaped_above_a_mismatch() -> onnx.ModelProto:
    nodes = [node("Reshape", ["s", "shape"], ["r"]), node("Mul", ["a", "r"], ["m"]), node("MatMul", ["m", "b"], ["p"])]
    inputs = [value("s", FLOAT, []), value("shape", INT, [2]), value("a", FLOAT, ["M", "K"])]
    return made([*nodes, *twice("p", "y")], [*inputs, value("b", FLOAT, ["L", "N"])], [Y])


def text_that_is_a_shape() -> onnx.ModelProto:
    nodes = [node("Cast", ["s"], ["shape"], to=INT), node("Reshape", ["x", "shape"], ["r"]), *twice("r", "y")]
    return made(nodes, [value("s", TEXT, [2]), value("x", FLOAT, [2, 6])], [Y])


def stated_as_a_scalar_before_col2im() -> onnx.ModelProto:
    nodes = [node("Identity", ["x"], ["t"]), node("Col2Im", ["t", "image", "block"], ["y"])]
    inputs = [value("x", FLOAT, [1, 9, 4]), value("image", INT, [2])]
    return made(nodes, inputs, [Y], [constant("block", [3, 3])], stated=[value("t", FLOAT, [])])


def result_of_size(size: str) -> onnx.ModelProto:
    inputs = [value("x", FLOAT, [4]), value("shape", INT, [2])]
    return made([node("Expand", ["x", "shape"], ["y"])], inputs, [value("y", FLOAT, [size, 4])])


def reference_outside_a_function() -> onnx.ModelProto:
    top = node("TopK", ["x", "k"], ["v", "i"])
    kind = onnx.AttributeProto.INT
    top.attribute.append(onnx.AttributeProto(name="axis", type=kind, ref_attr_name="outer"))
    return made([top], [value("x", FLOAT, [2, 8]), value("k", INT, [1])], [value("v", FLOAT, [None, None])])


def nonzero_of_a_scalar() -> onnx.ModelProto:
    nodes = [
        node("NonZero", ["s"], ["n"]), node("Reshape", ["n", "flat"], ["m"]), node("Cast", ["m"], ["f"], to=FLOAT),
        node("Concat", ["f", "w"], ["c"], axis=0), node("Slice", ["c", "zero", "two", "zero"], ["o"]),
    ]  # fmt: skip
    weights = [
        constant("flat", [-1]),
        constant("zero", [0]),
        constant("two", [2]),
        constant("w", [5, 6, 7], np.float32),
    ]
    return made([*nodes, *twice("o", "y")], [value("s", FLOAT, [])], [Y], weights)


def values_of_a_function_are_stated() -> onnx.ModelProto:
    inner = [node("Neg", ["a"], ["t"]), node("Abs", ["t"], ["b"])]
    called = helper.make_function("local", "f", ["a"], ["b"], inner, [helper.make_opsetid("", 18)])
    called.value_info.append(value("t", FLOAT, ["N", 4]))
    return made([node("f", ["x"], ["u"], domain="local"), *twice("u", "y")], [X], [Y], functions=[called])


def nodes_that_give_nothing() -> onnx.ModelProto:
    weights = [constant("w", np.zeros((1, 12, 4)), np.float32), constant("r", np.zeros((1, 12, 3)), np.float32)]
    several = [node("LSTM", list("xwr"), ["", ""], hidden_size=3, direction=way) for way in ("forward", "reverse")]
    return made([*several, *twice("x", "y")], [value("x", FLOAT, [5, 2, 4])], [Y], weights)


def sharding_of_a_computed_value() -> onnx.ModelProto:
    numbers = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", "s", "s", "m", "s"], ["b"])]
    weights = [numpy_helper.from_array(numbers, "w"), constant("s", [1, 2, 3, 4], np.float32)]
    weights.append(constant("m", [0.1, 0.2, 0.3, 0.4], np.float32))
    last = node("Relu", ["b"], ["y"], name="last")
    found = made([*nodes, last], [value("x", FLOAT, [1, 3, 8, 8])], [Y], weights, ir=11)
    several = found.configuration.add(name="two", num_devices=2)
    several.device.extend(["a", "b"])
    placed = found.graph.node[2].device_configurations.add(configuration_id="two")
    spec = placed.sharding_spec.add(tensor_name="b")
    spec.device.extend([0, 1])
    spec.sharded_dim.add(axis=1).simple_sharding.add(dim_value=4, num_shards=2)
    return found


def branch_that_nothing_reads() -> onnx.ModelProto:
    branches = {
        name: helper.make_graph([node("ReduceMax", ["a"], [name], keepdims=0)], name, [], [value(name, FLOAT, None)])
        for name in ("then_branch", "else_branch")
    }
    nodes = [
        node("Relu", ["v"], ["a"]),
        node("If", ["c"], ["i"], **branches),
        node("Where", ["always", "x", "i"], ["y"]),
    ]
    inputs = [value("v", FLOAT, [8]), value("c", TensorProto.BOOL, []), value("x", FLOAT, [4])]
    return made(nodes, inputs, [Y], [constant("always", True, np.bool_)])


def cut_by_free_sizes() -> onnx.ModelProto:
    nodes = [node("Concat", ["a", "b"], ["joined"], axis=0), node("Identity", ["joined"], ["h"])]
    for one in "ab":
        nodes += [node("Shape", [one], [f"{one}0"], start=0, end=1)]
    nodes += [node("Concat", ["a0", "b0"], ["sizes"], axis=0), node("Split", ["h", "sizes"], ["p", "q"], axis=0)]
    nodes += [node("Relu", ["p"], ["y"]), node("Neg", ["q"], ["z"])]
    return made(nodes, [value("a", FLOAT, ["N", 4]), value("b", FLOAT, ["M", 4])], [Y, value("z", FLOAT, None)])


def weight_of_many_axes() -> onnx.ModelProto:
    nodes = [
        node("Unsqueeze", ["w", "axes"], ["u"]),
        node("Reshape", ["u", "four"], ["q"]),
        node("Mul", ["x", "q"], ["y"]),
    ]
    weights = [constant("w", [1, 2, 3, 4], np.float32), constant("axes", range(70)), constant("four", [4])]
    return made(nodes, [X], [Y], weights)


def nothing_of_size(size: int) -> onnx.ModelProto:
    nodes = [node("ConstantOfShape", ["shape"], ["z"]), node("Add", ["z", "z"], ["t"]), node("Shape", ["t"], ["s"])]
    return made([*nodes, *twice("x", "y")], [X], [Y, value("s", INT, [2])], [constant("shape", [0, size])])


def halved_size(times: int, *, doubling: bool) -> onnx.ModelProto:
    """A size that is divided and rounded down so often, once or twice each time."""
    nodes = [node("Shape", ["x"], ["n0"], start=0, end=1)]
    for k in range(times):
        nodes += [node("Mul", [f"n{k}", "three"], [f"m{k}"]), node("Div", [f"m{k}", "four"], [f"d{k}"])]
        nodes += [node("Add", [f"d{k}", f"n{k}" if doubling else "four"], [f"s{k}"])]
        nodes += [node("Div", [f"s{k}", "three"], [f"n{k + 1}"])]
    weights = [constant("three", [3]), constant("four", [4])]
    return made([*nodes, *twice("x", "y")], [X], [Y, value(f"n{times}", INT, [1])], weights)


RUN: list[Callable[[], onnx.ModelProto]] = [
    range_of_all_integers, constant_without_a_name, parts_of_nothing, scalar_reshaped_above_a_mismatch,
    text_that_is_a_shape, stated_as_a_scalar_before_col2im, reference_outside_a_function, nonzero_of_a_scalar,
    values_of_a_function_are_stated, nodes_that_give_nothing, sharding_of_a_computed_value,
    branch_that_nothing_reads, cut_by_free_sizes, weight_of_many_axes,
    lambda: nothing_of_size(2**62), lambda: nothing_of_size(2**30),
    lambda: halved_size(400, doubling=False), lambda: halved_size(40, doubling=True),
    lambda: result_of_size("N" + "+1" * 3000), lambda: result_of_size("1" + "0" * 330 + " * 1"),
]  # fmt: skip


@pytest.mark.parametrize("build", RUN, ids=lambda one: one.__name__)
def test_it_is_optimised_or_refused_in_a_line(build: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    source, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    source.write_bytes(build().SerializeToString())
    words = ["--no-race", "--apply", "all", "--strict", "--time-budget", "20"]
    assert main(["optimize", str(source), str(out), *words]) in (0, 3)


SEVENTH, HALVES = float(np.float32(1 / 7)), 3.5


def scaled(x: str, y: str) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """x / 7 * 3.5, whose factors a law of the reals takes for one: half of a whole number lies between two."""
    nodes = [node("Mul", [x, "seventh"], ["part"]), node("Mul", ["part", "halves"], [y])]
    return nodes, [constant("seventh", [SEVENTH], np.float32), constant("halves", [HALVES], np.float32)]


def rounded_in_a_branch() -> onnx.ModelProto:
    nodes, weights = scaled("x", "m")
    branches = {
        name: helper.make_graph([node("Round", ["m"], [name])], name, [], [value(name, FLOAT, None)])
        for name in ("then_branch", "else_branch")
    }
    last = node("If", ["c"], ["y"], **branches)
    return made([*nodes, last], [value("x", FLOAT, [1000]), value("c", TensorProto.BOOL, [])], [Y], weights)


def in_a_function(*bodies: Sequence[onnx.NodeProto], ir: int = 8) -> onnx.ModelProto:
    """The first of the functions of one name is called; several differ by their overload."""
    nodes, weights = scaled("x", "m")
    opset, last = helper.make_opsetid("", 19), node("Snap", ["m"], ["y"], domain="local")
    functions = [helper.make_function("local", "Snap", ["a"], ["o"], list(body), [opset]) for body in bodies]
    for k, function in enumerate(functions if len(functions) > 1 else []):
        function.overload = f"number {k}"
        last.overload = "number 0"
    return made([*nodes, last], [value("x", FLOAT, [1000])], [Y], weights, functions=functions, ir=ir)


def rounded_in_a_function() -> onnx.ModelProto:
    return in_a_function([node("Round", ["a"], ["o"])])


def rounded_in_one_of_two_functions() -> onnx.ModelProto:
    return in_a_function([node("Round", ["a"], ["o"])], [node("Identity", ["a"], ["o"])], ir=10)


@pytest.mark.parametrize("build", [rounded_in_a_branch, rounded_in_a_function, rounded_in_one_of_two_functions])
def test_what_a_body_rounds_stays_bit_for_bit(build: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    """Random inputs show nothing: only whole numbers lie between two others after it."""
    source, out, numbers = tmp_path / "m.onnx", tmp_path / "o.onnx", tmp_path / "x.npy"
    source.write_bytes(build().SerializeToString())
    np.save(numbers, np.arange(1000, dtype=np.float32))
    assert main(["optimize", str(source), str(out), "--no-race", "--apply", "all", "--time-budget", "20"]) == 0
    assert [one.op_type for one in onnx.load(out).graph.node][:2] == ["Mul", "Mul"]
    assert main(["check", str(source), str(out), "--input", f"x={numbers}"]) == 0


def test_inputs_of_any_name_are_saved(tmp_path: Path) -> None:
    arrays = {"file": np.arange(3), "allow_pickle": np.ones((2, 2), np.float32), "a/b": np.zeros(1)}
    _save_arrays(tmp_path / "inputs.npz", arrays)
    with np.load(tmp_path / "inputs.npz") as found:
        assert {name: found[name].tolist() for name in found} == {name: one.tolist() for name, one in arrays.items()}


def test_weights_that_callers_may_override_are_pointed_out(tmp_path: Path, run_cli: RunCli) -> None:
    onnx.save(overridable(), tmp_path / "model.onnx")
    for command in ("inspect model.onnx", "optimize model.onnx --no-race --dry-run"):
        told = run_cli(*command.split()).stderr
        assert "initializer 'w' is listed among the inputs" in told
        assert "--freeze-initializers" in told
    frozen = run_cli("optimize", "model.onnx", "--no-race", "--dry-run", "--freeze-initializers")
    assert (frozen.returncode, frozen.stderr) == (0, "")
