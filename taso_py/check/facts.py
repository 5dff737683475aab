"""What the check must know about a model before it runs: inputs, outputs, index ranges, random operators.

Read from the graph itself, weights untouched: external data is never loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from taso_py.backend.protocol import ModelRef
from taso_py.check.reading import FLAGS, Readers, find_roles, known_values, last_first, readers_of
from taso_py.check.roles import Role
from taso_py.errors import ModelError, UnfedInputError
from taso_py.onnx_io.functions import inlined
from taso_py.onnx_io.inference import types_of_all
from taso_py.onnx_io.onnx_types import size_name

if TYPE_CHECKING:
    import onnx

Kind = Literal["tensor", "sequence", "optional", "optional sequence"]
Dim = int | str
Shapes: TypeAlias = dict[str, tuple[Dim, ...]]

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
    _: KW_ONLY
    words: tuple[str | int, ...] = ()
    """What the nodes that read it know: categories, keys of a table."""


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
    drawn: frozenset[str] = frozenset()
    """Outputs that hang on random numbers."""


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
    specs = _specified(inputs, readers_of(nodes), _known_shapes(proto, nodes), lambda: _inferred_shapes(proto))
    floats = _element_types(proto, nodes)
    types = onnx.TensorProto
    narrow = {"float16": types.FLOAT16, "bfloat16": types.BFLOAT16, "float32": types.FLOAT}
    return ModelFacts(
        specs,
        tuple(_output(v) for v in proto.graph.output),
        random=any(_is_random(node) for node in nodes),
        narrowest=next((name for name, element in narrow.items() if element in floats), "float64"),
        drawn=_drawn(proto.graph),
    )


def _specified(
    inputs: Sequence[onnx.ValueInfoProto], readers: Readers, shapes: Shapes, inferred: Callable[[], Shapes]
) -> tuple[InputSpec, ...]:
    """What each input is for.  Where that hangs on shapes that the model does not state, they are inferred."""

    def found(known: Shapes) -> tuple[InputSpec, ...]:
        bounds = _bounds(readers, known, [value.name for value in inputs])
        specs = [InputSpec(value.name, *_describe(value), bounds.get(value.name, ())) for value in inputs]
        roles = find_roles({spec.name: spec.element in _INTEGERS for spec in specs}, readers, known)
        return tuple(replace(spec, role=roles[spec.name], words=_words(spec, readers)) for spec in specs)

    specs = found(shapes)
    return found({**inferred(), **shapes}) if any(_is_open(spec) for spec in specs) else specs


def _words(spec: InputSpec, readers: Readers) -> tuple[str | int, ...]:
    import onnx

    if spec.element not in _INTEGERS | {onnx.TensorProto.STRING}:
        return ()
    return known_values(spec.name, readers, text=spec.element == onnx.TensorProto.STRING)


def _is_open(spec: InputSpec) -> bool:
    """Whether it is not known of an input which values are legal, for want of a shape."""
    if spec.role is not None:
        return spec.role.data is None or None in spec.role.results
    return spec.element in _INTEGERS and not spec.bounds


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
    except ModelError:
        return OutputSpec(value.name, "tensor", UNTYPED, None)


def _describe(value: onnx.ValueInfoProto) -> tuple[Kind, int, tuple[Dim, ...] | None]:
    declared = value.type
    words = []
    while (kind := declared.WhichOneof("value")) in ("sequence_type", "optional_type"):
        words.append("sequence" if kind == "sequence_type" else "optional")
        declared = getattr(declared, kind).elem_type
    name = cast(Kind, " ".join(words) or "tensor")
    if kind != "tensor_type" or name not in get_args(Kind):
        raise UnfedInputError(f"'{value.name}' has a type that cannot be fed ({kind}): remove it from the interface")
    tensor = declared.tensor_type
    if not tensor.HasField("shape"):
        return name, tensor.elem_type, None
    dims = [
        # ONNX Runtime takes a negative size for an unknown one.
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else size_name(dim) or f"{value.name}[{axis}]"
        for axis, dim in enumerate(tensor.shape.dim)
    ]
    return name, tensor.elem_type, tuple(dims)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        yield from _nodes_within(node)


def _nodes_within(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the subgraphs, of theirs too."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from _nodes(attribute.g)
        for inner in attribute.graphs:
            yield from _nodes(inner)


def _is_random(node: onnx.NodeProto) -> bool:
    if node.op_type == "Dropout":  # random only with training_mode, which is its third input
        return bool(_read(node, 2))
    return node.op_type in RANDOM


def _draws(node: onnx.NodeProto, off: Set[str]) -> bool:
    """Whether it draws, as far as the model says; ``off``: what is known to be false, as an input is that we make."""
    return _is_random(node) and (node.op_type != "Dropout" or node.input[2] not in off)


def _off(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> frozenset[str]:
    """Inputs that are made up, as they turn off what hangs on them, and single constants that are false."""
    held = {tensor.name: tensor for tensor in graph.initializer}
    constants = (node for node in nodes if node.op_type == "Constant" and node.output)
    held |= {node.output[0]: a.t for node in constants for a in node.attribute if a.name == "value"}
    made = {value.name for value in graph.input} - held.keys()
    for node in nodes:  # in order: each after what it reads
        if node.op_type in FLAGS and made.intersection(node.input[:1]):
            made.update(node.output)
    return frozenset(made | {name for name, tensor in held.items() if _is_false(tensor)})


def _is_false(tensor: onnx.TensorProto) -> bool:
    """Of a single bool; not of one whose value lies elsewhere."""
    single = tensor.data_type == tensor.BOOL and not tensor.external_data and math.prod(tensor.dims) == 1
    return single and not any(tensor.int32_data) and not any(tensor.raw_data)


def _drawn(graph: onnx.GraphProto) -> frozenset[str]:
    """The outputs that are computed from what is drawn."""
    off = _off(graph, list(_nodes(graph)))
    waiting = [n for n in graph.node if any(_draws(inner, off) for inner in (n, *_nodes_within(n)))]
    if not waiting:
        return frozenset()
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in chain(node.input, *(inner.input for inner in _nodes_within(node))):
            readers.setdefault(name, []).append(node)
    found: set[str] = set()
    while waiting:
        fresh = [name for name in waiting.pop().output if name and name not in found]
        found.update(fresh)
        waiting += (reader for name in fresh for reader in readers.get(name, ()))
    return frozenset(found & {value.name for value in graph.output})


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


def _bounds(readers: Readers, shapes: Shapes, inputs: Iterable[str]) -> dict[str, tuple[Dim, ...]]:
    """Per input, and per value that it reaches, the sizes of the axes that its values index, however they get there."""

    def carried(value: str) -> Iterator[str]:
        for node, position in readers.get(value, ()):
            if node.op_type in _ALL_CARRIERS or (position == 0 and node.op_type in _CARRIERS):
                yield from node.output

    found: dict[str, tuple[Dim, ...]] = {}
    for value in last_first(inputs, carried):
        own = chain.from_iterable(_indexed(node, position, shapes) for node, position in readers.get(value, ()))
        behind = chain.from_iterable(found.get(output, ()) for output in carried(value))
        found[value] = tuple(dict.fromkeys(chain(own, behind)))
    return found


def _known_shapes(proto: onnx.ModelProto, nodes: list[onnx.NodeProto]) -> Shapes:
    """Shapes of weights, constants and declared values, by name."""
    shapes = _declared([*proto.graph.output, *proto.graph.value_info, *proto.graph.input])
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


def _inferred_shapes(proto: onnx.ModelProto) -> Shapes:
    """The shapes that follow from those of the inputs."""
    import onnx

    return _declared(onnx.ValueInfoProto(name=name, type=type_) for name, type_ in types_of_all(proto).items())


def _declared(values: Iterable[onnx.ValueInfoProto]) -> Shapes:
    shapes: Shapes = {}
    for value in values:
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.HasField("shape"):
            shapes[value.name] = _describe(value)[2] or ()
    return shapes


def _read(node: onnx.NodeProto, position: int) -> str:
    """The name of an input, empty where there is none: a model may leave out what an operator needs."""
    return node.input[position] if position < len(node.input) else ""


def _indexed(node: onnx.NodeProto, position: int, shapes: Shapes) -> tuple[Dim, ...]:
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
