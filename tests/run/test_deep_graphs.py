"""Graphs far deeper than Python's recursion limit go through every stage."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import taso_py
from taso_py.onnx_io.load import load
from taso_py.search.view import View
from tests.conftest import RunCli

DEPTH = 4 * sys.getrecursionlimit()
OPERATORS = ("Relu", "Sigmoid", "Neg", "Abs")


def chain(*, constant: bool) -> onnx.ModelProto:
    """DEPTH operators in a row, of a weight or of the input, and one that adds the input to the result."""
    names = ["w" if constant else "x", *(f"v{k}" for k in range(DEPTH))]
    nodes = [helper.make_node(OPERATORS[k % 4], [names[k]], [names[k + 1]]) for k in range(DEPTH)]
    nodes.append(helper.make_node("Add", ["x", names[-1]], ["y"]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    weight = numpy_helper.from_array(np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4), "w")
    graph = helper.make_graph(nodes, "chain", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("constant", [False, True], ids=["computed", "folded"])
def test_a_chain_goes_through_the_whole_command(constant: bool, tmp_path: Path, run_cli: RunCli) -> None:
    onnx.save(chain(constant=constant), tmp_path / "deep.onnx")
    done = run_cli(
        "optimize", "deep.onnx", "-o", "out.onnx", "--no-race", "--time-budget", "300", "--json", timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes_before"] == DEPTH + 1
    assert load(tmp_path / "out.onnx").table.outputs


def test_a_chain_of_weights_is_folded_and_judged_without_recursion() -> None:
    loaded = load(chain(constant=True))
    last = loaded.ids[f"v{DEPTH - 1}"]
    view = View.of(loaded.table, lambda *_: (), loaded.folder.value)
    assert view.is_tame(last)
    value = loaded.folder.value(last, dict(loaded.table.nodes))
    assert value.shape == (1, 4)
    assert np.isfinite(value).all()


def wide(op_type: str, *, constant: bool) -> onnx.ModelProto:
    """One operator of more operands than Python nests calls, of weights or of computed values; relu(relu(x)) beside."""
    count = sys.getrecursionlimit() + 200
    operands = [f"a{k}" for k in range(count)]
    makers = [helper.make_node(OPERATORS[k % 4], ["x"], [name]) for k, name in enumerate(operands)]
    weights = [numpy_helper.from_array(np.full((1, 4), k, np.float32), name) for k, name in enumerate(operands)]
    attributes = {"axis": 0} if op_type == "Concat" else {}
    nodes = [
        *([] if constant else makers),
        helper.make_node(op_type, operands, ["wide"], **attributes),
        helper.make_node("Relu", ["x"], ["once"]),
        helper.make_node("Relu", ["once"], ["twice"]),
        helper.make_node("Add", ["wide", "twice"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 4]), ("y", None))
    )
    graph = helper.make_graph(nodes, "wide", [x], [y], weights if constant else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sums() -> onnx.ModelProto:
    """A running sum of as many summands, as a chain of additions."""
    count = sys.getrecursionlimit() + 200
    nodes = [helper.make_node(OPERATORS[k % 4], ["x"], [f"a{k}"]) for k in range(count)]
    names = ["a0", *(f"s{k}" for k in range(1, count - 1)), "y"]
    nodes += [helper.make_node("Add", [names[k - 1], f"a{k}"], [names[k]]) for k in range(1, count)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    graph = helper.make_graph(nodes, "sums", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


WIDE = {f"{op} of {kind}": (op, kind == "weights") for op in ("Concat", "Sum") for kind in ("values", "weights")}


@pytest.mark.parametrize("name", [*WIDE, "sums"])
def test_wide_operators_and_long_sums_are_carried(name: str, tmp_path: Path) -> None:
    proto = sums() if name == "sums" else wide(WIDE[name][0], constant=WIDE[name][1])
    result = taso_py.optimize(proto, race=False, time_budget_s=300, only=["relu-of-relu"], cache=tmp_path / "c")
    assert result.changed == (name != "sums")
