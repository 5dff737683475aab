"""A model that a caller holds in memory, as the proto that everything else works on."""

from __future__ import annotations

import onnx
import onnx_ir

from taso_py.errors import ModelError
from taso_py.onnx_io.read import read_proto
from taso_py.onnx_io.returned import whole_proto


def proto_of(model: object) -> onnx.ModelProto | None:
    """The proto of a proto, of an onnx-ir model or of a serialised model; None for anything else.

    Raises ModelError for bytes that are no model, and for external weights that cannot be read.  What is given is not
    changed.
    """
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        return read_proto(bytes(model))[0]
    if isinstance(model, onnx_ir.Model):
        return _with_weights_inside(model)
    return None


def _with_weights_inside(model: onnx_ir.Model) -> onnx.ModelProto:
    try:
        copy = model.clone()
        onnx_ir.external_data.load_to_model(copy)
        return whole_proto(copy)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"the onnx_ir.Model cannot be made a proto: {reason}") from None
