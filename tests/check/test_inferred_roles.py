"""Inputs that are sizes or indices of what a model computes, whose shapes it does not state, get legal values."""

from __future__ import annotations

import onnx.parser
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.check.facts import read_facts
from taso_py.check.inputs import FILLS, make_feeds
from taso_py.check.shapes import resolve_shapes

CASES = {
    "split": ("int64[2] s", "t = Concat<axis = 1>(x, x) a, b = Split<axis = 1>(t, s) y = Concat<axis = 1>(b, a)"),
    "sizes": ("int64[4] s", 'u = Unsqueeze(x, k) t = Unsqueeze(u, k) y = Resize<mode = "linear">(t, , , s)'),
    "indices": ("int64[3] s", "t = MatMul(x, w) y = Gather<axis = 1>(t, s)"),
    "reversed lengths": ("int64[6] s", "t = Relu(x) y = ReverseSequence<batch_axis = 1, time_axis = 0>(t, s)"),
    "top": ("int64[1] s", "t = ReduceMax<keepdims = 1>(x) y, i = TopK(t, s)"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_fit_what_is_computed(case: tuple[str, str]) -> None:
    given, body = case
    weights = "float[6, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, int64[1] k = {0}"
    text = f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[4, 6] x, {given}) => (y) <{weights}> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    inputs = read_facts(model).inputs
    with Worker(WorkerConfig(ort_level="disable")) as worker:
        handle = worker.open(ModelRef.of(model.SerializeToString()))
        for fill in FILLS[:2]:
            assert worker.run(handle, make_feeds(inputs, resolve_shapes(inputs, {}), fill))
