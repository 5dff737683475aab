"""The suite of providers: the CPU's passes, OpenVINO's where it is set up, and each fault is one check that fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import taso_py
from taso_py import api
from taso_py.cli import main
from taso_py.errors import ConformanceError, NotLosslessError
from taso_py.providers import lossless, suite
from taso_py.providers.lossless import loss
from taso_py.providers.probe import precision_probe, worst_error
from taso_py.providers.suite import Check, Conformance, check_names
from taso_py.run import original
from tests.conftest import tiny_network
from tests.helpers.interpreters import openvino_python, require_cuda, stub_provider

_KEPT = (
    "if 'superopt_no_such_option' in self.given[STUB]: "
    "raise RuntimeError('CreateExecutionProvider superopt_no_such_option')"
)
"""What a provider does with options that it does not know."""


def check(found: Conformance, name: str) -> Check:
    return next(one for one in found.checks if one.name == name)


def test_the_cpu_provider_passes() -> None:
    found = api.conform("cpu", threads=2)
    assert [one.name for one in found.checks] == list(check_names())
    assert (found.passed, found.lossless) == (True, True), found.checks
    found.require_passed()
    skipped = {one.name for one in found.checks if one.outcome == "skipped"}
    assert skipped == {"provider options", "error text"}
    assert all(one.detail for one in found.checks)


def test_openvino_passes() -> None:
    found = api.conform("openvino", ep_python=[openvino_python()], threads=2)
    assert (found.passed, found.lossless) == (True, True), found.checks
    assert {one.name for one in found.checks if one.outcome == "skipped"} == {"memory"}


def test_cuda_passes() -> None:
    require_cuda()
    found = api.conform("cuda", threads=2)
    assert (found.passed, found.lossless) == (True, True), found.checks
    assert not [one.name for one in found.checks if one.outcome == "skipped"]


def test_a_model_is_rewritten_for_cuda_and_runs_there(tmp_path: Path) -> None:
    require_cuda()
    source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    onnx.save(tiny_network(), source)
    assert main(["optimize", str(source), str(out), "--ep", "cuda", "--time-budget", "20"]) == 0
    assert main(["check", str(source), str(out), "--ep", "cuda"]) == 0
    (x,) = (one.name for one in onnx.load(out).graph.input)
    ran = taso_py.session(out)
    assert ran.get_providers()[0] == "CUDAExecutionProvider"
    found = ran.run(None, {x: np.ones((1, 3, 8, 8), np.float32)})
    assert np.isfinite(found[0]).all()


def test_openvino_in_bfloat16_is_found_out() -> None:
    hint = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}'}
    python = openvino_python()
    found = api.conform("openvino", ep_python=[python], ep_options=hint)
    if found.lossless:
        pytest.skip("this CPU has no bfloat16, so that OpenVINO computes in float32 whatever it is told")
    assert check(found, "precision").outcome == "failed"
    with pytest.raises(NotLosslessError, match="is not lossless"):
        taso_py.optimize(tiny_network(), ep="openvino", ep_python=[python], ep_options=hint, race=False)


def rounded_to_tf32(x: Any) -> Any:
    """Ten explicit bits of the mantissa, to nearest."""
    bits = x.view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


FORMATS: dict[str, Callable[[Any], Any]] = {
    "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
    "float16": lambda x: x.astype(np.float16).astype(np.float32),
    "tf32": rounded_to_tf32,
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", range(5))
def test_the_probe_tells_reduced_precision_from_float32(kind: str, seed: int) -> None:
    probe = precision_probe(seed)
    model = onnx.load_from_string(probe.model.model)
    w = onnx.numpy_helper.to_array(next(one for one in model.graph.initializer if one.name == "w"))
    a, b = probe.feeds["a"], probe.feeds["b"]
    pairs = {"product": (a, b), "weighted": (a, w)}
    plain = {name: worst_error(probe.exact[name], x[:, ::-1] @ y[::-1]) for name, (x, y) in pairs.items()}
    assert loss(plain) is None
    low = FORMATS[kind]
    reduced = {name: worst_error(probe.exact[name], low(x) @ low(y)) for name, (x, y) in pairs.items()}
    assert loss(reduced) is not None
    assert min(reduced.values()) > 4e-4


def test_values_beyond_float16_are_part_of_the_probe() -> None:
    probe = precision_probe()
    with np.errstate(over="ignore"):
        assert np.isinf(probe.exact["large"].astype(np.float16)).any()
    assert "NaN or infinite" in (loss({"large": worst_error(probe.exact["large"], np.full((32, 64), np.inf))}) or "")


def test_a_provider_that_keeps_everything_passes(tmp_path: Path) -> None:
    found = api.conform("Stub", ep_python=[stub_provider(tmp_path, before=_KEPT)], ep_options={"a": "b"}, threads=1)
    assert found.passed, found.checks
    assert check(found, "provider options").detail == "read back: a"


FAULTS: dict[str, tuple[dict[str, str], str, str]] = {
    "computes in half precision": (
        {"before": _KEPT, "after": "return [one.astype(np.float16).astype(np.float32) for one in outputs]"},
        "precision",
        "of a float32 probe are",
    ),
    "gives NaN": (
        {"before": _KEPT, "after": "return [np.full_like(one, np.nan) for one in outputs]"},
        "precision",
        "NaN or infinite",
    ),
    "ignores options": ({}, "error text", "a misspelt option is accepted in silence"),
    "refuses a node": (
        {"before": "raise ValueError('Stub: MatMul of rank 2 is not supported')"},
        "start",
        "MatMul of rank 2 is not supported",
    ),
    "crashes": ({"before": "os.kill(os.getpid(), signal.SIGSEGV)"}, "start", "worker died (SIGSEGV)"),
    "hangs": ({"before": "time.sleep(600)"}, "start", "did not answer places within"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_check_that_fails(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if fault == "hangs":
        monkeypatch.setattr(suite, "PROBE_S", 2.0)
    stub, name, says = FAULTS[fault]
    arguments = ["eps", "--test", "Stub", "--ep-python", str(stub_provider(tmp_path, **stub))]
    assert main([*arguments, "--json"]) == 1
    told = capsys.readouterr()
    found = next(one for one in json.loads(told.out)["checks"] if one["name"] == name)
    assert found["outcome"] == "failed"
    assert says in found["detail"]
    assert told.err.startswith("superopt: error: StubExecutionProvider fails the check of its ")
    assert told.err.count("\n") == 1


def test_a_missing_provider_is_told_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eps", "--test", "nonsense"]) == 1
    told = capsys.readouterr()
    assert "use one of" in told.out
    assert "it does not start" in told.out
    with pytest.raises(ConformanceError, match="fails the check of its start"):
        api.conform("nonsense").require_passed()


_SMALL = "'\"MatMul_' in line"
"""The nodes without names of small models alone."""
_ROUNDED = "return [one.astype(np.float16).astype(np.float32) for one in outputs] if len(outputs) > 1 else outputs"
_AFFINE = "return [*outputs[:4], outputs[4] * np.float32(1.0001)] if len(outputs) == 5 else outputs"


def test_what_others_compute_says_nothing_of_the_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = stub_provider(tmp_path, before=_KEPT, takes=_SMALL)
    found = api.conform("Stub", ep_python=[python], threads=1)
    assert check(found, "start").outcome == "passed"
    assert (found.lossless, check(found, "profile").outcome) == (False, "failed")
    assert "computes nothing of a float32 probe itself" in check(found, "precision").detail
    onnx.save(tiny_network(), tmp_path / "m.onnx")
    arguments = [str(tmp_path / "m.onnx"), "--ep", "Stub", "--ep-python", str(python), "--no-race", "--dry-run"]
    assert main(["optimize", *arguments]) == 2
    assert "computes nothing of a float32 probe itself" in capsys.readouterr().err


def test_what_it_computes_itself_is_looked_at(tmp_path: Path) -> None:
    takes = f"{_SMALL} or '\"product_' in line"
    found = api.conform("Stub", ep_python=[stub_provider(tmp_path, before=_KEPT, takes=takes)], threads=1)
    assert found.lossless
    assert "others compute them: weighted, large, convolved, affine" in check(found, "precision").detail
    python = stub_provider(tmp_path, before=_KEPT, takes=takes, after=_ROUNDED)
    found = api.conform("Stub", ep_python=[python], threads=1)
    assert "the product values of a float32 probe" in check(found, "precision").detail


def test_a_gemm_is_looked_at(tmp_path: Path) -> None:
    found = api.conform("Stub", ep_python=[stub_provider(tmp_path, before=_KEPT, after=_AFFINE)], threads=1)
    assert "the affine values of a float32 probe" in check(found, "precision").detail


REFUSED: dict[str, tuple[dict[str, str], int, str]] = {
    "half precision": (FAULTS["computes in half precision"][0], 2, "--ep Stub is not lossless with these options"),
    "NaN": (FAULTS["gives NaN"][0], 2, "are NaN or infinite"),
    "refuses a node": (FAULTS["refuses a node"][0], 5, "--ep Stub does not run a small model of float32"),
    "crashes": (FAULTS["crashes"][0], 5, "worker died (SIGSEGV)"),
    "hangs": (FAULTS["hangs"][0], 5, "did not answer open within"),
}


@pytest.mark.parametrize("fault", REFUSED)
@pytest.mark.parametrize("more", [(), ("--no-race",)])
def test_optimize_refuses_such_a_provider_in_one_line(
    fault: str,
    more: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if fault == "hangs":
        monkeypatch.setattr(lossless, "PROBE_S", 2.0)
    stub, code, says = REFUSED[fault]
    model, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(tiny_network(), model)
    before = model.read_bytes()
    python = stub_provider(tmp_path, **stub)
    assert main(["optimize", str(model), str(out), "--ep", "Stub", "--ep-python", str(python), *more]) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("superopt: error")]
    assert len(errors) == 1
    assert says in errors[0]
    assert not out.exists()
    assert model.read_bytes() == before


_OF_THE_MODEL = "if b'BatchNormalization' in (source if isinstance(source, bytes) else open(source, 'rb').read()): "
"""So that the probe of precision, which is made first, is spared."""

AT_THE_MODEL: dict[str, tuple[dict[str, str], int, str]] = {
    "refuses a node": (
        {"before": _OF_THE_MODEL + "raise ValueError('Stub: Conv is not supported')"},
        3,
        "ONNX Runtime cannot load it: Stub: Conv is not supported",
    ),
    "crashes": (
        {"before": _OF_THE_MODEL + "os.kill(os.getpid(), signal.SIGSEGV)"},
        3,
        "ONNX Runtime fails on the original: worker died (SIGSEGV)",
    ),
    "NaN": (
        {"after": "return [one * np.nan if one.ndim == 4 and one.shape[1] == 4 else one for one in outputs]"},
        2,
        "--ep Stub gives other values for this model than ONNX Runtime's CPU provider: output 'y'",
    ),
}


@pytest.mark.parametrize("fault", AT_THE_MODEL)
def test_a_fault_at_the_model_is_one_line(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stub, code, says = AT_THE_MODEL[fault]
    model, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(tiny_network(), model)
    python = stub_provider(tmp_path, **stub)
    arguments = ["--ep", "Stub", "--ep-python", str(python), "--time-budget", "20"]
    assert main(["optimize", str(model), str(out), *arguments]) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("superopt: error")]
    assert len(errors) == 1
    assert says in errors[0]
    assert not out.exists()


def test_a_hang_at_the_model_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(original, "_PATIENCE_S", 2.0)
    model, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(tiny_network(), model)
    python = stub_provider(tmp_path, before=_OF_THE_MODEL + "time.sleep(600)")
    arguments = ["--ep", "Stub", "--ep-python", str(python), "--time-budget", "1"]
    assert main(["optimize", str(model), str(out), *arguments]) == 0
    assert "ONNX Runtime neither opened nor ran the model" in capsys.readouterr().out
    assert out.read_bytes() == model.read_bytes()


@pytest.mark.parametrize("line", ["bench {}", "inspect {} --profile"])
def test_a_crash_elsewhere_is_one_line(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(tiny_network(), model)
    python = stub_provider(tmp_path, before="os.kill(os.getpid(), signal.SIGSEGV)")
    assert main([*line.format(model).split(), "--ep", "Stub", "--ep-python", str(python)]) == 3
    assert "worker died (SIGSEGV)" in capsys.readouterr().err
