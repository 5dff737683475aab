"""Bad input is answered by an exit code and one line on stderr, and leaves no trace on disk."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.conftest import RunCli, cli_environment, tiny_network

Prepare = Callable[[Path], None]


def snapshot(folder: Path) -> dict[str, str]:
    """Every path below `folder` with the hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def good(folder: Path) -> None:
    onnx.save(tiny_network(), folder / "model.onnx")


def nothing(folder: Path) -> None:
    """MODEL does not exist."""


def directory(folder: Path) -> None:
    (folder / "model.onnx").mkdir()


def empty(folder: Path) -> None:
    (folder / "model.onnx").touch()


def truncated(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(tiny_network().SerializeToString()[:200])


def text(folder: Path) -> None:
    (folder / "model.onnx").write_text("this is not a model\n" * 20, encoding="utf-8")


def no_external_data(folder: Path) -> None:
    path = folder / "model.onnx"
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "weights.bin").unlink()


def short_external_data(folder: Path) -> None:
    path = folder / "model.onnx"
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "weights.bin").write_bytes(b"\0" * 8)


def opset_too_new(folder: Path) -> None:
    model = tiny_network()
    model.opset_import[0].version = 999
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def cyclic(folder: Path) -> None:
    model = tiny_network()
    model.graph.node[0].input[0] = "b"
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def dangling(folder: Path) -> None:
    model = tiny_network()
    model.graph.node[0].input[0] = "nobody_makes_this"
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def ill_typed(folder: Path) -> None:
    model = tiny_network()
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones(7, np.float32), "scale"))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def unknown_operator(folder: Path) -> None:
    model = tiny_network()
    model.graph.node[2].op_type = "Magic"
    model.graph.node[2].domain = "com.acme"
    model.opset_import.append(helper.make_opsetid("com.acme", 1))
    (folder / "model.onnx").write_bytes(model.SerializeToString())


def no_graph(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())


def bad_rules(folder: Path) -> None:
    good(folder)
    (folder / "bad.rules").write_text("rule broken\n    a @ => b\n", encoding="utf-8")


def notes_beside(folder: Path) -> None:
    good(folder)
    (folder / "notes.md").write_text("mine", encoding="utf-8")


def bad_arrays(folder: Path) -> None:
    good(folder)
    np.save(folder / "wrong_shape.npy", np.zeros((1, 3, 8, 9), np.float32))
    np.save(folder / "wrong_type.npy", np.zeros((1, 3, 8, 8), np.int64))
    (folder / "no_array.npy").write_bytes(b"nonsense")
    (folder / "empty.npy").touch()
    np.savez(folder / "several", np.zeros(1))
    (folder / "several.npz").rename(folder / "several.npy")
    np.save(folder / "right.npy", np.zeros((1, 3, 8, 8), np.float32))


def out_taken(folder: Path) -> None:
    good(folder)
    (folder / "out.onnx").write_bytes(b"something else")
    (folder / "folder").mkdir()
    (folder / "symbolic.onnx").symlink_to("model.onnx")
    (folder / "hard.onnx").hardlink_to(folder / "model.onnx")


@dataclass(frozen=True)
class Case:
    code: int
    prepare: Prepare
    arguments: str
    says: str
    """What the line must name; " | " separates alternatives."""

    def __str__(self) -> str:
        return f"{self.prepare.__name__} {self.arguments}".strip()


CASES = (
    Case(3, nothing, "", "does not exist"),
    Case(3, directory, "", "directory"),
    Case(3, empty, "", "empty"),
    Case(3, truncated, "", "model.onnx"),
    Case(3, text, "", "model.onnx"),
    Case(3, no_graph, "", "model.onnx"),
    Case(3, no_external_data, "", "weights.bin"),
    Case(3, short_external_data, "", "weights.bin | out of bounds"),
    Case(3, opset_too_new, "", "999"),
    Case(3, cyclic, "", "cycl"),
    Case(3, dangling, "", "nobody_makes_this"),
    Case(3, ill_typed, "", "model.onnx"),
    Case(3, unknown_operator, "", "Magic"),
    Case(2, good, "--shape nosuch=1,2", "nosuch"),
    Case(2, good, "--shape x=1,3,8", "x"),
    Case(2, good, "--shape x=1,3,8,9", "x"),
    Case(2, good, "--shape x=big", "x=big"),
    Case(2, good, "--workload x=1,3,9,9", "x"),
    Case(2, good, "--only no_such_rule", "no_such_rule"),
    Case(2, good, "--disable no_such_rule", "no_such_rule"),
    Case(2, good, "--rules missing.rules", "missing.rules"),
    Case(2, bad_rules, "--rules bad.rules", "bad.rules:"),
    Case(2, good, "--time-budget -5", "--time-budget"),
    Case(2, good, "--alpha 0.5", "--alpha"),
    Case(2, good, "--threads 0", "--threads"),
    Case(2, good, "--cost guess", "--cost"),
    Case(2, good, "--frobnicate", "--frobnicate"),
    Case(2, good, "--min-speedup 1.1", "--min-speedup"),
    Case(2, good, "--report report.pdf", "report.pdf"),
    Case(2, good, "--report out.json -o out.json", "out.json"),
    Case(2, bad_arrays, "--input x=right.npy --input x=right.npy", "twice"),
    Case(2, bad_arrays, "--input nosuch=right.npy", "nosuch"),
    Case(2, bad_arrays, "--input x=wrong_shape.npy", "x"),
    Case(2, bad_arrays, "--input x=wrong_type.npy", "x"),
    Case(2, bad_arrays, "--input x=no_array.npy", "no_array.npy"),
    Case(2, bad_arrays, "--input x=empty.npy", "empty.npy"),
    Case(2, bad_arrays, "--input x=several.npy", "several.npy"),
    Case(4, good, "-o missing/out.onnx", "missing/out.onnx"),
    Case(4, good, "-o /proc/superopt.onnx", "/proc/superopt.onnx"),
    Case(4, good, "-o /dev/null --force", "/dev/null"),
    Case(4, good, "-o model.onnx --force", "overwrite a file"),
    Case(4, good, "--report missing/report.md", "missing/report.md"),
    Case(4, notes_beside, "--report notes.md", "notes.md exists already: use --force"),
    Case(4, notes_beside, "--certificate notes.md", "notes.md exists already: use --force"),
    Case(4, out_taken, "-o folder --force", "folder is a directory"),
    Case(4, out_taken, "-o out.onnx", "--force"),
    Case(4, out_taken, "-o symbolic.onnx --force", "overwrite a file"),
    Case(4, out_taken, "-o hard.onnx --force", "overwrite a file"),
    Case(5, good, "--ep nonsense", "nonsense"),
    Case(5, good, "--ep-option a=b --ep cuda", "CUDA"),
)


