"""Names of execution providers: what people write, and what ONNX Runtime calls them."""

from __future__ import annotations

# Spellings that cannot be guessed; any other NAME stands for NAMEExecutionProvider.
_PROVIDERS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "gpu": "CUDA",
    "tensorrt": "Tensorrt",
    "nvtensorrtrtx": "NvTensorRTRTX",
    "openvino": "OpenVINO",
    "rocm": "ROCM",
    "migraphx": "MIGraphX",
    "dml": "Dml",
    "directml": "Dml",
    "dnnl": "Dnnl",
    "coreml": "CoreML",
    "qnn": "QNN",
    "xnnpack": "Xnnpack",
    "webgpu": "WebGpu",
    "azure": "Azure",
}
_SUFFIX = "ExecutionProvider"


def provider_name(given: str) -> str:
    """cpu -> CPUExecutionProvider; a full name stays as it is."""
    if given.lower().endswith(_SUFFIX.lower()):
        return given
    return _PROVIDERS.get(given.lower(), given) + _SUFFIX
