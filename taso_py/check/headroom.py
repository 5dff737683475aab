"""Whether the float16 values that only a candidate computes stay as clear of the largest one as the original's do.

Laws are about real numbers.  A sum before its division, or a product before its inverse, may leave the range of
float16 at inputs that are larger than those of a check; float32 has room for anything that networks compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, Feeds, ModelRef, Outputs

LARGEST = float(np.finfo(np.float16).max)
_ROOM = 16.0
"""How many times larger than those of a check the values of a deployed network may be."""
_LIKE_THE_ORIGINAL = 2.0
"""How many times larger than what they replace values may be that have less room."""


def cramped(worker: Worker, original: ModelRef, candidate: ModelRef, cases: Sequence[Feeds]) -> str | None:
    """Why the candidate has too little room for larger inputs than the ``cases``; None: it has enough.

    Compared are the values of either model that the other does not compute.  Raises ModelError or WorkerError where a
    model cannot be run with them as outputs.
    """
    before, after = _computed(original), _computed(candidate)
    made = _peaks(worker, candidate, [name for name in after if name not in before], cases)
    name, peak = max(made.items(), key=lambda item: item[1], default=("", 0.0))
    if peak <= LARGEST / _ROOM:
        return None
    replaced = _peaks(worker, original, [name for name in before if name not in after], cases)
    known = max(replaced.values(), default=0.0)
    if peak <= _LIKE_THE_ORIGINAL * known:
        return None
    return f"the float16 value '{name}' that it computes reaches {peak:.4g}, those that it replaces {known:.4g}"


def _load(model: ModelRef) -> onnx.ModelProto:
    if isinstance(model.model, Path):
        return onnx.load(model.model, format="protobuf", load_external_data=False)
    proto: onnx.ModelProto = onnx.ModelProto.FromString(model.model)
    return proto


def _computed(model: ModelRef) -> list[str]:
    """What the nodes of the main graph compute, by name."""
    return [name for node in _load(model).graph.node for name in node.output if name]


def _peaks(worker: Worker, model: ModelRef, names: Sequence[str], cases: Iterable[Feeds]) -> dict[str, float]:
    """The largest magnitude of each of the named values that is float16; infinite where it is no number."""
    proto = _load(model)
    outputs = {value.name for value in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    folder = model.model.parent if isinstance(model.model, Path) else model.base_dir
    handle = worker.open(ModelRef(model.name, proto.SerializeToString(), folder), level="disable", ep=CPU)
    peaks: dict[str, float] = {}
    try:
        for feeds in cases:
            for name, peak in _float16_peaks(worker.run(handle, feeds), names):
                peaks[name] = max(peak, peaks.get(name, 0.0))
    finally:
        worker.close(handle)
    return peaks


def _float16_peaks(found: Outputs, names: Sequence[str]) -> Iterable[tuple[str, float]]:
    for name in names:
        array = found.get(name)
        if isinstance(array, np.ndarray) and array.dtype == np.float16 and array.size:
            peak = float(np.abs(array).max())
            yield name, peak if np.isfinite(peak) else float("inf")
