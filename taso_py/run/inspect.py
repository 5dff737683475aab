"""What `superopt inspect` tells about a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from taso_py.backend.protocol import ModelRef
from taso_py.check.facts import read_facts
from taso_py.check.shapes import Shape, resolve_shapes
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Table
from taso_py.graph.types import BYTES
from taso_py.onnx_io.load import Loaded, load
from taso_py.result import Inspection


def inspect(path: Path, shapes: Mapping[str, Shape]) -> Inspection:
    """Operators, parameters, FLOPs, bytes moved and peak activation memory, at the given or default shapes."""
    loaded = load(path)
    assignment = resolve_shapes(read_facts(ModelRef.of(path)).inputs, shapes)
    roofline = Roofline(loaded.sizes_of(assignment.shapes))
    known = _all_known(loaded)
    tensors = list(loaded.proto.graph.initializer)
    return Inspection(
        input=path,
        nodes=len(loaded.proto.graph.node),
        operators=dict(Counter(_label(n.domain, n.op_type) for n in loaded.proto.graph.node).most_common()),
        opaque_types=dict(loaded.opaque.most_common()),
        opsets={o.domain or "ai.onnx": o.version for o in loaded.proto.opset_import},
        ir_version=loaded.proto.ir_version,
        inputs={v.name: _type_text(loaded, v.name) for v in loaded.proto.graph.input},
        outputs={v.name: _type_text(loaded, v.name) for v in loaded.proto.graph.output},
        parameters=sum(_elements(t.dims) for t in tensors),
        parameter_bytes=sum(_elements(t.dims) * _item_bytes(t.data_type) for t in tensors),
        flops=int(roofline.flops(loaded.model)) if known else None,
        bytes_moved=int(_bytes_moved(loaded.model, roofline)) if known else None,
        peak_activation_bytes=_peak(loaded.model, roofline) if known else None,
        shapes=dict(assignment.shapes),
    )


def _all_known(loaded: Loaded) -> bool:
    if loaded.unsupported is not None:
        return False
    return all(loaded.values.types[v].known for v, _ in loaded.model.order())


def _label(domain: str, op_type: str) -> str:
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


def _type_text(loaded: Loaded, name: str) -> str:
    value = loaded.ids.get(name)
    return str(loaded.values.types[value]) if value is not None else "?"


def _elements(dims: object) -> int:
    total = 1
    for d in dims:  # type: ignore[attr-defined]
        total *= int(d)
    return total


def _item_bytes(data_type: int) -> int:
    import onnx

    return max(1, int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize))


def _bytes_moved(model: Table, roofline: Roofline) -> float:
    return sum(roofline.work(model, v, n).bytes for v, n in model.order())


def _peak(model: Table, roofline: Roofline) -> int:
    """The largest sum of live activations when nodes run in table order and values die after their last use."""
    order = [(v, n) for v, n in model.order() if v not in model.values.constant]
    last = {i: k for k, (_, n) in enumerate(order) for i in n.inputs if i is not None}
    forever = set(model.outputs)
    live: dict[int, int] = {v: _size(model, v, roofline) for v in model.values.inputs}
    peak = sum(live.values())
    for k, (value, _) in enumerate(order):
        live[value] = _size(model, value, roofline)
        peak = max(peak, sum(live.values()))
        for dead in [v for v in live if v not in forever and last.get(v, -1) <= k and v != value]:
            del live[dead]
    return peak


def _size(model: Table, value: int, roofline: Roofline) -> int:
    type_ = roofline.concrete(model.type(value))
    elements = type_.elements if type_.known else 0
    return BYTES.get(type_.dtype, 4) * (elements if isinstance(elements, int) else 0)
