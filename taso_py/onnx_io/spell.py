"""Single nodes as ONNX writes them, and names that clash with nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeGuard

import onnx.defs
import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.types import TensorType
from taso_py.ops.operator import AttributeValue, Constant, Given, Operator, Writing


@dataclass(slots=True)
class UsedNames:
    """Names in use; `fresh` adds one."""

    taken: set[str] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    """The last number that each base got: those below it are taken."""

    def fresh(self, base: str) -> str:
        """``base``, or ``base_2``, ``base_3``, ... when it is taken."""
        count = self._counts.get(base, 1)
        name = base if count == 1 else f"{base}_{count}"
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self.taken.add(name)
        return name


def spelling(operator: Operator, opset: int, types: Sequence[TensorType]) -> Writing:
    """How the operator is written; `TypingError` when it cannot be at this opset."""
    writing = operator.write(opset, types)
    if writing is None:
        raise TypingError(f"{operator} cannot be written at opset {opset}")
    return writing


def onnx_node(
    writing: Writing,
    operands: Sequence[ir.Value | None],
    constant: Callable[[Array], ir.Value],
    outputs: Iterable[ir.Value],
    name: str,
) -> ir.Node:
    """The ONNX node of a spelling; ``constant`` provides the small constants it wants as inputs."""
    inputs: list[ir.Value | None] = []
    for slot in writing.inputs:
        match slot:
            case Given(operand):
                inputs.append(operands[operand])
            case Constant(value):
                inputs.append(constant(value))
            case None:
                inputs.append(None)
    real = _real_attributes()
    attributes = [
        _attribute(key, float(value) if isinstance(value, int) and (writing.op_type, key) in real else value)
        for key, value in writing.attributes.items()
    ]
    return ir.Node("", writing.op_type, inputs, attributes, outputs=list(outputs), name=name)


@lru_cache(maxsize=1)
def _real_attributes() -> frozenset[tuple[str, str]]:
    """Operator and attribute, for those that ONNX wants as floats whatever a rule wrote: Clip of opset 6 to 10."""
    return frozenset(
        (schema.name, name)
        for schema in onnx.defs.get_all_schemas_with_history()
        for name, attribute in schema.attributes.items()
        if schema.domain == "" and attribute.type == onnx.defs.OpSchema.AttrType.FLOAT
    )


def _attribute(name: str, value: AttributeValue) -> ir.Attr:
    match value:
        case bool() | int():
            return ir.AttrInt64(name, int(value))
        case float():
            return ir.AttrFloat32(name, value)
        case str():
            return ir.AttrString(name, value)
        case tuple() if all(isinstance(v, int) for v in value):
            return ir.AttrInt64s(name, [int(v) for v in value])
        case _:
            return ir.AttrFloat32s(name, [float(v) for v in value])


def several(operator: object) -> TypeGuard[Operator]:
    """Whether the operator's ONNX node may have several outputs, each of which is an id of its own."""
    return isinstance(operator, Operator) and operator.several
