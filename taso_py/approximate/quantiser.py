"""The process that quantises, by onnxruntime.quantization: ``python -m taso_py.approximate.quantiser``.

A question is a JSON object in words[0]; what it answers is JSON.  Models are files of the folder that the parent named.
Ranges of values are kept from one question to the next, by the file of the model and the calibrator.
"""

from __future__ import annotations

import functools
import json
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from taso_py.processes.isolated import memory_bytes, serve

_MEMORY_BYTES = int(min(64 << 30, memory_bytes() / 2))
"""What this process may take: beyond it a MemoryError ends one answer, where the system would end a process."""
_PIECE_SHARE = 0.1
"""Of that, for the values of the samples that are taken together: histograms are made of copies."""
_LEAST_OPSET = 13
LATENT = ("Relu", "Clip", "MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity")
"""Operators that hand 8-bit numbers on: made so between layers that are, or each layer would pay for its own ends."""


def prepare(model: str, prepared: str) -> dict[str, Any]:
    """Shapes stated and batch normalisations folded, by ONNX Runtime, which leaves no layer unnamed."""
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = _at_least(model, f"{prepared}.raised.onnx")
    try:
        quant_pre_process(model, prepared, skip_symbolic_shape=True)
        folded = True
    except Exception:  # noqa: BLE001 - it may fail in any of its tools; without it quantisation may still be possible
        onnx.save(onnx.shape_inference.infer_shapes(onnx.load(model)), prepared)
        folded = False
    proto = onnx.load(prepared)
    taken: set[str] = set()
    for number, node in enumerate(proto.graph.node):
        if not node.name or node.name in taken:
            node.name = f"superopt_{node.op_type}_{number}"
        taken.add(node.name)
    onnx.save(proto, prepared)
    return {"folded": folded}


def _at_least(model: str, raised: str) -> str:
    """The model's file, or another one in the first opset whose QuantizeLinear knows channels, if its own is older."""
    import onnx

    proto = onnx.load(model)
    own = next((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), _LEAST_OPSET)
    if own >= _LEAST_OPSET:
        return model
    try:
        onnx.save(onnx.version_converter.convert_version(proto, _LEAST_OPSET), raised)
    except Exception:  # noqa: BLE001 - its C++ code raises what it meets; dynamic quantisation may still be possible
        return model
    return raised


@functools.cache
def _ranges(prepared: str, data: str, method: str, augmented: str) -> Any:
    from onnxruntime.quantization import CalibrationMethod, create_calibrator

    with Path(data).open("rb") as file:
        feeds = pickle.load(file)  # noqa: S301 - our own parent wrote it
    calibrator = create_calibrator(
        Path(prepared), None, augmented_model_path=augmented, calibrate_method=CalibrationMethod[method]
    )
    for piece in _pieces(calibrator, feeds):
        calibrator.collect_data(_reader(piece))
    return calibrator.compute_data()


def _pieces(calibrator: Any, feeds: list[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """All samples, or parts of them where all their inner values at once would be too much for the memory.

    Parts only where it must be: histograms that are merged have other bins.
    """
    values = calibrator.infer_session.run(None, dict(feeds[0]))
    one = sum(value.nbytes for value in values if hasattr(value, "nbytes"))
    count = max(1, int(_PIECE_SHARE * _MEMORY_BYTES // max(1, one)))
    return (feeds[k : k + count] for k in range(0, len(feeds), count))


def _reader(feeds: list[Mapping[str, Any]]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self.rest = iter(feeds)

        def get_next(self) -> Any:
            return next(self.rest, None)

    return Reader()


def static(prepared: str, data: str, method: str, made: str, layers: list[str] | None, reduced: bool) -> dict[str, Any]:
    """8-bit weights per channel, 8-bit activations in ranges known beforehand; ``layers`` None: wherever it can."""
    ranges = _ranges(prepared, data, method, f"{prepared}.{method}.augmented.onnx")
    try:
        _quantised(prepared, ranges, made, layers, reduced, {})
    except ValueError:  # it takes an array for a number where a bias is small against one channel's scale
        _quantised(prepared, ranges, made, layers, reduced, {"QDQDisableWeightAdjustForInt32Bias": True})
    return {}


def _quantised(
    prepared: str, ranges: Any, made: str, layers: list[str] | None, reduced: bool, further: dict[str, Any]
) -> None:
    from onnxruntime.quantization import QDQQuantizer, QuantType
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer

    model = load_model_with_shape_infer(Path(prepared))
    kinds, nodes = _all_operators(), []
    if layers is not None:
        kinds = ["Conv", "MatMul", "Gemm", *LATENT]
        nodes = [*layers, *(node.name for node in model.graph.node if node.op_type in LATENT)]
    # Weights are signed and activations unsigned: the form that x86 has instructions for.
    quantizer = QDQQuantizer(
        model, True, reduced, QuantType.QInt8, QuantType.QUInt8, ranges, nodes, [], kinds, further
    )  # fmt: skip
    quantizer.quantize_model()
    quantizer.model.save_model_to_file(made, False)


def _all_operators() -> list[str]:
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return sorted({*QLinearOpsRegistry.keys(), *QDQRegistry.keys()})


def dynamic(prepared: str, made: str, kinds: list[str], reduced: bool) -> dict[str, Any]:
    """8-bit weights per channel, activations in ranges that every run finds anew."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        prepared, made, op_types_to_quantize=kinds, per_channel=True, reduce_range=reduced, weight_type=QuantType.QInt8
    )
    return {}


_WORK: Mapping[str, Callable[..., dict[str, Any]]] = {"prepare": prepare, "static": static, "dynamic": dynamic}


def worked(words: tuple[str, ...], _: bytes) -> bytes:
    """One question."""
    import logging

    logging.disable(logging.WARNING)
    asked = json.loads(words[0])
    return json.dumps(_WORK[asked.pop("work")](**asked)).encode()


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    serve(worked, _MEMORY_BYTES)
