"""The worker process: values, failures, crashes, and that the caller's process stays clean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from taso_py.backend.client import Worker
from taso_py.backend.protocol import ModelRef, Signature, Value, WorkerConfig
from taso_py.errors import ModelError, RuntimeMissingError, UsageError, WorkerError

ROOT = Path(__file__).resolve().parents[2]


def model(text: str, *, opset: int = 17, ir: int = 8) -> bytes:
    header = f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n'
    return onnx.parser.parse_model(header + text).SerializeToString()


IDENTITY = "g (float[N] x) => (float[N] y) { y = Identity(x) }"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(WorkerConfig(threads=2)) as shared:
        yield shared


def run_text(worker: Worker, text: str, feeds: dict[str, object], **options: int) -> dict[str, object]:
    handle = worker.open(model(text, **options))
    try:
        return worker.run(handle, feeds)
    finally:
        worker.close(handle)


def test_info_and_signature(worker: Worker) -> None:
    assert "CPUExecutionProvider" in worker.info().providers
    assert worker.info().ort_version[0].isdigit()
    handle = worker.open(model("g (float[N,3] x, int64[2] i) => (float[N,3] y) { y = Identity(x) }"))
    assert worker.signature(handle) == Signature(
        (Value("x", "tensor(float)", ("N", 3)), Value("i", "tensor(int64)", (2,))),
        (Value("y", "tensor(float)", ("N", 3)),),
    )


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("float", np.array([1.5, np.nan, np.inf, -0.0], np.float32)),
        ("double", np.array([1e300, -1e-300])),
        ("float16", np.array([1, 65504], np.float16)),
        ("bfloat16", np.array([1, -3], ml_dtypes.bfloat16)),
        ("bfloat16", np.array(5, ml_dtypes.bfloat16)),
        ("float8e4m3fn", np.array([1, -3], ml_dtypes.float8_e4m3fn)),
        ("int64", np.array([-(2**62), 7])),
        ("uint8", np.array([0, 255], np.uint8)),
        ("bool", np.array([True, False])),
        ("string", np.array(["", "ünï"], dtype=object)),
        ("float", np.zeros(0, np.float32)),
    ],
)
def test_every_element_type_comes_back_as_it_went(worker: Worker, kind: str, array: np.ndarray) -> None:
    shape = ",".join(map(str, array.shape))
    shaped = f"{kind}[{shape}]" if shape else kind
    text = f"g ({shaped} x) => ({shaped} y) {{ y = Identity(x) }}"
    found = run_text(worker, text, {"x": array}, opset=19, ir=9)["y"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes() or found.tolist() == array.tolist()


def test_types_that_numpy_lacks_are_read(worker: Worker) -> None:
    x = np.array([1.0, -2.0, 3.0], np.float32)
    cast = "g (float[3] x) => ({}[3] y) {{ y = Cast<to={}>(x) }}"
    f8 = run_text(worker, cast.format("float8e4m3fn", 17), {"x": x}, opset=19, ir=9)["y"]
    assert f8.dtype == ml_dtypes.float8_e4m3fn
    assert f8.astype(np.float32).tolist() == [1, -2, 3]
    i4 = run_text(worker, cast.format("int4", 22), {"x": x}, opset=21, ir=10)["y"]
    assert i4.dtype == ml_dtypes.int4
    assert i4.astype(np.int8).tolist() == [1, -2, 3]


@pytest.mark.parametrize(
    ("kind", "array", "opset", "ir"),
    [
        ("int4", np.array([[1, -3, 7], [0, -8, 2]], ml_dtypes.int4), 21, 10),
        ("uint4", np.array([[15, 0, 9]], ml_dtypes.uint4), 21, 10),
        ("int2", np.array([[1, -2, 0, -1, 1]], ml_dtypes.int2), 25, 13),
    ],
)
def test_packed_types_are_fed(worker: Worker, kind: str, array: np.ndarray, opset: int, ir: int) -> None:
    rows, columns = array.shape
    text = f"g ({kind}[{rows},{columns}] x) => (float[{rows},{columns}] y) {{ y = Cast<to=1>(x) }}"
    found = run_text(worker, text, {"x": array}, opset=opset, ir=ir)["y"]
    assert found.tolist() == array.astype(np.float32).tolist()


def test_sequences_and_optionals(worker: Worker) -> None:
    one, two = np.ones(2, np.float32), np.ones(3, np.float32)
    made = run_text(
        worker,
        "g (float[2] x, float[3] z) => (seq(float[N]) y) { y = SequenceConstruct(x, z) }",
        {"x": one, "z": two},
    )["y"]
    assert [item.shape for item in made] == [(2,), (3,)]
    joined = run_text(
        worker,
        "g (seq(float[N]) s) => (float[M] y) { y = ConcatFromSequence<axis=0>(s) }",
        {"s": [one, two]},
    )["y"]
    assert joined.tolist() == [1] * 5
    got = run_text(
        worker,
        "g (optional(float[2]) o) => (float[2] y) { y = OptionalGetElement(o) }",
        {"o": one},
    )["y"]
    assert got.tolist() == [1, 1]


def test_chosen_outputs_only(worker: Worker) -> None:
    handle = worker.open(model("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x)  z = Abs(x) }"))
    assert list(worker.run(handle, {"x": np.ones(2, np.float32)}, ["z"])) == ["z"]


def external_model(folder: Path) -> Path:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\ng (float[600] x) => (float[600] y) { y = Add(x, w) }'
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(600, dtype=np.float32), "w"))
    path = folder / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0)
    return path


def test_external_data_is_found_beside_a_file_and_below_base_dir(worker: Worker, tmp_path: Path) -> None:
    path = external_model(tmp_path)
    x = {"x": np.zeros(600, np.float32)}
    by_path = worker.run(worker.open(path), x)["y"]
    assert by_path.tolist() == list(range(600))
    ref = ModelRef("in memory", path.read_bytes(), base_dir=tmp_path)
    assert worker.run(worker.open(ref), x)["y"].tolist() == by_path.tolist()


def test_relative_paths_are_the_callers(worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.info()  # the child was started elsewhere
    external_model(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert worker.run(worker.open(Path("m.onnx")), {"x": np.zeros(600, np.float32)})["y"][5] == 5


def test_levels_are_obeyed(worker: Worker) -> None:
    """ONNX Runtime's optimizer fuses the padding with zeros into MaxPool, which pads with -inf."""
    text = """g (float[1,1,2,2] x) => (float[1,1,H,W] y) {
        pads = Constant<value = int64[8] {0,0,1,1,0,0,1,1}>()
        q = Pad(x, pads)
        y = MaxPool<kernel_shape = [2,2]>(q) }"""
    x = {"x": -np.ones((1, 1, 2, 2), np.float32)}
    exact = worker.run(worker.open(model(text), level="disable"), x)["y"]
    assert exact[0, 0, 0, 0] == 0
    optimised = worker.run(worker.open(model(text), level="all"), x)["y"]
    if worker.info().ort_version.startswith("1.31."):
        assert optimised[0, 0, 0, 0] == -1
    with pytest.raises(UsageError, match="unknown ORT level 'most'"):
        worker.open(model(text), level="most")


