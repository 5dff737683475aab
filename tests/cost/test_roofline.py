"""The roofline: unknown sizes stay unknown, and no estimate raises."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from taso_py.cost.roofline import Roofline, Work
from taso_py.graph.sizes import symbol
from taso_py.graph.types import TensorType
from taso_py.onnx_io.load import Loaded, load
from tests.conftest import RunCli


def loaded(text: str) -> Loaded:
    return load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}'))


def works(model: Loaded, **sizes: int) -> list[Work]:
    roofline = Roofline(sizes)
    return [roofline.work(model.table, value, node) for value, node in model.table.order()]


def test_sizes_without_a_value_are_unknown() -> None:
    roofline, n = Roofline({"n": 3}), symbol("n")
    assert roofline.size(2 * n + 1) == 7
    assert roofline.size(symbol("m")) is None
    assert roofline.size(n - 5) is None  # no tensor has a negative size
    assert roofline.size(n // symbol("m")) is None
    assert roofline.concrete(TensorType("float32", (n, 4))) == TensorType("float32", (3, 4))
    assert roofline.concrete(TensorType("float32", (n, symbol("m")))) is None
    assert roofline.concrete(TensorType("float32", None)) is None


def test_a_size_of_zero_divides_nothing() -> None:
    assert Roofline({"m": 0}).size(symbol("n") // symbol("m")) is None


def test_work_of_unknown_size_costs_a_call_and_no_more() -> None:
    model = loaded("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
    assert works(model) == [Work(0.0, 0.0, known=False)]
    roofline = Roofline({})
    assert roofline.total(model.table) == roofline.machine.call
    assert works(model, n=2)[0].bytes > 0


WINDOW = "g (float[1, 1, n, n] x) => (float[1, 1, a, b] y) { y = MaxPool<kernel_shape = [3, 3]>(x) }"


@pytest.mark.parametrize("size", [None, 1, 3])
def test_a_window_larger_than_its_image_is_no_error(size: int | None) -> None:
    (work,) = works(loaded(WINDOW), **({} if size is None else {"n": size}))
    assert work.known == (size == 3)


UPSAMPLING = """g (float[1, 1, 8, 8] x) => (float[1, 1, a, b] y)
<int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, float[2] double = {2.0, 2.0}> {
  all = Shape(x) first = Slice(all, zero, two) last = Slice(all, two, four)
  real = Cast<to = 1>(last) larger = Mul(real, double) whole = Floor(larger) sizes = Cast<to = 7>(whole)
  target = Concat<axis = 0>(first, sizes)
  large = Resize<mode = "nearest">(x, , , target)
  y = MaxPool<kernel_shape = [3, 3]>(large)
}"""


def test_a_pool_behind_sizes_that_floats_computed_is_optimised(tmp_path: Path, run_cli: RunCli) -> None:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{UPSAMPLING}'), tmp_path / "m.onnx")
    done = run_cli("optimize", "m.onnx", "--no-race", "--time-budget", "5")
    assert done.returncode == 0, done.stderr
    assert run_cli("inspect", "m.onnx").returncode == 0
