"""A rule may declare any size: what is too large to try is not drawn, and the verdict says so."""

from __future__ import annotations

import numpy as np
import pytest

from taso_py.graph.table import Values
from taso_py.graph.types import TensorType
from taso_py.prove.prover import prove
from taso_py.prove.trials.runs import Replay
from taso_py.prove.verdict import Reason, Unknown
from taso_py.prove.verify import decided
from taso_py.rules.functions import FUNCTIONS
from taso_py.rules.instance import LARGEST, TooLarge, limited
from taso_py.rules.instances import draw, oversized
from taso_py.rules.parser import parse_rule
from taso_py.rules.unify import Binding

WIDE = "kernel_shape=[1000000000], strides=[1], pads=[500000000, 500000000], dilations=[1]"
SQUARE = "shape=[100000, 100000]"
CUT = "axes=[0, 1], starts=[0, 0], ends=[1, 1], steps=[1, 1]"
LARGE = {
    "two axes": "Relu(Relu(x)) => Relu(x) for x[100000, 100000]",
    "a little above": "Relu(Relu(x)) => Relu(x) for x[2, 1000, 1000]",
    "one axis": "Relu(Relu(x)) => Relu(x) for x[4611686018427387904]",
    "no elements": "Relu(Relu(x)) => Relu(x) for x[0, 4611686018427387904]",
    "filled": f"x + 0 => x + Fill(value=0, {SQUARE}) for x[1]",
    "filled on the left": f"x + Fill(value=0, {SQUARE}) => Fill(value=0, {SQUARE}) + x for x[1]",
    "expanded": f"Relu(x) => Relu(Slice(Expand(x, shape=[1000000, 1000000]), {CUT})) for x[1, 1]",
    "expanded on the left": f"Expand(Relu(x), {SQUARE}) => Relu(Expand(x, {SQUARE})) for x[1]",
    "a product": "MatMul(x, y) => MatMul(x, y) * 1 for x[1000000, 1], y[1, 1000000]",
    "a prime": "Reshape(x, shape=[a, b]) => Reshape(Relu(x), shape=[a, b]) for x[10000000019]",
    "indices": "GatherRows(Relu(t), i) => Relu(GatherRows(t, i)) for t[10000000000, 0]",
    "a window": f"MaxPool(Relu(x), {WIDE}) => Relu(MaxPool(x, {WIDE})) for x[1, 1, 2]",
}


@pytest.mark.parametrize("name", LARGE)
def test_no_instance_is_drawn_of_what_is_too_large(name: str) -> None:
    rule = parse_rule(f"rule large: {LARGE[name]}")
    assert draw(rule, np.random.default_rng(0), Values(), 50) is None
    assert oversized(rule)


def test_what_is_as_large_as_may_be_is_drawn() -> None:
    rule = parse_rule("rule large: Relu(Relu(x)) => Relu(x) for x[1024, 1024]")
    found = draw(rule, np.random.default_rng(0), Values(), 50)
    assert found is not None
    assert {a.size for a in found.feeds.values()} == {LARGEST}
    assert not oversized(rule)


def test_the_verdict_says_that_the_sizes_are_too_large() -> None:
    rule = parse_rule(f"rule large: {LARGE['two axes']}")
    with Replay() as replay:
        found, seen = decided(rule, prove, replay)
    assert isinstance(found, Unknown)
    assert found.reason is Reason.UNDRAWN
    assert "too large to try: no tensor of over 1,048,576 elements is drawn" in found.why
    assert not seen.trials


@pytest.mark.parametrize("dims", [(2**21, 1), (2**11, 2**10), (0, 2**22), (2**62,)])
def test_a_type_is_limited_by_its_elements_and_by_each_axis(dims: tuple[int, ...]) -> None:
    assert limited(TensorType("float32", (2**10, 2**10)), LARGEST).elements == LARGEST
    with pytest.raises(TooLarge, match="has over 1048576 elements"):
        limited(TensorType("float32", dims), LARGEST)


def test_a_list_is_not_made_of_any_number() -> None:
    assert FUNCTIONS["run"](0, -3) == ()
    with pytest.raises(TypeError, match="a list of 10000000000 entries is too long"):
        FUNCTIONS["run"](0, 10**10)


@pytest.mark.parametrize("operation", ["*", "%", "//"])
@pytest.mark.parametrize("value", [(0, 1), "%1000000000d"])
def test_a_list_and_a_text_are_no_numbers(operation: str, value: object) -> None:
    with pytest.raises(TypeError, match="no list and no text is a number"):
        Binding().operate(operation, value, 10**10)