def test_disabled_optimizers_reach_the_session(worker: Worker) -> None:
    handle = worker.open(model(IDENTITY), disabled=["ConstantFolding"])
    assert worker.run(handle, {"x": np.ones(1, np.float32)})["y"].tolist() == [1]


@pytest.mark.parametrize("denormal_as_zero", [False, True])
def test_denormals_are_flushed_by_every_thread_when_asked(denormal_as_zero: bool) -> None:
    x = np.full(4_000_000, 1e-20, np.float32)
    with Worker(WorkerConfig(threads=2, denormal_as_zero=denormal_as_zero)) as own:
        handle = own.open(model("g (float[N] x) => (float[N] y) { y = Mul(x, x) }"))
        found = {np.count_nonzero(own.run(handle, {"x": x})["y"]) for _ in range(10)}
    assert found == {0 if denormal_as_zero else x.size}


def test_what_onnx_runtime_refuses_is_a_model_error_on_one_line(worker: Worker, tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("hello")
    broken = model("g (float[2] x, float[3] z) => (float[2] y) { y = Add(x, z) }")
    for source, words in (
        (text, "text.onnx: ONNX Runtime cannot load it"),
        (tmp_path / "absent.onnx", "there is no such file"),
        (tmp_path, "is a directory"),
        (broken, "Incompatible dimensions"),
        (model(IDENTITY, opset=28, ir=10), "convert it to an older opset"),
        (external_model(tmp_path).read_bytes(), "External data"),
    ):
        with pytest.raises(ModelError, match=words) as caught:
            worker.open(source)
        assert "\n" not in str(caught.value)
        assert "/onnxruntime_src/" not in str(caught.value)
    handle = worker.open(ModelRef("small", model(IDENTITY)))
    with pytest.raises(ModelError, match="small: ONNX Runtime cannot run it"):
        worker.run(handle, {})
    with pytest.raises(ModelError, match="small: ONNX Runtime cannot run it"):
        worker.time_blocks([handle], [{"x": np.ones((2, 2), np.float32)}], rounds=1)
    assert worker.restarts == 0


def test_an_unknown_provider_lists_those_available(worker: Worker) -> None:
    with pytest.raises(RuntimeMissingError, match=r"use one of .*CPUExecutionProvider"):
        worker.open(model(IDENTITY), ep="NoSuchExecutionProvider")


def test_bad_configurations_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="unknown ORT level 'fast'"):
        Worker(WorkerConfig(ort_level="fast"))
    with pytest.raises(UsageError, match="threads must be at least 1"):
        Worker(WorkerConfig(threads=0))


