"""What the check must know about a model before it runs: inputs, outputs, index ranges, random operators.

Read from the graph itself, weights untouched: external data is never loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from taso_py.backend.protocol import ModelRef
from taso_py.check.roles import Role, find_role, readers_of
from taso_py.errors import ModelError, UsageError
from taso_py.onnx_io.functions import inlined

if TYPE_CHECKING:
    import onnx

Kind = Literal["tensor", "sequence", "optional", "optional sequence"]
Dim = int | str

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
# Operators that hand values on unchanged: (type, input positions whose values reach the output).
_CARRIERS = frozenset(
    {
        *("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Transpose", "Tile"),
        *("Slice", "Split", "Gather", "GatherElements", "GatherND", "Pad"),
    }
)
_ALL_CARRIERS = frozenset({"Concat", "Max", "Min"})


_INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 12, 13})
"""TensorProto: UINT8, INT8, UINT16, INT16, INT32, INT64, UINT32, UINT64."""
UNTYPED = 0
"""TensorProto.UNDEFINED: the element type of an output of which a model says nothing, or that is no tensor."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input to feed.

    ``dims`` holds a size, or the symbol's name; an anonymous dimension gets the symbol "name[axis]"; None
    means that the rank is unknown. Integers are drawn from 0 <= v < min(``bounds``), each a size or a symbol.
    """

    name: str
    kind: Kind
    element: int
    """TensorProto.DataType"""
    dims: tuple[Dim, ...] | None
    bounds: tuple[Dim, ...] = ()
    role: Role | None = None
    """What a node takes it for, where that decides which values are legal."""


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One output as declared; fields as for `InputSpec`."""

    name: str
    kind: Kind
    element: int
    dims: tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Inputs without overridable initializers, outputs, and two properties that decide tolerances."""

    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    random: bool
    """Some operator draws random numbers: its values cannot be compared."""
    narrowest: str
    """The narrowest float type that occurs (float64, float32, bfloat16, float16): wider outputs carry its rounding."""


def read_facts(model: ModelRef | onnx.ModelProto) -> ModelFacts:
    """The facts of a model file, of bytes or of a loaded model; ModelError when it cannot be read."""
    import onnx

    proto = _load(model) if isinstance(model, ModelRef) else model
    if proto.functions:
        proto = inlined(proto)
    nodes = list(_nodes(proto.graph))
    given = {tensor.name for tensor in proto.graph.initializer}
    given |= {tensor.values.name for tensor in proto.graph.sparse_initializer}
    inputs = [value for value in proto.graph.input if value.name not in given]
    shapes, readers = _known_shapes(proto, nodes), readers_of(nodes)
    bounds = _bounds(readers, shapes, [value.name for value in inputs])
    stated = {v.name: _describe(v)[2] for v in proto.graph.output if v.type.WhichOneof("value") == "tensor_type"}
    shapes.update({name: dims for name, dims in stated.items() if dims is not None and name not in shapes})
    specs = {value.name: InputSpec(value.name, *_describe(value), bounds.get(value.name, ())) for value in inputs}
    roles = {name: find_role(name, readers, shapes, integer=s.element in _INTEGERS) for name, s in specs.items()}
    floats = _element_types(proto, nodes)
    types = onnx.TensorProto
    narrow = {"float16": types.FLOAT16, "bfloat16": types.BFLOAT16, "float32": types.FLOAT}
    return ModelFacts(
        tuple(replace(spec, role=roles[name]) for name, spec in specs.items()),
        tuple(_output(v) for v in proto.graph.output),
        random=any(_is_random(node) for node in nodes),
        narrowest=next((name for name, element in narrow.items() if element in floats), "float64"),
    )


def interface_difference(first: ModelFacts, second: ModelFacts) -> str | None:
    """How inputs and outputs differ (names, order, types, ranks, fixed sizes), in one clause; None if not."""
    for word, ours, theirs in (
        ("input", [_form(one) for one in first.inputs], [_form(one) for one in second.inputs]),
        ("output", [_form(one) for one in first.outputs], [_form(one) for one in second.outputs]),
    ):
        names, others = [one.name for one in ours], [one.name for one in theirs]
        if names != others:
            return f"the {word}s are {', '.join(names)} and {', '.join(others)}"
        for one, other in zip(ours, theirs, strict=True):
            if UNTYPED not in (one.element, other.element) and (one.kind, one.element) != (other.kind, other.element):
                return f"{word} '{one.name}' has another type"
            if _contradict(one, other):
                return f"{word} '{one.name}' has shape {one.dims} in one and {other.dims} in the other"
    return None


def _form(spec: InputSpec | OutputSpec) -> OutputSpec:
    return OutputSpec(spec.name, spec.kind, spec.element, spec.dims)


def _contradict(one: OutputSpec, other: OutputSpec) -> bool:
    if one.dims is None or other.dims is None:
        return False
    if len(one.dims) != len(other.dims):
        return True
    pairs = zip(one.dims, other.dims, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _load(ref: ModelRef) -> onnx.ModelProto:
    import onnx

    try:
        if isinstance(ref.model, bytes):
            return cast("onnx.ModelProto", onnx.ModelProto.FromString(ref.model))
        return onnx.load(ref.model, format="protobuf", load_external_data=False)
    except OSError as error:
        raise ModelError(f"{ref.model!s}: {error.strerror}: give the path of an ONNX file") from error
    except Exception as error:  # protobuf's DecodeError class differs between its implementations
        raise ModelError(f"{ref.name}: not an ONNX model ({type(error).__name__}): export it again") from error


def _output(value: onnx.ValueInfoProto) -> OutputSpec:
    """An output as declared; what a model need not say, or nobody has to feed, is said to be untyped."""
    try:
        return OutputSpec(value.name, *_describe(value))
    except UsageError:
        return OutputSpec(value.name, "tensor", UNTYPED, None)


def _describe(value: onnx.ValueInfoProto) -> tuple[Kind, int, tuple[Dim, ...] | None]:
    declared = value.type
    words = []
    while (kind := declared.WhichOneof("value")) in ("sequence_type", "optional_type"):
        words.append("sequence" if kind == "sequence_type" else "optional")
        declared = getattr(declared, kind).elem_type
    name = cast(Kind, " ".join(words) or "tensor")
    if kind != "tensor_type" or name not in get_args(Kind):
        raise UsageError(f"'{value.name}' has a type that cannot be fed ({kind}): remove it from the interface")
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return name, tensor.elem_type, None
    dims = [
        # ONNX Runtime takes a negative size for an unknown one.
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or f"{value.name}[{axis}]"
        for axis, dim in enumerate(tensor.shape.dim)
    ]
    return name, tensor.elem_type, tuple(dims)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
            for inner in attribute.graphs:
                yield from _nodes(inner)


def _is_random(node: onnx.NodeProto) -> bool:
    if node.op_type == "Dropout":  # random only with training_mode, which is its third input
        return len(node.input) > 2 and bool(node.input[2])
    return node.op_type in RANDOM


def _element_types(proto: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> set[int]:
    types = {tensor.data_type for tensor in proto.graph.initializer}
    types |= {v.type.tensor_type.elem_type for v in [*proto.graph.input, *proto.graph.value_info]}
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name == "to":
                types.add(attribute.i)
            elif attribute.HasField("t"):
                types.add(attribute.t.data_type)
            elif attribute.name in ("value_float", "value_floats"):
                types.add(1)
    return types


def _bounds(
    readers: Mapping[str, Sequence[tuple[onnx.NodeProto, int]]],
    shapes: dict[str, tuple[Dim, ...]],
    inputs: Iterable[str],
) -> dict[str, tuple[Dim, ...]]:
    """Per input the sizes of the axes that its values index, however they get there."""
    result = {}
    for name in inputs:
        found: list[Dim] = []
        seen, waiting = {name}, [name]
        while waiting:
            for node, position in readers.get(waiting.pop(), ()):
                found += _indexed(node, position, shapes)
                if node.op_type in _ALL_CARRIERS or (position == 0 and node.op_type in _CARRIERS):
                    fresh = [output for output in node.output if output not in seen]
                    seen.update(fresh)
                    waiting += fresh
        result[name] = tuple(dict.fromkeys(found))
    return result


def _known_shapes(proto: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> dict[str, tuple[Dim, ...]]:
    """Shapes of weights, constants and declared values, by name."""
    shapes: dict[str, tuple[Dim, ...]] = {}
    for value in [*proto.graph.value_info, *proto.graph.input]:
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.HasField("shape"):
            shapes[value.name] = _describe(value)[2] or ()
    for tensor in proto.graph.initializer:
        shapes[tensor.name] = tuple(tensor.dims)
    for node in nodes:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value" and node.output:
                    shapes[node.output[0]] = tuple(attribute.t.dims)
        elif node.op_type in ("Cast", "Identity", "DequantizeLinear") and node.output and _read(node, 0) in shapes:
            shapes.setdefault(node.output[0], shapes[_read(node, 0)])
    return shapes


def _read(node: onnx.NodeProto, position: int) -> str:
    """The name of an input, empty where there is none: a model may leave out what an operator needs."""
    return node.input[position] if position < len(node.input) else ""


def _indexed(node: onnx.NodeProto, position: int, shapes: dict[str, tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """Sizes of the axes that this input of the node indexes; empty when it indexes nothing known."""
    kind = node.op_type
    if kind == "EmbedLayerNormalization":  # com.microsoft: input_ids, segment_ids, word, position, segment
        table = {0: 2, 1: 4}.get(position)
        return shapes.get(_read(node, table), ())[:1] if table is not None else ()
    if kind == "RotaryEmbedding":  # position_ids index the rows of the tables
        return shapes.get(_read(node, 1), ())[:1] if position == 3 else ()
    if position != 1 or kind not in ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"):
        return ()
    data = shapes.get(_read(node, 0))
    if not data:
        return ()
    if kind in ("Gather", "GatherElements", "ScatterElements"):
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        return (data[axis],) if -len(data) <= axis < len(data) else ()
    depth = shapes.get(_read(node, 1), ("",))[-1:]
    return data[: depth[0]] if depth and isinstance(depth[0], int) else data
