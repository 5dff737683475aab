"""Values of an instance by the operators' meaning: in float64, rounded to the element types, or disturbed.

Where a comparison or a cast to whole numbers reads what is no finite number its result is undefined although it is
finite: such elements are kept beside the values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.table import Node
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.algebra import algebra
from taso_py.ops.constants import Fill, as_held
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Operator
from taso_py.prove.trials.runs import short
from taso_py.rules.instances import Instance
from taso_py.rules.term import Scalar

Mask = npt.NDArray[np.bool_]

DISTURBANCE = 2.0**-40
"""Relative size of a disturbance: 2^13 times what float64 rounds."""
_SELECTING = frozenset({
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or", "Where", "Max", "Min", "Relu",
    "Clip", "Clamp", "Abs", "Neg", "Identity", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Cast", "Fill",
})  # fmt: skip
"""Operators that round nothing."""
_EXACT = frozenset({
    "Add", "Sub", "Mul", "Div", "Reciprocal", "Sqrt", "MatMul", "Gemm", "Conv", "ConvTranspose", "ReduceSum",
    "ReduceMean", "AveragePool", "GlobalAveragePool", "Einsum",
})  # fmt: skip
"""Operators that round nothing when operands and result are short binary fractions."""
_POLES = frozenset({
    "Div", "Reciprocal", "Log", "Sqrt", "Pow", "Power", "BatchNormalization", "LayerNormalization", "RMSNormalization",
    "InstanceNormalization", "GroupNormalization", "LpNormalization",
})  # fmt: skip
"""Operators that are infinite somewhere; all others are so only by overflow."""
_ATTRIBUTE = 2.0**-23
"""Relative size of the rounding of a real attribute."""


def _evaluated(disturbed: Operator, operator: Operator, operands: list[Array], types: list[TensorType]) -> Array:
    """The disturbed operator's value; the operator's own where there is no such thing (a coefficient of Resize)."""
    try:
        return evaluate(disturbed, operands, types)
    except TypingError:
        return evaluate(operator, operands, types)


@dataclass(slots=True)
class Evaluation:
    """The values of an instance's nodes, computed when they are asked for.

    ``rounded``: every float is rounded to its own type; ``noise``: operands and results that may have been rounded
    are disturbed by it; ``mirrored``: by as much to the other side.
    """

    instance: Instance
    rounded: bool = False
    noise: np.random.Generator | None = None
    mirrored: bool = False
    arrays: dict[int, Array] = field(default_factory=dict)
    undefined: dict[int, Mask] = field(default_factory=dict)
    """Elements that are no float and depend on something that is no finite number."""

    given: frozenset[int] = field(init=False)
    """Nodes of the left side, whose attributes are as they are."""

    def __post_init__(self) -> None:
        self.given = frozenset(v for output in self.instance.left for v in self._below(output))
        for value, array in {**self.instance.feeds, **self.instance.weights}.items():
            self.arrays[value] = array.astype(np.float64) if array.dtype.kind == "f" else array
        for term, (value, _) in self.instance.placed.items():
            if isinstance(term, Scalar) and value in self.arrays:
                self.arrays[value] = self._spelt(self.arrays[value], term.value, self._type(value))

    def value(self, wanted: int) -> Array:
        """The array of an id; LookupError, ValueError, ArithmeticError or TypingError where it has none."""
        stack = [wanted]
        while stack:
            value = stack[-1]
            if value in self.arrays:
                stack.pop()
                continue
            node = self.instance.nodes[value]
            missing = [i for i in node.inputs if i is not None and i not in self.arrays]
            if missing:
                stack.extend(missing)
                continue
            with np.errstate(all="ignore"):
                self.arrays[value] = self._compute(value, node)
        return self.arrays[wanted]

    def defined(self, value: int) -> Mask:
        """Where an element is a finite number that depends on finite numbers only, as far as its type tells."""
        array = self.value(value)
        if array.dtype.kind == "f":
            return np.asarray(np.isfinite(array))
        mask = self.undefined.get(value)
        return np.ones(array.shape, dtype=bool) if mask is None else ~mask

    def overflowed(self, value: int) -> bool:
        """Whether something below a value grew beyond the numbers: infinite, and not at a pole."""
        below = self._below(value)
        return any(self._overflows(v, self.instance.nodes[v]) for v in below)

    def _below(self, value: int) -> list[int]:
        seen: dict[int, None] = {}
        stack = [value]
        while stack:
            v = stack.pop()
            if v not in seen and v in self.instance.nodes:
                seen[v] = None
                stack.extend(i for i in self.instance.nodes[v].inputs if i is not None)
        return list(seen)

    def _overflows(self, value: int, node: Node) -> bool:
        operands = [self.arrays[i] for i in node.inputs if i is not None]
        if self.arrays[value].dtype.kind != "f" or not np.isinf(self.arrays[value]).any():
            return False
        if node.operator.onnx in _POLES:
            return not any((a == 0).any() for a in operands)
        # The maximum of nothing is infinite too, and no overflow.
        return bool(operands) and all(a.size and np.isfinite(a).all() for a in operands)

    def _compute(self, value: int, node: Node) -> Array:
        ids = [i for i in node.inputs if i is not None]
        types = [self._type(i) for i in ids]
        operands = [self.arrays[i] for i in ids]
        type_ = self._type(value)
        array = self._settled(evaluate(node.operator, operands, types), type_)
        if isinstance(node.operator, Fill) and isinstance(node.operator.value, float):
            return self._spelt(array, node.operator.value, type_)
        if self.noise is not None:
            operator = self._reset(value, node.operator)
            if operator != node.operator or self._rounds(operator, types, operands, array):
                shaken = [self._shaken(a) for a in operands]
                array = self._settled(self._shaken(_evaluated(operator, node.operator, shaken, types)), type_)
        return self._marked(value, node, ids, array)

    def _reset(self, value: int, operator: Operator) -> Operator:
        """The operator with its computed real attributes disturbed: ONNX rounds them to float32."""
        if self.noise is None or value in self.given:
            return operator
        # 0.3 + 2.7 may have been rounded to 3; what whole numbers alone make was not.
        whole = all(float(v).is_integer() for v in self.instance.binding.names.values() if isinstance(v, float))
        changed = {
            f.name: old * (1 + self._sign * float(self.noise.choice((-1, 1))) * _ATTRIBUTE)
            for f in fields(operator)
            if isinstance(old := getattr(operator, f.name), float) and not (whole and old.is_integer())
        }
        return replace(operator, **changed) if changed else operator

    def _spelt(self, array: Array, number: float, type_: TensorType) -> Array:
        """A literal's elements as the element type holds them: the same on both sides, whatever it rounds."""
        if type_.dtype not in FLOATS:
            return array
        held = as_held(type_.dtype, number)
        if self.noise is not None and math.isfinite(held):
            held += self._sign * abs(held - number) * float(self.noise.uniform(-1, 1))
        return np.full(array.shape, held)

    def _type(self, value: int) -> TensorType:
        return self.instance.values.types[value]

    def _settled(self, array: Array, type_: TensorType) -> Array:
        """Whole numbers wrap around; floats stay wide unless every value is rounded."""
        if type_.dtype not in FLOATS:
            return array.astype(type_.dtype)
        if not self.rounded or type_.dtype == "bfloat16":
            return array
        return array.astype(type_.dtype).astype(np.float64)

    @property
    def _sign(self) -> int:
        return -1 if self.mirrored else 1

    def _shaken(self, array: Array) -> Array:
        if self.noise is None or array.dtype.kind != "f":
            return array
        return np.asarray(array * (1 + self._sign * DISTURBANCE * self.noise.uniform(-1, 1, array.shape)))

    def _rounds(self, operator: Operator, types: list[TensorType], operands: list[Array], result: Array) -> bool:
        name = operator.onnx
        if result.dtype.kind != "f" or name in _SELECTING or algebra(operator, tuple(types)) == "move":
            return False
        return name not in _EXACT or not all(a.dtype.kind != "f" or short(a) for a in (*operands, result))

    # ---- what is undefined ---------------------------------------------------------------------------------------

    def _marked(self, value: int, node: Node, ids: list[int], array: Array) -> Array:
        masks = [self._wrong(i) for i in ids]
        if node.operator.onnx == "Cast" and array.dtype.kind in "iu" and self.arrays[ids[0]].dtype.kind == "f":
            masks = [_out_of_range(self.arrays[ids[0]], array.dtype)]
        if not any(m is not None and m.any() for m in masks):
            return array
        whole = [self._right(i) if m is None else m for m, i in zip(masks, ids, strict=True)]
        wrong = self._reached(node.operator, ids, whole, array)
        if array.dtype.kind != "f":
            self.undefined[value] = wrong
            return array
        # What a float says of itself needs no mark.
        marked = [m for i, m in zip(ids, masks, strict=True) if m is not None and self.arrays[i].dtype.kind != "f"]
        if not any(m.any() for m in marked):
            return array
        return np.where(wrong & ~np.isnan(array), np.nan, array)

    def _wrong(self, value: int) -> Mask | None:
        array = self.arrays[value]
        return ~np.isfinite(array) if array.dtype.kind == "f" else self.undefined.get(value)

    def _right(self, value: int) -> Mask:
        return np.zeros(self.arrays[value].shape, dtype=bool)

    def _reached(self, operator: Operator, ids: list[int], masks: list[Mask], array: Array) -> Mask:
        """The elements of the result that depend on undefined ones."""
        if operator.onnx == "Where":
            condition, then, otherwise = masks
            chosen = np.where(self.arrays[ids[0]], then, otherwise)
            return np.array(np.broadcast_to(condition | chosen, array.shape))
        if operator.pointwise:
            whole = np.zeros(array.shape, dtype=bool)
            for mask in masks:
                whole |= mask
            return whole
        try:
            types = [TensorType("bool", self._type(i).dims) for i in ids]
            return evaluate(operator, list(masks), types).astype(bool)
        except (TypingError, ValueError):
            return np.full(array.shape, True)


def _out_of_range(array: Array, dtype: np.dtype[Any]) -> Mask:
    """Where a float has no counterpart among the whole numbers of a type."""
    limits = np.iinfo(dtype)
    return np.asarray(~((array > float(limits.min) - 1) & (array < float(limits.max) + 1)))
