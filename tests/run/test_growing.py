"""Rules that multiply weights: used where the weights may grow, and as far as they may."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import taso_py
from taso_py.errors import DecisionsError, UsageError
from taso_py.options import Options
from taso_py.result import Result
from taso_py.rules.library import GROWING, load
from tests.helpers.graphs import model

FOUR, TWO = "winograd-four-rows", "winograd-two-rows"


def convolution(rows: int = 8, pads: str = "[1, 1, 1, 1]") -> onnx.ModelProto:
    """One convolution of 3x3 taps, and Relu."""
    text = f"agraph (float[2,8,{rows},5] x) => (float[2,N,H,W] y) {{c = Conv<pads={pads}>(x, w, b) y = Relu(c)}}"
    return model(text, w=(10, 8, 3, 3), b=(10,))


def optimized(proto: onnx.ModelProto, max_growth: float | None = None, **options: object) -> Result:
    """Every rule that matches is applied once, and all is checked; nothing is timed."""
    return taso_py.optimize(proto, race=False, apply="all", max_growth=max_growth, cache=None, **options)


def names(result: Result) -> set[str]:
    """The rules of the result that multiply weights."""
    return {rule.name for rule in result.rules} & {FOUR, TWO}


def weight_count(proto: onnx.ModelProto) -> int:
    """Elements of all floats that are stored."""
    floats = (tensor for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT)
    return sum(int(np.prod(tensor.dims)) for tensor in floats)


def test_without_growth_there_are_no_such_rules() -> None:
    proto = convolution()
    result = optimized(proto)
    assert names(result) == set()
    assert [node.op_type for node in result.model.graph.node] == ["Conv", "Relu"]


@pytest.mark.parametrize(("rows", "only", "products"), [(8, FOUR, 6), (8, TWO, 4), (14, TWO, 4)])
def test_with_growth_a_convolution_of_three_rows_takes_fewer_products(rows: int, only: str, products: int) -> None:
    proto = convolution(rows)
    result = optimized(proto, max_growth=6, only=(only,))
    assert names(result) == {only}
    assert 0 < result.max_rel_error < 1e-5
    kernels = [tuple(tensor.dims) for tensor in result.model.graph.initializer if len(tensor.dims) == 4]
    assert (products * 10, 8, 1, 3) in kernels


@pytest.mark.parametrize(
    "proto",
    [convolution(9), convolution(pads="[0, 1, 0, 1]"), convolution(pads="[1, 1, 1, 0]")],
    ids=["an odd number of rows", "no padding", "uneven padding"],
)
def test_what_the_laws_do_not_cover_stays(proto: onnx.ModelProto) -> None:
    assert names(optimized(proto, max_growth=6)) == set()


def test_weights_grow_no_further_than_is_said() -> None:
    proto = model(
        "agraph (float[1,64,16,16] x) => (float[1,64,16,16] y) {c = Conv<pads=[1, 1, 1, 1]>(x, w, b) y = Relu(c)}",
        w=(64, 64, 3, 3), b=(64,),
    )  # fmt: skip
    for most in (1.0, 1.2, 1.5, 4.0):
        result = taso_py.optimize(proto, race=False, max_growth=most, cache=None)
        assert weight_count(result.model) <= most * weight_count(proto)
        assert (FOUR in names(result)) == (most == 4.0)


@pytest.mark.parametrize("most", [0.5, float("nan"), float("inf")])
def test_weights_may_not_be_said_to_shrink_or_to_grow_without_end(most: float) -> None:
    with pytest.raises(UsageError, match="max_growth"):
        Options(max_growth=most)


def test_a_rule_that_multiplies_weights_is_not_asked_for_where_they_may_not_grow() -> None:
    with pytest.raises(UsageError, match=f"rule {FOUR} multiplies weights: .*max_growth"):
        optimized(convolution(), only=(FOUR,))


def test_the_library_names_the_rules_that_multiply_weights() -> None:
    library = load()
    assert library.growing() == {FOUR, TWO}
    assert {Path(rule.file).name for rule in library.search.only([FOUR, TWO])} == {GROWING}


@pytest.fixture
def decided(tmp_path: Path) -> Callable[..., object]:
    """Applies what was decided with much growth."""
    original, decisions = tmp_path / "m.onnx", tmp_path / "d.json"
    onnx.save(convolution(), original)
    taso_py.optimize(original, race=False, apply="all", max_growth=6.0, cache=None, only=(FOUR,)).save_decisions(
        decisions
    )
    return lambda **options: taso_py.apply(original, decisions, **options)


def test_decisions_are_followed_as_far_as_weights_may_grow(decided: Callable[..., taso_py.Application]) -> None:
    assert decided().steps == decided(max_growth=6).steps > 0
    with pytest.raises(DecisionsError, match=re.escape("make the weights over 1.5 times as large")):
        decided(max_growth=1.5)
