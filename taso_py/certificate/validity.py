"""Whether a model is one by the rules of ONNX itself."""

from __future__ import annotations

from pathlib import Path

import onnx

from taso_py.errors import CertificateError


def require_valid(original: Path | onnx.ModelProto, optimised: Path | onnx.ModelProto) -> None:
    """`CertificateError` when onnx.checker refuses the optimised model, unless it refuses the original too."""
    refused = _refusal(optimised)
    if refused is not None and _refusal(original) is None:
        raise CertificateError(f"the optimised model is no valid ONNX model: {refused}")


def _refusal(model: Path | onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(str(model) if isinstance(model, Path) else model)
    # The checker reports some faults, and models that are too large for it, by plain errors.
    except (onnx.checker.ValidationError, ValueError, RuntimeError, MemoryError) as error:
        lines = str(error).splitlines()
        return lines[0] if lines else type(error).__name__
    return None
