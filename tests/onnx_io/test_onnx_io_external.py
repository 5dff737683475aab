"""Weights beside the model's file: not read to be carried, written once, and one line when they are missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import taso_py
from taso_py.errors import ModelError
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import artifact, export, serialize
from taso_py.onnx_io.load import load
from taso_py.run import pipeline
from tests.conftest import cli_environment, tiny_network
from tests.helpers.onnx_io_models import FLOAT, MODELS, model, node, value


def external(folder: Path) -> Path:
    big = numpy_helper.from_array(np.arange(4096, dtype=np.float32).reshape(64, 64), "big")
    proto = model([node("MatMul", "x big", "y")], [value("x", [1, 64])], [value("y", [1, 64])], [big])
    onnx.save(
        proto, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0
    )  # fmt: skip
    return folder / "m.onnx"


def test_external_data_stays_outside(tmp_path: Path) -> None:
    path = external(tmp_path)
    loaded = load(path)
    exported = export(loaded, loaded.table)
    assert loaded.external
    assert onnx_ir.to_proto(exported) == onnx.load(path, load_external_data=False)
    assert check_contract(loaded.proto, exported) == []
    assert loaded.folder.source(loaded.ids["big"])[63, 63] == 4095


def test_external_data_is_written_to_one_file(tmp_path: Path) -> None:
    path, folder = external(tmp_path), tmp_path / "out"
    folder.mkdir()
    loaded = load(path)
    artifact(loaded, export(loaded, loaded.table)).write(folder, folder / "o.onnx")
    assert sorted(p.name for p in folder.iterdir()) == ["o.onnx", "o.onnx.data"]
    again = onnx.load(folder / "o.onnx")
    assert numpy_helper.to_array(again.graph.initializer[0])[63, 63] == 4095


def test_texts_stay_inside(tmp_path: Path) -> None:
    path = external(tmp_path)
    proto = onnx.load(path)
    words = helper.make_tensor("words", TensorProto.STRING, [8], [f"word {k} " * 10 for k in range(8)])
    proto.graph.initializer.append(words)
    proto.graph.node.append(node("Gather", "words place", "word"))
    proto.graph.input.append(value("place", [2], TensorProto.INT64))
    proto.graph.output.append(value("word", [2], TensorProto.STRING))
    onnx.save(proto, path, save_as_external_data=True, location="m.bin", size_threshold=0)
    loaded = load(path)
    target = tmp_path / "o.onnx"
    artifact(loaded, export(loaded, loaded.table)).write(tmp_path, target)
    written = {t.name: t for t in onnx.load(target, load_external_data=False).graph.initializer}
    assert written["words"].string_data == words.string_data
    assert written["big"].data_location == TensorProto.EXTERNAL


@pytest.mark.parametrize("name", MODELS)
def test_saved_file_is_the_serialised_model(name: str, tmp_path: Path) -> None:
    loaded = load(MODELS[name]())
    exported = export(loaded, loaded.table)
    artifact(loaded, exported).write(tmp_path, tmp_path / "o.onnx")
    assert onnx.load(tmp_path / "o.onnx") == onnx.ModelProto.FromString(serialize(exported))


_LARGE = """
import re, sys
from pathlib import Path
import numpy as np
import onnx_ir as ir
from taso_py.onnx_io.artifact import RewrittenModel

def peak_mb():  # not ru_maxrss: a process inherits that from the one that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

def weight(k):
    tensor = ir.tensor(np.full((1024, 8192), k, np.float32), name=f"w{k}")
    return ir.Value(name=tensor.name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)

graph = ir.Graph([], [], nodes=[], initializers=[weight(k) for k in range(8)], opset_imports={"": 21}, name="g")
before = peak_mb()
RewrittenModel(ir.Model(graph, ir_version=10)).write(Path(sys.argv[1]), Path(sys.argv[1], "o.onnx"))
assert Path(sys.argv[1], "o.onnx").stat().st_size > 2**28
print(peak_mb() - before)
"""


def test_writing_256_megabytes_holds_no_second_copy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, str(tmp_path)], capture_output=True, text=True, env=cli_environment(), check=True
    )
    assert float(done.stdout) < 128


_HUGE = """
import re, sys
from pathlib import Path
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.run import pipeline
loaded = load(sys.argv[1])
exported = export(loaded, loaded.table)
assert check_contract(loaded.proto, exported) == []
assert len(serialize(exported)) < 10_000
# not ru_maxrss: a process inherits that from the one that started it
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def test_external_data_of_3_gigabytes_is_not_read(tmp_path: Path) -> None:
    rows = 3 * 2**28 // 1024
    tensor = TensorProto(name="big", dims=[rows, 1024], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="m.bin")
    with (tmp_path / "m.bin").open("wb") as file:
        file.truncate(rows * 4096)  # a hole: takes no space on disk
    nodes = [node("Gather", "big i", "r"), node("Relu", "r", "y")]
    proto = model(nodes, [value("i", [1], TensorProto.INT64)], [value("y", [1, 1024])], [tensor])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    command = [sys.executable, "-c", _HUGE, str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=cli_environment())
    assert int(done.stdout) < 600_000  # kilobytes, the interpreter and its packages included


