"""A graph to be compared, from a file or a proto, whichever tool wrote it."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from taso_py.difference.graph import Graph
from taso_py.files import require_model_file
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.types import TensorType
from taso_py.onnx_io.carry import carried
from taso_py.onnx_io.functions import require_finite
from taso_py.onnx_io.inference import inferred_types
from taso_py.onnx_io.onnx_types import dtype_name
from taso_py.onnx_io.read import check_tensors, default_opset, read_proto
from taso_py.onnx_io.structure import topological_order


def read_graph(source: Path | onnx.ModelProto) -> Graph:
    """The main graph of a model, weights as they lie; ModelError for what cannot be read."""
    if isinstance(source, Path):
        require_model_file(source)
    proto, path = read_proto(source)
    require_finite(proto)
    model = carried(proto, path)
    check_tensors(model)
    return Graph.of(model, _types(proto, model))


def _types(proto: onnx.ModelProto, model: ir.Model) -> dict[str, TensorType]:
    order = topological_order(list(model.graph))
    found = inferred_types(proto, model, order, default_opset(proto) or 1)
    stated = {info.name: info.type for info in (*proto.graph.input, *proto.graph.output)}
    types = {name: tensor_type(type_) for name, type_ in {**stated, **found}.items()}
    return {name: type_ for name, type_ in types.items() if type_ is not None}


def tensor_type(type_: onnx.TypeProto) -> TensorType | None:
    """Of a tensor whose element type is stated, else None; a size without a name is ``?``."""
    tensor = type_.tensor_type
    if not type_.HasField("tensor_type") or not tensor.elem_type:
        return None
    shape = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
    return TensorType(dtype_name(ir.DataType(tensor.elem_type)), shape)


def _size(dim: onnx.TensorShapeProto.Dimension) -> Size:
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else symbol(dim.dim_param or "?")
