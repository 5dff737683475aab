"""Devices beside the CPU: where tensors lie, which libraries are loaded, what a GPU is called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import taso_py
from taso_py.backend.accelerators import HOST, Memory, gpu_names, gpu_of, load_libraries, memory_of
from taso_py.backend.protocol import WorkerConfig
from taso_py.errors import UsageError
from taso_py.options import InspectOptions
from taso_py.run.inspect import inspect
from tests.conftest import tiny_network


@pytest.mark.parametrize(
    ("ep", "options", "memory"),
    [
        ("CPUExecutionProvider", {}, HOST),
        ("CPUExecutionProvider", {"device_id": "1"}, HOST),
        ("OpenVINOExecutionProvider", {}, HOST),
        ("CUDAExecutionProvider", {}, Memory("cuda", 0)),
        ("CUDAExecutionProvider", {"device_id": "3"}, Memory("cuda", 3)),
        ("CUDAExecutionProvider", {"device_id": "first"}, Memory("cuda", 0)),  # the provider refuses it by name
        ("TensorrtExecutionProvider", {"device_id": "1"}, Memory("cuda", 1)),
    ],
)
def test_tensors_lie_on_the_device_that_the_options_name(ep: str, options: dict[str, str], memory: Memory) -> None:
    assert memory_of(ep, options) == memory
    config = WorkerConfig(ep, tuple(options.items()))
    assert config.memory == memory
    assert config.tells_kernel_times is (memory.kind == "cpu")


def test_cuda_libraries_are_loaded_for_providers_that_need_them(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []

    def preload() -> None:
        calls.append(1)
        print("Failed to load libcublas.so.99: no such file")
        print("Please follow the instructions to install it.")

    ort: Any = SimpleNamespace(preload_dlls=preload)
    assert load_libraries(ort, "CPUExecutionProvider") == ""
    assert not calls
    assert load_libraries(ort, "CUDAExecutionProvider") == "Failed to load libcublas.so.99: no such file"
    assert load_libraries(ort, "TensorrtExecutionProvider")
    assert len(calls) == 2
    assert load_libraries(SimpleNamespace(), "CUDAExecutionProvider") == "", "an older ONNX Runtime has no such call"
    assert capsys.readouterr().out == ""


def test_gpus_are_named_as_their_driver_names_them(tmp_path: Path) -> None:
    assert gpu_names(tmp_path / "no driver") == ()
    for place, model in ("0000:01:00.0", "NVIDIA H100"), ("0000:02:00.0", "NVIDIA H100"), ("0000:03:00.0", "NVIDIA T4"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 41\n")
    (tmp_path / "0000:04:00.0").mkdir()
    assert gpu_names(tmp_path) == ("NVIDIA H100", "NVIDIA T4")
    assert gpu_of("CPUExecutionProvider") is None
    assert gpu_of("CUDAExecutionProvider") == (", ".join(gpu_names()) or None)


def test_a_profile_of_kernels_that_are_only_started_is_refused() -> None:
    with pytest.raises(UsageError, match=r"profile: CUDAExecutionProvider starts kernels without waiting"):
        inspect(tiny_network(), InspectOptions(profile=True, ep="cuda"))


def test_a_result_without_a_gpu_names_none() -> None:
    assert taso_py.optimize(tiny_network(), race=False, threads=1).gpu is None
