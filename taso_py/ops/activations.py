"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taso_py.errors import TypingError
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.constants import require_held
from taso_py.ops.elementwise import Pointwise, round_attributes, single
from taso_py.ops.meaning import Number, Scalar, add, apply, div, mul
from taso_py.ops.operator import MANY, AttributeValue, Constant, Given, OnnxCall, Reading, Writing


@dataclass(frozen=True)
class Relu(Pointwise):
    """out = max(x, 0)."""

    onnx: ClassVar[str] = "Relu"
    function: ClassVar[str] = "relu"


@dataclass(frozen=True)
class LeakyRelu(Pointwise):
    """out = x if x >= 0 else alpha · x."""

    onnx: ClassVar[str] = "LeakyRelu"
    alpha: float = 0.01

    def __post_init__(self) -> None:
        round_attributes(self, "alpha")

    def scalar(self, *arguments: Scalar) -> Scalar:
        return apply("leakyrelu", *arguments, attributes=(self.alpha,))


@dataclass(frozen=True)
class PRelu(Pointwise):
    """out = x if x >= 0 else slope · x; the slope broadcasts to x, never x to the slope."""

    onnx: ClassVar[str] = "PRelu"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "prelu"
    arity: ClassVar[tuple[int, int]] = (2, 2)

    def infer(self, *operands: TensorType) -> TensorType:
        result = super().infer(*operands)
        if result.dims != operands[0].dims:
            raise TypingError(f"PRelu's slope {operands[1]} does not broadcast to {operands[0]}")
        return result


@dataclass(frozen=True)
class Elu(Pointwise):
    """out = x if x >= 0 else alpha · (eˣ - 1)."""

    onnx: ClassVar[str] = "Elu"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        round_attributes(self, "alpha")

    def scalar(self, *arguments: Scalar) -> Scalar:
        return apply("elu", *arguments, attributes=(self.alpha,))


@dataclass(frozen=True)
class Selu(Pointwise):
    """out = gamma · (x if x > 0 else alpha · (eˣ - 1))."""

    onnx: ClassVar[str] = "Selu"
    alpha: float = 1.67326319217681884765625
    gamma: float = 1.05070102214813232421875

    def __post_init__(self) -> None:
        round_attributes(self, "alpha", "gamma")

    def scalar(self, *arguments: Scalar) -> Scalar:
        return mul(Number(self.gamma), apply("elu", *arguments, attributes=(self.alpha,)))


@dataclass(frozen=True)
class Sigmoid(Pointwise):
    """out = 1 / (1 + e⁻ˣ)."""

    onnx: ClassVar[str] = "Sigmoid"
    function: ClassVar[str] = "sigmoid"


@dataclass(frozen=True)
class Tanh(Pointwise):
    """out = tanh x."""

    onnx: ClassVar[str] = "Tanh"
    function: ClassVar[str] = "tanh"


@dataclass(frozen=True)
class Softplus(Pointwise):
    """out = ln(1 + eˣ)."""

    onnx: ClassVar[str] = "Softplus"
    function: ClassVar[str] = "softplus"


@dataclass(frozen=True)
class Softsign(Pointwise):
    """out = x / (1 + |x|)."""

    onnx: ClassVar[str] = "Softsign"

    def scalar(self, *arguments: Scalar) -> Scalar:
        (x,) = arguments
        return div(x, add(Number(1.0), apply("abs", x)))


@dataclass(frozen=True)
class Mish(Pointwise):
    """out = x · tanh(softplus x)."""

    onnx: ClassVar[str] = "Mish"
    since: ClassVar[int] = 18

    def scalar(self, *arguments: Scalar) -> Scalar:
        (x,) = arguments
        return mul(x, apply("tanh", apply("softplus", x)))


def _hard_sigmoid(x: Scalar, alpha: float, beta: float) -> Scalar:
    line = add(mul(Number(alpha), x), Number(beta))
    return apply("max", Number(0.0), apply("min", Number(1.0), line))


@dataclass(frozen=True)
class HardSigmoid(Pointwise):
    """out = max(0, min(1, alpha · x + beta))."""

    onnx: ClassVar[str] = "HardSigmoid"
    alpha: float = 0.2
    beta: float = 0.5

    def __post_init__(self) -> None:
        round_attributes(self, "alpha", "beta")

    def scalar(self, *arguments: Scalar) -> Scalar:
        return _hard_sigmoid(arguments[0], self.alpha, self.beta)


@dataclass(frozen=True)
class HardSwish(Pointwise):
    """out = x · max(0, min(1, x/6 + 1/2)), 1/6 being float32's, as in ONNX's own definition."""

    onnx: ClassVar[str] = "HardSwish"
    since: ClassVar[int] = 14

    def scalar(self, *arguments: Scalar) -> Scalar:
        (x,) = arguments
        return mul(x, _hard_sigmoid(x, single(1 / 6), 0.5))


