"""Mutations of ONNX models that know their structure: any field of any message, and pieces of other models.

A mutated model still parses; what does not is made by `texts.broken_bytes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from scripts.audit.reading.texts import broken_bytes, broken_text

INTEGERS = (0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 16, 64, 127, 128, 255, 256, 4096, 65536, 10**6, 10**9)
HUGE = (2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3e38, math.inf, -math.inf, math.nan)
NAMES = ("", "x", "y", "\0", "a b", "a\nb", "é\u202e", "\x1b[31m", "../x", "/etc/hostname", "weights.bin", "x" * 300)
OPERATORS = (
    *("Add", "Mul", "MatMul", "Gemm", "Conv", "ConvTranspose", "Relu", "Concat", "Split", "Slice", "Reshape"),
    *("Transpose", "Squeeze", "Unsqueeze", "Expand", "Tile", "Pad", "Gather", "GatherND", "ScatterND", "Where"),
    *("Shape", "Size", "Range", "ConstantOfShape", "Constant", "Cast", "Identity", "Resize", "Upsample", "Einsum"),
    *("ReduceSum", "ReduceMean", "ReduceL2", "Softmax", "LayerNormalization", "BatchNormalization", "Clip", "Max"),
    *("MaxPool", "AveragePool", "GlobalAveragePool", "DepthToSpace", "SpaceToDepth", "Flatten", "Mod", "Pow"),
    *("If", "Loop", "Scan", "SequenceConstruct", "SequenceAt", "ConcatFromSequence", "Optional", "OneHot", "TopK"),
    *("QuantizeLinear", "DequantizeLinear", "LSTM", "GRU", "NonZero", "EyeLike", "CumSum", "ArgMax", "Not", "Equal"),
)
ATTRIBUTES = (
    *("axis", "axes", "perm", "pads", "kernel_shape", "strides", "dilations", "group", "alpha", "beta", "transA"),
    *("to", "value", "value_int", "value_ints", "value_float", "value_string", "keepdims", "mode", "epsilon", "split"),
    *(
        "num_outputs",
        "auto_pad",
        "ceil_mode",
        "equation",
        "blocksize",
        "shape",
        "starts",
        "ends",
        "body",
        "then_branch",
    ),
)
_KINDS = {"i": "INT", "f": "FLOAT", "s": "STRING", "t": "TENSOR", "g": "GRAPH", "ref_attr_name": "INT"}
_FLOATING = {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE}


@dataclass(frozen=True, slots=True)
class Place:
    """One field of one message in a model."""

    message: Message
    field: FieldDescriptor

    @property
    def repeated(self) -> bool:
        return bool(self.field.is_repeated)

    @property
    def value(self) -> Any:
        return getattr(self.message, self.field.name)


def messages(root: Message) -> Iterator[Message]:
    """A message and everything below it."""
    waiting = [root]
    while waiting:
        found = waiting.pop()
        yield found
        for field, value in found.ListFields():
            if field.message_type is not None:
                waiting.extend(value if field.is_repeated else [value])


def mutated(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """A model in which one to four fields are changed; pieces are taken from ``others`` as well."""
    if random.random() < 0.1:
        return broken_bytes(data, random)
    try:
        model = onnx.ModelProto.FromString(data)
        other = onnx.ModelProto.FromString(random.choice(others))
    except DecodeError:
        return broken_bytes(data, random)
    if random.random() < 0.3:
        _graft(model, other, random)
    for _ in range(random.choice((1, 1, 1, 2, 2, 4))):
        random.choice(_CHANGES)(model, random)
    return model.SerializeToString()


def _graft(model: onnx.ModelProto, other: onnx.ModelProto, random: Random) -> None:
    """A node, weight or function of another model, which may read what is not there."""
    field = random.choice(("node", "initializer", "functions", "sparse_initializer"))
    holder, source = (m if field == "functions" else m.graph for m in (model, other))
    found = getattr(source, field)
    if found:
        getattr(holder, field).append(random.choice(found))


# ---- changes ---------------------------------------------------------------------------------------------------------


def _any_field(model: onnx.ModelProto, random: Random) -> None:
    """Any field of any message, set or not."""
    message = random.choice(list(messages(model)))
    _change(Place(message, random.choice(message.DESCRIPTOR.fields)), model, random)


def _field_in_use(model: onnx.ModelProto, random: Random) -> None:
    """A field that says something; each kind of message is as likely as any other."""
    kinds: dict[str, list[Place]] = {}
    for message in messages(model):
        for field, _ in message.ListFields():
            kinds.setdefault(f"{message.DESCRIPTOR.name}.{field.name}", []).append(Place(message, field))
    _change(random.choice(kinds[random.choice(sorted(kinds))]), model, random)


def _wiring(model: onnx.ModelProto, random: Random) -> None:
    """What a node reads or makes is another name of the model: cycles, values made twice, captures."""
    nodes = [m for m in messages(model) if isinstance(m, onnx.NodeProto)]
    if nodes:
        node = random.choice(nodes)
        names = random.choice((node.input, node.output))
        name = _name(model, random)
        if names and random.random() < 0.7:
            names[random.randrange(len(names))] = name
        else:
            names.append(name)


def _operator(model: onnx.ModelProto, random: Random) -> None:
    """A node is of another operator, or of a function of the model."""
    nodes = [m for m in messages(model) if isinstance(m, onnx.NodeProto)]
    if nodes:
        node = random.choice(nodes)
        node.op_type = random.choice(OPERATORS)
        if model.functions and random.random() < 0.5:
            function = random.choice(model.functions)
            node.op_type, node.domain = function.name, function.domain


def _shape(model: onnx.ModelProto, random: Random) -> None:
    """A size that is declared, or one of a weight."""
    kinds = (onnx.TensorShapeProto, onnx.TensorProto)
    shapes = [m for m in messages(model) if isinstance(m, kinds)]
    if not shapes:
        return
    shape = random.choice(shapes)
    if isinstance(shape, onnx.TensorProto):
        _change(Place(shape, shape.DESCRIPTOR.fields_by_name["dims"]), model, random)
    else:
        dim = random.choice(shape.dim) if shape.dim and random.random() < 0.8 else shape.dim.add()
        if random.random() < 0.7:
            dim.dim_value = _integer(random)
        else:
            dim.dim_param = _name(model, random)


def _attribute(model: onnx.ModelProto, random: Random) -> None:
    """An attribute gets another name, type or value."""
    nodes = [m for m in messages(model) if isinstance(m, onnx.NodeProto)]
    if not nodes:
        return
    node = random.choice(nodes)
    one = random.choice(node.attribute) if node.attribute and random.random() < 0.7 else node.attribute.add()
    if not one.name or random.random() < 0.3:
        one.name = random.choice(ATTRIBUTES)
    kind = random.choice(("i", "ints", "f", "floats", "s", "strings", "t", "g", "type", "ref_attr_name"))
    _change(Place(one, one.DESCRIPTOR.fields_by_name[kind]), model, random)
    if kind != "type":
        one.type = onnx.AttributeProto.AttributeType.Value(_KINDS.get(kind, kind.upper()))


def _version(model: onnx.ModelProto, random: Random) -> None:
    """Another opset or IR version."""
    if model.opset_import and random.random() < 0.8:
        random.choice(model.opset_import).version = random.choice((*range(1, 28), _integer(random)))
    else:
        model.ir_version = random.choice((*range(1, 15), _integer(random)))


def _data(model: onnx.ModelProto, random: Random) -> None:
    """A weight lies elsewhere, or is of another type."""
    tensors = [m for m in messages(model) if isinstance(m, onnx.TensorProto)]
    if not tensors:
        return
    tensor = random.choice(tensors)
    if random.random() < 0.5:
        tensor.data_type = random.choice((*range(28), _integer(random) % 2**31))
        return
    tensor.data_location = onnx.TensorProto.EXTERNAL
    values = (*NAMES, "weights.bin", "weights.bin", str(_integer(random)), str(_integer(random)))
    for key in random.sample(("location", "offset", "length", "checksum", "location"), random.randint(1, 4)):
        tensor.external_data.add(key=key, value=random.choice(values))


_CHANGES: tuple[Callable[[onnx.ModelProto, Random], None], ...] = (
    *(_any_field, _field_in_use, _field_in_use, _field_in_use),
    *(_wiring, _operator, _shape, _attribute, _version, _data),
)


# ---- one field -------------------------------------------------------------------------------------------------------


def _change(place: Place, model: onnx.ModelProto, random: Random) -> None:
    if place.repeated:
        _change_list(place, model, random)
    elif place.field.message_type is not None:
        donor = _donor(place, model, random)
        if donor is None or random.random() < 0.3:
            place.message.ClearField(place.field.name)
        else:
            place.value.CopyFrom(donor)
    elif random.random() < 0.1:
        place.message.ClearField(place.field.name)
    else:
        setattr(place.message, place.field.name, _scalar(place, place.value, model, random))


def _change_list(place: Place, model: onnx.ModelProto, random: Random) -> None:
    entries = place.value
    kind = random.choice(("delete", "repeat", "swap", "change", "change", "add", "add", "clear"))
    at = random.randrange(len(entries)) if entries else 0
    if kind == "clear":
        place.message.ClearField(place.field.name)
    elif kind == "delete" and entries:
        del entries[at]
    elif kind == "repeat" and entries:
        entries.extend([entries[at]] * random.choice((1, 1, 2, 60)))
    elif kind == "swap" and len(entries) > 1:
        copies = list(entries)
        random.shuffle(copies)
        place.message.ClearField(place.field.name)
        entries.extend(copies)
    elif place.field.message_type is not None:
        donor = _donor(place, model, random)
        if donor is None:
            entries.add()
        else:
            entries.append(donor)
    elif kind == "change" and entries:
        entries[at] = _scalar(place, entries[at], model, random)
    else:
        entries.append(_scalar(place, None, model, random))


def _donor(place: Place, model: onnx.ModelProto, random: Random) -> Message | None:
    """A copy of some message of the field's type: a copy, as a graph may be put into itself."""
    wanted = place.field.message_type.full_name
    found = [m for m in messages(model) if m.DESCRIPTOR.full_name == wanted]
    if not found:
        return None
    copy = type(found[0])()
    copy.CopyFrom(random.choice(found))
    return copy if copy.ByteSize() < 20_000 else None


