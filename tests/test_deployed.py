"""`taso_py.session`: a session as the file beside a model says, and only if that file can be relied on."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import taso_py
from taso_py.errors import ModelError, RuntimeMissingError, UsageError
from taso_py.options.providers import bf16_options, settled_options
from taso_py.providers.record import Placement, SessionRecord, read_record, record_of, session_file
from tests.conftest import ROOT, tiny_network
from tests.helpers.interpreters import OPENVINO, openvino_python
from tests.helpers.schemas import require_valid

FEEDS = {"x": np.ones((1, 3, 8, 8), np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "o.onnx"
    onnx.save(tiny_network(), path)
    return path


def placed(model: Path, **fields: Any) -> SessionRecord:
    placement = Placement(
        ep="CPUExecutionProvider", python=None, options={}, threads=1, ort_level="all", distribution="onnxruntime",
        ort_version="1.31.1", baseline="CPUExecutionProvider", placement_speedup=1.0, placement_low=1.0,
        placement_high=1.0,
    )  # fmt: skip
    run = replace(placement, **{name: fields.pop(name) for name in ("ep", "options", "library") if name in fields})
    record = replace(record_of(run, model, model), **fields)
    session_file(model).write_text(record.to_json(), encoding="utf-8")
    return record


def test_without_a_file_it_is_the_default_session(model: Path) -> None:
    session = taso_py.session(model)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.run(None, FEEDS)[0].shape == (1, 4, 8, 8)


def test_the_file_says_how(model: Path) -> None:
    record = placed(model, ort_level="basic")
    require_valid(json.loads(session_file(model).read_text()))
    assert read_record(session_file(model)) == record
    session = taso_py.session(str(model))
    options = session.get_session_options()
    assert options.intra_op_num_threads == 1
    assert "BASIC" in str(options.graph_optimization_level)
    assert session.run(None, FEEDS)[0].shape == (1, 4, 8, 8)


def test_a_file_of_another_model_is_refused(model: Path) -> None:
    placed(model)
    other = tiny_network()
    other.graph.node[2].op_type = "Sigmoid"
    onnx.save(other, model)
    with pytest.raises(UsageError, match="belongs to another file") as caught:
        taso_py.session(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda told: "no JSON", "is no session file"),
        (lambda told: "[]", "its schema is None"),
        (lambda told: json.dumps(told | {"schema": "superopt.session/9"}), "superopt.session/9"),
        (lambda told: json.dumps({name: told[name] for name in told if name != "sha256"}), "it has no sha256"),
        (lambda told: json.dumps(told | {"threads": 0}), "threads cannot be 0"),
        (lambda told: json.dumps(told | {"threads": True}), "threads cannot be True"),
        (lambda told: json.dumps(told | {"options": {"a": 1}}), "options cannot be"),
        (lambda told: json.dumps(told | {"external": ["w"]}), "external cannot be"),
        (lambda told: json.dumps(told | {"approximation": 1}), "approximation cannot be 1"),
        (lambda told: json.dumps(told | {"ort_level": "most"}), "ort_level cannot be 'most'"),
        (lambda told: json.dumps(told | {"ep": None}), "ep cannot be None"),
        (lambda told: json.dumps(told | {"python": 3}), "python cannot be 3"),
        (lambda told: json.dumps(told | {"threads": 2**40}), "threads cannot be 1099511627776"),
        (lambda told: "[" * 100_000, "is no session file"),
        (lambda told: " " * 2_000_000, "is too long"),
    ],
)
def test_a_damaged_file_is_one_line(change: Any, says: str, model: Path) -> None:
    placed(model)
    file = session_file(model)
    file.write_text(change(json.loads(file.read_text())))
    with pytest.raises(UsageError, match="session") as caught:
        taso_py.session(model)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"library": "/somebodys/provider.so"},
        {"ep": OPENVINO, "options": {"load_config": "/somebodys/file.json"}},
        {"ep": "QNNExecutionProvider", "options": {"backend_path": "/somebodys/library.so"}},
        {"options": {"anything": "else"}},
        {"ep": OPENVINO, "options": settled_options(OPENVINO, {}, 2) | {"num_of_threads": "2, or a file"}},
    ],
)
def test_what_may_load_code_needs_consent(fields: dict[str, Any], model: Path) -> None:
    placed(model, **fields)
    with pytest.raises(UsageError, match="allow_library=True if you trust it"):
        taso_py.session(model)


def test_with_consent_a_library_that_cannot_be_loaded_is_one_line(model: Path) -> None:
    placed(model, library=str(model), ep="StubExecutionProvider")
    with pytest.raises(RuntimeMissingError, match="cannot be loaded"):
        taso_py.session(model, allow_library=True)


def test_options_that_superopt_sets_by_itself_need_no_consent(model: Path) -> None:
    record = placed(model, ep=OPENVINO, options=settled_options(OPENVINO, {}, 2), threads=None)
    assert record.needs_consent is None
    if OPENVINO not in onnxruntime.get_available_providers():
        with pytest.raises(RuntimeMissingError, match=r"has not here: it was timed with onnxruntime 1\.31\.1"):
            taso_py.session(model)


def test_a_hint_that_superopt_gives_needs_no_consent(model: Path) -> None:
    options = bf16_options(OPENVINO, {}, 2)
    assert options is not None
    record = placed(model, ep=OPENVINO, options=options, approximation="bf16 by provider hint: not proved")
    assert record.needs_consent is None
    require_valid(json.loads(session_file(model).read_text()))
    assert read_record(session_file(model)) == record


@pytest.mark.parametrize(
    ("ep", "options", "asked"),
    [
        (OPENVINO, bf16_options(OPENVINO, {}, 2), "bf16"),
        (OPENVINO, {"num_of_threads": "2"}, "what it takes by itself"),
        ("CUDAExecutionProvider", {}, "TF32"),
    ],
)
def test_less_precision_is_never_asked_for_in_silence(ep: str, options: Any, asked: str, model: Path) -> None:
    record = placed(model, ep=ep, options=options)
    assert f"{asked}, where the provider follows its options" in (record.approximation or "")
    session_file(model).write_text(replace(record, approximation=None).to_json())
    with pytest.raises(UsageError, match=f"for {asked}, and it says of no approximation") as caught:
        taso_py.session(model)
    assert "\n" not in str(caught.value)


def test_a_file_of_an_earlier_version_is_read(model: Path) -> None:
    told = json.loads(placed(model).to_json())
    del told["external"], told["approximation"]
    session_file(model).write_text(json.dumps(told))
    assert taso_py.session(model).run(None, FEEDS)[0].shape == (1, 4, 8, 8)


def test_the_file_holds_for_the_weights_beside_the_model(model: Path) -> None:
    outside = onnx.load(model)
    onnx.save(outside, model, save_as_external_data=True, location="w.data", size_threshold=0)
    record = placed(model)
    assert list(record.external) == ["w.data"]
    assert taso_py.session(model).run(None, FEEDS)[0].shape == (1, 4, 8, 8)
    data = model.with_name("w.data")
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    with pytest.raises(UsageError, match=r"for other weights than those in .*w\.data"):
        taso_py.session(model)
    data.unlink()
    with pytest.raises(ModelError, match=r"w\.data, which holds weights of .* is missing"):
        taso_py.session(model)


def test_a_file_that_names_no_weights_holds_for_no_model_that_has_some(model: Path) -> None:
    outside = onnx.load(model)
    onnx.save(outside, model, save_as_external_data=True, location="w.data", size_threshold=0)
    told = json.loads(placed(model).to_json())
    del told["external"]
    session_file(model).write_text(json.dumps(told))
    with pytest.raises(UsageError, match="does not say which weights"):
        taso_py.session(model)


def test_a_key_of_that_name_is_no_weight_outside(model: Path) -> None:
    named = onnx.load(model)
    named.metadata_props.add(key="location", value="here")
    onnx.save(named, model)
    placed(model)
    assert taso_py.session(model).run(None, FEEDS)[0].shape == (1, 4, 8, 8)


def test_an_approximation_that_was_measured_elsewhere_is_warned_of(model: Path) -> None:
    placed(model, approximation="of somebody's", ort_version="0.9")
    with pytest.warns(UserWarning, match=r"was measured with ONNX Runtime 0\.9"):
        taso_py.session(model)


def test_a_model_that_is_missing_or_damaged_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        taso_py.session(tmp_path / "absent.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match="cannot make a session of it"):
        taso_py.session(tmp_path / "bad.onnx")


def test_under_the_interpreter_that_was_raced_it_is_that_provider(model: Path) -> None:
    python = openvino_python()
    placed(model, ep=OPENVINO, options=settled_options(OPENVINO, {}, 1), python=str(python))
    code = f"import taso_py; print(taso_py.session({str(model)!r}).get_providers()[0])"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{OPENVINO}\n"), done.stderr


def test_with_consent_a_library_is_loaded_and_its_devices_are_given(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices of the CPU provider stand for those of a plugin."""
    loaded: list[tuple[str, str]] = []
    monkeypatch.setattr(
        onnxruntime, "register_execution_provider_library", lambda name, path: loaded.append((name, path))
    )
    placed(model, library="/a/plugin.so")
    session = taso_py.session(model, allow_library=True)
    assert loaded == [("plugin", "/a/plugin.so")]
    assert session.run(None, FEEDS)[0].shape == (1, 4, 8, 8)
    placed(model, library="/a/plugin.so", ep="OtherExecutionProvider")
    with pytest.raises(RuntimeMissingError, match="offers no device of OtherExecutionProvider"):
        taso_py.session(model, allow_library=True)
    assert len(loaded) == 1  # once in a process is all that ONNX Runtime takes
