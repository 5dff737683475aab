"""Models that contradict themselves or would not end: refused in one line."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import taso_py
from taso_py.backend.protocol import WorkerConfig
from taso_py.check.compare import compare_values
from taso_py.check.facts import UNTYPED, interface_difference, read_facts
from taso_py.check.models import check_models
from taso_py.cli import main
from taso_py.errors import ModelError, WorkerError
from taso_py.onnx_io.carry import difference
from taso_py.onnx_io.functions import inlined
from taso_py.onnx_io.load import load
from taso_py.options import Options
from taso_py.run import pipeline
from taso_py.run.original import time_original
from taso_py.run.subject import prepare
from tests.conftest import tiny_network


def calling(*functions: str) -> onnx.ModelProto:
    text = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>\ng (float[4] x) => (float[4] y) { y = my.F0(x) }\n'
    return onnx.parser.parse_model(text + "\n".join(functions))


def doubling(k: int, last: bool) -> str:
    called = "Relu" if last else f"my.F{k + 1}"
    return f'<domain: "my", opset_import: ["" : 17, "my" : 1]>\nF{k} (a) => (c) {{ b = {called}(a) c = {called}(b) }}'


def test_a_function_that_calls_itself_is_refused() -> None:
    body = '<domain: "my", opset_import: ["" : 17, "my" : 1]>\nF0 (a) => (b) { b = my.F0(a) }'
    with pytest.raises(ModelError, match=r"function my\.F0 calls itself"):
        load(calling(body))


def test_functions_that_double_are_refused_and_a_few_are_not() -> None:
    assert len(inlined(calling(*(doubling(k, k == 3) for k in range(4)))).graph.node) == 16
    with pytest.raises(ModelError, match=f"expand to {2**31 - 2} nodes"):
        load(calling(*(doubling(k, k == 29) for k in range(30))))


def test_a_nul_in_an_external_location_is_refused(tmp_path: Path) -> None:
    model = tiny_network()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="a\0b")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="no file has such a name"):
        load(tmp_path / "m.onnx")


def test_an_output_without_a_type_is_compared_by_its_values(tmp_path: Path) -> None:
    model = tiny_network()
    model.graph.output[0].ClearField("type")
    facts = read_facts(model)
    assert facts.outputs[0].element == UNTYPED
    assert interface_difference(facts, read_facts(tiny_network())) is None
    onnx.save(model, tmp_path / "a.onnx")
    onnx.save(tiny_network(), tmp_path / "b.onnx")
    assert check_models(tmp_path / "a.onnx", tmp_path / "b.onnx", WorkerConfig()).passed


def test_maps_are_compared() -> None:
    assert compare_values("y", [{1: 0.5, 2: 0.25}], [{1: 0.5, 2: 0.25}]).relative == 0
    assert compare_values("y", [{1: 0.5, 2: 0.25}], [{1: 0.5, 2: 0.5}]).relative == 0.5
    assert compare_values("y", {"a": 1.0}, {"b": 1.0}).malformed


def test_a_shape_of_rank_0_is_not_an_absent_one() -> None:
    scalar, unknown = (helper.make_tensor_value_info("x", TensorProto.FLOAT, shape) for shape in ([], None))
    assert difference(scalar, unknown) == "type.tensor_type.shape"
    assert difference(scalar, scalar) is None


class _Dying:
    """A worker that dies at the original's first run."""

    def info(self) -> None:
        pass

    def open(self, *_: object, **__: object) -> int:
        return 1

    def run(self, *_: object, **__: object) -> None:
        raise WorkerError("worker died (SIGKILL) during run")

    def close(self, handle: int) -> None:
        pass


def test_a_worker_that_dies_of_the_original_is_the_models_fault() -> None:
    subject = prepare(tiny_network(), Options(race=False))
    with pytest.raises(ModelError, match=r"fails on the original.*SIGKILL"):
        time_original(_Dying(), subject, Options(race=False))  # type: ignore[arg-type]


def test_a_race_that_cannot_be_run_confirms_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def dying(*_: object, **__: object) -> None:
        raise WorkerError("worker died (SIGKILL) during time")

    monkeypatch.setattr(pipeline, "race", dying)
    text = "agraph (float[64, 64] x) => (float[64, 64] y) { a = Relu(x) b = Relu(a) y = Relu(b) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    result = taso_py.optimize(model, time_budget_s=30, cost="roofline", cache=tmp_path / "c", only=["relu-of-relu"])
    assert result.improved is False
    assert result.reason is not None
    assert (result.reason.code, "the race ended early" in result.reason.words) == ("race ended early", True)
    assert result.model == model


@pytest.mark.parametrize(
    ("command", "place"),
    [("bench", "taso_py.run.bench.time_models"), ("inspect --profile", "taso_py.run.inspect.profile")],
)
def test_a_worker_that_dies_of_a_model_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, tiny_model: Path, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    def dying(*_: object, **__: object) -> None:
        raise WorkerError("worker died (SIGSEGV) during open")

    monkeypatch.setattr(place, dying)
    assert main([*command.split(), str(tiny_model)]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "SIGSEGV" in said
    assert "model.onnx" in said
