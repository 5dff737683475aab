"""Which files a certificate speaks of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import onnx

from taso_py.certificate.document import Digest
from taso_py.errors import ModelError, OutputError
from taso_py.folders import temporary_folder
from taso_py.onnx_io.artifact import Artifact, external_locations
from taso_py.paths import exists, is_file

_DATA = ".data"


def digest(model: Path | onnx.ModelProto) -> Digest:
    """SHA-256 of a model's file and of the files beside it that hold its weights; of the bytes of a proto."""
    if isinstance(model, onnx.ModelProto):
        return Digest(hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest(), {})
    beside = sorted(external_locations(model))
    return Digest(_of_file(model), {name: _of_file(model.parent / name) for name in beside})


def leads_to(made: Artifact, stated: Digest) -> bool:
    """Whether a digest is that of a model made here, as a proto or as it is written."""
    return any(found == stated for found in _digests(made, _file_name(stated)))


def _digests(made: Artifact, name: str) -> Iterator[Digest]:
    with temporary_folder() as folder:
        target = folder.path / name
        try:
            made.write(target.parent, target)
        except OSError as error:
            reason = f"cannot write to {folder.path}: {error.strerror}"
            raise OutputError(f"{reason}; name another folder in TMPDIR") from error
        yield digest(target)
    yield digest(made.proto())


def _file_name(stated: Digest) -> str:
    """The name under which a model has its weights in these files: only that depends on it."""
    names = (name.removesuffix(_DATA) for name in stated.external if name.endswith(_DATA) and Path(name).name == name)
    return next((name for name in names if name not in ("", ".", "..")), "model.onnx")


def _of_file(path: Path) -> str:
    try:
        if not is_file(path) and exists(path):  # to open a FIFO would wait for ever, and a device has no end
            raise ModelError(f"{path} is no regular file: copy the weights into one beside the model")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; put it beside the model") from error
