"""What a match must satisfy beside the rule's own conditions: element types, tame constants, a spelling in ONNX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from taso_py.graph.table import Node
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.onnx_io.kernels import computable
from taso_py.ops.algebra import Algebra, algebra, moves
from taso_py.ops.constants import represents
from taso_py.ops.convolution import Conv
from taso_py.ops.elementwise import Sub
from taso_py.ops.linear import Gemm, MatMul
from taso_py.ops.normalization import SoftmaxFamily
from taso_py.ops.operator import Operator
from taso_py.rules.element_types import HELD
from taso_py.rules.unify import Binding
from taso_py.search.view import View

_ADDED: Mapping[str, tuple[int, ...]] = {
    "Add": (0, 1), "Sub": (0, 1), "Sum": (), "BatchNormalization": (2, 3), "Conv": (2,), "ConvTranspose": (2,),
    "Gemm": (2,), "GroupNormalization": (2,), "InstanceNormalization": (2,), "LayerNormalization": (2,),
}  # fmt: skip
"""Operators, and which of their operands they add to what they compute, or take from it."""
_LARGE: Mapping[str, float] = {"bfloat16": 2.0**3, "float16": 2.0**4, "float32": 2.0**10, "float64": 2.0**30}
"""By element type: a number that is added may cancel, and its error then stands beside a result of about 1."""

_PRODUCTS = (Conv, Gemm, MatMul)


def is_number(view: View, value: int, number: float) -> bool:
    """Whether a value is a constant all of whose elements are a number."""
    if value not in view.values.constant:
        return False
    array = view.constant(value)
    if array is None or not array.size or not represents(view.values.types[value].dtype, number):
        return False
    # A wide integer is compared as an integer: as a float it could equal a neighbour.
    wanted = int(number) if array.dtype.kind in "iu" and float(number).is_integer() else number
    return bool(np.all(array == wanted))


def same_constant(view: View, one: int, other: int) -> bool:
    """Whether two values are constants that agree bit for bit: each layer, or each head, may have its own copy."""
    if not {one, other} <= view.values.constant or view.values.types[one] != view.values.types[other]:
        return False
    digest = view.digest(one)
    return digest is not None and digest == view.digest(other)


def in_one_branch(view: View, values: Iterable[int]) -> bool:
    """Whether one branch, or the main graph, computes all of them: else none could be had without the others."""
    return not view.scopes or len(set(map(view.scope, values))) == 1


def dtypes_allowed(view: View, kinds: Sequence[Algebra], values: Iterable[int]) -> bool:
    """Moves hold for any element type, ring laws for floats and integers, the rest for floats only."""
    if all(k == "move" for k in kinds):
        return True
    allowed = FLOATS | INTEGERS if all(k != "real" for k in kinds) else FLOATS
    return all(view.values.types[v].dtype in allowed | {"bool"} for v in values)


def constants_tame(view: View, binding: Binding, matched: Iterable[tuple[int, Node | None]]) -> bool:
    """Whether no constant stands for infinity, as those of masks do, and none with a large number in it is added.

    Laws over the reals add it elsewhere: in front of a product or behind it, to another constant, or not at all.  What
    is added to data far from 0 makes it small again first (a time less an epoch), and is what rounds to whole numbers
    in x + 12582912 - 12582912.  What masks scores is neither.
    """
    constant = view.values.constant
    return all(view.is_tame(v) for v in binding.tensors.values() if v in constant) and not any(
        node is not None and value not in constant and _adds_large(view, node) and not _is_score(view, value)
        for value, node in matched
    )


def _adds_large(view: View, node: Node) -> bool:
    if not isinstance(node.operator, Operator) or node.operator.onnx not in _ADDED:
        return False
    added = _ADDED[node.operator.onnx] or range(len(node.inputs))
    given = (node.inputs[k] for k in added if k < len(node.inputs))
    return any(
        view.largest(i) > _LARGE.get(view.values.types[i].dtype, math.inf)
        for i in given
        if i is not None and i in view.values.constant
    )


def differences_kept(view: View, matched: Iterable[tuple[int, Node | None]], built: Mapping[int, Node]) -> bool:
    """Whether no difference of what the model is given is taken apart in front of a product.

    Coordinates may be far from 0 and close to one another: multiplied apart they cancel, which no inputs about 0 show.
    What a function that is not linear has made of them is taken for features of about 1.
    """
    apart = {
        i
        for value, node in matched
        if node is not None and isinstance(node.operator, Sub) and value not in built
        if view.values.constant.isdisjoint(node.inputs)  # of those `constants_tame` thinks
        for i in node.inputs
    }
    multiplied = {i for node in built.values() if isinstance(node.operator, _PRODUCTS) for i in node.inputs}
    return not any(value is not None and _is_given(view, value) for value in apart & multiplied)


def _is_given(view: View, value: int) -> bool:
    """Whether a value is an input of the model, moved, added and multiplied as it may be."""
    waiting, seen = [value], {value}
    while waiting:
        at = waiting.pop()
        if at in view.values.inputs:
            return True
        node = view.table.nodes.get(at)
        if node is None or not isinstance(node.operator, Operator) or at in view.values.constant:
            continue
        inputs = [i for i in node.inputs if i is not None]
        if not _is_linear(node.operator, tuple(view.values.types[i] for i in inputs)):
            continue
        floats = [i for i in inputs if view.values.types[i].dtype in FLOATS and i not in seen]
        waiting += floats
        seen.update(floats)
    return False


def _is_linear(operator: Operator, types: tuple[TensorType, ...]) -> bool:
    """Whether an operator only moves, adds and multiplies."""
    try:
        return algebra(operator, types) != "real"
    except RecursionError:  # the meaning of a sum of a thousand operands is as deep
        return True


def _is_score(view: View, value: int) -> bool:
    """Whether nothing but Softmax reads a value, moved as it may be."""
    waiting, seen = [value], {value}
    while waiting:
        at = waiting.pop()
        users = [user for user in view.users.get(at, {}) if user in view.table.nodes]
        if (
            not users
            or at in view.table.outputs
            or not all(_only_moves(view, user) or _is_softmax(view, user) for user in users)
        ):
            return False
        waiting += [user for user in users if user not in seen and not _is_softmax(view, user)]
        seen.update(users)
    return True


def _is_softmax(view: View, value: int) -> bool:
    return isinstance(view.table.nodes[value].operator, SoftmaxFamily)


def _only_moves(view: View, value: int) -> bool:
    node = view.table.nodes[value]
    if not isinstance(node.operator, Operator):
        return False
    return moves(node.operator, [view.values.types[i] for i in node.inputs if i is not None])


def _typed(view: View, node: Node) -> bool:
    types = [view.values.types[i].dtype for i in node.inputs if i is not None]
    if not isinstance(node.operator, Operator) or not types:
        return True
    numbers = [v for name, v in node.operator.attributes().items() if name in HELD and v is not None]
    allowed = node.operator.dtypes
    return (allowed is None or types[0] in allowed) and all(represents(types[0], n) for n in numbers)


def spellable(view: View, built: Mapping[int, Node]) -> bool:
    """Whether every new node can be written at the model's opset and run, or is folded into a weight of known shape.

    Its element types must be the operator's, and hold the numbers among its attributes.
    """
    for value, node in built.items():
        if not _typed(view, node):
            return False
        if value in view.values.constant:
            if not all(isinstance(d, int) for d in view.values.types[value].dims):
                return False
            continue
        types = [view.values.types[i] for i in node.inputs if i is not None]
        writing = node.operator.write(view.table.opset, types)
        if writing is None or not computable(writing, view.table.opset, types):
            return False
    return True
