"""Constants that a law makes are, in their element type, the numbers that it says, or it does not match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taso_py.graph.ordering import deciding
from taso_py.graph.table import Values
from taso_py.rules.build import Builder, NotNumber
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rule
from taso_py.rules.rounding import computes_constants
from taso_py.rules.unify import Binding
from tests.helpers.false_laws import matches
from tests.helpers.law_instances import build as build_sides

ONE, HALF = "Fill(value=1, shape=[1])", "Fill(value=0.5, shape=[1])"
EYE = "Reshape(Eye(size=4), shape=[1, 1, 4, 4])"

HELD = [
    ("float32", f"Fill(value=3, shape=[1]) * {HALF}"),
    ("float16", "Fill(value=4, shape=[2, 2]) / Fill(value=24, shape=[2, 2])"),
    ("float16", "Fill(value=3, shape=[1]) * Fill(value=682, shape=[1])"),
    ("float32", "Concat(Fill(value=0, shape=[1]), Fill(value=7, shape=[4]), axis=0)"),
    ("float64", "Fill(value=2251799813685248, shape=[1]) - Fill(value=1, shape=[1])"),
    ("float32", f"ReduceSum(Fill(value=1, shape=[4096]), axes=[0]) + {ONE}"),
    ("float32", "GlobalAveragePool(Fill(value=1, shape=[1, 2, 3, 3])) / Fill(value=7, shape=[])"),
    ("float16", f"{ONE} / Fill(value=9, shape=[1]) + {ONE} / Fill(value=9, shape=[1])"),
    ("float64", f"Fill(value=9007199254740992, shape=[1]) + {ONE}"),
    ("float32", "Fill(value=1, shape=[1]) / Fill(value=3, shape=[1]) * Fill(value=0.1, shape=[1])"),
    ("int64", "Fill(value=16777216, shape=[1]) + Fill(value=1, shape=[1])"),
    ("float16", f'Resize({EYE}, scales=[1.0, 1.0, 2.0, 1.0], mode="cubic")'),
    ("float32", f"AveragePool({EYE}, kernel_shape=[3, 1], pads=[1, 0, 1, 0], count_include_pad=1)"),
]
OTHER = [
    ("float16", "Fill(value=3, shape=[1]) * Fill(value=683, shape=[1])"),
    ("bfloat16", f"Fill(value=256, shape=[1]) + {ONE}"),
    ("float32", f"Fill(value=16777216, shape=[1]) + {ONE}"),
    (
        "float32",
        "Fill(value=0.000000000000000000000000000001, shape=[]) * Fill(value=0.0000000000000000000000000001, shape=[])",
    ),
    ("float16", "ReduceSum(Fill(value=1, shape=[2049]), axes=[0])"),
    ("float64", f"Fill(value=9007199254740992, shape=[1]) + {ONE} - Fill(value=9007199254740992, shape=[1])"),
    ("float64", f"{ONE} + Fill(value=0.0000000000000000008673617379884035, shape=[1]) - {ONE}"),
    ("float64", f"{ONE} / Fill(value=3, shape=[1]) - {ONE}"),
    ("float64", f"Relu({ONE} / Fill(value=3, shape=[1]))"),
    ("float32", f"ReduceSum(Fill(value=1, shape=[5000]), axes=[0]) + {ONE}"),
    ("float32", "ReduceSum(Concat(Fill(value=1, shape=[1]), Fill(value=-1, shape=[1]), axis=0), axes=[0])"),
    ("float64", f"Less({ONE} / Fill(value=3, shape=[1]), {ONE})"),
    ("float64", "Fill(value=1e200, shape=[1]) * Fill(value=1e200, shape=[1])"),
    ("float64", "Fill(value=8.9884656743115795e307, shape=[1]) + Fill(value=8.9884656743115795e307, shape=[1])"),
    ("float64", "ReduceSum(Fill(value=8.9884656743115795e307, shape=[4]), axes=[0])"),
    ("float64", "Fill(value=1e-200, shape=[1]) * Fill(value=1e-200, shape=[1])"),
    ("float32", "Sqrt(Fill(value=2, shape=[3]))"),  # nor is this
    ("float16", f"Relu(Fill(value=3, shape=[1]) * Fill(value=683, shape=[1]) - Fill(value=2048, shape=[1])) * {ONE}"),
    ("float16", "Fill(value=0.1, shape=[1]) - Fill(value=0.100003, shape=[1])"),
    ("float16", "Where(Less(Fill(value=0.1, shape=[1]), Fill(value=0.100003, shape=[1])), 1, 2)"),
    ("float32", f'Resize({EYE}, scales=[1.0, 1.0, 2.0, 2.0], mode="cubic")'),  # several weights are added up
    ("float32", 'Resize(Fill(value=1, shape=[1, 1, 4, 4]), scales=[1.0, 1.0, 2.0, 1.0], mode="cubic")'),
    ("uint8", "Fill(value=200, shape=[1]) + Fill(value=100, shape=[1])"),
]


def build(dtype: str, term: str) -> None:
    side = parse_rule(f"rule r: {term} => {term} + 0").left
    Builder(Values(), Binding(), side, dtype).output(side.outputs[0])


@pytest.mark.parametrize(("dtype", "term"), HELD)
def test_what_an_element_type_holds_is_built(dtype: str, term: str) -> None:
    build(dtype, term)


@pytest.mark.parametrize(("dtype", "term"), OTHER)
def test_what_it_does_not_hold_is_not(dtype: str, term: str) -> None:
    with pytest.raises(NotNumber, match="of constants"):
        build(dtype, term)


@pytest.mark.parametrize(
    ("left", "computes"),
    [
        ("x + 1", False),
        (f"x + {ONE}", False),
        (f"x + {ONE} * {HALF}", True),
        (f"let c = {ONE} in let r = Relu(x) in r + c * c", True),
        ("let r = Relu(x) in r + r", False),
        ("x + Relu(2)", True),
    ],
)
def test_sides_that_compute_constants(left: str, computes: bool) -> None:
    assert computes_constants(parse_rule(f"rule r: {left} => Relu(x)")) == computes


@pytest.mark.parametrize(("dtype", "matched"), [("float32", 1), ("float16", 0)])
def test_a_left_side_matches_only_where_its_constants_are_what_it_says(dtype: str, matched: int) -> None:
    left = "Relu(x) * (Fill(value=3, shape=[1]) * Fill(value=683, shape=[1]) - 2048)"
    law = replace(parse_rule(f"rule law: {left} => Relu(x) for x[n]"), patterns=DEFINED)
    with deciding(lambda difference: None):  # as in a proof, so that the side is built in every type
        sides = build_sides(law, {"x": {"dtype": dtype, "shape": [1], "values": [5.0]}})
    assert len(list(matches(sides))) == matched
