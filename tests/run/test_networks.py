"""The torch-free networks: valid ONNX, sane activations, and references that compute the same function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from scripts.bench.feeds import random_feeds
from scripts.bench.networks import NETWORKS, REFERENCES
from scripts.bench.networks.convolution import enlarge, identity_kernel, merge_groups
from scripts.bench.networks.graph import GraphWriter

TINY: dict[str, dict[str, Any]] = {
    "nasrnn": {"steps": 3, "hidden": 16, "batch": 2},
    "mobileone_s0": {"width": 0.125, "blocks": (1, 2, 1, 1), "image": 32, "branches": 3, "classes": 10},
    "repvgg_a0": {"width": 0.125, "blocks": (1, 2, 1, 1), "image": 32, "classes": 10},
    "resnext50": {
        "width": 0.125, "blocks": (2, 1, 1, 1), "image": 32, "groups": 8, "group_width": 2, "classes": 10,
    },
    "bert": {"layers": 2, "hidden": 32, "heads": 4, "sequence": 8, "vocabulary": 50},
    "bert_lora": {"layers": 2, "hidden": 32, "heads": 4, "sequence": 8, "vocabulary": 50, "rank": 2},
    "squeezenet": {"width": 0.25, "image": 32, "classes": 10},
    "lstm": {"steps": 2, "hidden": 8, "batch": 2},
    "tiny_cnn": {},
    "tiny_mlp": {},
    "softsign_experts": {"layers": 2, "experts": 4, "width": 16, "batch": 2},
    "sngan": {"channels": 2, "latent": 8, "base": 2},
    "gru": {"steps": 2, "hidden": 8, "batch": 2},
    "separate_heads": {"heads": 2, "hidden": 8, "rows": 3, "batch": 2},
    "multi_gate_experts": {"experts": 3, "gates": 2, "inputs": 8, "width": 8, "batch": 3},
}  # fmt: skip


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return list(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, dict(feeds)))


def test_tiny_sizes_cover_every_network() -> None:
    assert TINY.keys() == NETWORKS.keys()
    assert REFERENCES.keys() <= NETWORKS.keys()


@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_valid_and_outputs_are_of_order_one(name: str) -> None:
    model = NETWORKS[name](**TINY[name])
    onnx.checker.check_model(model, full_check=True)
    for output in run(model, random_feeds(model)):
        assert np.isfinite(output).all()
        assert 0.01 < output.std() < 30


@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_deterministic_and_seeded(name: str) -> None:
    build, size = NETWORKS[name], TINY[name]
    first = build(**size).SerializeToString(deterministic=True)
    assert first == build(**size).SerializeToString(deterministic=True)
    assert first != build(**size, seed=7).SerializeToString(deterministic=True)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("seed", [0, 3])
def test_reference_computes_the_same_function(name: str, seed: int) -> None:
    original = NETWORKS[name](**TINY[name], seed=seed)
    reference = REFERENCES[name](**TINY[name], seed=seed)
    onnx.checker.check_model(reference, full_check=True)
    assert len(reference.graph.node) < len(original.graph.node)
    assert [i.name for i in reference.graph.input] == [i.name for i in original.graph.input]
    assert [o.name for o in reference.graph.output] == [o.name for o in original.graph.output]
    for scale in (1.0, -10.0):
        feeds = {k: v * np.float32(scale) if v.dtype == np.float32 else v
                 for k, v in random_feeds(original, seed).items()}  # fmt: skip
        for expected, actual in zip(run(original, feeds), run(reference, feeds), strict=True):
            assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def operators(model: onnx.ModelProto) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in model.graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


def test_published_shape_of_nasrnn() -> None:
    model = NETWORKS["nasrnn"]()
    assert [i.name for i in model.graph.input] == ["x_1", "x_2", "x_3", "x_4", "x_5", "h_0"]
    assert operators(model) == {"MatMul": 80, "Add": 55, "Mul": 20, "Relu": 10, "Sigmoid": 25, "Tanh": 40}
    assert len(model.graph.initializer) == 16
    assert operators(REFERENCES["nasrnn"]())["MatMul"] == 6


def test_published_shape_of_mobileone_s0() -> None:
    model = NETWORKS["mobileone_s0"]()
    kernels = {t.name: tuple(t.dims) for t in model.graph.initializer if len(t.dims) == 4}
    assert kernels["stem.conv0.conv.weight"] == (48, 3, 3, 3)
    assert kernels["stage4.0.pw.conv3.conv.weight"] == (1024, 256, 1, 1)
    assert kernels["stage3.9.dw.scale.conv.weight"] == (256, 1, 1, 1)
    # The paper counts 2.1 M parameters at inference, of which a million are the classifier's.
    weights = REFERENCES["mobileone_s0"]().graph.initializer
    assert sum(int(np.prod(t.dims)) for t in weights) == pytest.approx(2.1e6, rel=0.03)
    assert operators(REFERENCES["mobileone_s0"]()) == {
        "Conv": 43, "Relu": 43, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1,
    }  # fmt: skip


def test_published_parameter_counts() -> None:
    """Millions of parameters in inference form: RepVGG-A0 8.31, ResNeXt-50 25.0, SqueezeNet 1.1 1.24."""
    repvgg = REFERENCES["repvgg_a0"]().graph.initializer
    assert sum(int(np.prod(t.dims)) for t in repvgg) == pytest.approx(8.31e6, rel=0.01)
    resnext = [t for t in NETWORKS["resnext50"]().graph.initializer if not t.name.endswith((".mean", ".var"))]
    assert sum(int(np.prod(t.dims)) for t in resnext) == pytest.approx(25.03e6, rel=0.01)
    squeezenet = NETWORKS["squeezenet"]().graph.initializer
    assert sum(int(np.prod(t.dims)) for t in squeezenet) == pytest.approx(1.24e6, rel=0.01)


def test_resnext_reference_merges_only_narrow_groups() -> None:
    groups = [
        attribute.i
        for node in REFERENCES["resnext50"]().graph.node if node.op_type == "Conv"
        for attribute in node.attribute if attribute.name == "group" and attribute.i > 1
    ]  # fmt: skip
    assert groups == [8] * 3 + [16] * 4 + [32] * 9


def convolve(value: np.ndarray, kernel: np.ndarray, groups: int) -> np.ndarray:
    size = kernel.shape[-1]
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=groups, pads=[size // 2] * 4)
    graph = helper.make_graph(
        [node], "conv", [helper.make_tensor_value_info("x", TensorProto.FLOAT, value.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(kernel.astype(np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return run(model, {"x": value})[0]


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_kernel_algebra(groups: int) -> None:
    rng = np.random.default_rng(groups)
    value = rng.standard_normal((1, 6, 5, 4), np.float32)
    assert np.array_equal(convolve(value, identity_kernel(6, groups, 3), groups), value)
    kernel = rng.standard_normal((12, 6 // groups, 1, 1), np.float32)
    expected = convolve(value, kernel, groups)
    assert np.allclose(convolve(value, enlarge(kernel, 3), groups), expected, atol=1e-6)
    merged = merge_groups(kernel, groups, groups)
    assert merged.shape == (12, 6, 1, 1)
    assert np.allclose(convolve(value, merged, 1), expected, atol=1e-6)


def test_duplicate_weight_names_are_refused() -> None:
    graph = GraphWriter("g")
    graph.weight("w", np.zeros(1))
    with pytest.raises(ValueError, match="'w' is declared twice"):
        graph.weight("w", np.ones(1))


def test_feeds_cover_inputs_and_refuse_unknown_shapes() -> None:
    model = NETWORKS["bert"](**TINY["bert"])
    feeds = random_feeds(model)
    assert feeds["input_ids"].shape == (1, 8)
    assert feeds["input_ids"].dtype == np.int64
    assert set(np.unique(feeds["attention_mask"])) == {0, 1}
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "sequence"
    with pytest.raises(ValueError, match="'input_ids' has a symbolic"):
        random_feeds(model)
