"""Models that refuse what was made up for their inputs get sizes and values by trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from scripts.audit.dynamic_models import MODELS, dynamic_model
from scripts.audit.wild_models import wild_model
from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Feeds, ModelRef, Outputs, WorkerConfig
from taso_py.check.check import Checker
from taso_py.check.facts import read_facts
from taso_py.check.fitting import Fit, fitted
from taso_py.check.inputs import make_feeds
from taso_py.check.proposals import other_sizes, other_values, scaled
from taso_py.check.shapes import resolve_shapes
from taso_py.check.traced import Failure
from taso_py.errors import WorkerError
from tests.conftest import RunCli


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(WorkerConfig()) as one:
        yield one


def found(worker: Worker, model: onnx.ModelProto, **given: tuple[int, ...]) -> Fit | None:
    ref = ModelRef.of(model.SerializeToString())
    return fitted(worker, ref, read_facts(ref), given, {}, seed=0)


def runs(worker: Worker, model: onnx.ModelProto, fit: Fit) -> dict[str, tuple[int, ...]]:
    """The shapes at which it runs."""
    handle = worker.open(model.SerializeToString(), level="disable", ep=CPU)
    try:
        assignment = resolve_shapes(fit.inputs, {}, fit.sizes)
        assert worker.run(handle, make_feeds(fit.inputs, assignment))
        return dict(assignment.shapes)
    finally:
        worker.close(handle)


@pytest.mark.parametrize("name", MODELS)
def test_inputs_that_fit_are_found(worker: Worker, name: str) -> None:
    model = dynamic_model(name)
    fit = found(worker, model)
    assert fit is not None
    runs(worker, model, fit)


@pytest.mark.parametrize("seed", [1, 5, 16, 28, 36, 39, 48, 104, 127])
def test_inputs_of_wild_models_are_found(worker: Worker, seed: int) -> None:
    model, _ = wild_model(seed)
    fit = found(worker, model)
    assert fit is not None
    runs(worker, model, fit)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("bias", {"x": (1, 77)}),
        ("joined unlike", {"x": (1, 3, 128), "z": (1, 3, 128), "m": (1, 3, 256)}),
        ("learned positions", {"x": (1, 50, 16)}),
        ("two states", {"x": (1, 128, 3), "h": (2, 128, 4), "s": (2, 128, 4)}),
    ],
)
def test_sizes_are_those_that_the_model_means(worker: Worker, name: str, shapes: dict[str, tuple[int, ...]]) -> None:
    # A size of 1 would be broadcast: the model would run, and show nothing.
    model = dynamic_model(name)
    fit = found(worker, model)
    assert fit is not None
    assert runs(worker, model, fit) == shapes


def test_what_the_user_fixes_stays(worker: Worker) -> None:
    model = dynamic_model("joined")
    fit = found(worker, model, d=(20,))
    assert fit is not None
    assert resolve_shapes(fit.inputs, {"d": (20,)}, fit.sizes).shapes == {"x": (1, 20), "z": (1, 4)}


def test_what_the_user_fixes_may_leave_nothing(worker: Worker) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x) => (float[a, b] y) { y = MatMul(x, x) }'
    model = onnx.parser.parse_model(text)
    fit = found(worker, model)
    assert fit is not None
    assert fit.sizes == {"n": 3}
    assert found(worker, model, n=(4,)) is None


def test_a_check_compares_with_what_was_found() -> None:
    model = dynamic_model("key-value cache").SerializeToString()
    with Checker(model, WorkerConfig()) as checker:
        prepared = checker.prepare()
    assert any("found by trial" in note for note in prepared.notes)
    past, new, total = (prepared.cases[0].feeds[name] for name in ("k", "q", "mask"))
    assert total.shape[3] == past.shape[2] + new.shape[2]


def test_an_optimised_model_says_at_which_sizes(run_cli: RunCli, tmp_path: Path) -> None:
    onnx.save(dynamic_model("two layers"), tmp_path / "m.onnx")
    done = run_cli("optimize", tmp_path / "m.onnx", "--no-race")
    assert done.returncode == 0, done.stderr
    assert "found by trial: x=1,20" in done.stdout + done.stderr


def test_a_refusal_tells_the_numbers_that_matter() -> None:
    words = (
        "running Add node. Name:'node 3' Status Message: /a/b/math/element_wise_ops.h:560 Compute axis == 1 || axis == "
        "largest was false. Attempting to broadcast an axis by a dimension other than 1. 77 by 128"
    )
    assert Failure(words, 3).numbers() == [77, 128]
    shaped = Failure("Status Message: Input shape:{1,128}, requested shape:{7,9}", 0)
    assert shaped.shapes() == [(1, 128), (7, 9)]
    assert {63, 128} <= set(shaped.numbers())
    assert {129, 5} <= set(Failure("Status Message: max_length (4) shall be greater than length (128)", 0).numbers())
    assert Failure("got 5 of 7", 2).kind == Failure("got 6 of 7", 2).kind != Failure("got 6 of 7", 3).kind


def test_proposals_begin_with_what_was_said() -> None:
    assert other_sizes(128, [77, 128], [1, 4])[0] == 77
    assert other_sizes(128, [], [1])[-1] == 1
    assert (4.0, 6.0) in other_values("reshape", (1.0, -1.0), (4, 2, 3), [])
    assert (1.0, 5.0, 4.0) in other_values("split", (3.0, 3.0, 4.0), (2, 10), [5])


class WatchedWorker(Worker):
    """Dies of every input whose first axis is not 1, if it is mortal, and knows the elements of each that it ran."""

    def __init__(self, *, mortal: bool) -> None:
        super().__init__(WorkerConfig())
        self.mortal = mortal
        self.elements: list[int] = []

    def run(self, handle: int, feeds: Feeds, *arguments: Any, **options: Any) -> Outputs:
        self.elements.append(sum(np.size(array) for array in feeds.values()))
        if self.mortal and any(np.shape(array)[0] != 1 for array in feeds.values()):
            raise WorkerError("worker died (SIGFPE) during run")
        return super().run(handle, feeds, *arguments, **options)


def test_a_size_that_kills_workers_is_left_alone() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[a, b, n] x) => (float[p, q, r] y)'
        f" {{ w = Constant<value_floats = [{', '.join(['1.0'] * 300)}]>() y = Add(x, w) }}"
    )
    with WatchedWorker(mortal=True) as worker:
        fit = found(worker, model)
    assert fit is not None
    assert fit.sizes == {"a": 1, "b": 128, "n": 300}


def test_large_inputs_are_tried_last() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, h, 224] x) => (float[1, 3, 6272] y)'
        " { s = Constant<value_ints = [1, 3, 6272]>() t = Relu(x) y = Reshape(t, s) }"
    )
    with WatchedWorker(mortal=False) as worker:
        fit = found(worker, model)
    assert fit is not None
    assert max(worker.elements) <= 4 * worker.elements[0]


def test_elements_that_should_be_as_many_are_found_on_small_inputs() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
      g (float[n, 128, h, w] x, float[n, 32, l] z) => (float[n, 128, h, w] y) {
        s = Shape(x) t = Reshape(z, s) y = Add(x, t) }"""
    with WatchedWorker(mortal=False) as worker:
        fit = found(worker, onnx.parser.parse_model(text))
    assert fit is not None
    assert 32 * fit.sizes["l"] == 128 * fit.sizes["h"] * fit.sizes["w"]
    assert len(worker.elements) < 20
    assert max(worker.elements[1:]) <= 4 * 2**17