def assert_refused(result: subprocess.CompletedProcess[str], code: int, says: str) -> None:
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("superopt: error: ")
    assert any(words in result.stderr for words in says.split(" | "))
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert result.returncode == code


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_input_is_one_line_and_changes_nothing(run_cli: RunCli, tmp_path: Path, case: Case) -> None:
    case.prepare(tmp_path)
    before = snapshot(tmp_path)
    result = run_cli("optimize", "model.onnx", "--no-race", *case.arguments.split())
    assert_refused(result, case.code, case.says)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["check", "bench"])
@pytest.mark.parametrize("case", [case for case in CASES if case.code == 3], ids=str)
def test_a_bad_model_is_refused_by_every_command_that_runs_it(
    run_cli: RunCli, tmp_path: Path, case: Case, command: str
) -> None:
    case.prepare(tmp_path)
    before = snapshot(tmp_path)
    result = run_cli(command, "model.onnx", "model.onnx", "--threads", "1")
    assert_refused(result, case.code, case.says)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["check", "bench"])
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.arguments.startswith(("--shape", "--input", "--ep"))], ids=str
)
def test_bad_data_options_are_refused_by_every_command_that_has_them(
    run_cli: RunCli, tmp_path: Path, case: Case, command: str
) -> None:
    case.prepare(tmp_path)
    before = snapshot(tmp_path)
    result = run_cli(command, "model.onnx", "model.onnx", *case.arguments.split())
    assert_refused(result, case.code, case.says)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("external", [False, True])
def test_a_full_disk_is_one_line_and_changes_nothing(run_cli: RunCli, tmp_path: Path, external: bool) -> None:
    weight = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 300])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 300])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, tmp_path / "model.onnx", save_as_external_data=external, location="model.bin")
    (tmp_path / "other").mkdir()
    before = snapshot(tmp_path)
    result = run_cli(
        *("optimize", "model.onnx", "--no-race", "-o", "other/out.onnx"),
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert_refused(result, 4, "other/out.onnx")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["optimize", "bench", "check"])
def test_two_runtimes_are_named_with_the_way_out(run_cli: RunCli, tmp_path: Path, command: str) -> None:
    good(tmp_path)
    metadata = tmp_path / "more" / "onnxruntime_gpu-1.31.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.31.1\n", encoding="utf-8")
    before = snapshot(tmp_path)
    path = os.pathsep.join((cli_environment()["PYTHONPATH"], str(tmp_path / "more")))
    models = ["model.onnx"] * (2 if command == "check" else 1)
    result = run_cli(command, *models, env={"PYTHONPATH": path})
    assert_refused(result, 5, "pip uninstall -y onnxruntime onnxruntime-gpu")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["optimize", "bench", "check"])
def test_no_runtime_is_named_with_the_way_out(tmp_path: Path, command: str) -> None:
    good(tmp_path)
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("onnxruntime"):
            (packages / entry.name).symlink_to(entry)
    before = sorted(path.name for path in tmp_path.iterdir())
    models = ["model.onnx"] * (2 if command == "check" else 1)
    result = subprocess.run(
        # -S: no site-packages but the folder above, which lacks every ONNX Runtime.
        [sys.executable, "-S", "-m", "taso_py", command, *models],
        cwd=tmp_path,
        env=cli_environment({"PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[2]), str(packages)))}),
        capture_output=True,
        text=True,
    )
    assert_refused(result, 5, "pip install 'superopt[cpu]'")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
