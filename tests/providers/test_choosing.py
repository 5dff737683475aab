"""`--ep-python`: the chosen provider runs in another environment, and what is wrong with one is one line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import taso_py
from taso_py import api
from taso_py.backend.interpreters import worker_command, worker_environment
from taso_py.cli import main
from taso_py.errors import RuntimeMissingError, UsageError
from taso_py.options import CheckOptions
from taso_py.providers.choosing import interpreter_of, worker_config
from tests.conftest import ROOT, tiny_network
from tests.helpers.interpreters import (
    OPENVINO,
    STUB,
    described_as,
    openvino_python,
    script,
    stub_provider,
    wrapped_python,
)

COMMANDS = ("check m.onnx m.onnx", "bench m.onnx --rounds 2 --block 0.01", "inspect m.onnx --profile",
            "optimize m.onnx --no-race --dry-run")  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(tiny_network(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", COMMANDS)
def test_the_provider_of_another_environment_runs_there(line: str, place: Path) -> None:
    log = place / "log"
    python = stub_provider(place, log=log)
    assert main([*line.split(), "--ep", "Stub", "--ep-python", str(python)]) == 0
    assert any("runpy" in text for text in log.read_text().splitlines())


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("line", COMMANDS)
def test_without_it_the_provider_is_missing(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line.split(), "--ep", "Stub"]) == 5
    assert "execution provider StubExecutionProvider is not in this ONNX Runtime" in capsys.readouterr().err


FAULTS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "absent": (lambda folder: folder / "absent", "there is no such file"),
    "a folder": (lambda folder: folder, "is a directory: name the python in it"),
    "no Python": (lambda folder: script(folder / "python", "exit 1"), "does not answer as a Python does"),
    "no text": (lambda folder: script(folder / "python", "printf '\\377\\376\\n'"), "does not answer as a Python does"),
    "a version of texts": (
        lambda folder: described_as(folder, '{"version": ["3", "12"], "distributions": [], "lacking": []}'),
        "does not answer as a Python does",
    ),
    "a number of an ONNX Runtime": (
        lambda folder: described_as(
            folder, '{"version": [3, 12], "distributions": [["onnxruntime", 1]], "lacking": []}'
        ),
        "does not answer as a Python does",
    ),
    "nested": (lambda folder: described_as(folder, "[" * 5000), "does not answer as a Python does"),
    "too old": (
        lambda folder: described_as(folder, '{"version": [3, 9, 2], "distributions": [], "lacking": []}'),
        "is Python 3.9.2, and superopt's workers need 3.11 or newer",
    ),
    "no ONNX Runtime": (
        lambda folder: described_as(folder, '{"version": [3, 12, 1], "distributions": [], "lacking": ["onnxruntime"]}'),
        "has no onnxruntime: ",
    ),
    "an old ONNX Runtime": (
        lambda folder: described_as(
            folder, '{"version": [3, 12, 1], "distributions": [["onnxruntime", "1.20.1"]], "lacking": []}'
        ),
        "has onnxruntime 1.20.1, and 1.23 is the oldest that is known",
    ),
    "one that does not load": (
        lambda folder: wrapped_python(folder, "onnxruntime", "raise ImportError('libtbb.so.12 is missing')"),
        "libtbb.so.12 is missing",
    ),
}


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_an_environment_is_one_line(
    fault: str, line: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, says = FAULTS[fault]
    assert main([*line.split(), "--ep", "Stub", "--ep-python", str(make(place))]) == 5
    error = capsys.readouterr().err
    assert says in error
    assert len([one for one in error.splitlines() if one.startswith("superopt: error")]) == 1


def test_the_first_environment_that_has_the_provider_is_taken(place: Path) -> None:
    plain, own = place / "plain", place / "own"
    plain.mkdir()
    own.mkdir()
    without = wrapped_python(plain, "unused", "")
    having = stub_provider(own)
    assert interpreter_of(STUB, [without, having]) == str(having)
    assert interpreter_of("CPUExecutionProvider", [without, having]) == str(without)
    assert interpreter_of("CPUExecutionProvider", []) is None
    with pytest.raises(RuntimeMissingError, match="is in none of"):
        interpreter_of("OtherExecutionProvider", [without, having])


def test_the_oracle_stays_where_it_is(place: Path) -> None:
    """A provider that computes nonsense is no measure of itself."""
    python = stub_provider(place, after="return [np.full_like(one, 3) for one in outputs]")
    other = tiny_network()
    other.graph.node[2].op_type = "Sigmoid"
    report = api.check("m.onnx", other, ep="Stub", ep_python=[python])
    assert not report.passed
    same = api.check("m.onnx", "m.onnx", ep="Stub", ep_python=[python])
    assert any("as deployed" in warning for warning in same.warnings)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("ep", ["auto", "cpu,openvino"])
def test_only_optimize_chooses_among_providers(ep: str) -> None:
    for call in (lambda: api.check("m.onnx", "m.onnx", ep=ep), lambda: taso_py.bench(["m.onnx"], ep=ep)):
        with pytest.raises(UsageError, match="only optimize chooses among providers"):
            call()


def test_a_library_that_is_missing_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "m.onnx", "m.onnx", "--ep", "Stub", "--ep-library", str(place / "absent.so")]) == 5
    assert "absent.so cannot be loaded" in capsys.readouterr().err


def test_the_lossless_options_are_part_of_the_configuration() -> None:
    config = worker_config(CheckOptions(ep="openvino", threads=1))
    assert '"INFERENCE_PRECISION_HINT": "f32"' in dict(config.ep_options)["load_config"]
    assert dict(config.ep_options)["num_of_threads"] == "1"
    assert worker_config(CheckOptions(threads=1)).ep_options == ()


def test_openvino_runs_in_its_environment(place: Path) -> None:
    python = openvino_python()
    report = api.check("m.onnx", "m.onnx", ep="openvino", ep_python=[python])
    assert report.passed
    assert not report.warnings
    assert taso_py.bench(["m.onnx"], ep="openvino", ep_python=[python], rounds=2, block_s=0.01).ep == OPENVINO


def test_numpy_and_onnx_runtime_are_all_that_a_worker_needs(place: Path) -> None:
    """What else superopt depends on cannot be imported there."""
    others = ("click", "jinja2", "lark", "ml_dtypes", "onnx", "onnx_ir", "rich", "z3")
    python = wrapped_python(place, "sitecustomize", f"import sys; sys.modules |= dict.fromkeys({others}, None)")
    report = api.check("m.onnx", "m.onnx", ep_python=[python])
    assert report.passed
    assert not report.warnings
    assert taso_py.bench(["m.onnx"], ep_python=[python], rounds=2, block_s=0.01).rounds == 2
    assert api.conform("cpu", ep_python=[python]).passed


def test_the_packages_of_our_own_environment_are_not_shown_to_another(place: Path) -> None:
    """Its own onnxruntime would lose against ours."""
    code = "import sys, taso_py.backend.worker as w; print([p for p in sys.path if p == sys.argv[1]], w.__name__)"
    python = wrapped_python(place, "unused", "")
    command = worker_command(str(python), 0)
    assert command[:3] == [str(python), "-P", "-c"]
    script_of_worker = command[3].rpartition("runpy.run_module")[0]
    done = subprocess.run(
        [*command[:3], f"{script_of_worker}\nsys.argv[1:] = [{str(ROOT)!r}]\n{code}", *command[4:]],
        env=worker_environment(str(python)), capture_output=True, text=True, timeout=60, cwd=place,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[] taso_py.backend.worker\n"), done.stderr


_PLUGIN = """
import onnxruntime as ort
ort.register_execution_provider_library = lambda name, path: None
"""


def test_a_provider_of_a_library_is_given_its_devices(place: Path) -> None:
    """The devices of the CPU provider stand for those of a plugin: no plugin has a device on every machine."""
    python = wrapped_python(place, "sitecustomize", _PLUGIN)
    library = place / "plugin.so"
    library.touch()
    report = api.check("m.onnx", "m.onnx", ep="cpu", ep_python=[python], ep_library=library)
    assert report.passed
    with pytest.raises(RuntimeMissingError, match=r"plugin\.so offers no device of OtherExecutionProvider here"):
        taso_py.bench(["m.onnx"], ep="Other", ep_python=[python], ep_library=library, rounds=2)


@pytest.mark.parametrize("key", ["ep-python", "ep-library"])
def test_a_settings_file_names_nothing_that_is_executed(
    key: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = place / "ran"
    (place / "superopt.toml").write_text(f'{key} = "{script(place / "python", f"touch {mark}")}"')
    assert main(["check", "m.onnx", "m.onnx"]) == 2
    assert key in capsys.readouterr().err
    assert not mark.exists()


def test_options_that_the_cpu_provider_would_ignore_are_refused() -> None:
    with pytest.raises(UsageError, match=r"ep_options\['a'\]=b: ONNX Runtime's CPU provider has no options"):
        worker_config(CheckOptions(ep_options={"a": "b"}))
