"""Execution providers: what people write, what ONNX Runtime calls them, and which options make them lossless."""

from __future__ import annotations

import json
from collections.abc import Mapping

CPU_PROVIDER, OPENVINO, CUDA = "CPUExecutionProvider", "OpenVINOExecutionProvider", "CUDAExecutionProvider"
_CONFIG = "load_config"
_HINT, _EXACT = "INFERENCE_PRECISION_HINT", "f32"

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
KNOWN = tuple(sorted(_PROVIDERS))
"""What a shell offers where a provider is to be named."""


def provider_name(given: str) -> str:
    """cpu -> CPUExecutionProvider; a full name stays as it is."""
    if given.lower().endswith(_SUFFIX.lower()):
        return given
    return _PROVIDERS.get(given.lower(), given) + _SUFFIX


def short_name(provider: str) -> str:
    """OpenVINOExecutionProvider -> openvino: what `provider_name` makes the full name of again."""
    bare = provider.removesuffix(_SUFFIX)
    return bare.lower() if _PROVIDERS.get(bare.lower(), "") == bare else bare


def settled_options(provider: str, given: Mapping[str, str], threads: int) -> dict[str, str]:
    """The provider options of a session: those given, and where they are silent what makes it compute in float32.

    OpenVINO takes bfloat16 by itself on CPUs that have it, and does not hear of ONNX Runtime's number of threads; CUDA
    multiplies in TF32.
    """
    if provider == CUDA:
        return {"use_tf32": "0", **given}
    if provider == OPENVINO:
        hinted = {_CONFIG: _with_hint(given.get(_CONFIG), given.get("device_type", "CPU"))}
        return {"num_of_threads": str(threads), **given, **hinted}
    return dict(given)


def _with_hint(config: str | None, device: str) -> str:
    """OpenVINO's settings as JSON, with the hint for a device unless one is there; a file's stay as they are."""
    try:
        settings = json.loads(config) if config else {}
        own = settings.setdefault(device, {})
        own.setdefault(_HINT, _EXACT)
    except (ValueError, AttributeError):  # the name of a file, or damaged: for the provider to say
        return config or ""
    return json.dumps(settings, sort_keys=True)
