"""Element-wise arithmetic with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from taso_py.graph.sizes import Expression, Size
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.ops.meaning import Index, Integer, Operand, Scalar, add, apply, cast, div, mul, sub
from taso_py.ops.numeric import FUNCTIONS
from taso_py.ops.operator import (
    MANY,
    Constant,
    Given,
    OnnxCall,
    Operator,
    Reading,
    Writing,
    broadcast,
    broadcast_index,
    same_dtype,
)

NUMBERS = FLOATS | INTEGERS
# The evaluator works in int64, which orders every integer type but this one.
ORDERED = NUMBERS - {"uint64"}


def single(value: float | Size) -> Any:
    """The float32 nearest to ``value``: ONNX stores float attributes so. A symbol stays, standing for any float32."""
    return value if isinstance(value, Expression) else float(np.float32(value))


def round_attributes(operator: Operator, *names: str) -> None:
    """Round float attributes as ONNX would, so that an operator built in code equals the one read back."""
    for name in names:
        object.__setattr__(operator, name, single(getattr(operator, name)))


@dataclass(frozen=True)
class Pointwise(Operator):
    """out[*i] = function(x0[*i], x1[*i], ...), operands broadcast to a common shape."""

    function: ClassVar[str] = ""
    pointwise: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[str] | None] = FLOATS

    @classmethod
    def lacks(cls) -> str:
        if cls.scalar is not Pointwise.scalar or cls.element is not Pointwise.element:
            return super().lacks()
        if not cls.function:
            return "defines neither `scalar` nor `function`"
        known = cls.function in FUNCTIONS
        return "" if known else f"has the function '{cls.function}', which is not in FUNCTIONS (taso_py/ops/numeric.py)"

    def infer(self, *operands: TensorType) -> TensorType:
        self.check_arity(len(operands))
        return TensorType(self.result_dtype(*operands), broadcast(*(t.dims for t in operands)))

    def result_dtype(self, *operands: TensorType) -> str:
        """Element type of the result."""
        return same_dtype(*operands)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        result = broadcast(*(x.dims for x in operands))
        return self.scalar(*(x[broadcast_index(x, result, index)] for x in operands))

    def scalar(self, *arguments: Scalar) -> Scalar:
        """The function of one element of each operand."""
        return apply(self.function, *arguments)


@dataclass(frozen=True)
class Add(Pointwise):
    """out = a + b."""

    onnx: ClassVar[str] = "Add"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "add"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    commutative: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[str] | None] = NUMBERS


@dataclass(frozen=True)
class Sub(Pointwise):
    """out = a - b."""

    onnx: ClassVar[str] = "Sub"
    since: ClassVar[int] = 7
    arity: ClassVar[tuple[int, int]] = (2, 2)
    dtypes: ClassVar[frozenset[str] | None] = NUMBERS

    def scalar(self, *arguments: Scalar) -> Scalar:
        return sub(*arguments)


@dataclass(frozen=True)
class Mul(Pointwise):
    """out = a · b."""

    onnx: ClassVar[str] = "Mul"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "mul"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    commutative: ClassVar[bool] = True
    dtypes: ClassVar[frozenset[str] | None] = NUMBERS


@dataclass(frozen=True)
class Div(Pointwise):
    """out = a / b, defined for b != 0; floats only, because ONNX truncates integer quotients."""

    onnx: ClassVar[str] = "Div"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "div"
    arity: ClassVar[tuple[int, int]] = (2, 2)


@dataclass(frozen=True)
class Neg(Pointwise):
    """out = -1 · x."""

    onnx: ClassVar[str] = "Neg"
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int8", "int16", "int32", "int64"}

    def scalar(self, *arguments: Scalar) -> Scalar:
        return mul(Integer(-1), *arguments)


@dataclass(frozen=True)
class Abs(Pointwise):
    """out = |x|."""

    onnx: ClassVar[str] = "Abs"
    function: ClassVar[str] = "abs"
    dtypes: ClassVar[frozenset[str] | None] = ORDERED


@dataclass(frozen=True)
class Sqrt(Pointwise):
    """out = √x, defined for x >= 0."""

    onnx: ClassVar[str] = "Sqrt"
    function: ClassVar[str] = "sqrt"


@dataclass(frozen=True)
class Reciprocal(Pointwise):
    """out = 1 / x, defined for x != 0."""

    onnx: ClassVar[str] = "Reciprocal"
    function: ClassVar[str] = "reciprocal"


@dataclass(frozen=True)
class Exp(Pointwise):
    """out = eˣ."""

    onnx: ClassVar[str] = "Exp"
    function: ClassVar[str] = "exp"


@dataclass(frozen=True)
class Log(Pointwise):
    """out = ln x, defined for x > 0."""

    onnx: ClassVar[str] = "Log"
    function: ClassVar[str] = "log"


@dataclass(frozen=True)
class Sin(Pointwise):
    """out = sin x."""

    onnx: ClassVar[str] = "Sin"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "sin"


@dataclass(frozen=True)
class Cos(Pointwise):
    """out = cos x."""

    onnx: ClassVar[str] = "Cos"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "cos"


@dataclass(frozen=True)
class Erf(Pointwise):
    """out = erf x = 2/√π · ∫₀ˣ exp(-t²) dt."""

    onnx: ClassVar[str] = "Erf"
    since: ClassVar[int] = 9
    function: ClassVar[str] = "erf"


@dataclass(frozen=True)
class Identity(Pointwise):
    """out = x."""

    onnx: ClassVar[str] = "Identity"
    dtypes: ClassVar[frozenset[str] | None] = None

    def scalar(self, *arguments: Scalar) -> Scalar:
        return arguments[0]

    def kernel(self, *operands: Any) -> Any:
        return operands[0]


def _is_simple(exponent: float | Size) -> bool:
    """Whether it is a multiple of 1/4, no larger than 8: a symbol is none."""
    small = not isinstance(exponent, Expression) and 0 < abs(exponent) <= 8
    return small and 4 * exponent % 1 == 0


def power(x: Scalar, exponent: float) -> Scalar:
    """x ** exponent: a product of x, √x and √√x, or its reciprocal, where the exponent is simple."""
    if not _is_simple(exponent):
        return apply("pow", x, attributes=(exponent,))
    whole, quarters = divmod(int(4 * abs(exponent)), 4)
    factors = [x] * whole
    if quarters >= 2:
        factors.append(apply("sqrt", x))
    if quarters % 2:
        factors.append(apply("sqrt", apply("sqrt", x)))
    product = reduce(mul, factors)
    return product if exponent > 0 else apply("reciprocal", product)


@dataclass(frozen=True)
class Pow(Pointwise):
    """out = x ** exponent, one constant; small multiples of 1/4 mean products of x and of its roots."""

    onnx: ClassVar[str] = "Pow"
    since: ClassVar[int] = 7
    exponent: float = 1.0

    def scalar(self, *arguments: Scalar) -> Scalar:
        (x,) = arguments
        return power(x, self.exponent)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        base, power = call.inputs if len(call.inputs) == 2 else (None, None)
        if call.attributes or base is None or power is None:
            return None
        exponent = call.scalar(1)
        # A one-element exponent of higher rank than the base adds axes to the result.
        fits = base.known and power.known and power.rank <= base.rank
        if exponent is None or not fits or not math.isfinite(exponent) or base.dtype in INTEGERS:
            return Reading(Power(), (0, 1))
        return Reading(cls(exponent), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        dtype = operands[0].dtype
        if opset < self.since:
            return None
        exponent = np.array(self.exponent, dtype=dtype)
        if float(exponent) != self.exponent:
            # Before opset 12 base and exponent share their type.
            if opset < 12:
                return None
            exponent = np.array(self.exponent, dtype=np.float64)
        return Writing(self.onnx, (Given(0), Constant(exponent)), {})


@dataclass(frozen=True)
class Power(Pointwise):
    """out = x ** exponent, element by element: ONNX's Pow by a tensor; truncated when x holds integers."""

    onnx: ClassVar[str] = "Power"
    since: ClassVar[int] = 7
    function: ClassVar[str] = "pow"
    arity: ClassVar[tuple[int, int]] = (2, 2)
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | {"int32", "int64"}

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        dtype = operands[0].type.dtype
        if dtype not in INTEGERS:
            return super().element(operands, index)
        result = broadcast(*(x.dims for x in operands))
        base, exponent = (cast(x[broadcast_index(x, result, index)], "float64") for x in operands)
        return cast(apply("pow", base, exponent), dtype)

    def result_dtype(self, *operands: TensorType) -> str:
        return operands[0].dtype

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        # Before opset 12 base and exponent share their type.
        same = operands[0].dtype == operands[1].dtype and operands[0].dtype not in INTEGERS
        return Writing("Pow", (Given(0), Given(1)), {}) if opset >= 12 or (opset >= self.since and same) else None


