"""Values that are rounded to whole numbers further on keep their floats bit for bit.

A law over the reals moves a float by an error of rounding.  Where a quantised network rounds it afterwards, a value
half way between two whole numbers then falls on the other side: the result is one off, whatever the size of the error.
Data that is quantised already lies on such values, random inputs of a check never do.  Hence: above a rounding only
rewrites that copy elements.

The same holds of what asks whether a float is 0, or beyond a threshold: differences of equal values are no accident.

A number is rounded as well where a much larger one is added and taken away again: the usual way to round in float32 is
(x + 12582912) - 12582912.

Comparisons, ArgMax and TopK tie only where two computed floats are equal; those are left to the check.  In float16,
which has 1024 numbers between one power of two and the next, equal ones are no accident: there they count as roundings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.table import Node, Opaque
from taso_py.graph.types import INTEGERS, NO_TYPE, TensorType
from taso_py.ops.comparison import Cast, Relational
from taso_py.ops.elementwise import Add, Power, Sub
from taso_py.search.view import View

if TYPE_CHECKING:
    import onnx

_NAMES = frozenset({"Round", "Floor", "Ceil", "Cast", "CastLike", "Mod"})
_JUMPS = frozenset({
    "Acos", "Acosh", "Asin", "Atanh", "Binarizer", "BitCast", "Imputer", "IsInf", "IsNaN", "LinearClassifier",
    "MurmurHash3", "NonZero", "OneHotEncoder", "SVMClassifier", "SVMRegressor", "Shrink", "Sign", "ThresholdedRelu",
    "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
})  # fmt: skip
"""Operators that compare with a number, or end at one: what is exactly that is beside it after a rewrite."""
_LOOKED_UP: Mapping[str, tuple[int, ...]] = {
    "CropAndResize": (1,), "LabelEncoder": (0,), "MaxRoiPool": (1,), "OneHot": (0, 1), "Range": (0, 1, 2),
    "RoiAlign": (1,), "Unique": (0,),
}  # fmt: skip
"""Operators, and which of their inputs, floats too, say which element is meant, how many there are, which are equal."""
_SCALED: Mapping[str, tuple[int, ...]] = {"Resize": (1, 2), "Upsample": (1,)}
"""The same of those whose scales are mostly constants."""
_HOLDERS = (Opaque, Cast, Power, *Relational.__subclasses__())
"""Classes of operators that may round."""
_HALF = "float16"
_STEEP: Mapping[str, float] = {"bfloat16": 2.0**4, "float16": 2.0**7, "float32": 2.0**20, "float64": 2.0**49}
"""By element type: a number of this size leaves hardly any bit behind the point to what is added to it."""
_CANCELLED = 2.0**-10
"""Of two numbers that are added one after the other, the part of the first that is left where they cancel."""
_IN_WHOLE_NUMBERS = 4
"""The accuracy_level from which MatMulNBits rounds its first operand to 8 bits."""
_Key: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function."""
_OF_SIZES = ("Shape", "Size")
"""Operators that look at no element."""


def rounding_bodies(model: onnx.ModelProto) -> frozenset[int]:
    """The places, among a model's nodes, of those that round by an attribute, or in whose bodies some node does."""
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    found = set[int]()
    for k, node in enumerate(model.graph.node):
        inside = list(_inside(node, functions))
        fixed = {name for inner in inside if inner.op_type == "Constant" for name in inner.output}
        if _rounds_by_attribute(node) or any(_is_rounding(inner, fixed) for inner in inside):
            found.add(k)
    return frozenset(found)


def _rounds_by_attribute(node: onnx.NodeProto) -> bool:
    """Whether a grid of floats says which elements are copied, or floats become whole numbers in a product."""
    if node.op_type == "MatMulNBits":
        return any(a.name == "accuracy_level" and a.i >= _IN_WHOLE_NUMBERS for a in node.attribute)
    return node.op_type == "GridSample" and any(a.name == "mode" and a.s == b"nearest" for a in node.attribute)


def _inside(
    node: onnx.NodeProto, functions: Mapping[tuple[str, str, str], onnx.FunctionProto]
) -> Iterator[onnx.NodeProto]:
    """The nodes of its subgraphs, and of the function that it calls."""
    waiting, called = [node], set[_Key]()
    while waiting:
        now = waiting.pop()
        bodies = [list(a.g.node) for a in now.attribute if a.HasField("g")]
        bodies += [list(graph.node) for a in now.attribute for graph in a.graphs]
        key = (now.domain, now.op_type, now.overload)
        if key in functions and key not in called:
            called.add(key)
            bodies.append(list(functions[key].node))
        for body in bodies:
            yield from body
            waiting += body


@cache
def _fine() -> frozenset[int]:
    """ONNX's numbers of the types of floats of two bytes and more: to all others a Cast is a rounding."""
    from onnx import TensorProto as Type

    return frozenset({Type.FLOAT16, Type.BFLOAT16, Type.FLOAT, Type.DOUBLE, Type.COMPLEX64, Type.COMPLEX128})


def _is_rounding(node: onnx.NodeProto, fixed: Set[str]) -> bool:
    """As `rounds` has it; what a Cast is from is not known here.  ``fixed``: what constants hold."""
    if node.op_type == "Cast":
        return any(a.name == "to" and a.i not in _fine() for a in node.attribute)
    decisive = {**_SCALED, "Pow": (1,)}.get(node.op_type, ())
    if any(k < len(node.input) and node.input[k] and node.input[k] not in fixed for k in decisive):
        return True
    return _is_named(node.op_type) or node.op_type in _LOOKED_UP or _rounds_by_attribute(node)