def test_what_a_size_becomes_for_a_shape_to_have_as_many_elements() -> None:
    assert scaled(128, [(1, 32, 128), (1, 128, 16, 16)]) == [1024, 16]
    assert scaled(5, [(2, 3), (3, 2), (0, 4), (7,)]) == []


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ("string[3] t", "y = Cast<to = 1>(t)"),
        ("string[3] t", "u = Identity(t) y = Cast<to = 7>(u)"),
        ("int64[2] t", "y = ai.onnx.ml.OneHotEncoder<cats_int64s = [1000, 2000], zeros = 0>(t)"),
        ("string[2] t", 'y = ai.onnx.ml.OneHotEncoder<cats_strings = ["red", "blue"], zeros = 0>(t)'),
        ("seq(float[2,3]) t", "k = Constant<value_int = 2>() y = SequenceAt(t, k)"),
        ("int64[1,16] t", "o = Constant<value_int = 1000>() i = Sub(t, o) w = Constant<value_floats = [1.0]>() "
         "y = Gather(w, i)"),
        ("float[256] t", "i = Cast<to = 7>(t) w = Constant<value_floats = [1.0, 2.0]>() y = Gather(w, i)"),
        ("float[T,4] t, float[P,4] u, float[\"T - P - 1\",4] v", "y = Concat<axis = 0>(t, u, v)"),
    ],
)  # fmt: skip
def test_values_that_a_model_knows_and_values_of_few_kinds_are_found(worker: Worker, inputs: str, body: str) -> None:
    header = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
    named = inputs.replace('"T - P - 1"', "V")
    model = onnx.parser.parse_model(f"{header} g ({named}) => (float y) {{ {body} }}")
    if named != inputs:
        model.graph.input[2].type.tensor_type.shape.dim[0].dim_param = "T - P - 1"
    model.graph.output[0].type.tensor_type.ClearField("shape")
    if "to = 7>(u)" in body:
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    fit = found(worker, model)
    assert fit is not None
    runs(worker, model, fit)
