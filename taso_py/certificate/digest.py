"""Which files a certificate speaks of."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx

from taso_py.artifact import external_locations
from taso_py.certificate.document import Digest
from taso_py.errors import ModelError


def digest(model: Path | onnx.ModelProto) -> Digest:
    """SHA-256 of a model's file and of the files beside it that hold its weights; of the bytes of a proto."""
    if isinstance(model, onnx.ModelProto):
        return Digest(hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest(), {})
    beside = sorted(external_locations(model))
    return Digest(_of_file(model), {name: _of_file(model.parent / name) for name in beside})


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; put it beside the model") from error