@dataclass(frozen=True)
class Variadic(Pointwise):
    """An associative, commutative function of one or more operands."""

    arity: ClassVar[tuple[int, int]] = (1, MANY)
    commutative: ClassVar[bool] = True
    integers_since: ClassVar[int | None] = None
    """First opset at which the operands may be integers; None: never."""

    def scalar(self, *arguments: Scalar) -> Scalar:
        return reduce(lambda a, b: apply(self.function, a, b), arguments)

    def expand(self, operands: int) -> Sequence[tuple[Operator, tuple[Any, ...]]]:
        if operands <= 2:
            return ()
        places = tuple(range(operands))
        return ((self, ((self, places[:-1]), places[-1])), (self, (places[0], (self, places[1:]))))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        types = [t for t in call.inputs if t is not None]
        return None if _broadcasts_early(call.opset, types) else super().read(call)

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        if _broadcasts_early(opset, operands):
            return None
        if operands[0].dtype in INTEGERS and (self.integers_since is None or opset < self.integers_since):
            return None
        return super().write(opset, operands)


def _broadcasts_early(opset: int, operands: Sequence[TensorType]) -> bool:
    """Max, Min, Sum and Mean broadcast from opset 8 on."""
    return opset < 8 and any(t.shape != operands[0].shape for t in operands)


