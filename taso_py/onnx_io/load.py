"""ONNX model -> table.

What a value's type is follows from the graph's inputs and our operators' own shape rules.  A node whose form
no class defines is opaque; nothing in a model is an error as long as ONNX Runtime might run it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import onnx
import onnx_ir as ir

from taso_py.graph.sizes import Expression, Symbol
from taso_py.graph.table import Table, Values
from taso_py.onnx_io.artifact import Stamp, external_locations, stamps_of
from taso_py.onnx_io.branches import Lifted, Scope, has_branches, lifted, weight_elements
from taso_py.onnx_io.carry import carried, carry, not_carried
from taso_py.onnx_io.collecting import uncollected
from taso_py.onnx_io.fold import Folder
from taso_py.onnx_io.functions import rewritable
from taso_py.onnx_io.inference import inferred_types
from taso_py.onnx_io.read import (
    check_tensors,
    default_opset,
    overridable,
    overridable_names,
    parsed,
    read_proto,
    standard_opsets,
)
from taso_py.onnx_io.shapes import Vector
from taso_py.onnx_io.structure import topological_order
from taso_py.onnx_io.table_reader import TableReader

OLDEST_OPSET = 7
_MOST_COPIED = 2**28
"""Elements of all weights of a model that is copied for its branches to be lifted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model as read: the proto, its table, and what leads from one to the other."""

    path: Path | None
    proto: onnx.ModelProto
    """The original, its functions inlined and its branches lifted; its tensors are shared by all made from it."""
    table: Table
    ids: Mapping[str, int]
    """ONNX value name -> id."""
    operand_positions: Mapping[int, tuple[int, ...]]
    """Index of an ONNX node -> which of its inputs are the table node's inputs."""
    captured: Mapping[int, tuple[int, ...]]
    """Index of an ONNX node -> the outer values that its subgraphs read."""
    used: frozenset[str]
    """Names of the values that some node, subgraph or graph output reads."""
    vectors: Mapping[int, Vector]
    """Integer vectors computed from shapes, followed entry by entry: (entries, rank)."""
    folder: Folder
    opaque: Counter[str]
    """Operator types of the nodes that are carried through untouched."""
    sorted: bool
    """Whether the file lists every node after those it reads."""
    external: bool
    """Whether weights lie outside the model file."""
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    """By name the values that branches of If nodes compute, their weights, and which branches."""
    nested: onnx.ModelProto | None = None
    """``proto`` with its branches as they came, if they were lifted."""
    overridable: tuple[str, ...] = ()
    """Initializers that are no constants, because a caller may override them."""
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)
    """How the model's file and those of its weights looked before they were read."""
    unsupported: str | None = None
    """Why this model can only be returned as it is."""

    @property
    def given(self) -> onnx.ModelProto:
        """The original, its functions inlined."""
        return self.proto if self.nested is None else self.nested

    @property
    def values(self) -> Values:
        """What is known of every value."""
        return self.table.values

    @property
    def original(self) -> ir.Model:
        """A fresh onnx-ir model of the original, weights by reference."""
        return carry(self.proto, self.path)

    def sizes_of(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Sizes of the symbols in the graph inputs' types when the inputs have these concrete shapes."""
        sizes: dict[str, int] = {}
        for name, shape in shapes.items():
            type_ = self.values.types[self.ids[name]] if name in self.ids else None
            if type_ is None or type_.shape is None:
                continue
            for dim, size in zip(type_.shape, shape, strict=False):
                if isinstance(dim, Expression):
                    sizes.update({a.name: size for m, _ in dim.terms for a in m if isinstance(a, Symbol)})
        return sizes


@uncollected()
def load(source: str | Path | onnx.ModelProto | bytes, *, freeze_initializers: bool = False) -> Loaded:
    """Read a model; `ModelError` when it is missing, unreadable or contradicts itself.

    External weights are memory-mapped when they are looked at, never copied just to be carried.
    ``freeze_initializers``: take the initializers that are also graph inputs for constants.
    """
    own = stamps_of([Path(source)] if isinstance(source, str | Path) else [])
    proto, path = read_proto(source)
    nested = rewritable(proto)
    found = flat(nested)
    proto, scopes = found.proto, found.scopes
    reason = not_carried(proto)
    opset = default_opset(proto)
    if reason is None and len(standard_opsets(proto)) > 1:
        reason = "it imports several versions of the standard operators"
    if reason is None and opset is not None and opset < OLDEST_OPSET:
        reason = f"it is written for opset {opset}, and {OLDEST_OPSET} is the oldest that is optimised"
    if reason is not None:
        return replace(_untouched(proto, path, reason), stamps=own)
    original = carried(proto, path)
    beside = {} if path is None else stamps_of(path.parent / name for name in external_locations(proto))
    check_tensors(original)
    loaded = _loaded(proto, path, original, scopes, freeze_initializers)
    return replace(loaded, nested=nested if scopes else None, stamps={**own, **beside})


def flat(proto: onnx.ModelProto) -> Lifted:
    """The model with its branches lifted, for which it is copied; itself where it is too large for that."""
    if has_branches(proto) and weight_elements(proto) > _MOST_COPIED:
        return Lifted(proto)
    return lifted(proto)


@uncollected()
def unread(source: Path | onnx.ModelProto) -> Loaded:
    """A model of which nothing is known but what it holds: a run was stopped before it was taken apart."""
    path, proto = (source, parsed(source)) if isinstance(source, Path) else (None, source)
    return _untouched(proto, path, "it was not read to its end")


def _untouched(proto: onnx.ModelProto, path: Path | None, reason: str) -> Loaded:
    values = Values()
    return Loaded(
        path=path,
        proto=proto,
        table=Table(values, {}, (), (), default_opset(proto) or 1),
        ids={},
        operand_positions={},
        captured={},
        used=frozenset(),
        vectors={},
        folder=Folder(values, {}),
        opaque=Counter(),
        sorted=True,
        external=False,
        unsupported=reason,
    )


def _loaded(
    proto: onnx.ModelProto, path: Path | None, original: ir.Model, scopes: Mapping[str, Scope], freeze: bool
) -> Loaded:
    nodes = list(original.graph)
    order = topological_order(nodes)
    opset = default_opset(proto) or 1

    @lru_cache(maxsize=1)
    def inferred() -> dict[str, onnx.TypeProto]:
        return inferred_types(proto, original, order, opset, freeze=freeze)

    functions = frozenset((f.domain, f.name) for f in proto.functions)
    reader = TableReader(original.graph, opset, functions, inferred, scopes=scopes)
    types = {info.name: info.type for info in proto.graph.input}
    reader.read_sources(types, overridable_names(proto, freeze=freeze))
    reader.read_nodes(order)
    outputs = reader.outputs(info.name for info in proto.graph.output)
    table = Table(reader.values, reader.nodes, (*outputs, *reader.unused()), outputs, reader.opset)
    external = any(t.data_location == onnx.TensorProto.EXTERNAL for t in proto.graph.initializer)
    return Loaded(
        path=path,
        proto=proto,
        table=table,
        ids=reader.ids,
        operand_positions=reader.operands,
        captured=reader.captured,
        used=frozenset(reader.used),
        vectors=reader.vectors,
        folder=reader.folder,
        opaque=reader.opaque,
        sorted=order == list(range(len(nodes))),
        external=external,
        scopes=scopes,
        overridable=overridable(proto, freeze=freeze),
    )
