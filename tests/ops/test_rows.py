"""Rows that are looked up at run time: types, values at the ends of the range, and what stays opaque."""

from __future__ import annotations

import numpy as np
import pytest

from taso_py.errors import TypingError
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.algebra import algebra
from taso_py.ops.gather import Gather
from taso_py.ops.numeric import evaluate, evaluate_meaning, operations
from taso_py.ops.operator import OnnxCall, Operator, Reading
from taso_py.ops.rows import GatherND, GatherRows

TABLE = TensorType("float32", (3, 2))
ROWS = np.arange(6.0, dtype=np.float32).reshape(3, 2)


def read(op_type: str, table: TensorType, indices: TensorType, opset: int = 17, **attributes: int) -> Reading | None:
    call = OnnxCall(
        op_type, opset, attributes, (table, indices), (None, None), (None, None), used_outputs=(True,)
    )  # fmt: skip
    return OPERATORS[op_type].read(call)


@pytest.mark.parametrize(
    ("operator", "table", "indices"),
    [
        (GatherRows(), TensorType("float32", ()), TensorType("int64", (2,))),
        (GatherRows(2), TABLE, TensorType("int64", (2,))),
        (GatherRows(), TABLE, TensorType("float32", (2,))),
        (GatherRows(), TABLE, TensorType("uint8", (2,))),
        (GatherND(), TABLE, TensorType("int64", (2, 2))),
        (GatherND(), TABLE, TensorType("int64", ())),
        (GatherND(1), TABLE, TensorType("int64", (2, 1))),
        (GatherND(2), TABLE, TensorType("int64", (3, 2, 1))),
        (GatherND(), TABLE, TensorType("int32", (3, 1))),
        (GatherND(-1), TABLE, TensorType("int64", (3, 1))),
    ],
    ids=str,
)
def test_ill_typed(operator: Operator, table: TensorType, indices: TensorType) -> None:
    with pytest.raises(TypingError):
        operator.infer(table, indices)


@pytest.mark.parametrize("compute", [evaluate, evaluate_meaning], ids=["kernel", "meaning"])
def test_negative_indices_count_from_the_end_and_others_have_no_value(compute) -> None:  # type: ignore[no-untyped-def]
    indices = np.array([-3, -1, 0, 2, 2])
    types = (TABLE, TensorType("int64", (5,)))
    np.testing.assert_array_equal(compute(GatherRows(), (ROWS, indices), types), ROWS[[0, 2, 0, 2, 2]])
    for outside in (3, -4):
        found = compute(GatherRows(), (ROWS, np.array([0, outside])), (TABLE, TensorType("int64", (2,))))
        np.testing.assert_array_equal(np.isnan(found), [[False, False], [True, True]])


def test_rows_are_copied() -> None:
    types = (TABLE, TensorType("int64", (5,)))
    assert algebra(GatherRows(), types) == "move"
    assert operations(GatherRows(), types) == 0


def test_constant_indices_are_attributes_and_others_are_operands() -> None:
    assert read("Gather", TABLE, TensorType("int32", (4,))) == Reading(GatherRows(0), (0, 1))
    assert read("Gather", TABLE, TensorType("int64", ()), axis=1) == Reading(GatherRows(1), (0, 1))
    fixed = OnnxCall(
        "Gather", 17, {}, (TABLE, TensorType("int64", (1,))), (None, np.array([2])), (None, (2,)), used_outputs=(True,)
    )  # fmt: skip
    assert Gather.read(fixed) == Reading(Gather(0, (2,), (1,)), (0,))


def test_what_stays_opaque() -> None:
    assert read("Gather", TABLE, TensorType("int64", None)) is None
    assert read("GatherND", TABLE, TensorType("int64", (4, 2))) is None, "several axes at once"
    assert read("GatherND", TABLE, TensorType("int64", (4, 1)), opset=11) is None, "batch_dims came with opset 12"
    assert read("GatherND", TABLE, TensorType("int64", (3, 4, 1)), batch_dims=1) == Reading(GatherND(1), (0, 1))