@dataclass(frozen=True)
class Max(Variadic):
    """out = max(a, b, ...)."""

    onnx: ClassVar[str] = "Max"
    function: ClassVar[str] = "max"
    integers_since: ClassVar[int | None] = 12
    dtypes: ClassVar[frozenset[str] | None] = ORDERED


@dataclass(frozen=True)
class Min(Variadic):
    """out = min(a, b, ...)."""

    onnx: ClassVar[str] = "Min"
    function: ClassVar[str] = "min"
    integers_since: ClassVar[int | None] = 12
    dtypes: ClassVar[frozenset[str] | None] = ORDERED


@dataclass(frozen=True)
class Sum(Variadic):
    """out = a + b + ..."""

    onnx: ClassVar[str] = "Sum"
    function: ClassVar[str] = "add"

    def expand(self, operands: int) -> Sequence[tuple[Operator, tuple[Any, ...]]]:
        if operands == 1:
            return ((Identity(), (0,)),)
        if operands == 2:
            return ((Add(), (0, 1)),)
        places = tuple(range(operands))
        return ((Add(), ((self, places[:-1]), places[-1])), (Add(), (places[0], (self, places[1:]))))


@dataclass(frozen=True)
class Mean(Variadic):
    """out = (a + b + ...) / number of operands."""

    onnx: ClassVar[str] = "Mean"

    def scalar(self, *arguments: Scalar) -> Scalar:
        return div(reduce(add, arguments), Integer(len(arguments)))

    def expand(self, operands: int) -> Sequence[tuple[Operator, tuple[Any, ...]]]:
        return ((Identity(), (0,)),) if operands == 1 else ()