def test_a_crash_costs_one_request_and_sessions_come_back() -> None:
    x = {"x": np.ones(2, np.float32)}
    with Worker(WorkerConfig()) as own:
        handle = own.open(model(IDENTITY))
        os.kill(own.info().pid, signal.SIGSEGV)
        with pytest.raises(WorkerError, match=r"worker died \(SIGSEGV\) during run") as caught:
            own.run(handle, x)
        assert "\n" not in str(caught.value)
        assert own.run(handle, x)["y"].tolist() == [1, 1]
        own.close(handle)
        own.close(handle)
        with pytest.raises(WorkerError, match="is not open"):
            own.run(handle, x)
        assert own.restarts == 1


def test_interrupting_a_request_leaves_no_late_reply_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with Worker(WorkerConfig()) as own:
        first = own.open(model(IDENTITY))
        second = own.open(model("g (float[N] x) => (float[N] y) { y = Neg(x) }"))

        def interrupt(_connection: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("taso_py.backend.client.receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                own.run(first, {"x": np.ones(1, np.float32)})
        assert own.run(second, {"x": np.ones(1, np.float32)})["y"].tolist() == [-1]


def test_the_child_is_out_of_reach_of_the_terminals_interrupt(worker: Worker) -> None:
    assert os.getpgid(worker.info().pid) != os.getpgid(0)
    os.kill(worker.info().pid, signal.SIGINT)
    assert run_text(worker, IDENTITY, {"x": np.ones(1, np.float32)})["y"].tolist() == [1]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_the_child_ends_when_its_parent_is_killed() -> None:
    code = (
        "import time; from taso_py.backend.client import Worker;"
        "from taso_py.backend.protocol import WorkerConfig;"
        "w = Worker(WorkerConfig()); print(w.info().pid, flush=True); time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    limit = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not is_alive(pid)


def test_the_callers_process_never_loads_onnx_runtime() -> None:
    code = (
        "import sys, numpy as np; from taso_py.backend.client import Worker;"
        "from taso_py.backend import race, timing; import taso_py.check.check, taso_py.cost.cache;"
        "from taso_py.backend.protocol import WorkerConfig;"
        f"w = Worker(WorkerConfig()); h = w.open({model(IDENTITY)!r});"
        "w.run(h, {'x': np.ones(1, np.float32)}); w.stop();"
        "assert 'onnxruntime' not in sys.modules; import onnxruntime as ort;"
        f"s = ort.InferenceSession({model(IDENTITY)!r}, providers=['CPUExecutionProvider']);"
        "print(s.run(None, {'x': np.ones(1, np.float32)})[0].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("[1.0]\n", 0), done.stderr


def test_a_module_in_the_current_folder_does_not_shadow_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError('shadowed')")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    with Worker(WorkerConfig()) as own:
        assert "CPUExecutionProvider" in own.info().providers


def test_a_worker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libcudart.so.99 is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        Worker(WorkerConfig()) as own,
        pytest.raises(WorkerError, match=r"cannot start .*libcudart.so.99 is missing"),
    ):
        own.info()


def test_a_closed_session_is_freed_at_once() -> None:
    """Its weights would else lie beside those of the next one until a garbage collection."""
    code = (
        "import gc, weakref; from taso_py.backend.protocol import CPU, Close, Open, WorkerConfig;"
        "from taso_py.backend.worker import Host; gc.disable(); host = Host(WorkerConfig());"
        f"number = host.open(Open({model(IDENTITY)!r}, None, 'all', CPU, ()));"
        "session = weakref.ref(host.sessions[number][0]); before = session() is not None;"
        "host.answer(Close(number)); print(before, session() is None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
