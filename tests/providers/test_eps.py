"""`superopt eps`: what can be used, and for everything else why not and a line that would help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taso_py import api
from taso_py.cli import main
from taso_py.options.providers import (
    CPU_PROVIDER,
    bf16_options,
    exact_options,
    provider_name,
    settled_options,
    short_name,
)
from taso_py.providers.listing import Environment, Provider
from tests.helpers.interpreters import OPENVINO, described_as, openvino_python, script, wrapped_python


def environments(*pythons: Path) -> list[Environment]:
    own, *others = api.eps(ep_python=list(pythons)).environments
    assert own.own
    assert own.why is None
    return others


def provider(found: tuple[Provider, ...], name: str) -> Provider:
    return next(one for one in found if one.name == name)


def test_the_cpu_is_usable_and_what_is_missing_comes_with_a_line() -> None:
    offers = api.eps()
    cpu = provider(offers.providers, CPU_PROVIDER)
    assert (cpu.ep, cpu.usable, cpu.why, cpu.advice, cpu.origin) == ("cpu", True, None, None, "built in")
    assert (cpu.version or "")[0].isdigit()
    if (openvino := provider(offers.providers, OPENVINO)).origin == "not installed":
        assert openvino.why == "onnxruntime-openvino is in none of these environments"
        assert (openvino.advice or "").endswith("bin/pip install numpy onnxruntime-openvino")


def test_a_provider_that_takes_no_node_is_not_usable() -> None:
    for one in api.eps().providers:
        assert one.usable == (one.why is None)
        if one.name == "AzureExecutionProvider":
            assert not one.usable


def test_what_is_wrong_with_an_interpreter_is_told_with_a_line(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("old", "bare", "two", "early")]
    for folder in folders:
        folder.mkdir()
    answers = (
        '{"version": [3, 9, 2], "distributions": [["onnxruntime", "1.24.1"]], "lacking": []}',
        '{"version": [3, 12, 1], "distributions": [], "lacking": ["numpy", "onnxruntime"]}',
        '{"version": [3, 12, 1], "distributions": [["onnxruntime", "1.24.1"], ["onnxruntime-gpu", "1.24.1"]], '
        '"lacking": []}',
        '{"version": [3, 12, 1], "distributions": [["onnxruntime-openvino", "1.19.0"]], "lacking": []}',
    )
    old, bare, two, early = environments(*map(described_as, folders, answers))
    assert "Python 3.9.2" in (old.why or "")
    assert bare.advice == f"{folders[1]}/python -m pip install numpy onnxruntime"
    assert "2 ONNX Runtimes that overwrite each other" in (two.why or "")
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in (two.advice or "")
    assert "1.23 is the oldest" in (early.why or "")
    assert (early.advice or "").endswith("pip install 'onnxruntime-openvino>=1.23'")


def test_what_is_no_interpreter_is_told(tmp_path: Path) -> None:
    silent, failing = (
        script(tmp_path / "silent", "true"),
        script(tmp_path / "failing", "echo no such thing >&2; exit 3"),
    )
    plain = tmp_path / "plain"
    plain.write_text("")
    found = environments(tmp_path / "absent", tmp_path, silent, failing, plain)
    reasons = [f"{one.why} {one.advice}" for one in found]
    assert "there is no such file" in reasons[0]
    assert "is a directory" in reasons[1]
    assert "does not answer as a Python does" in reasons[2]
    assert "does not answer as a Python does" in reasons[3]
    assert "cannot be started" in reasons[4]
    assert "no such thing" in reasons[3]


def test_a_library_that_cannot_be_loaded_is_a_row(tmp_path: Path) -> None:
    library = tmp_path / "libnothing.so"
    library.write_bytes(b"no library")
    row = next(one for one in api.eps(ep_library=library).providers if one.origin == "plugin")
    assert (row.usable, row.library) == (False, str(library))
    assert "libnothing.so" in (row.why or "")


def test_text_and_json_say_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["eps", "--json", "--ep-python", str(tmp_path / "absent")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main(["eps", "--ep-python", str(tmp_path / "absent")]) == 0
    text = capsys.readouterr().out
    for one in told["providers"]:
        assert one["ep"] in text
        assert (one["advice"] or "") in text
    assert f"--ep-python {tmp_path / 'absent'}: not usable" in text


def test_another_environment_is_looked_into() -> None:
    python = openvino_python()
    offers = api.eps(ep_python=[python])
    found = provider(offers.providers, OPENVINO)
    assert (found.usable, found.python, found.ep) == (True, str(python), "openvino")
    assert offers.environments[1].distribution == "onnxruntime-openvino"


@pytest.mark.parametrize("name", ["cpu", "cuda", "openvino", "tensorrt", "dml", "NvTensorRTRTX", "Somebodys"])
def test_short_names_lead_back(name: str) -> None:
    full = provider_name(name)
    assert provider_name(short_name(full)) == full


def test_what_makes_a_provider_lossless_gives_way_to_what_is_asked_for() -> None:
    assert settled_options(CPU_PROVIDER, {}, 2) == {}
    assert settled_options("CUDAExecutionProvider", {}, 2) == {"use_tf32": "0"}
    assert settled_options("CUDAExecutionProvider", {"use_tf32": "1"}, 2) == {"use_tf32": "1"}
    made = settled_options(OPENVINO, {"load_config": '{"CPU": {"CACHE_DIR": "c"}}', "num_of_threads": "1"}, 2)
    assert json.loads(made["load_config"]) == {"CPU": {"CACHE_DIR": "c", "INFERENCE_PRECISION_HINT": "f32"}}
    assert made["num_of_threads"] == "1"
    asked = '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}'
    assert settled_options(OPENVINO, {"load_config": asked}, 2)["load_config"] == asked
    assert settled_options(OPENVINO, {"load_config": "file.json"}, 2)["load_config"] == "file.json"
    assert "GPU" in json.loads(settled_options(OPENVINO, {"device_type": "GPU"}, 2)["load_config"])


def test_the_hint_is_given_where_nothing_else_was_asked_for() -> None:
    made = bf16_options(OPENVINO, {"load_config": '{"CPU": {"CACHE_DIR": "c"}}'}, 2)
    assert made is not None
    assert json.loads(made["load_config"]) == {"CPU": {"CACHE_DIR": "c", "INFERENCE_PRECISION_HINT": "bf16"}}
    assert made["num_of_threads"] == "2"
    asked = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}'}
    assert bf16_options(OPENVINO, asked, 2) == {"num_of_threads": "2", **asked}


@pytest.mark.parametrize(
    ("provider_", "given"),
    [
        (CPU_PROVIDER, {}),
        ("CUDAExecutionProvider", {}),
        (OPENVINO, {"device_type": "GPU"}),
        (OPENVINO, {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'}),
        (OPENVINO, {"load_config": '{"CPU": 3}'}),
        (OPENVINO, {"load_config": "[]"}),
        (OPENVINO, {"load_config": "file.json"}),
    ],
)
def test_no_hint_is_given_otherwise(provider_: str, given: dict[str, str]) -> None:
    assert bf16_options(provider_, given, 2) is None
    assert exact_options(provider_, given) == given


def test_the_exact_part_goes_without_the_hint_and_keeps_the_rest() -> None:
    asked = {"load_config": '{"CPU": {"CACHE_DIR": "c", "INFERENCE_PRECISION_HINT": "bf16"}}', "num_of_threads": "1"}
    assert exact_options(OPENVINO, asked) == {"load_config": '{"CPU": {"CACHE_DIR": "c"}}', "num_of_threads": "1"}
    alone = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}'}
    assert exact_options(OPENVINO, alone) == {}
    assert exact_options(CPU_PROVIDER, alone) == alone


_PLUGIN = """
import os, signal, sys, types
from importlib import metadata
package = types.ModuleType("onnxruntime_ep_somebodys")
package.get_library_path, package.get_ep_name = (lambda: {library!r}), (lambda: "SomebodysExecutionProvider")
sys.modules["onnxruntime_ep_somebodys"] = package
real = metadata.distributions
about = types.SimpleNamespace(metadata={{"Name": "onnxruntime-ep-somebodys"}})
metadata.distributions = lambda: [*real(), about]
import onnxruntime as ort
register = ort.register_execution_provider_library
ort.register_execution_provider_library = lambda name, path: {register}
"""


@pytest.mark.parametrize(
    ("register", "says"),
    [
        ("None", "it offers no device of this machine"),
        ("register(name, path)", "somebodys.so cannot be loaded"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ],
)
def test_a_plugin_that_is_installed_is_listed(register: str, says: str, tmp_path: Path) -> None:
    library = str(tmp_path / "somebodys.so")
    python = wrapped_python(tmp_path, "sitecustomize", _PLUGIN.format(library=library, register=register))
    found = api.eps(ep_python=[python]).providers
    row = provider(found, "SomebodysExecutionProvider")
    assert (row.origin, row.usable, row.library, row.python) == ("plugin", False, library, str(python))
    assert says in (row.why or "")
