"""Softmax and the normalisations: compositions that provers see through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide, product
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.elementwise import power, round_attributes
from taso_py.ops.meaning import (
    Index,
    Integer,
    Number,
    Operand,
    Scalar,
    add,
    apply,
    div,
    maximum,
    mul,
    over,
    sub,
    total,
)
from taso_py.ops.operator import (
    Given,
    OnnxCall,
    Operator,
    Reading,
    Writing,
    broadcast,
    broadcast_index,
    normal_axis,
    same_dtype,
)


@dataclass(frozen=True)
class SoftmaxFamily(Operator):
    """A normalised exponential along ``axis``; with ``flatten`` over all axes from it on (opset < 13)."""

    axis_fields: ClassVar[Mapping[str, int]] = {"axis": 0}
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    axis: int = -1
    flatten: int = 0

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        if x.rank == 0:
            raise RankError(f"{self.onnx} needs an axis, got {x}")
        normal_axis(self.axis, x.rank)
        return x

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        axis = normal_axis(self.axis, x.type.rank)
        last = x.type.rank if self.flatten else axis + 1
        extents = x.dims[axis:last]

        def read(k: Index) -> Scalar:
            return x[(*index[:axis], *k, *index[last:])]

        shift = over(maximum, extents, read)
        scale = over(total, extents, lambda k: apply("exp", sub(read(k), shift)))
        return self.combine(sub(x[index], shift), scale)

    def combine(self, shifted: Scalar, scale: Scalar) -> Scalar:
        """The element from x - max and Σ exp(x - max)."""
        raise NotImplementedError

    def normal(self, *operands: TensorType) -> Self:
        axis = normal_axis(self.axis, operands[0].rank)
        if not self.flatten:
            return type(self)(axis)
        wide = [a for a, d in enumerate(operands[0].dims) if a >= axis and d != 1]
        return type(self)(axis, 1) if len(wide) > 1 else type(self)(*(wide or [axis]))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        if not set(call.attributes) <= {"axis"} or len(call.inputs) != 1 or call.inputs[0] is None:
            return None
        flattens = call.opset < 13
        return Reading(cls(call.attributes.get("axis", 1 if flattens else -1), int(flattens)), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        (x,) = operands
        plain = not self.flatten
        # Before opset 13 the operator flattens, which is the same when all later axes have size 1.
        if opset < 13:
            axis = normal_axis(self.axis, x.rank)
            plain = bool(self.flatten) or all(d == 1 for d in x.dims[axis + 1 :])
        return Writing(self.onnx, (Given(0),), {"axis": self.axis}) if plain else None


@dataclass(frozen=True)
class Softmax(SoftmaxFamily):
    """out[i] = exp(x[i] - m) / Σ_k exp(x[k] - m), m = max_k x[k]."""

    onnx: ClassVar[str] = "Softmax"

    def combine(self, shifted: Scalar, scale: Scalar) -> Scalar:
        return div(apply("exp", shifted), scale)


@dataclass(frozen=True)
class LogSoftmax(SoftmaxFamily):
    """out[i] = x[i] - m - ln Σ_k exp(x[k] - m), m = max_k x[k]."""

    onnx: ClassVar[str] = "LogSoftmax"

    def combine(self, shifted: Scalar, scale: Scalar) -> Scalar:
        return sub(shifted, apply("log", scale))


@dataclass(frozen=True)
class AxisNormalization(Operator):
    """A normalisation of x over the axes from ``axis`` on, scaled by an operand that broadcasts to x."""

    axis_fields: ClassVar[Mapping[str, int]] = {"axis": 0}
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    arity: ClassVar[tuple[int, int]] = (2, 2)
    axis: int = -1
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        round_attributes(self, "epsilon")

    def infer(self, *operands: TensorType) -> TensorType:
        self.check_arity(len(operands))
        x = operands[0]
        axis = normal_axis(self.axis, x.rank)
        for t in operands[1:]:
            # A scale that varies over the outer axes is legal in ONNX, but not every runtime has it.
            if t.rank > x.rank - axis or broadcast(x.dims, t.dims) != x.dims:
                raise TypingError(f"{self.onnx} of {x} from axis {axis} on cannot be scaled by {t}")
        return TensorType(same_dtype(*operands), x.dims)

    def normal(self, *operands: TensorType) -> Self:
        return replace(self, axis=normal_axis(self.axis, operands[0].rank))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        attributes = dict(call.attributes)
        # Other stash types round in the middle of the computation.
        if attributes.pop("stash_type", 1) != 1 or not cls.defines_used(call):
            return None
        present = [k for k in range(len(call.inputs)) if call.present(k)]
        if call.opset < cls.since or not set(attributes) <= {"axis", "epsilon"} or present[:2] != [0, 1]:
            return None
        operator = cls(**attributes).at_port(call.first_output)
        return Reading(operator, tuple(present)) if max(present) < cls.arity[1] else None

    def _mean(self, x: Operand, index: Index, body: Callable[[Scalar], Scalar]) -> Scalar:
        axis = normal_axis(self.axis, x.type.rank)
        extents: tuple[Size, ...] = x.dims[axis:]
        values = over(total, extents, lambda k: body(x[(*index[:axis], *k)]))
        return div(values, Integer(product(extents)))


@dataclass(frozen=True)
class LayerNormalization(AxisNormalization):
    """out = (x - mean) / √(variance + epsilon) · scale + bias, the moments over the axes from ``axis`` on.

    Output 1 is the mean, output 2 is 1 / √(variance + epsilon), both float32 whatever x is.
    """

    onnx: ClassVar[str] = "LayerNormalization"
    since: ClassVar[int] = 17
    arity: ClassVar[tuple[int, int]] = (2, 3)
    several: ClassVar[bool] = True
    output: int = 0

    def infer(self, *operands: TensorType) -> TensorType:
        result = super().infer(*operands)
        if not 0 <= self.output <= 2:
            raise TypingError(f"LayerNormalization has no output {self.output}")
        if self.output == 0:
            return result
        axis = normal_axis(self.axis, result.rank)
        return TensorType("float32", (*result.dims[:axis], *(1 for _ in result.dims[axis:])))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, scale = operands[:2]
        mean = self._mean(x, index, lambda value: value)

        def squared(value: Scalar) -> Scalar:
            centred = sub(value, mean)
            return mul(centred, centred)

        if self.output == 1:
            return mean
        deviation = apply("sqrt", add(self._mean(x, index, squared), Number(self.epsilon)))
        if self.output == 2:
            return apply("reciprocal", deviation)
        normalised = div(sub(x[index], mean), deviation)
        scaled = mul(normalised, scale[broadcast_index(scale, x.dims, index)])
        if len(operands) == 2:
            return scaled
        return add(scaled, operands[2][broadcast_index(operands[2], x.dims, index)])


@dataclass(frozen=True)
class RMSNormalization(AxisNormalization):
    """out = x / √(mean of x² + epsilon) · scale, the mean over the axes from ``axis`` on."""

    onnx: ClassVar[str] = "RMSNormalization"
    since: ClassVar[int] = 23

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, scale = operands
        square = self._mean(x, index, lambda value: mul(value, value))
        normalised = div(x[index], apply("sqrt", add(square, Number(self.epsilon))))
        return mul(normalised, scale[broadcast_index(scale, x.dims, index)])


@dataclass(frozen=True)
class BatchNormalization(Operator):
    """out[n, c, *s] = (x[n, c, *s] - mean[c]) / √(var[c] + epsilon) · scale[c] + bias[c]: at inference."""

    onnx: ClassVar[str] = "BatchNormalization"
    arity: ClassVar[tuple[int, int]] = (5, 5)
    since: ClassVar[int] = 7
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        round_attributes(self, "epsilon")

    def infer(self, *operands: TensorType) -> TensorType:
        self.check_arity(len(operands))
        x = operands[0]
        if x.rank < 2 or any(t.shape != (x.dims[1],) for t in operands[1:]):
            raise TypingError(f"BatchNormalization of {x} by {', '.join(map(str, operands[1:]))}")
        return TensorType(same_dtype(*operands), x.dims)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x = operands[0]
        scale, bias, mean, variance = (t[(index[1],)] for t in operands[1:])
        deviation = apply("sqrt", add(variance, Number(self.epsilon)))
        return add(mul(div(sub(x[index], mean), deviation), scale), bias)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        attributes = dict(call.attributes)
        if call.opset >= 14 and attributes.pop("training_mode", 0) != 0:
            return BatchNormalizationTraining.read(replace(call, attributes=attributes))
        # The weight of the running statistics plays no part at inference.
        attributes.pop("momentum", None)
        if call.opset < 9 and attributes.pop("spatial", 1) != 1:
            return None
        # Before opset 14 further outputs, used or not, mean training.
        if call.opset < 14 and len(call.used_outputs) > 1:
            return None
        return super().read(replace(call, attributes=attributes))


@dataclass(frozen=True)
class BatchNormalizationTraining(BatchNormalization):
    """BatchNormalization by the mean and the variance of x itself, over all axes but 1: ``training_mode=1``.

    Outputs 1 and 2 are mean · momentum + (mean of x) · (1 - momentum), and the same of the variance.
    """

    onnx: ClassVar[str] = "BatchNormalizationTraining"
    since: ClassVar[int] = 14
    several: ClassVar[bool] = True
    momentum: float = 0.9
    output: int = 0

    @property
    def least_outputs(self) -> int:
        return 3

    def __post_init__(self) -> None:
        round_attributes(self, "epsilon", "momentum")

    def infer(self, *operands: TensorType) -> TensorType:
        result = super().infer(*operands)
        if not 0 <= self.output <= 2 or 0 in result.dims:
            raise TypingError(f"output {self.output} of a BatchNormalization in training of {result}")
        return TensorType(result.dtype, result.dims if self.output == 0 else (result.dims[1],))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, scale, bias, *running = operands
        c = index[1] if self.output == 0 else index[0]
        mean = _over_channel(x, c, lambda value: value)

        def squared(value: Scalar) -> Scalar:
            centred = sub(value, mean)
            return mul(centred, centred)

        moments = (mean, _over_channel(x, c, squared))
        if self.output > 0:
            old, new = running[self.output - 1][(c,)], moments[self.output - 1]
            return add(mul(old, Number(self.momentum)), mul(new, Number(1 - self.momentum)))
        deviation = apply("sqrt", add(moments[1], Number(self.epsilon)))
        return add(mul(div(sub(x[index], mean), deviation), scale[(c,)]), bias[(c,)])

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        return super(BatchNormalization, cls).read(call) if len(call.used_outputs) == 3 else None

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        plain = super().write(opset, operands)
        if plain is None:
            return None
        return Writing("BatchNormalization", plain.inputs, {**plain.attributes, "training_mode": 1})


def _over_channel(x: Operand, c: Size, body: Callable[[Scalar], Scalar]) -> Scalar:
    """The mean of body(x[n, c, *s]) over n and *s."""
    extents = (x.dims[0], *x.dims[2:])
    values = over(total, extents, lambda k: body(x[(k[0], c, *k[1:])]))
    return div(values, Integer(product(extents)))


@dataclass(frozen=True)
class LRN(Operator):
    """out[n, c, *s] = x[n, c, *s] / (bias + alpha/size · Σ_r x[n, c + r - (size-1)//2, *s]²) ** beta, 0 <= r < size.

    Outside of x the summand is 0.  ONNX Runtime has it for two spatial axes only.
    """

    onnx: ClassVar[str] = "LRN"
    dtypes: ClassVar[frozenset[str] | None] = frozenset({"float32"})
    size: Size = 1
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    def __post_init__(self) -> None:
        round_attributes(self, "alpha", "beta", "bias")

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        if x.rank != 4:
            raise RankError(f"{self.onnx} of {x}")
        if at_least(self.size, 1) is False:
            raise TypingError(f"{self.onnx} over {self.size} channels")
        return x

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return [self.size - 1]

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        n, c, *s = index
        first = c - floor_divide(self.size - 1, 2)
        squares = total(self.size, lambda r: mul(x[n, first + r, *s], x[n, first + r, *s]))
        base = add(Number(self.bias), mul(div(Number(self.alpha), Integer(self.size)), squares))
        return div(x[index], power(base, self.beta))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        reading = super().read(call)
        # What ONNX Runtime has a kernel for.
        size, alpha, beta = (call.attributes.get(name, default) for name, default in _RESPONSE.items())
        runs = isinstance(size, int) and size % 2 == 1 and alpha > 0 and beta > 0
        return reading if runs else None


_RESPONSE = {"size": 0, "alpha": 1e-4, "beta": 0.75}
