"""The zoo script: what it lists, writes and refuses; no test here needs torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from scripts.bench import zoo
from scripts.bench.networks import NETWORKS, REFERENCES

ROOT = Path(__file__).resolve().parents[2]

DEMANDED = {
    "resnet50", "resnext50", "regnet_x_1_6gf", "squeezenet", "inception_v3", "nasnet_a", "densenet121",
    "vgg19", "mobilenet_v3", "efficientnet_b0", "shufflenet_v2", "mobileone_s0", "repvgg_a0", "swin_t",
    "vit_b_16", "bert", "bert_lora", "gpt2", "llama", "nasrnn", "fastvit_t8", "repvit_m1", "ghostnet", "googlenet",
    "levit_128", "decoder", "dlrm", "gru", "separate_heads", "multi_gate_experts",
}  # fmt: skip

LIST_WITHOUT_TORCH = """
import runpy, sys
sys.argv = ["zoo.py", "--list"]
try:
    runpy.run_module("scripts.bench.zoo", run_name="__main__")
except SystemExit:
    assert "torch" not in sys.modules
"""


@pytest.fixture
def tiny_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zoo and its references cut down to a NasRNN of width 4 and a tiny CNN."""
    size = {"steps": 2, "hidden": 4}
    entries = {
        "nasrnn": zoo.Entry("built in code", lambda: NETWORKS["nasrnn"](**size)),
        "tiny_cnn": zoo.Entry("built in code", NETWORKS["tiny_cnn"]),
    }
    monkeypatch.setattr(zoo, "ZOO", entries)
    monkeypatch.setattr(zoo, "REFERENCES", {"nasrnn": lambda: REFERENCES["nasrnn"](**size)})


def test_the_zoo_holds_what_the_bench_is_asked_for() -> None:
    assert zoo.ZOO.keys() == DEMANDED
    assert REFERENCES.keys() <= zoo.REFERENCES.keys() <= zoo.ZOO.keys()


def test_listing_works_as_a_script_and_imports_no_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST_WITHOUT_TORCH], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(zoo.ZOO)


@pytest.mark.usefixtures("tiny_zoo")
def test_export_writes_model_and_reference_and_keeps_what_exists(tmp_path: Path) -> None:
    arguments = ["nasrnn", "tiny_cnn", "--out", str(tmp_path / "zoo")]
    first = CliRunner().invoke(zoo.main, arguments)
    assert first.exit_code == 0, first.output
    files = sorted(path.name for path in (tmp_path / "zoo").iterdir())
    assert files == ["nasrnn.onnx", "nasrnn.reference.onnx", "tiny_cnn.onnx"]
    target = tmp_path / "zoo" / "tiny_cnn.onnx"
    target.write_bytes(b"mine")
    second = CliRunner().invoke(zoo.main, arguments)
    assert second.output.count("kept") == 3
    assert target.read_bytes() == b"mine"
    CliRunner().invoke(zoo.main, [*arguments, "--force"])
    assert len(onnx.load(target).graph.node) == 17


@pytest.mark.parametrize("arguments", [["no_such_network"], []])
def test_bad_arguments_are_usage_errors(arguments: list[str]) -> None:
    done = CliRunner().invoke(zoo.main, arguments)
    assert done.exit_code == 2
    assert "--list" in done.output


@pytest.mark.parametrize(("factor", "reason"), [(np.nan, "not finite"), (0.0, "all zero")])
def test_degenerate_outputs_are_refused(tmp_path: Path, factor: float, reason: str) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    weight = numpy_helper.from_array(np.array([factor, 0.0], np.float32), "w")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [value], [out], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, tmp_path / "bad.onnx")
    with pytest.raises(click.ClickException, match=reason):
        zoo.verify(tmp_path / "bad.onnx")
