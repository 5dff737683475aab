"""Values of weights-only computations: float64 throughout, rounded once at the end."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from taso_py.errors import ModelError, TypingError
from taso_py.graph.sizes import symbol
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Operand, Reduce, Scalar
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Operator

Array = npt.NDArray[np.generic]

MEMORY_BYTES = 256 * 2**20
"""How much of intermediate results is remembered."""
MAXIMAL_ELEMENTS = 2**27
MAXIMAL_STEPS = 2**17


@dataclass(slots=True)
class Folder:
    """Evaluates constant ids; equal computations are evaluated once, whatever candidate they occur in.

    ``tensors`` holds the fixed initializers and Constant nodes by id.
    """

    values: Values
    tensors: Mapping[int, ir.TensorProtocol]
    non_finite: set[int] = field(default_factory=set)
    """Ids whose folded value holds NaN or an infinity although none of its sources does."""
    _keys: dict[tuple[Operator, tuple[int, ...]], int] = field(default_factory=dict)
    _memo: OrderedDict[int, Array] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def value(self, constant: int, nodes: Mapping[int, Node]) -> Array:
        """The value of a constant id in the element type of that id; `nodes` is the table to read it from."""
        dtype = np.dtype(self.values.types[constant].dtype)
        if constant not in nodes:
            return self.source(constant)
        exact = self._evaluate(constant, nodes, {})
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = exact.astype(dtype)
        if np.issubdtype(dtype, np.floating) and not np.isfinite(rounded).all():
            self._report(constant, nodes)
        return rounded

    def source(self, constant: int) -> Array:
        """The tensor of a fixed initializer or Constant node, as stored."""
        tensor = self.tensors[constant]
        try:
            return tensor.numpy()
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            message = f"the data of {tensor.name!r} cannot be read: {reason}; export the model again"
            raise ModelError(message) from error

    def _key(self, constant: int, nodes: Mapping[int, Node], known: dict[int, int]) -> int:
        """A number that is the same exactly for the same computation from the same sources.

        ``known`` holds those of this table: shared operands are looked at once, not once per path.
        """
        found = known.get(constant)
        if found is not None:
            return found
        node = nodes.get(constant)
        if node is None:
            return -1 - constant
        if not isinstance(node.operator, Operator) or constant not in self.values.constant:
            raise TypingError(f"value {constant} does not depend on weights only")
        inputs = tuple(self._key(i, nodes, known) for i in node.inputs if i is not None)
        found = known[constant] = self._keys.setdefault((node.operator, inputs), len(self._keys))
        return found

    def _evaluate(self, constant: int, nodes: Mapping[int, Node], known: dict[int, int]) -> Array:
        """The value before rounding."""
        node = nodes.get(constant)
        if node is None:
            return _wide(self.source(constant))
        key = self._key(constant, nodes, known)
        found = self._memo.get(key)
        if found is None:
            inputs = [i for i in node.inputs if i is not None]
            types = [self.values.types[i] for i in inputs]
            _require_foldable(node.operator, types)
            operands = [self._evaluate(i, nodes, known) for i in inputs]
            found = evaluate(node.operator, operands, types)
            self._remember(key, found)
        self._memo.move_to_end(key)
        return found

    def _remember(self, key: int, value: Array) -> None:
        self._memo[key] = value
        self._bytes += value.nbytes
        while self._bytes > MEMORY_BYTES and len(self._memo) > 1:
            _, dropped = self._memo.popitem(last=False)
            self._bytes -= dropped.nbytes

    def _report(self, constant: int, nodes: Mapping[int, Node]) -> None:
        stack, seen = [constant], set[int]()
        while stack:
            value = stack.pop()
            seen.add(value)
            node = nodes.get(value)
            if node is not None:
                stack.extend(i for i in node.inputs if i is not None and i not in seen)
            elif not np.isfinite(_wide(self.source(value))).all():
                return
        self.non_finite.add(constant)


def _require_foldable(operator: Operator, types: Sequence[TensorType]) -> None:
    """`TypingError` when the value is symbolic in size or takes too much memory or time to compute here."""
    result = operator.infer(*types)
    if not isinstance(result.elements, int) or result.elements > MAXIMAL_ELEMENTS:
        raise TypingError(f"{operator} has a result too large to fold: {result}")
    if type(operator).kernel is not Operator.kernel:
        return
    index = tuple(symbol(f"_i{axis}") for axis in range(result.rank))
    views = tuple(Operand(k, t) for k, t in enumerate(types))
    if _loop_length(operator.element(views, index)) > MAXIMAL_STEPS:
        raise TypingError(f"{operator} of {', '.join(map(str, types))} takes too long to fold")


def _loop_length(meaning: Scalar) -> float:
    """How many times the innermost body of a reduction is evaluated (each time for all output elements)."""
    match meaning:
        case Reduce(_, _, extent, body):
            return (extent if isinstance(extent, int) else math.inf) * max(1.0, _loop_length(body))
        case Apply(_, arguments):
            return sum(map(_loop_length, arguments))
        case Choose(_, then, otherwise):
            return _loop_length(then) + _loop_length(otherwise)
        case _:
            return 0.0


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array
