"""Values of weights-only computations: float64 throughout, rounded once at the end."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from taso_py.arrays import Array
from taso_py.errors import TooLateError, TypingError
from taso_py.graph.table import Node, Values
from taso_py.graph.types import INTEGERS, TensorType
from taso_py.onnx_io.read import content
from taso_py.onnx_io.steps import LEAST_WORK, MAXIMAL_STEPS, bytes_of, has_kernel, steps, work
from taso_py.ops.algebra import moves
from taso_py.ops.comparison import Cast
from taso_py.ops.elementwise import Add, Power, Sub
from taso_py.ops.numeric import evaluate
from taso_py.ops.operator import Operator

WHOLE = INTEGERS | {"bool"}
_ROUNDED_ONCE = frozenset({"Add", "Sub", "Mul", "Div", "Sqrt", "Reciprocal", "Neg", "Abs", "Relu"})
_ROUNDED_ONCE |= {"Min", "Max", "Clip", "Clamp", "Where", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
"""ONNX names of operators that make one number of a few by one operation."""
MEMORY_BYTES = 256 * 2**20
"""How much of intermediate results is remembered."""
_KEPT_BYTES = 2**26
"""Weights up to this size are read from their file once, if there is room."""
MAXIMAL_BYTES = 3 * 2**29
"""The most that operands and result of one operator may take in float64."""
_EXACT = 2**53
"""Up to here float64 has every whole number, in which powers are computed."""
_STEEP = 2.0**20
"""A number of this size leaves hardly any bit of float32 behind the point to what is added to it."""
_KERNEL_RATE, _LOOP_RATE = 5e9, 1e8
"""Steps a second that are hoped for of an operator that was not seen at work yet."""


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
    deadline: float = math.inf
    """A time.monotonic() value: what would be ready only after it is not begun."""
    refused: str = ""
    """What was last not begun for want of time."""
    _rates: dict[type[Operator], float] = field(default_factory=dict)
    """Steps a second that an operator was last seen to make."""
    _keys: dict[tuple[Operator, tuple[int, ...]], int] = field(default_factory=dict)
    _memo: OrderedDict[int, Array] = field(default_factory=OrderedDict)
    _held: dict[int, Array] = field(default_factory=dict)
    _bytes: int = 0
    _table: Mapping[int, Node] | None = None
    _table_keys: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Within the block nothing is begun that would take longer than to this time.monotonic() value."""
        outer, self.deadline = self.deadline, min(self.deadline, deadline)
        try:
            yield
        finally:
            self.deadline = outer

    def value(self, constant: int, nodes: Mapping[int, Node]) -> Array:
        """The value of a constant id in the element type of that id; `nodes` is the table to read it from.

        `TypingError` where it cannot be folded, `TooLateError` where that would take longer than there is time.
        """
        dtype = np.dtype(self.values.types[constant].dtype)
        if constant not in nodes:
            return self.source(constant)
        exact = self._evaluate(constant, nodes)
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = exact.astype(dtype)
        if np.issubdtype(dtype, np.floating) and not _in_range(exact, dtype):
            self._report(constant, nodes)
        return rounded

    def held(self, constant: int, nodes: Mapping[int, Node]) -> Array:
        """The value as ONNX Runtime has it, rounded to its element type at every step: what decides a size must be so.

        10 * 0.7 is 7 in float32, and below 7 where it is not rounded before it is cast.  `TypingError` where a step is
        not determined to the last bit.
        """
        keys = self._keys_of(constant, nodes)
        stack = [constant]
        while stack:
            value = stack[-1]
            inputs = _operands(nodes[value]) if value in nodes else []
            missing = [i for i in inputs if keys[i] not in self._held]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if value not in nodes:
                self._held[keys[value]] = self.source(value)
                continue
            types = [self.values.types[i] for i in inputs]
            operator = nodes[value].operator
            if not _determined(operator, types):
                raise TypingError(f"{operator} is left to ONNX Runtime: its last bits decide something")
            _require_foldable(operator, types)
            exact = self._computed(operator, [_wide(self._held[keys[i]]) for i in inputs], types)
            with np.errstate(over="ignore", invalid="ignore"):
                self._held[keys[value]] = exact.astype(np.dtype(self.values.types[value].dtype))
        return self._held[keys[constant]]

    def source(self, constant: int) -> Array:
        """The tensor of a fixed initializer or Constant node, as stored; `TypingError` for one too large for memory."""
        key = -1 - constant
        found = self._memo.get(key)
        if found is not None:
            self._memo.move_to_end(key)
            return found
        tensor = self.tensors[constant]
        if tensor.nbytes > MAXIMAL_BYTES:
            raise TypingError(f"{tensor.name} of {tensor.nbytes} bytes is too large to be looked at")
        found = content(tensor)
        if isinstance(tensor, ir.ExternalTensor) and found.nbytes <= _KEPT_BYTES:
            self._remember(key, found)
        return found

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
            inputs = _operands(nodes[value])
            types = [self.values.types[i] for i in inputs]
            whole = self.values.types[value].dtype in WHOLE
            operands = [
                self._decided(i, nodes) if whole and types[k].dtype not in WHOLE else known[i]
                for k, i in enumerate(inputs)
            ]
            known[value] = found = self._computed(nodes[value].operator, operands, types)
            self._remember(keys[value], found)
            uses.subtract(inputs)
            for i in inputs:
                if uses[i] <= 0:
                    known.pop(i, None)
        return known[constant]

    def _decided(self, value: int, nodes: Mapping[int, Node]) -> Array:
        """A float of which a whole number or a truth is made, which may be another one for the last bit."""
        return _wide(self.held(value, nodes))

    def _computed(self, operator: Operator, operands: Sequence[Array], types: Sequence[TensorType]) -> Array:
        """The operator's value, if there is time for it."""
        result = operator.infer(*types).dtype
        if isinstance(operator, Cast) and result in INTEGERS and not _held_by(operands[0], result):
            raise TypingError(f"{operator} of numbers beyond {result} is left to ONNX Runtime")
        effort = work(operator, types)
        begin = time.monotonic()
        expected = effort / self._rates.get(type(operator), _KERNEL_RATE if has_kernel(operator, types) else _LOOP_RATE)
        if effort > LEAST_WORK and begin + expected > self.deadline:
            self.refused = f"{operator.onnx} of the weights {' and '.join(map(str, types))}"
            raise TooLateError(f"{self.refused} takes too long to fold in the time left")
        try:
            found = _wrapped(evaluate(operator, operands, types), result)
        except (ArithmeticError, MemoryError, RecursionError, ValueError) as error:
            why = type(error).__name__
            raise TypingError(f"{operator} of {len(operands)} operands cannot be folded ({why})") from error
        if effort > LEAST_WORK:
            self._rates[type(operator)] = effort / max(time.monotonic() - begin, 1e-6)
        if isinstance(operator, Power) and result in INTEGERS and np.any(np.abs(found) >= _EXACT):
            raise TypingError(f"{operator} of integers beyond 2^53 is left to ONNX Runtime")
        return _rounded(found) if _rounds(operator, operands, result) else found

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


