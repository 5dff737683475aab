"""Quantisation by onnxruntime.quantization in a process of its own, and what comes of the models that it makes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from taso_py.approximate import quantise
from taso_py.approximate import quantiser as quantiser_process
from taso_py.approximate.judge import Judge
from taso_py.approximate.layers import approximate_nodes, layers_of, quantised_layers
from taso_py.approximate.model import foreign_domains, restored
from taso_py.approximate.quantise import CALIBRATORS, QuantiseError, Quantiser
from taso_py.approximate.samples import Samples
from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, WorkerConfig
from taso_py.errors import TooLateError
from taso_py.onnx_io.read import overridable
from tests.helpers import faulty_quantiser, frugal_quantiser
from tests.helpers.precision import CHANNELS, classifier, elementwise, half, samples

COUNT = 24


@pytest.fixture
def made(tmp_path: Path) -> Quantiser:
    """A quantiser of the classifier, with samples."""
    return quantiser(tmp_path, classifier())


def quantiser(folder: Path, model: onnx.ModelProto) -> Quantiser:
    onnx.save(model, folder / "exact.onnx")
    found = Quantiser(folder / "exact.onnx", folder, time.monotonic() + 120, reduced=False)
    found.prepare([{"x": one[np.newaxis]} for one in samples(COUNT)])
    return found


def error(folder: Path, model: onnx.ModelProto) -> float:
    """The worst over fresh samples, on one thread."""
    onnx.save(model, folder / "judged.onnx")
    given = Samples({"x": samples(20, 1, 3, 12, 12, seed=99)}, {}, 20, random=False)
    with Worker(WorkerConfig()) as worker, Worker(WorkerConfig()) as oracle:
        judge = Judge(ModelRef.of(folder / "exact.onnx"), given, worker, oracle)
        found = judge.verdict(ModelRef.of(folder / "judged.onnx"), range(20))
    assert found.samples == 20
    assert found.output == "y"
    return found.error


@pytest.mark.parametrize("method", CALIBRATORS)
def test_8_bits_give_a_real_error_that_is_small(tmp_path: Path, made: Quantiser, method: quantise.Calibrator) -> None:
    found = restored(onnx.load(made.static(method)), classifier())
    assert 1e-4 < error(tmp_path, found) < 0.2
    onnx.checker.check_model(found, full_check=True)


@pytest.mark.parametrize("method", CALIBRATORS)
def test_ranges_are_found_in_parts_where_all_samples_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: quantise.Calibrator
) -> None:
    monkeypatch.setattr(quantise, "MODULE", frugal_quantiser.__name__)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    found = restored(onnx.load(quantiser(tmp_path, classifier()).static(method)), classifier())
    assert 1e-4 < error(tmp_path, found) < 0.2


@pytest.mark.parametrize(("memory", "parts"), [(1e9, [5]), (160_000, [2, 2, 1]), (1, [1] * 5)])
def test_parts_are_as_large_as_the_memory_allows(
    monkeypatch: pytest.MonkeyPatch, memory: float, parts: list[int]
) -> None:
    monkeypatch.setattr(quantiser_process, "_MEMORY_BYTES", memory)
    session = SimpleNamespace(run=lambda names, feeds: [np.zeros(1000), ["no array"]])  # 8000 bytes
    feeds: list[Any] = [{"x": k} for k in range(5)]
    found = list(quantiser_process._pieces(SimpleNamespace(infer_session=session), feeds))
    assert [len(part) for part in found] == parts
    assert [one for part in found for one in part] == feeds


def test_a_model_of_an_older_opset_is_raised_to_one_that_knows_channels(tmp_path: Path) -> None:
    old = classifier()
    old.opset_import[0].version = 11
    found = restored(onnx.load(quantiser(tmp_path, old).static("MinMax")), old)
    assert [(entry.domain, entry.version) for entry in found.opset_import] == [("", 13)]
    assert 1e-4 < error(tmp_path, found) < 0.2


def test_weights_are_8_bit_per_channel(made: Quantiser) -> None:
    found = onnx.load(made.static("MinMax"))
    scales = {t.name: tuple(t.dims) for t in found.graph.initializer if t.name.startswith("w1") and "scale" in t.name}
    assert list(scales.values()) == [(CHANNELS,)]


def test_what_replaces_a_model_has_its_interface_and_its_metadata(made: Quantiser) -> None:
    exact = classifier()
    found = restored(onnx.load(made.static("MinMax")), exact)
    assert list(found.graph.input) == list(exact.graph.input)
    assert list(found.graph.output) == list(exact.graph.output)
    assert [(p.key, p.value) for p in found.metadata_props] == [("author", "somebody")]
    assert [(entry.domain, entry.version) for entry in found.opset_import] == [("", 17)]
    assert foreign_domains(found, exact) == []


def test_some_layers_are_made_8_bit_and_the_others_stay(made: Quantiser) -> None:
    layers = layers_of(onnx.load(made.prepared))
    assert [one.name for one in layers] == ["conv0", "conv1", "conv2", "head"]
    assert [one.operator for one in layers] == ["Conv", "Conv", "Conv", "Gemm"]
    found = onnx.load(made.static("MinMax", ["conv1", "head"]))
    assert quantised_layers(layers, found) == {"conv1", "head"}
    assert {"conv1", "head"} < set(approximate_nodes(found, classifier()))
    assert approximate_nodes(classifier(), classifier()) == ()


def test_of_a_whole_model_all_that_is_8_bit_is_named(made: Quantiser) -> None:
    named = approximate_nodes(onnx.load(made.static("MinMax")), classifier())
    assert {"conv0", "conv1", "conv2", "pool", "head"} <= set(named)


def test_a_layer_alone_has_less_error_than_all_together(tmp_path: Path, made: Quantiser) -> None:
    alone = error(tmp_path, restored(onnx.load(made.static("MinMax", ["conv1"])), classifier()))
    assert 0 < alone < error(tmp_path, restored(onnx.load(made.static("MinMax")), classifier()))


def test_dynamic_models_name_their_layers_too(tmp_path: Path, made: Quantiser) -> None:
    found = onnx.load(made.dynamic(["MatMul", "Gemm"]))
    assert quantised_layers(layers_of(onnx.load(made.prepared)), found) == {"head"}
    assert 0 < error(tmp_path, restored(found, classifier())) < 0.2


def test_a_time_that_is_over_stops_a_comparison(tmp_path: Path) -> None:
    onnx.save(classifier(), tmp_path / "m.onnx")
    given = Samples({"x": samples(4, 1, 3, 12, 12)}, {}, 4, random=False)
    with Worker(WorkerConfig()) as worker, Worker(WorkerConfig()) as oracle:
        judge, model = Judge(ModelRef.of(tmp_path / "m.onnx"), given, worker, oracle), ModelRef.of(tmp_path / "m.onnx")
        with pytest.raises(TooLateError):
            judge.verdict(model, range(4), until=time.monotonic() - 1)
        assert judge.verdict(model, range(4), until=time.monotonic() - 1, least=0).samples == 0


@pytest.mark.parametrize("model", [elementwise(), half()])
def test_models_without_float32_layers_have_none_to_quantise(model: onnx.ModelProto) -> None:
    assert layers_of(model) == ()


def test_a_weight_that_a_caller_may_override_is_no_constant() -> None:
    model = classifier()
    model.graph.input.append(onnx.helper.make_tensor_value_info("w1", onnx.TensorProto.FLOAT, [8, 8, 3, 3]))
    assert overridable(model) == ("w1",)
    assert [one.name for one in layers_of(model)] == ["conv0", "conv2", "head"]
    model.ir_version = 3
    assert overridable(model) == ()


@pytest.mark.parametrize(("fault", "words"), [("hangs", "it took longer than"), ("dies", "its process died")])
def test_a_quantiser_that_hangs_or_dies_costs_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setattr(quantise, "MODULE", faulty_quantiser.__name__)
    monkeypatch.setenv("FAULTY_QUANTISER", fault)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    found = Quantiser(tmp_path / "absent.onnx", tmp_path, time.monotonic() + 0.1, reduced=False)
    with pytest.raises(QuantiseError, match=f"ONNX Runtime's quantiser: {words}"):
        found.dynamic(["MatMul"])


def test_what_the_quantiser_says_of_a_damaged_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "exact.onnx").write_bytes(b"no model")
    found = Quantiser(tmp_path / "exact.onnx", tmp_path, time.monotonic() + 60, reduced=False)
    with pytest.raises(QuantiseError) as caught:
        found.prepare([])
    assert "\n" not in str(caught.value)


def test_nothing_of_it_is_imported_here() -> None:
    assert "onnxruntime.quantization" not in sys.modules
