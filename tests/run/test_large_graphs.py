"""What a run does before, between and behind its measurements grows with the graph, not with its square.

Steps are counted, not timed: calls of functions, of Python and of C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import taso_py
from taso_py.backend.client import Worker
from taso_py.cost.model import Part, RooflineCost, changed
from taso_py.cost.roofline import Roofline
from taso_py.errors import WorkerTimeoutError
from taso_py.graph.table import Node
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export
from taso_py.onnx_io.load import Loaded, load
from taso_py.onnx_io.spell import UsedNames
from taso_py.search.rounding import rounded_later
from taso_py.search.state import StopReason
from taso_py.search.strategy import Backtracking, Limits
from taso_py.search.topology import without_dead
from taso_py.search.view import View
from taso_py.search.watch import OutOfTime, Watch
from tests.helpers.graphs import model, rewriter, view_of

SMALL, TIMES = 400, 4
MOST = 1.6 * TIMES
"""A square would be TIMES * TIMES."""


def graph(nodes: list[onnx.NodeProto], size: int = 8) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name in "xy")
    weights = [numpy_helper.from_array(np.eye(size, dtype=np.float32) * k, f"w{k}") for k in range(1, 4)]
    made = helper.make_graph(nodes, "large", [x], [y], weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def row(count: int) -> onnx.ModelProto:
    """Operators one behind the other; the result is rounded."""
    names = ["x", *(f"v{k}" for k in range(count))]
    kinds = ("Relu", "Abs", "Tanh")
    nodes = [helper.make_node(kinds[k % 3], [names[k]], [names[k + 1]]) for k in range(count)]
    return graph([*nodes, helper.make_node("Round", [names[-1]], ["y"])])


def siblings(count: int) -> onnx.ModelProto:
    """Readers of one tensor, and the Concat of them all."""
    nodes = [helper.make_node("MatMul", ["x", f"w{1 + k % 3}"], [f"s{k}"]) for k in range(count // 2)]
    nodes += [helper.make_node("Relu", [f"s{k}"], [f"r{k}"]) for k in range(count // 2)]
    return graph([*nodes, helper.make_node("Concat", [f"r{k}" for k in range(count // 2)], ["y"], axis=0)])


@contextmanager
def counted() -> Iterator[list[int]]:
    """Counts the calls within the block."""
    calls = [0]

    def hear(frame: FrameType, event: str, argument: Any) -> None:
        calls[0] += event in ("call", "c_call")

    sys.setprofile(hear)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def steps(work: Callable[[], object]) -> int:
    with counted() as calls:
        work()
    return calls[0]


def _exported(loaded: Loaded) -> list[str]:
    first = loaded.ids.get("v0", loaded.ids.get("r0", 0))
    node = loaded.table.nodes[first]
    rewritten = loaded.table.rebind({first: Node(node.operator, node.inputs)})
    return check_contract(loaded.proto, export(loaded, rewritten))


def _rounding(loaded: Loaded) -> bool:
    view = View.of(loaded.table, lambda *_: (), loaded.folder.value)
    return any(rounded_later(view, [value]) for value in view.table.nodes if value not in loaded.table.roots)


@pytest.mark.parametrize("make", [row, siblings])
@pytest.mark.parametrize(
    "work",
    [
        lambda loaded: load(loaded.proto),
        lambda loaded: Roofline({}).flops(loaded.table),
        lambda loaded: View.of(loaded.table, lambda *_: (), loaded.folder.value),
        _rounding,
        _exported,
    ],
    ids=["load", "flops", "view", "rounding", "export"],
)
def test_steps_grow_with_the_graph(make: Callable[[int], onnx.ModelProto], work: Callable[[Loaded], object]) -> None:
    few, many = (load(make(count)) for count in (SMALL, TIMES * SMALL))
    assert steps(lambda: work(many)) < MOST * steps(lambda: work(few))


def test_each_output_looks_at_so_many_siblings_only() -> None:
    """Matches of a rule of two outputs are pairs of siblings."""
    rules, canonical = rewriter(None, "matmul-shared-weight")
    found = []
    for count in (100, 200):
        view = view_of(load(shared(count)), canonical)
        found.append(sum(map(len, rules.matches(view, [*view.table.nodes][:2]).values())))
    assert found[0] == found[1] > 0


def shared(count: int) -> onnx.ModelProto:
    """Products of different tensors with one matrix."""
    nodes = [helper.make_node("MatMul", [f"x{k}", "w1"], [f"s{k}"]) for k in range(count)]
    nodes.append(helper.make_node("Sum", [f"s{k}" for k in range(count)], ["y"]))
    proto = graph(nodes)
    proto.graph.input.extend(helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, [2, 8]) for k in range(count))
    return proto


def test_what_many_dead_nodes_read_is_looked_at_once() -> None:
    loaded = load(siblings(4 * SMALL))
    view = View.of(loaded.table, lambda *_: (), loaded.folder.value)
    (out,) = loaded.table.outputs
    lone = type(view.table.nodes[out])(view.table.nodes[out].operator, (loaded.ids["r0"],))
    looked = [0]

    class Users(dict[int, Any]):
        def get(self, value: int, default: Any = None) -> Any:
            looked[0] += len(super().get(value, ()))
            return super().get(value, default)

    left = without_dead(view.table, {out: lone}, Users(view.users))
    assert len(left.nodes) == 3
    assert looked[0] < 20 * SMALL


def test_a_name_that_is_wanted_often_is_found_at_once() -> None:
    names = UsedNames()

    def take(count: int) -> list[str]:
        return [names.fresh("Relu") for _ in range(count)]

    assert take(3) == ["Relu", "Relu_2", "Relu_3"]
    few = lines(lambda: take(100))
    assert lines(lambda: take(100)) < 1.1 * few


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that a piece of work runs."""
    count = [0]

    def hear(frame: FrameType, event: str, argument: Any) -> Any:
        count[0] += event == "line"
        return hear

    sys.settrace(hear)
    try:
        work()
    finally:
        sys.settrace(None)
    return count[0]


