"""Models in float16 are rewritten like others, and what float16 cannot hold is left alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import taso_py
from scripts.audit.half_precision import halved
from scripts.bench.networks import bert, nasrnn, repvgg_a0
from taso_py.result import Result
from tests.helpers.onnx_io_models import model, node, session, value, weight

NETWORKS = {
    "nasrnn": lambda: nasrnn(steps=3, hidden=32),
    "repvgg_a0": lambda: repvgg_a0(width=0.25, image=32),
    "bert": lambda: bert(layers=1, hidden=32, heads=2, sequence=8),
}


def chain(operator: str, *numbers: float) -> onnx.ModelProto:
    """The same operator with one constant after another."""
    constants = [weight(f"c{k}", [number], np.float16) for k, number in enumerate(numbers)]
    names = ["x", *(f"v{k}" for k in range(len(numbers) - 1)), "y"]
    nodes = [node(operator, f"{names[k]} c{k}", names[k + 1]) for k in range(len(numbers))]
    kind = TensorProto.FLOAT16
    return model(nodes, [value("x", [4], kind)], [value("y", [4], kind)], constants)


def kinds(result: Result) -> list[str]:
    return [n.op_type for n in result.model.graph.node]


def rewritten(proto: onnx.ModelProto) -> Result:
    return taso_py.optimize(proto, race=False, strict=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_half_precision_are_rewritten_as_in_single(name: str) -> None:
    proto = NETWORKS[name]()
    single, half = rewritten(proto), rewritten(halved(proto))
    assert {rule.name for rule in half.rules} == {rule.name for rule in single.rules}
    assert half.nodes_after == single.nodes_after
    assert half.opaque_nodes == 0
    assert half.max_rel_error is not None
    assert half.tolerance is not None
    assert half.max_rel_error <= half.tolerance


@pytest.mark.parametrize("number", [300, 1e-4])
def test_weights_that_half_precision_cannot_hold_are_not_made(number: float) -> None:
    proto = chain("Mul", number, number)
    result = rewritten(proto)
    assert kinds(result) == ["Mul", "Mul"]
    assert [item.reason for item in result.rejected if "out of the range" in item.reason]
    x = np.array([0, 1e-3, 0.1, -0.2], np.float16)
    np.testing.assert_array_equal(session(result.model)({"x": x}), session(proto)({"x": x}))


def test_weights_that_it_holds_are_made() -> None:
    result = rewritten(chain("Mul", 3, 4))
    assert kinds(result) == ["Mul"]
    assert result.rejected == ()


def test_a_mask_of_half_precision_is_no_number_to_compute_with() -> None:
    assert kinds(rewritten(chain("Add", -65504, 1))) == ["Add", "Add"]
    assert kinds(rewritten(chain("Add", -4, 1))) == ["Add"]