def _scalar(place: Place, old: Any, model: onnx.ModelProto, random: Random) -> Any:
    field = place.field
    if field.enum_type is not None:
        return random.choice(field.enum_type.values).number
    if field.type == FieldDescriptor.TYPE_STRING:
        return _string(field.name, old or "", model, random)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return broken_bytes(old or b"", random)
    if field.type in _FLOATING:
        return random.choice(FLOATS)
    number = _integer(random) if old is None or random.random() < 0.7 else int(old) + random.choice((-2, -1, 1, 2))
    small = field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32)
    low, high = (-(2**31), 2**31 - 1) if small else (-(2**63), 2**63 - 1)
    unsigned = field.type in (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64)
    return min(max(number, 0 if unsigned else low), high)


def _integer(random: Random) -> int:
    number = random.choice(INTEGERS) if random.random() < 0.8 else random.choice(HUGE)
    return -number if random.random() < 0.25 else number


def _string(field: str, old: str, model: onnx.ModelProto, random: Random) -> str:
    if random.random() < 0.2:
        return broken_text(old, random).encode("utf-8", "replace").decode()
    if field == "op_type":
        return random.choice(OPERATORS)
    return _name(model, random)


def _name(model: onnx.ModelProto, random: Random) -> str:
    """A name that the model has, or an odd one."""
    nodes = [m for m in messages(model) if isinstance(m, onnx.NodeProto)]
    known = [name for node in nodes for name in (*node.input, *node.output)]
    known += [value.name for value in (*model.graph.input, *model.graph.output)]
    return random.choice(known) if known and random.random() < 0.8 else random.choice(NAMES)
