"""What Python has beyond the commands: the name `superopt`, models and arrays in memory, reports, the examples."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import taso_py
from taso_py import api, errors
from taso_py.options import CheckOptions
from taso_py.options.spelling import respelled, spelled, spelled_on, spelling_as_command_line
from taso_py.result import Result
from tests.cli.test_cli_report import IMPROVED, Texts
from tests.conftest import ROOT, tiny_network


def batched_network() -> onnx.ModelProto:
    """`tiny_network` for any batch."""
    model = tiny_network()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with model.onnx in which Python runs."""
    onnx.save(batched_network(), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def superopt(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The package as an installation has it, from this checkout."""
    before = {name for name in sys.modules if name.partition(".")[0] == "superopt"}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    folder = ROOT / "taso_py" / "_alias"
    spec = importlib.util.spec_from_file_location(
        "superopt", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "superopt", module)
    spec.loader.exec_module(module)
    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == "superopt"]:
        del sys.modules[name]


def test_superopt_is_another_name_for_the_same_objects(superopt: ModuleType) -> None:
    assert superopt.optimize is taso_py.optimize
    assert set(taso_py.__all__) | set(api.__all__) <= set(superopt.__all__)
    for name in superopt.__all__:
        assert getattr(superopt, name) is getattr(api if name in api.__all__ else taso_py, name)
    assert importlib.import_module("superopt.errors") is errors
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("superopt.run")


def blocks(path: Path) -> str:
    """The Python of a Markdown file, at the lines where it stands, so that an error names them."""
    inside, lines = False, []
    for line in path.read_text(encoding="utf-8").splitlines():
        fence = line.startswith("```")
        lines.append(line if inside and not fence else "")
        inside = line == "```python" if fence else inside
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.usefixtures("superopt")
@pytest.mark.parametrize("name", ["README.md", "docs/api.md"])
def test_the_examples_run(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.print", lambda *words: None)
    source = blocks(ROOT / name)
    assert "superopt.optimize(" in source
    exec(compile(source, name, "exec"), {})
    assert onnx.load(place / "faster.onnx").graph.output[0].name == "y"


# ---- models and arrays in memory -------------------------------------------------------------------------------------


class Named:
    """A path of a kind of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __fspath__(self) -> str:
        return self.name


MODELS: dict[str, Any] = {
    "os.PathLike": lambda: Named("model.onnx"),
    "proto": batched_network,
    "onnx_ir": lambda: onnx_ir.load("model.onnx"),
    "bytes": lambda: Path("model.onnx").read_bytes(),
    "bytearray": lambda: bytearray(Path("model.onnx").read_bytes()),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_is_taken_in_every_form(make: Any) -> None:
    known = taso_py.inspect("model.onnx")
    found = taso_py.inspect(make())
    assert (found.flops, found.operators, found.inputs) == (known.flops, known.operators, known.inputs)
    plain = {"race": False, "provenance": False}
    assert taso_py.optimize(make(), **plain).model == taso_py.optimize("model.onnx", **plain).model


def test_an_onnx_ir_model_with_weights_outside_is_taken_whole_and_left_as_it_was(place: Path) -> None:
    network = batched_network()
    onnx.save(network, place / "large.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    model = onnx_ir.load("large.onnx")
    kinds = [type(value.const_value) for value in model.graph.initializers.values()]
    assert onnx_ir.ExternalTensor in kinds
    result = taso_py.optimize(model, race=False)
    assert api.check(result.model, "model.onnx", threads=1).passed
    assert [type(value.const_value) for value in model.graph.initializers.values()] == kinds
    (place / "w.data").unlink()
    with pytest.raises(errors.ModelError, match=r"onnx_ir\.Model cannot be made a proto"):
        taso_py.inspect(onnx_ir.load("large.onnx"))


@pytest.mark.parametrize("data", [b"", b"no model", bytes(100)])
def test_bytes_that_are_no_model_are_one_line(data: bytes) -> None:
    with pytest.raises(errors.ModelError, match=r"given bytes|given model") as caught:
        taso_py.inspect(data)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("place")
def test_models_in_memory_are_ranked_by_their_places() -> None:
    ranking = taso_py.rank([batched_network(), "model.onnx"], rules=[], time_budget_s=5)
    assert ranking.models == ("models[0]", "model.onnx")


class Tensor:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self.array is None:
            raise TypeError("the tensor is on another device")
        return self.array


@pytest.mark.usefixtures("place")
def test_inputs_are_arrays_or_files() -> None:
    array = np.full((2, 3, 8, 8), 0.5, np.float32)
    np.save("x.npy", array)
    for given in (array, np.asfortranarray(array), Tensor(array), "x.npy", Path("x.npy"), Named("x.npy")):
        assert api.check("model.onnx", batched_network(), inputs={"x": given}).passed
    for options in (CheckOptions(inputs={"x": array}), CheckOptions(inputs={"x": Path("x.npy")})):
        assert api.check("model.onnx", "model.onnx", options).passed


BAD_INPUTS: dict[str, tuple[Any, str]] = {
    "type": (np.zeros((1, 3, 8, 8)), "inputs['x']: the array is float64, the model expects float32: convert it"),
    "axes": (np.zeros(3, np.float32), "inputs['x'], an array of shape 3: the input has 4 axes"),
    "no array": ([1.0], "inputs={'x': [1.0]}: must be a mapping from names, each to a file name or an array"),
    "device": (Tensor(None), "inputs['x']: no array can be made of it: the tensor is on another device"),
    "objects": (np.full((1, 3, 8, 8), {}), "inputs['x']: the array is object"),
    "no file": ("no.npy", "inputs['x']=no.npy: "),
    "class": (np.ndarray, "inputs={'x': <class 'numpy.ndarray'>}: must be a mapping"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("value", "says"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_what_is_no_input_is_one_line_in_the_words_of_python(value: Any, says: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        api.check("model.onnx", "model.onnx", inputs={"x": value})
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


# ---- reports ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def untimed() -> Result:
    return taso_py.optimize(tiny_network(), race=False)


def test_a_result_is_shown_in_a_notebook_and_as_a_report(untimed: Result, tmp_path: Path) -> None:
    shown = untimed._repr_html_()
    assert shown is not None
    reader = Texts()
    reader.feed(shown)
    assert {"style", "script", "html", "body"}.isdisjoint(reader.tags)
    assert untimed.rules[0].name in reader.text
    page = untimed.report()
    assert page is not None
    assert page.startswith("<!doctype html>")
    for suffix in (".html", ".md", ".json"):
        path = tmp_path / f"report{suffix}"
        assert untimed.report(str(path)) is None
        assert untimed.rules[0].name in path.read_text(encoding="utf-8")
        with pytest.raises(errors.OutputError, match="use force=True"):
            untimed.report(path)
        untimed.report(path, force=True)
    assert json.loads((tmp_path / "report.json").read_text())["improved"] is None
    with pytest.raises(errors.UsageError, match=r"must end in \.json, \.md, \.html"):
        untimed.report(tmp_path / "report.pdf")


def test_odd_names_are_text_in_a_notebook(untimed: Result) -> None:
    rule = dataclasses.replace(untimed.rules[0], name="<script>x</script>", places=("<b>", "[red]y[/red]"))
    reader = Texts()
    reader.feed(dataclasses.replace(untimed, rules=(rule,))._repr_html_() or "")
    assert {"script", "b"}.isdisjoint(reader.tags)
    assert "<script>x</script>" in reader.text
    assert "[red]y[/red]" in reader.text


def test_a_result_of_other_making_has_no_report() -> None:
    assert IMPROVED._repr_html_() is None
    with pytest.raises(errors.SuperoptError, match="not made by optimize"):
        IMPROVED.report()
    assert pickle.dumps(taso_py.ProgressReport("load", 0.0, None, None, None))


# ---- the words of messages -------------------------------------------------------------------------------------------


def test_a_message_is_in_the_words_of_its_caller() -> None:
    told = [spelled("time_budget_s", 60), spelled("shapes", "1,3", key="x"), spelled_on("force")]
    assert told == ["time_budget_s=60", "shapes['x']=1,3", "force=True"]
    assert (
        respelled("a -> b; --allow-overflow admits it, --nonsense")
        == "a -> b; allow_overflow=True admits it, --nonsense"
    )
    with spelling_as_command_line():
        told = [spelled("time_budget_s", 60), spelled("shapes", "1,3", key="x"), spelled_on("force")]
        assert told == ["--time-budget 60", "--shape x=1,3", "--force"]
        assert spelled("inputs", key="x", metavar="FILE.npy") == "--input x=FILE.npy"
        assert respelled("--allow-overflow admits it") == "--allow-overflow admits it"
        heard: list[str] = []
        thread = threading.Thread(target=lambda: heard.append(spelled("threads")))
        thread.start()
        thread.join()
        assert heard == ["--threads"]
    assert spelled("inputs", key="x", metavar="FILE.npy") == "inputs['x']"


@pytest.mark.usefixtures("place")
def test_what_the_prover_says_of_switches_is_respelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a trusted source and knows no callers."""

    words = "own.rules:1:1: rule double leaves the range; --allow-overflow admits it"
    monkeypatch.setattr("taso_py.run.usable.answer", lambda *_, **__: json.dumps({"refused": words}).encode())
    Path("own.rules").write_text("rule double: Mul(Mul(x, x), Mul(x, x)) => Mul(x, 2.0)\n")  # on record nowhere
    with pytest.raises(errors.RuleError, match="range; allow_overflow=True admits it"):
        taso_py.optimize("model.onnx", rules=["own.rules"], race=False)
