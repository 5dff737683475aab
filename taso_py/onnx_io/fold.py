"""Values of weights-only computations: float64 throughout, rounded once at the end."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.errors import ModelError, TypingError
from taso_py.graph.sizes import Size, element_variables
from taso_py.graph.table import Node, Values
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Operand, Reduce, Scalar
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Operator

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
    _: KW_ONLY
    out_of_range: set[int] = field(default_factory=set)
    """Ids whose folded numbers are too large or too small for their element type, although all sources are finite."""
    _keys: dict[tuple[Operator, tuple[int, ...]], int] = field(default_factory=dict)
    _memo: OrderedDict[int, Array] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _table: Mapping[int, Node] | None = None
    _table_keys: dict[int, int] = field(default_factory=dict)

    def value(self, constant: int, nodes: Mapping[int, Node]) -> Array:
        """The value of a constant id in the element type of that id; `nodes` is the table to read it from."""
        dtype = np.dtype(self.values.types[constant].dtype)
        if constant not in nodes:
            return self.source(constant)
        exact = self._evaluate(constant, nodes)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = exact.astype(dtype)
        if np.issubdtype(dtype, np.floating) and not _in_range(exact, dtype):
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

    def _keys_of(self, constant: int, nodes: Mapping[int, Node]) -> Mapping[int, int]:
        """Numbers of a constant id and all below it: the same exactly for the same computation from the same sources.

        They are remembered per table: tables do not change, save that a model's own grows while it is read.
        """
        if nodes is not self._table:
            self._table, self._table_keys = nodes, {}
        keys = self._table_keys
        stack = [constant]
        while stack:
            value = stack[-1]
            node = nodes.get(value)
            if node is not None and (not isinstance(node.operator, Operator) or value not in self.values.constant):
                raise TypingError(f"value {value} does not depend on weights only")
            inputs = [] if node is None else _operands(node)
            missing = [i for i in inputs if i not in keys]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if node is None:
                keys[value] = -1 - value
            else:
                keys[value] = self._keys.setdefault((node.operator, tuple(keys[i] for i in inputs)), len(self._keys))
        return keys

    def _evaluate(self, constant: int, nodes: Mapping[int, Node]) -> Array:
        """The value before rounding; what it is computed from is held no longer than it is needed."""
        keys = self._keys_of(constant, nodes)
        known: dict[int, Array] = {}
        order = self._missing(constant, nodes, keys, known)
        uses = Counter([constant, *(i for value in order for i in _operands(nodes[value]))])
        for value in order:
            operator, inputs = nodes[value].operator, _operands(nodes[value])
            try:
                found = evaluate(operator, [known[i] for i in inputs], [self.values.types[i] for i in inputs])
            except (ArithmeticError, MemoryError, RecursionError) as error:
                why = type(error).__name__
                raise TypingError(f"{operator} of {len(inputs)} operands cannot be folded ({why})") from error
            known[value] = found
            self._remember(keys[value], found)
            uses.subtract(inputs)
            for i in inputs:
                if uses[i] <= 0:
                    known.pop(i, None)
        return known[constant]

    def _missing(
        self, constant: int, nodes: Mapping[int, Node], keys: Mapping[int, int], known: dict[int, Array]
    ) -> list[int]:
        """What has to be computed for a constant, operands first; what it begins from goes into ``known``."""
        order: dict[int, None] = {}
        stack = [(constant, False)]
        while stack:
            value, ready = stack.pop()
            if ready:
                order[value] = None
            elif value not in known and value not in order:
                found = self._at_hand(value, nodes, keys)
                if found is not None:
                    known[value] = found
                    continue
                inputs = _operands(nodes[value])
                _require_foldable(nodes[value].operator, [self.values.types[i] for i in inputs])
                stack.append((value, True))
                stack.extend((i, False) for i in reversed(inputs))
        return list(order)

    def _at_hand(self, value: int, nodes: Mapping[int, Node], keys: Mapping[int, int]) -> Array | None:
        """A value that need not be computed: a source, or one that is remembered."""
        if value not in nodes:
            return _wide(self.source(value))
        found = self._memo.get(keys[value])
        if found is not None:
            self._memo.move_to_end(keys[value])
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
        self.out_of_range.add(constant)


def _operands(node: Node) -> list[int]:
    return [i for i in node.inputs if i is not None]


def _require_foldable(operator: Operator, types: Sequence[TensorType]) -> None:
    """`TypingError` when the value is symbolic in size or takes too much memory or time to compute here."""
    result = operator.infer(*types)
    if not isinstance(result.elements, int) or result.elements > MAXIMAL_ELEMENTS:
        raise TypingError(f"{operator} has a result too large to fold: {result}")
    if type(operator).kernel is not Operator.kernel:
        return
    index = tuple(s.size for s in element_variables(result.rank))
    views = tuple(Operand(k, t) for k, t in enumerate(types))
    if _too_long(operator, views, index):
        raise TypingError(f"{operator} of {', '.join(map(str, types))} takes too long to fold")


def _too_long(operator: Operator, views: tuple[Operand, ...], index: tuple[Size, ...]) -> bool:
    try:
        return _loop_length(operator.element(views, index)) > MAXIMAL_STEPS
    except RecursionError:  # the meaning of a thousand operands is as deep
        return True


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


def _in_range(exact: Array, dtype: np.dtype[Any]) -> bool:
    """Whether the largest number, zero or not, is one that ``dtype`` holds with all its digits.

    What is no number (the root of a negative variance) is none in the original either, and says nothing of the range.
    """
    if not exact.size:
        return True
    peak = max(float(exact.max()), -float(exact.min()))
    if not np.isfinite(peak):
        peak = float(np.abs(exact, where=np.isfinite(exact), out=np.zeros(exact.shape)).max())
    limits = np.finfo(dtype)
    return peak == 0 or bool(limits.smallest_normal <= peak <= limits.max)


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array