@dataclass(frozen=True)
class Gelu(Pointwise):
    """out = x/2 · (1 + erf(x/√2)); with approximate="tanh" x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³))).

    2/π and 0.044715 are float32's, as in ONNX's own definition.
    """

    onnx: ClassVar[str] = "Gelu"
    since: ClassVar[int] = 20
    approximate: str = "none"

    def scalar(self, *arguments: Scalar) -> Scalar:
        (x,) = arguments
        half = mul(Number(0.5), x)
        if self.approximate == "none":
            return mul(half, add(Number(1.0), apply("erf", mul(Number(math.sqrt(0.5)), x))))
        cubic = mul(Number(single(0.044715)), mul(mul(x, x), x))
        inner = mul(Number(math.sqrt(single(2 / math.pi))), add(x, cubic))
        return mul(half, add(Number(1.0), apply("tanh", inner)))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        reading = super().read(call)
        known = isinstance(reading, Reading) and reading.operator in (Gelu("none"), Gelu("tanh"))
        return reading if known else None


@dataclass(frozen=True)
class Clip(Pointwise):
    """out = min(max(x, min), max); a bound that is absent is infinite."""

    onnx: ClassVar[str] = "Clip"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int32"}
    min: float = -math.inf
    max: float = math.inf

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        require_held(self, x.dtype, [v for v in (self.min, self.max) if v not in (-math.inf, math.inf)])
        return super().infer(x)

    def scalar(self, *arguments: Scalar) -> Scalar:
        (x,) = arguments
        if self.min != -math.inf:
            x = apply("max", x, Number(self.min))
        return x if self.max == math.inf else apply("min", x, Number(self.max))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        if not call.inputs or call.inputs[0] is None:
            return None
        if call.opset >= 11:
            low, high = _bound(call, 1, -math.inf), _bound(call, 2, math.inf)
            rest: set[str] = set(call.attributes)
        else:
            low, high = call.attributes.get("min", -math.inf), call.attributes.get("max", math.inf)
            rest = set(call.attributes) - {"min", "max"}
        if not rest and (low is None or high is None):
            return Clamp.read(call)
        if rest or low is None or high is None or not (low < math.inf and high > -math.inf):
            return None
        return Reading(cls(float(low), float(high)), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        dtype = operands[0].dtype
        bounds = {"min": self.min, "max": self.max}
        given: dict[str, AttributeValue] = {k: v for k, v in bounds.items() if math.isfinite(v)}
        if opset < 11:
            exact = all(single(v) == v for v in bounds.values())
            return Writing(self.onnx, (Given(0),), given) if exact and dtype == "float32" else None
        if opset < 12 and dtype not in FLOATS:
            return None
        inputs: list[Given | Constant | None] = [Given(0)]
        inputs += [Constant(np.array(v, dtype=dtype)) if k in given else None for k, v in bounds.items()]
        while inputs[-1] is None:
            inputs.pop()
        return Writing(self.onnx, tuple(inputs), {})


@dataclass(frozen=True)
class Clamp(Pointwise):
    """out = min(max(x, low), high): ONNX's Clip by scalars that are computed; ``bounds`` is low, high or both."""

    onnx: ClassVar[str] = "Clamp"
    since: ClassVar[int] = 11
    arity: ClassVar[tuple[int, int]] = (1, MANY)
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int32"}
    bounds: str = "both"

    def infer(self, *operands: TensorType) -> TensorType:
        count = {"low": 2, "high": 2, "both": 3}.get(self.bounds)
        if len(operands) != count or any(t.rank != 0 for t in operands[1:]):
            raise TypingError(f"{self} of {', '.join(map(str, operands))}")
        return super().infer(*operands)

    def scalar(self, *arguments: Scalar) -> Scalar:
        x, *rest = arguments
        for name, bound in zip(("min",) if self.bounds == "high" else ("max", "min"), rest, strict=False):
            x = apply(name, x, bound)
        return x

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        given = [k for k in (1, 2) if call.present(k)]
        types = [call.inputs[k] for k in given]
        if call.attributes or not given or any(t is None or not t.known or t.rank != 0 for t in types):
            return None
        return Reading(cls("both" if len(given) == 2 else "low" if given == [1] else "high"), (0, *given))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        if opset < (self.since if operands[0].dtype in FLOATS else 12):
            return None
        bounds = (None, Given(1)) if self.bounds == "high" else tuple(Given(k) for k in range(1, len(operands)))
        return Writing("Clip", (Given(0), *bounds), {})


def _bound(call: OnnxCall, k: int, absent: float) -> float | None:
    """The value of a bound that is an input; None when it is there and not a constant scalar."""
    if not call.present(k):
        return absent
    bound: Any = call.inputs[k]
    return call.scalar(k) if bound.known and bound.rank == 0 else None
