"""Output files appear whole or not at all, and never in place of the model being read."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import numpy_helper

from taso_py.errors import ModelError, OutputError
from taso_py.files import check_target, require_model_file, write_atomically, write_text
from taso_py.onnx_io import read
from taso_py.onnx_io.artifact import CopiedFile, GivenProto, RewrittenModel, external_locations
from tests.conftest import cli_environment, tiny_network


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def save_external(path: Path, data: str) -> None:
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location=data, size_threshold=0)


def test_text_is_written_and_nothing_else_stays(tmp_path: Path) -> None:
    write_text(tmp_path / "a.md", "±1\n")
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == "±1\n"
    assert names(tmp_path) == ["a.md"]


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_text(tmp_path / "a", "")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, failure: BaseException) -> None:
    target = tmp_path / "a.onnx"
    target.write_bytes(b"old")

    def write(folder: Path) -> None:
        (folder / "a.onnx").write_bytes(b"half")
        raise failure

    expected = OutputError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected):
        write_atomically(target, write, force=True)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["a.onnx"]


def test_an_existing_file_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old", encoding="utf-8")
    with pytest.raises(OutputError, match="force=True"):
        write_text(target, "new")
    assert target.read_text(encoding="utf-8") == "old"
    write_text(target, "new", force=True)
    assert target.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("link", ["same", "symbolic", "hard", "through a folder"])
def test_the_model_itself_is_never_overwritten(tmp_path: Path, link: str) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"model")
    target = tmp_path / "link.onnx"
    if link == "same":
        target = model
    elif link == "symbolic":
        target.symlink_to(model)
    elif link == "hard":
        target.hardlink_to(model)
    else:
        (tmp_path / "folder").symlink_to(tmp_path)
        target = tmp_path / "folder" / "model.onnx"
    with pytest.raises(OutputError, match="overwrite a file"):
        check_target(target, sources=(model,), force=True)
    assert model.read_bytes() == b"model"


def test_weights_are_never_written_over_the_weights_being_read(tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    save_external(model, "out.onnx.data")
    before = (tmp_path / "out.onnx.data").read_bytes()
    artifact = RewrittenModel(onnx_ir.load(model), model, external=True)
    sources = (model, tmp_path / "out.onnx.data")
    with pytest.raises(OutputError, match=r"weights of .*out\.onnx.* overwrite a file"):
        write_atomically(target, lambda folder: artifact.write(folder, target), sources=sources, force=True)
    assert (tmp_path / "out.onnx.data").read_bytes() == before
    assert names(tmp_path) == ["model.onnx", "out.onnx.data"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a directory"),
        ("missing/a.onnx", "create its directory"),
        ("file/a.onnx", "cannot write"),
        ("pipe", "not a regular file"),
    ],
)
def test_targets_that_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match=reason) as caught:
        check_target(tmp_path / name, force=True)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["file", "folder", "pipe"]


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(OutputError, match="not a regular file"):
        check_target(Path(os.devnull), force=True)


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from taso_py.files import write_text\n"
        "from taso_py.errors import OutputError\n"
        "try: write_text(Path(sys.argv[1]), 'x' * 10**6)\n"
        "except OutputError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")],
        env=cli_environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert "file too large (raise the file-size limit" in result.stdout
    assert result.stderr == ""
    assert names(tmp_path) == []


def test_a_copy_is_the_same_bytes(tmp_path: Path, tiny_model: Path) -> None:
    target = tmp_path / "out.onnx"
    write_atomically(target, lambda folder: CopiedFile(tiny_model).write(folder, target))
    assert target.read_bytes() == tiny_model.read_bytes()


def test_a_copy_elsewhere_takes_its_external_data_along(tmp_path: Path) -> None:
    model, target = tmp_path / "a" / "model.onnx", tmp_path / "b" / "out.onnx"
    model.parent.mkdir()
    target.parent.mkdir()
    save_external(model, "weights.bin")
    artifact = CopiedFile(model)
    write_atomically(target, lambda folder: artifact.write(folder, target))
    assert names(target.parent) == ["out.onnx", "weights.bin"]
    assert target.read_bytes() == model.read_bytes()
    assert onnx.load(target).graph.initializer[0].raw_data == onnx.load(model).graph.initializer[0].raw_data


def test_a_copy_in_place_shares_its_external_data(tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    save_external(model, "weights.bin")
    write_atomically(target, lambda folder: CopiedFile(model).write(folder, target))
    assert names(tmp_path) == ["model.onnx", "out.onnx", "weights.bin"]


@pytest.mark.parametrize("external", [False, True])
def test_a_rewritten_model_is_written_with_or_without_external_data(tmp_path: Path, external: bool) -> None:
    source = tmp_path / "model.onnx"
    network = tiny_network()
    network.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w"))
    onnx.save(network, source)
    target = tmp_path / "out.onnx"
    artifact = RewrittenModel(onnx_ir.load(source), source, external)
    write_atomically(target, lambda folder: artifact.write(folder, target))
    expected = ["model.onnx", "out.onnx", *(["out.onnx.data"] if external else [])]
    assert names(tmp_path) == expected
    assert external_locations(target) == ({"out.onnx.data"} if external else set())
    for model in (onnx.load(target), artifact.proto()):
        assert [node.name for node in model.graph.node] == ["conv", "norm", "relu"]
        weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w")
        assert np.array_equal(numpy_helper.to_array(weight), np.ones((4, 3, 3, 3)))


def test_a_proto_is_written_as_it_is(tmp_path: Path) -> None:
    model, target = tiny_network(), tmp_path / "out.onnx"
    write_atomically(target, lambda folder: GivenProto(model).write(folder, target))
    assert onnx.load(target) == model


def test_external_locations_are_found_in_attributes_and_subgraphs(tmp_path: Path) -> None:
    tensor = onnx.TensorProto(name="t", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="inner.bin")
    constant = onnx.helper.make_node("Constant", [], ["c"], value=tensor)
    branch = onnx.helper.make_graph([constant], "branch", [], [])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("If", ["cond"], ["y"], then_branch=branch, else_branch=branch)], "g", [], []
    )
    (tmp_path / "model.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    assert external_locations(tmp_path / "model.onnx") == {"inner.bin"}


def test_external_locations_are_those_of_the_file_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, times = tmp_path / "model.onnx", []
    monkeypatch.setattr(read, "parsed", lambda path, real=read.parsed: times.append(path) or real(path))
    for location in ("one.bin", "other.bin"):
        save_external(path, location)
        assert [external_locations(path), external_locations(path)] == [{location}] * 2
    assert times == [path, path]


@pytest.mark.parametrize(("name", "reason"), [("none", "does not exist"), (".", "directory"), ("empty", "empty")])
def test_a_model_must_be_a_file_with_something_in_it(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ModelError, match=reason):
        require_model_file(tmp_path / name)