def test_missing_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "m.bin").unlink()
    with pytest.raises(ModelError, match=r"external data .*m\.bin of 'big' cannot be read"):
        load(path)


@pytest.mark.parametrize("how", ["symlink", "hard link"])
def test_links_to_external_data_are_followed(how: str, tmp_path: Path) -> None:
    store, folder = tmp_path / "blobs", tmp_path / "snapshot"
    store.mkdir()
    folder.mkdir()
    external(store).rename(folder / "m.onnx")
    if how == "symlink":
        (store / "m.bin").rename(store / "0a1b")
        (folder / "m.bin").symlink_to("../blobs/0a1b")
    else:
        (folder / "m.bin").hardlink_to(store / "m.bin")
    loaded = load(folder / "m.onnx")
    assert loaded.folder.source(loaded.ids["big"])[63, 63] == 4095
    artifact(loaded, export(loaded, loaded.table)).write(store, store / "o.onnx")
    assert numpy_helper.to_array(onnx.load(store / "o.onnx").graph.initializer[0])[63, 63] == 4095


def test_external_data_outside_the_folder_is_refused(tmp_path: Path) -> None:
    path = external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].external_data[0].value = "../m.bin"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"\.\./m\.bin of 'big' is not in the model's folder"):
        load(path)


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("value", ["-4", "0x0", "1e2", "", " 0", "+0", "\u0660", "1_0"])
def test_external_data_at_no_number_of_bytes(key: str, value: str, tmp_path: Path) -> None:
    path = external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    kept = [entry for entry in proto.graph.initializer[0].external_data if entry.key != key]
    del proto.graph.initializer[0].external_data[:]
    proto.graph.initializer[0].external_data.extend(kept)
    proto.graph.initializer[0].external_data.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=rf"external data of 'big' has the {key} '.*', which is no number of bytes"):
        load(path)


def test_short_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "m.bin").write_bytes(b"\0" * 100)
    with pytest.raises(ModelError, match="is cut short: 'big' ends at byte 16384, the file has 100"):
        load(path)


def test_weights_that_were_replaced_meanwhile_are_not_mixed_with_the_old_ones(tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    result = taso_py.optimize(path, race=False)
    assert result.rules
    data = (tmp_path / "w.bin").read_bytes()
    (tmp_path / "w.bin").write_bytes(bytes(len(data)))
    with pytest.raises(ModelError, match=r"w\.bin was changed while the model was read"):
        result.save(out)
    assert not out.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "w.bin"]


def test_weights_that_are_cut_short_meanwhile_end_with_one_line(tmp_path: Path) -> None:
    # Where they were mapped, the process that looked at them was ended (SIGBUS).
    path = external(tmp_path)
    loaded = load(path)
    big = loaded.ids["big"]
    assert loaded.folder.source(big).shape == (64, 64)
    again = load(path)
    os.truncate(tmp_path / "m.bin", 4096)
    with pytest.raises(ModelError, match=r"data of 'big' cannot be read: .*m\.bin ends before its byte 16384"):
        again.folder.source(big)


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4, TensorProto.BFLOAT16, TensorProto.BOOL])
def test_external_data_of_every_width_is_what_the_file_holds(dtype: int, tmp_path: Path) -> None:
    values = np.arange(6).reshape(2, 3) % 2
    stored = onnx_ir.from_proto(helper.make_tensor("w", dtype, (2, 3), values)).tobytes()
    tensor = TensorProto(name="w", dims=(2, 3), data_type=dtype, raw_data=stored)
    inside = onnx_ir.from_proto(tensor).numpy()
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    proto = onnx.parser.parse_model(f"{head} g (float[1] x) => (float[1] y) {{ y = Relu(x) }}")
    proto.graph.initializer.append(tensor)
    onnx.save_model(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (found,) = load(tmp_path / "m.onnx").original.graph.initializers.values()
    assert isinstance(found.const_value, onnx_ir.ExternalTensor)
    assert found.const_value.numpy().dtype == inside.dtype
    assert np.array_equal(found.const_value.numpy(), inside)
    assert found.const_value.tobytes() == stored


def test_a_run_whose_weights_are_cut_short_ends_with_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(tiny_network(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    searched = pipeline.explore

    def cut(*arguments: Any) -> Any:
        os.truncate(tmp_path / "w.bin", 16)
        return searched(*arguments)

    monkeypatch.setattr(pipeline, "explore", cut)
    with pytest.raises(ModelError) as caught:
        taso_py.optimize(path, race=False)
    assert "\n" not in str(caught.value)