def test_places_are_compared_with_those_that_they_touch() -> None:
    def compare(count: int) -> int:
        before = [Part(frozenset({2 * k, 2 * k + 1}), -1.0) for k in range(count)]
        after = [Part(frozenset({2 * k + 1, 2 * k + 2}), 1.0) for k in range(count)]
        assert changed(before, after)[0] == set(range(2 * count + 1))
        return lines(lambda: changed(before, after))

    assert compare(TIMES * SMALL) < MOST * compare(SMALL)


# ---- the clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [1, 200, 900])
def test_a_search_ends_within_a_move(looks: int) -> None:
    """However far it got; the moves that it had made by then are kept."""
    seen = [0]

    def stop() -> bool:
        seen[0] += 1
        return seen[0] > looks

    rules, canonical = rewriter(None, "matmul-shared-weight")
    loaded = load(shared(60))
    roofline = Roofline({})
    view = view_of(loaded, canonical)
    view.watch.stop = stop
    search = Backtracking(rules, RooflineCost(roofline), roofline, Limits(float("inf")))
    found = search.run(view, roofline.total(loaded.table), lambda: seen[0] > looks, lambda *_: None)
    assert found.reason is StopReason.INTERRUPTED
    assert seen[0] <= looks + 3


def test_a_view_is_given_up_when_time_is_up() -> None:
    loaded = load(row(10))
    with pytest.raises(OutOfTime):
        View.of(loaded.table, lambda *_: (), loaded.folder.value, Watch(deadline=0.0))


def test_an_original_that_opens_too_slowly_is_returned_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def slow(*_: object, **__: object) -> int:
        raise WorkerTimeoutError("worker did not answer open within 120 s and was stopped")

    monkeypatch.setattr(Worker, "open", slow)
    proto = model("agraph (float[2, 2] x) => (float[2, 2] y) { y = Relu(x) }")
    result = taso_py.optimize(proto, time_budget_s=10, cache=tmp_path / "c")
    assert (result.improved, result.reason and result.reason.code) == (False, "too little time")
    assert result.suggested_budget_s is not None
    assert result.model == proto
