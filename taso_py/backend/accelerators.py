"""The device beside the CPU that a provider computes on: where its tensors lie, and what its libraries need.

Imported by workers under other interpreters too, and by whoever makes a session of a result: it needs nothing but the
standard library.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

_MEMORIES = {
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "NvTensorRTRTXExecutionProvider": "cuda",
    "DmlExecutionProvider": "dml",
}
_MODEL = "Model:"


class Memory(NamedTuple):
    """Where tensors lie, as ONNX Runtime calls it: cpu, cuda or dml, and the number of the device."""

    kind: str = "cpu"
    device: int = 0

    @property
    def is_host(self) -> bool:
        """Whether the CPU reads it as it is."""
        return self.kind == "cpu"


HOST = Memory()


def memory_of(ep: str, options: Mapping[str, str]) -> Memory:
    """Where the tensors of a provider lie, by its options."""
    number = options.get("device_id", "")
    return Memory(_MEMORIES[ep], int(number) if number.isdecimal() else 0) if ep in _MEMORIES else HOST


def load_libraries(ort: Any, ep: str) -> str:
    """Load the CUDA libraries that are installed as Python packages, which ONNX Runtime does only when it is asked.

    ``ort`` is the module onnxruntime.  What could not be loaded, in ONNX Runtime's words on one line; empty where
    nothing is missing or nothing is needed.
    """
    if _MEMORIES.get(ep) != "cuda" or not hasattr(ort, "preload_dlls"):
        return ""
    said = io.StringIO()
    with redirect_stdout(said):
        ort.preload_dlls()
    return "; ".join(line for line in said.getvalue().splitlines() if line.startswith("Failed"))


def gpu_names(drivers: Path = Path("/proc/driver/nvidia/gpus")) -> tuple[str, ...]:
    """The models of this machine's GPUs as their driver states them, each once; empty where it states none."""
    found = []
    for path in sorted(drivers.glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        found += [line.removeprefix(_MODEL).strip() for line in lines if line.startswith(_MODEL)]
    return tuple(dict.fromkeys(found))


def gpu_of(ep: str) -> str | None:
    """What a provider computes on beside the CPU, by name; None where there is no such thing, or nothing tells."""
    return ", ".join(gpu_names()) or None if _MEMORIES.get(ep) == "cuda" else None