def _determined(operator: Operator, types: Sequence[TensorType]) -> bool:
    """Whether IEEE 754 says of every bit of the result what it is, in whatever order sums are taken.

    Not of chains in float16: ONNX Runtime computes them in float32, and leaves out the casts between them.
    """
    if isinstance(operator, Cast):
        # ONNX Runtime goes by way of float32 there.
        return not (types[0].dtype == "float64" and operator.infer(*types).dtype == "float16")
    half = any(t.dtype == "float16" for t in types)
    if (operator.onnx in _ROUNDED_ONCE and not half) or all(t.dtype in WHOLE for t in types):
        return True
    return moves(operator, types)


def _held_by(floats: Array, dtype: str) -> bool:
    """Whether a cast of these to an integer type is one: of others each processor makes what it likes."""
    if not np.issubdtype(floats.dtype, np.floating):
        return True
    limits = np.iinfo(dtype)
    return bool(np.all((floats > float(limits.min) - 1) & (floats < float(limits.max) + 1)))


def _wrapped(found: Array, dtype: str) -> Array:
    """Whole numbers as their element type has them after every step: modulo a power of 2."""
    return found.astype(dtype).astype(np.int64) if dtype in INTEGERS else found


def _rounds(operator: Operator, operands: Sequence[Array], result: str) -> bool:
    """Whether a sum with a large number is meant to round: (x + 12582912) - 12582912 is whole in float32."""
    return (
        isinstance(operator, Add | Sub) and result == "float32" and any(np.any(np.abs(a) >= _STEEP) for a in operands)
    )


def _rounded(found: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return found.astype(np.float32).astype(np.float64)


def _operands(node: Node) -> list[int]:
    return [i for i in node.inputs if i is not None]


def _require_foldable(operator: Operator, types: Sequence[TensorType]) -> None:
    """`TypingError` when the value is symbolic in size or takes too much memory or time to compute here."""
    if bytes_of(operator, types) > MAXIMAL_BYTES:
        raise TypingError(f"{operator} of {', '.join(map(str, types))} is too large to fold")
    if any(t.dtype == "uint64" for t in types) and not moves(operator, types):
        raise TypingError(f"{operator} of uint64 is left to ONNX Runtime: 63 bits and a sign are computed here")
    if not has_kernel(operator, types) and steps(operator, tuple(types)) > MAXIMAL_STEPS:
        raise TypingError(f"{operator} of {', '.join(map(str, types))} takes too long to fold")


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
