"""`optimize --ep NAME`: what stands beside OUT, what the report says and what was timed are one session."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest

import taso_py
from taso_py.cli import main
from taso_py.options.providers import settled_options
from taso_py.providers.record import SessionRecord, read_record, session_file
from taso_py.report.deployment import Deployment, deployment
from taso_py.report.terminal import result_text
from taso_py.result import Result
from tests.conftest import ROOT, tiny_network
from tests.helpers.approximating import made_place, optimized
from tests.helpers.interpreters import OPENVINO, STUB, stub_provider

OUT = Path("o.onnx")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(tiny_network(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "cache.sqlite"))
    return tmp_path


def written(**options: Any) -> Result:
    return taso_py.optimize("m.onnx", race=False, threads=1, **options).save(OUT)


def beside() -> SessionRecord:
    return read_record(session_file(OUT))


def told(result: Result) -> Deployment:
    found = deployment(result)
    assert found is not None
    return found


def test_the_session_of_a_named_provider_is_the_one_that_was_timed(place: Path) -> None:
    python = stub_provider(place)
    result = written(ep="Stub", ep_python=[python], ep_options={"a": "b"})
    record = beside()
    assert (record.ep, record.python, record.options, record.threads) == (STUB, str(python), {"a": "b"}, 1)
    assert (record.ort_level, record.library, record.approximation) == ("all", None, None)
    assert "superopt.session('o.onnx', allow_library=True)" in told(result).code
    assert f"--threads 1 --ep {STUB} --ep-python {python} --ep-option a=b" in told(result).again
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import json, taso_py\n"
        "session = taso_py.session('o.onnx', allow_library=True)\n"
        "threads = session.get_session_options().intra_op_num_threads\n"
        "print(json.dumps([session.get_provider_options(), threads]))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{STUB: {"a": "b"}, "CPUExecutionProvider": {}}, 1]


def test_options_that_make_it_lossless_are_kept_and_need_no_consent(place: Path) -> None:
    result = written(ep="openvino", ep_python=[stub_provider(place, name=OPENVINO)])
    assert beside().options == settled_options(OPENVINO, {}, 1)
    assert "superopt.session('o.onnx')" in told(result).code
    assert "--ep-option" not in told(result).again


def test_a_level_of_onnx_runtimes_own_is_kept(place: Path) -> None:
    result = written(ort_level="basic")
    assert (beside().ep, beside().ort_level) == ("CPUExecutionProvider", "basic")
    assert "--ort-level basic" in told(result).again
    assert "BASIC" in str(taso_py.session(OUT).get_session_options().graph_optimization_level)


def test_a_default_session_needs_no_file(place: Path) -> None:
    result = written()
    assert not session_file(OUT).exists()
    assert "InferenceSession('o.onnx'" in told(result).code


def test_an_8_bit_model_runs_where_its_error_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = stub_provider(made_place(tmp_path, monkeypatch))
    result = optimized(ep="Stub", ep_python=[python], time_budget_s=90.0).save(OUT)
    assert result.approximate
    assert "run it by superopt.session('o.onnx')" in result_text(result)
    assert (beside().ep, beside().python, beside().approximation) == (STUB, str(python), None)


def test_a_session_file_in_the_way_is_found_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session_file(OUT).write_text("{}")
    assert main(["optimize", "m.onnx", "o.onnx", "--ep", "Stub", "--ep-python", str(stub_provider(place))]) == 4
    assert "o.onnx.session.json exists already" in capsys.readouterr().err


def test_a_result_without_its_session_file_is_not_the_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["optimize", "m.onnx", "o.onnx", "--no-race", "--threads", "1"]
    arguments += ["--ep", "Stub", "--ep-python", str(stub_provider(place))]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert "o.onnx is already the result" in capsys.readouterr().out
    session_file(OUT).unlink()
    assert main(arguments) == 4
    assert "its session file is not beside it" in capsys.readouterr().err