def rounded_later(view: View, values: Sequence[int]) -> bool:
    """Whether one of the values reaches, through floats, an operator that rounds to whole numbers."""
    # What is cast before it is compared ties as often.
    half = any(view.table.type(v).dtype == _HALF for v in values)
    if half not in view.rounded:
        view.rounded[half] = _reaching(view, half)
    kept = [v for v in values if v in view.rounded[half] and _is_float(view.table.type(v))]
    view.kept.update(kept)
    return bool(kept)


def _pairs(view: View) -> Iterator[tuple[int, int]]:
    """Two values of which the first is a sum with a large constant, and the second takes most of that away again."""
    for kind in (Add, Sub):
        for value in view.by_operator.get(kind, ()):
            shift = _shift(view, value)
            if shift is not None:
                for user in view.users.get(value, ()):
                    back = _shift(view, user, value)
                    if back is not None and _cancel(shift, back):
                        yield value, user


def _cancel(shift: Array, back: Array) -> bool:
    """Whether of two numbers little is left, one way or the other, wherever both are known."""
    try:
        left = np.minimum(np.abs(shift + back), np.abs(shift - back))
        return bool(np.any((left <= _CANCELLED * np.abs(shift)) & (shift != 0)))
    except ValueError:  # what lies between has other axes than their results
        return False


def _shift(view: View, value: int, added_to: int | None = None) -> Array | None:
    """The large constant that is added to a value, or to a computed one; or is taken from it, or it from that."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Add | Sub) or len(node.inputs) != 2:
        return None
    for other, constant in (node.inputs, node.inputs[::-1]):
        if constant is not None and added_to in (None, other) and other not in view.values.constant:
            return _steep(view, constant) if constant in view.values.constant else None
    return None


def _steep(view: View, constant: int) -> Array | None:
    """A constant some of whose numbers are large; None for any other."""
    size = _STEEP.get(view.table.type(constant).dtype)
    if size is None or view.largest(constant) < size:
        return None
    array = view.constant(constant)
    return None if array is None else array.astype(np.float64)


def _reaching(view: View, half: bool) -> frozenset[int]:
    """All values from which a way through floats leads to an operator that rounds."""
    found = {*_read_for_places(view), *(value for value, _ in _pairs(view))}
    if not found and not any(_rounds(view, v, half) for kind in _HOLDERS for v in view.by_operator.get(kind, ())):
        return frozenset()
    stack = [v for v in view.table.nodes if v in found or _rounds(view, v, half)]
    read = _read(view)
    while stack:
        for value in read.get(stack.pop(), ()):
            if value not in found:
                found.add(value)
                if _is_float(view.table.type(value)):
                    stack.append(value)
    return frozenset(found)


def _read_for_places(view: View) -> Iterator[int]:
    """Floats that are computed and say where or how much an operator reads."""
    for value in view.by_operator.get(Opaque, ()):
        node = view.table.nodes[value]
        places = {**_LOOKED_UP, **_SCALED}.get(node.operator.op_type, ())
        inputs = (node.inputs[k] for k in places if k < len(node.inputs))
        yield from (i for i in inputs if i is not None and i in view.table.nodes and _is_float(view.table.type(i)))
    for value in view.by_operator.get(Power, ()):  # of a negative number, only a whole exponent gives one
        exponent = view.table.nodes[value].inputs[1]
        computed = exponent is not None and exponent in view.table.nodes and exponent not in view.values.constant
        if exponent is not None and computed and _is_float(view.table.type(exponent)):
            yield exponent


def _read(view: View) -> Mapping[int, Sequence[int]]:
    """What each value reads; the value that is expanded, what only exists in an expansion of it."""
    read: dict[int, list[int]] = {}
    for value, users in view.users.items():
        for user in users:
            read.setdefault(user, []).append(value)
    for value, owners in view.owners.items():
        for owner, _ in owners:
            read.setdefault(owner, []).append(value)
    return read


def _rounds(view: View, value: int, half: bool) -> bool:
    node = view.table.nodes.get(value)
    if node is None or value in view.values.constant:
        return False
    if isinstance(node.operator, Opaque) and node.operator.key in view.rounding:
        return True
    return rounds(node, view.table.type(value)) or _decides(view, node, view.table.type(value), half)


def _decides(view: View, node: Node, result: TensorType, half: bool) -> bool:
    """Whether a node makes truth values or indices of float16, or of what came from it; an unknown operator may."""
    if isinstance(node.operator, Opaque) and node.operator.op_type in _OF_SIZES:
        return False
    half = half or any(i is not None and view.table.type(i).dtype == _HALF for i in node.inputs)
    return half and result.dtype in INTEGERS | {"bool", NO_TYPE.dtype}


def rounds(node: Node, result: TensorType) -> bool:
    """Whether a node makes whole numbers of floats, given the type of its result."""
    if not isinstance(node.operator, Opaque):
        if isinstance(node.operator, Cast):
            return result.dtype in INTEGERS | {"bool"}
        return result.dtype in INTEGERS and isinstance(node.operator, Power)
    return _is_named(node.operator.op_type)


def _is_named(name: str) -> bool:
    if name in _NAMES | _JUMPS or name.startswith(("QLinear", "QGemm")):
        return True
    return "Quantize" in name and not name.startswith("Dequantize")


def _is_float(type_: TensorType) -> bool:
    """Whether a value may hold floats; what an unknown operator gives may."""
    return type_.dtype not in INTEGERS | {"bool"}
