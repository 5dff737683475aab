"""Execution providers: what people write, what ONNX Runtime calls them, and which options make them lossless."""

from __future__ import annotations

import json
from collections.abc import Mapping

CPU_PROVIDER, OPENVINO, CUDA = "CPUExecutionProvider", "OpenVINOExecutionProvider", "CUDAExecutionProvider"
_CONFIG = "load_config"
_HINT, _EXACT, _BF16 = "INFERENCE_PRECISION_HINT", "f32", "bf16"
_DEVICE, _CPU_DEVICE = "device_type", "CPU"

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
        hinted = {_CONFIG: _with_hint(given.get(_CONFIG), given.get(_DEVICE, _CPU_DEVICE))}
        return {"num_of_threads": str(threads), **given, **hinted}
    return dict(given)


def exact_options(provider: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options given, without one that asks for bfloat16 by hint: what is computed beside it stays float32."""
    if provider != OPENVINO or _hint(given) != _BF16:
        return dict(given)
    device = given.get(_DEVICE, _CPU_DEVICE)
    settings = json.loads(given[_CONFIG])
    del settings[device][_HINT]
    rest = {name: own for name, own in settings.items() if own}
    return {name: text for name, text in given.items() if name != _CONFIG} | (
        {_CONFIG: json.dumps(rest, sort_keys=True)} if rest else {}
    )


def bf16_options(provider: str, given: Mapping[str, str], threads: int) -> dict[str, str] | None:
    """The provider options of a session that may compute in bfloat16, by the provider's own hint.

    None where no such hint is known, or where the options given have a say of their own: a precision, or a file of
    settings that is not ours to change. OpenVINO has it on CPUs.
    """
    if provider != OPENVINO or given.get(_DEVICE, _CPU_DEVICE) != _CPU_DEVICE:
        return None
    if _hint(given) not in (None, _BF16):
        return None
    text = _with_hint(given.get(_CONFIG), _CPU_DEVICE, _BF16)
    return {"num_of_threads": str(threads), **given, _CONFIG: text}


def less_precision(provider: str, given: Mapping[str, str]) -> str | None:
    """What these options of a session ask for, or let the provider take, in place of float32; None: nothing.

    Other providers' options, and settings of OpenVINO that are in a file, are not known.
    """
    if provider == CUDA and given.get("use_tf32") != "0":
        return "TF32"
    if provider != OPENVINO or _hint(given) in (_EXACT, ""):
        return None
    return _hint(given) or "what it takes by itself"


def _hint(given: Mapping[str, str]) -> str | None:
    """The precision that options of OpenVINO ask for; None: none. Settings that cannot be read ask for something."""
    try:
        settings = json.loads(given[_CONFIG]) if given.get(_CONFIG) else {}
        found = settings.get(given.get(_DEVICE, _CPU_DEVICE), {}).get(_HINT)
    except (ValueError, AttributeError):
        return ""
    return found if found is None else str(found)


def _with_hint(config: str | None, device: str, hint: str = _EXACT) -> str:
    """OpenVINO's settings as JSON, with the hint for a device unless one is there; a file's stay as they are."""
    try:
        settings = json.loads(config) if config else {}
        own = settings.setdefault(device, {})
        own.setdefault(_HINT, hint)
    except (ValueError, AttributeError):  # the name of a file, or damaged: for the provider to say
        return config or ""
    return json.dumps(settings, sort_keys=True)
