"""The models that fool other tools pass the border unharmed, and are what they are said to be."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from taso_py.graph.table import Opaque
from taso_py.onnx_io.carry import difference
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export
from taso_py.onnx_io.load import load
from tests.helpers.onnx_io_models import session
from tests.helpers.traps import TRAPS


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_passes_the_border(name: str) -> None:
    proto = TRAPS[name].build()
    loaded = load(proto)
    assert loaded.unsupported is None
    exported = export(loaded, loaded.table)
    assert check_contract(proto, exported) == []
    returned = onnx_ir.to_proto(exported)
    assert difference(proto, returned) is None
    assert difference(returned, proto) is None


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_runs_or_does_not_as_it_says(name: str) -> None:
    trap = TRAPS[name]
    if not trap.runs:
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            session(trap.build())
        return
    run = session(trap.build())
    first, second = run(trap.feeds()), run(trap.feeds())
    equal = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
    assert equal is not trap.random


@pytest.mark.parametrize("name", TRAPS)
def test_what_must_be_opaque_is(name: str) -> None:
    loaded = load(TRAPS[name].build())
    assert set(loaded.opaque) >= TRAPS[name].opaque
    for value, node in loaded.table.order():
        if isinstance(node.operator, Opaque):
            assert value not in loaded.values.constant


def test_equal_initializers_are_two_values() -> None:
    loaded = load(TRAPS["equal_initializers"].build())
    assert loaded.ids["a"] != loaded.ids["b"]
    assert loaded.table.nodes[loaded.ids["p"]] != loaded.table.nodes[loaded.ids["q"]]


@pytest.mark.parametrize("name", [n for n in TRAPS if n.endswith("blow_up")])
def test_nothing_grows_on_the_way(name: str) -> None:
    proto = TRAPS[name].build()
    loaded = load(proto)
    returned = onnx_ir.to_proto(export(loaded, loaded.table))
    assert returned.ByteSize() == proto.ByteSize()


@pytest.mark.parametrize("name", ["reshape_of_reshape", "squeeze_of_squeeze_with_negative_axes"])
def test_axes_and_zeros_are_resolved_against_the_operand(name: str) -> None:
    loaded = load(TRAPS[name].build())
    (output,) = loaded.table.outputs
    expected = TRAPS[name].build().graph.output[0].type.tensor_type.shape.dim
    assert [str(d) for d in loaded.values.types[output].dims] == [str(d.dim_value) for d in expected]


def test_the_newest_opset_is_kept() -> None:
    proto = TRAPS["newest_opset"].build()
    loaded = load(proto)
    assert loaded.table.opset == 28
    assert onnx_ir.to_proto(export(loaded, loaded.table)).opset_import == proto.opset_import
    assert onnx.checker.check_model(proto) is None
