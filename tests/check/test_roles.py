"""Inputs that some node takes for sizes, axes, counts or scales get values that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.facts import read_facts
from taso_py.check.inputs import FILLS, advice, fills_for, make_feeds
from taso_py.check.shapes import resolve_shapes
from tests.conftest import RunCli

CASES = {
    "reshape": ("float[2, 6] x, int64[2] s", "float[3, 4] y", "y = Reshape(x, s)"),
    "reshape of unknown result": ("float[2, 6] x, int64[3] s", "float[a, b, c] y", "y = Reshape(x, s)"),
    "expand": ("float[2, 1] x, int64[2] s", "float[2, 5] y", "y = Expand(x, s)"),
    "through a cast": ("float[2, 6] x, int32[2] s", "float[4, 3] y", "t = Cast<to = 7>(s) y = Reshape(x, t)"),
    "a part of a shape": (
        "float[2, 6] x, int64[1] s",
        "float[a, b] y",
        "r = Constant<value_ints = [-1]>() t = Concat<axis = 0>(s, r) y = Reshape(x, t)",
    ),
    "slice": (
        "float[4, 6] x, int64[2] a, int64[2] b, int64[2] c, int64[2] d",
        "float[p, q] y",
        "y = Slice(x, a, b, c, d)",
    ),
    "split": ("float[7] x, int64[3] s", "float[p] a, float[q] b, float[r] c", "a, b, c = Split(x, s)"),
    "pad": ("float[2, 3] x, int64[4] p", "float[3, 3] y", "y = Pad(x, p)"),
    "tile": ("float[2, 3] x, int64[2] r", "float[4, 3] y", "y = Tile(x, r)"),
    "top k": ("float[2, 3] x, int64[1] k", "float[2, p] y, int64[2, q] i", "y, i = TopK(x, k)"),
    "range": ("float a, float b, float c", "float[p] y", "y = Range(a, b, c)"),
    "scales": (
        "float[1, 1, 4, 4] x, float[4] s",
        "float[1, 1, p, q] y",
        'y = Resize<mode = "linear">(x, , s)',
    ),
    "sizes": (
        "float[1, 1, 4, 4] x, int64[4] s",
        "float[p, q, r, t] y",
        'y = Resize<mode = "cubic">(x, , , s)',
    ),
    "reduce": ("float[2, 3] x, int64[1] a", "float[p, q] y", "y = ReduceSum(x, a)"),
    "squeeze": ("float[2, 1, 3] x, int64[1] a", "float[2, 3] y", "y = Squeeze(x, a)"),
    "unsqueeze": ("float[2, 3] x, int64[2] a", "float[1, 1, 2, 3] y", "y = Unsqueeze(x, a)"),
    "integer division": ("int32[4] x, int32[4] d", "int32[4] y", "y = Div(x, d)"),
    "shape to fill": ("int64[2] s", "float[p, q] y", "y = ConstantOfShape(s)"),
    "symbolic data": ("float[n, 6] x, int64[2] s", "float[n, 6] y", "y = Reshape(x, s)"),
}


def proto(inputs: str, outputs: str, body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\ng ({inputs}) => ({outputs}) {{ {body} }}'
    )


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(WorkerConfig()) as found:
        yield found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_onnx_runtime_takes_every_generated_input(case: tuple[str, str, str], worker: Worker) -> None:
    model = proto(*case)
    inputs = read_facts(model).inputs
    handle = worker.open(ModelRef.of(model.SerializeToString()))
    for sizes in (resolve_shapes(inputs, {}), resolve_shapes(inputs, {"n": (3,)} if "[n" in case[0] else {})):
        for fill in FILLS:
            assert worker.run(handle, make_feeds(inputs, sizes, fill))
    worker.close(handle)


def test_the_stated_result_decides() -> None:
    inputs = read_facts(proto(*CASES["reshape"])).inputs
    feeds = make_feeds(inputs, resolve_shapes(inputs, {}))
    assert feeds["s"].tolist() == [3, 4]
    assert feeds["s"].dtype == np.int64


def test_a_float_that_divides_is_drawn_like_any_other() -> None:
    inputs = read_facts(proto("float[4] x, float[4] d", "float[4] y", "y = Div(x, d)")).inputs
    assert [spec.role for spec in inputs] == [None, None]


def test_inputs_without_a_choice_need_one_draw() -> None:
    inputs = read_facts(proto(*CASES["shape to fill"])).inputs
    assert fills_for(inputs, {}) == ("normal",)


REFUSED = proto(
    "float[2, 3] x, int64[2] s",
    "float[p, q] y",
    "z = Constant<value_ints = [5, 5]>() w = ConstantOfShape(z) t = Reshape(x, s) y = MatMul(t, w)",
)


def test_the_advice_names_the_input(tmp_path: Path, run_cli: RunCli) -> None:
    inputs = read_facts(REFUSED).inputs
    assert "inputs['s']" in advice(inputs, resolve_shapes(inputs, {}), {})
    onnx.save(REFUSED, tmp_path / "m.onnx")
    done = run_cli("optimize", "m.onnx", "--no-race", "--time-budget", "5")
    assert done.returncode == 3
    assert "--input s=FILE.npy" in done.stderr
    assert done.stderr.count("\n") == 1
