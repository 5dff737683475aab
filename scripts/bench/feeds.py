"""Random inputs for a model: those that it is timed on, and those of a model whose shapes are all known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from taso_py.backend.protocol import Feeds, ModelRef
from taso_py.check.facts import read_facts
from taso_py.check.inputs import make_feeds
from taso_py.check.shapes import resolve_shapes

from .networks.graph import Array


def feeds_for(model: Path) -> Feeds:
    """Normal inputs at the shapes that the optimiser assumes by default."""
    facts = read_facts(ModelRef.of(model))
    return make_feeds(facts.inputs, resolve_shapes(facts.inputs, {}))


def random_feeds(model: onnx.ModelProto, seed: int = 1) -> dict[str, Array]:
    """Standard normal floats; integers 0 or 1, which are valid for masks and for every embedding table."""
    rng = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        if any(not dim.dim_value for dim in tensor.shape.dim):
            raise ValueError(f"input {value.name!r} has a symbolic or zero size; give the model fixed shapes")
        shape = [dim.dim_value for dim in tensor.shape.dim]
        if tensor.elem_type == TensorProto.FLOAT:
            feeds[value.name] = rng.standard_normal(shape, np.float32)
        elif tensor.elem_type in (TensorProto.INT64, TensorProto.INT32):
            integers = np.int64 if tensor.elem_type == TensorProto.INT64 else np.int32
            feeds[value.name] = rng.integers(0, 2, shape, integers)
        else:
            kind = TensorProto.DataType.Name(tensor.elem_type)
            raise ValueError(f"input {value.name!r} has type {kind}; only float32 and integers are drawn")
    return feeds
