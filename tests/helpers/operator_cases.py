"""Element-wise, linear, reducing and normalising instances that the conformance suite runs."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from taso_py.ops.activations import (
    Clamp,
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    PRelu,
    Relu,
    Selu,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
)
from taso_py.ops.comparison import (
    And,
    Cast,
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Not,
    Or,
    Where,
)
from taso_py.ops.constants import Eye, Fill
from taso_py.ops.einsum import Einsum
from taso_py.ops.elementwise import (
    Abs,
    Add,
    Cos,
    Div,
    Erf,
    Exp,
    Identity,
    Log,
    Max,
    Mean,
    Min,
    Mul,
    Neg,
    Pow,
    Power,
    Reciprocal,
    Sin,
    Sqrt,
    Sub,
    Sum,
)
from taso_py.ops.linear import Gemm, MatMul
from taso_py.ops.normalization import (
    LRN,
    BatchNormalization,
    BatchNormalizationTraining,
    LayerNormalization,
    LogSoftmax,
    RMSNormalization,
    Softmax,
)
from taso_py.ops.operator import Operator
from taso_py.ops.reduce import ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceSum, ReduceSumSquare

FIRST_OPSET, LAST_OPSET = 7, 26


@dataclass(frozen=True)
class Case:
    """An operator applied to operands of these shapes.

    It must be writable at exactly the opsets ``first`` (default: the class's ``since``) to ``last``.
    ``dtypes`` names each operand's element type; "float" is float64 where the runtime has that kernel.
    Operands in ``positive`` are drawn from [0.5, 2), others from a normal distribution or -9..9.
    Sizes in ``fixed`` are spelled out in attributes, so they cannot stand for symbols.
    """

    operator: Operator
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = ()
    _: KW_ONLY
    positive: tuple[int, ...] = ()
    first: int | None = None
    last: int = LAST_OPSET
    fixed: tuple[int, ...] = ()

    def __str__(self) -> str:
        shapes = ";".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return f"{self.operator}-{shapes}{'-' if self.dtypes else ''}{','.join(self.dtypes)}"

    @property
    def symbolic_sizes(self) -> list[int]:
        """The sizes above 1 that may become a symbol."""
        found = {d for shape in self.shapes for d in shape if d > 1}
        return sorted(found - set(self.fixed))

    @property
    def opsets(self) -> range:
        """The opsets at which the instance can be written."""
        first = self.first if self.first is not None else self.operator.since
        return range(max(first, FIRST_OPSET), self.last + 1)

    def element_types(self, floating: str) -> tuple[str, ...]:
        """Element types of the operands, ``floating`` for "float"."""
        names = self.dtypes or ("float",) * len(self.shapes)
        return tuple(floating if name == "float" else name for name in names)


A, B, ROW = (3, 4), (2, 3, 4), (4,)
UNARY_SHAPES = (B, (), (5,), (2, 0, 3), (1, 2, 1, 3, 2))
BINARY_SHAPES = (
    (B, B),
    (B, ROW),
    ((4,), (2, 1, 4)),
    ((2, 1, 3), (4, 1)),
    ((), A),
    ((2, 0), (1, 1)),
    ((1,), (1, 1)),
)


def _unary(*operators: Operator, shapes: tuple[tuple[int, ...], ...] = UNARY_SHAPES) -> list[Case]:
    first, *rest = operators
    return [Case(first, (s,)) for s in shapes] + [Case(o, (shapes[0],)) for o in rest]


def _binary(operator: Operator, *, dtype: str = "float", positive: tuple[int, ...] = ()) -> list[Case]:
    dtypes = (dtype, dtype) if dtype != "float" else ()
    return [Case(operator, shapes, dtypes, positive=positive) for shapes in BINARY_SHAPES]


ARITHMETIC = [
    *_binary(Add()),
    *_binary(Sub()),
    *_binary(Mul()),
    *_binary(Div(), positive=(1,)),
    Case(Add(), (A, A), ("int64", "int64")),
    Case(Sub(), (A, ROW), ("int32", "int32")),
    Case(Mul(), (ROW, A), ("int64", "int64")),
    *_unary(Neg()),
    *_unary(Abs()),
    Case(Neg(), (A,), ("int32",)),
    Case(Abs(), (A,), ("int64",)),
    Case(Sqrt(), (B,), positive=(0,)),
    Case(Reciprocal(), (B,), positive=(0,)),
    Case(Log(), (B,), positive=(0,)),
    *_unary(Exp()),
    *_unary(Sin()),
    *_unary(Cos()),
    *_unary(Erf(), shapes=(B, (1, 2, 1, 3, 2))),
    *_unary(Identity()),
    Case(Identity(), (A,), ("int64",)),
    *(Case(Pow(e), (B,), positive=(0,)) for e in (-2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)),
    *(Case(Pow(e), (B,)) for e in (2.0, 3.0, 4.0)),
    *_binary(Power(), positive=(0,)),
    Case(Power(), (A, ROW), ("float32", "int64"), first=12),
    Case(Power(), (A, ROW), ("int32", "float32"), positive=(0,), first=12),
    Case(Power(), (ROW, A), ("int64", "float32"), positive=(0,), first=12),
    Case(Power(), (A, A), ("int64", "int64"), positive=(0,), first=12),
]

VARIADIC = [
    case
    for operator in (Max(), Min(), Sum(), Mean())
    for case in (
        Case(operator, (A,)),
        Case(operator, (A, A)),
        Case(operator, (A, A, A)),
        Case(operator, (B, ROW, (2, 1, 1)), first=8),
        Case(operator, ((), A), first=8),
    )
]
VARIADIC += [Case(o, (A, ROW), ("int64", "int64"), first=12) for o in (Max(), Min())]

ACTIVATIONS = [
    *_unary(Relu()),
    *_unary(LeakyRelu(), LeakyRelu(alpha=-0.3)),
    *_unary(Elu(), Elu(alpha=2.0)),
    *_unary(Selu(), Selu(alpha=1.5, gamma=0.5)),
    *_unary(Sigmoid()),
    *_unary(Tanh()),
    *_unary(Softplus()),
    *_unary(Mish()),
    *_unary(Softsign()),
    *_unary(HardSigmoid(), HardSigmoid(alpha=0.5, beta=0.1)),
    *_unary(HardSwish()),
    *_unary(Gelu(), Gelu(approximate="tanh")),
    *(Case(Clip(low, high), (B,), ("float32",)) for low in (-math.inf, -0.5) for high in (math.inf, 0.75)),
    Case(Clip(0.0, 6.0), ((2, 1),), ("float16",), first=11),
    Case(Clip(-3.0, 4.0), (A,), ("int32",), first=12),
    Case(Clamp(), (B, (), ())),
    Case(Clamp("low"), (A, ())),
    Case(Clamp("high"), (A, ()), ("int32", "int32"), first=12),
    Case(PRelu(), (B, B)),
    Case(PRelu(), (B, (3, 1))),
    Case(PRelu(), (B, ())),
]

LOGIC = [
    *(_binary(Equal(), dtype="int64")),
    *(Case(o, (A, ROW), ("bool", "bool")) for o in (Equal(), And(), Or())),
    Case(Equal(), (A, A), ("float32", "float32"), first=11),
    *(_binary(Less())),
    *(_binary(Greater())),
    *(Case(o, (A, ROW)) for o in (LessOrEqual(), GreaterOrEqual())),
    *(Case(o, (A, A), ("int64", "int64"), first=9) for o in (Less(), Greater())),
    Case(Not(), (A,), ("bool",)),
    Case(Where(), (A, A, A), ("bool", "float", "float")),
    Case(Where(), (ROW, (3, 1), ()), ("bool", "float", "float")),
    Case(Where(), ((2, 1, 1), A, ROW), ("bool", "int64", "int64")),
    *(Case(Cast(to), (A,), ("float32",)) for to in ("float64", "float32", "int32", "int64", "float16", "bool")),
    *(Case(Cast(to), (A,), ("int64",)) for to in ("float32", "float64", "int32", "bool", "uint8")),
    *(Case(Cast(to), (A,), ("bool",)) for to in ("float32", "int64")),
]

_INTEGER_MATRICES = ("int32", "int32")
PRODUCTS = [
    *(
        Case(MatMul(), shapes)
        for shapes in (
            ((3, 4), (4, 2)),
            ((4,), (4,)),
            ((4,), (4, 2)),
            ((3, 4), (4,)),
            ((4,), (2, 4, 3)),
            ((2, 3, 4), (4,)),
            ((2, 1, 3, 4), (3, 4, 2)),
            ((5, 1, 4), (4, 1)),
            ((1, 3, 1), (1, 1, 2)),
            ((0, 4), (4, 2)),
        )
    ),
    Case(MatMul(), ((3, 4), (4, 2)), _INTEGER_MATRICES, first=9),
    *(
        Case(Einsum(equation=equation), shapes)
        for equation, shapes in (
            ("ij,jk->ik", ((3, 4), (4, 2))),
            ("ij,kj", ((3, 4), (2, 4))),
            ("bhid,bhjd->bhij", ((2, 3, 5, 4), (2, 3, 6, 4))),
            ("blhd,bshd->bhls", ((2, 5, 3, 4), (2, 6, 3, 4))),
            ("nctv,vw->nctw", ((2, 3, 5, 4), (4, 6))),
            (" b n d , b n d -> b n ", ((2, 3, 4), (2, 3, 4))),
            ("a,b->ba", ((3,), (2,))),
            ("ab,ac->a", ((3, 4), (3, 2))),
            ("abc->ca", ((2, 3, 4),)),
            ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 5))),
            ("ab,bc->ac", ((0, 4), (4, 1))),
            ("...ij,...jk->...ik", ((2, 3, 4, 5), (2, 3, 5, 6))),
            ("...i,ij", ((2, 3, 4), (4, 5))),
            ("a...,a->...", ((2, 3), (2,))),
        )
    ),
    Case(Einsum(equation="ab,bc->ac"), ((3, 4), (4, 2)), _INTEGER_MATRICES),
    *(
        Case(
            Gemm(alpha=alpha, beta=beta, transA=ta, transB=tb),
            (((4, 3) if ta else (3, 4)), ((5, 4) if tb else (4, 5)), c),
        )
        for (alpha, beta), c in zip(
            ((1.0, 1.0), (0.5, 2.0), (-1.0, 0.25), (2.0, 1.0), (1.0, 0.5)),
            ((5,), (3, 5), (1, 5), (3, 1), ()),
            strict=True,
        )
        for ta in (0, 1)
        for tb in (0, 1)
    ),
    Case(Gemm(), ((3, 4), (4, 5)), first=11),
    Case(Gemm(alpha=0.5, transB=1), ((3, 4), (1, 4)), first=11),
    Case(Gemm(), ((1, 4), (4, 1), (1,))),
]

REDUCTIONS = [
    case
    for kind in (ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceL1, ReduceL2, ReduceSumSquare)
    for case in (
        Case(kind(), (B,)),
        Case(kind(axes=(1,)), (B,)),
        Case(kind(axes=(-1,), keepdims=0), (B,)),
        Case(kind(axes=(2, 0), keepdims=0), (B,)),
        Case(kind(axes=(-1, 1)), ((1, 2, 1, 3, 2),)),
        Case(kind(keepdims=0), (A,)),
        Case(kind(axes=(0,)), ((5,),)),
    )
]
REDUCTIONS += [
    Case(ReduceSum(axes=(1,)), (A,), ("int64",)),
    Case(ReduceMax(axes=(1,)), (A,), ("int64",)),
    Case(ReduceMax(axes=(0,)), (A,), ("int32",)),
    Case(ReduceMin(axes=(0,)), (A,), ("int32",)),
    Case(ReduceSum(axes=(1,)), ((2, 0, 3),)),
]

NORMALIZATIONS = [
    *(
        case
        for kind in (Softmax, LogSoftmax)
        for case in (
            Case(kind(), (B,)),
            Case(kind(axis=1), (B,), first=13),
            Case(kind(axis=-3), (B,), first=13),
            Case(kind(axis=1), ((2, 3, 1),)),
            Case(kind(axis=1, flatten=1), (B,), last=12),
            Case(kind(axis=1, flatten=1), (A,)),
            Case(kind(axis=0, flatten=1), ((1, 3, 1, 2),), last=12),
            Case(kind(axis=1, flatten=1), ((2, 1, 4, 1),), first=7),
            Case(kind(axis=0), ((5,),)),
        )
    ),
    Case(LRN(size=3), ((2, 6, 3, 4),), ("float32",)),
    Case(LRN(size=5, alpha=2.0, beta=0.5, bias=0.1), ((2, 6, 3, 4),), ("float32",)),
    Case(LRN(size=7, alpha=0.5, beta=1.3, bias=2.0), ((2, 6, 3, 4),), ("float32",)),
    Case(LayerNormalization(), (B, ROW, ROW)),
    Case(LayerNormalization(), (B, ROW)),
    Case(LayerNormalization(axis=1, epsilon=0.1), (B, A, A)),
    Case(LayerNormalization(axis=-3), (B, B)),
    Case(LayerNormalization(output=1), (B, ROW, ROW), ("float32",) * 3),
    Case(LayerNormalization(axis=1, epsilon=0.1, output=2), (B, A), ("float32",) * 2),
    Case(LayerNormalization(axis=0, output=2), (B, B), ("float32",) * 2),
    Case(LayerNormalization(axis=-2, output=1), (B, ROW, A), ("float16",) * 3),
    Case(RMSNormalization(), (B, ROW)),
    Case(RMSNormalization(axis=-2, epsilon=0.1), (B, A)),
    *(
        Case(BatchNormalization(), ((2, 3, *s), (3,), (3,), (3,), (3,)), positive=(4,))
        for s in ((), (4,), (2, 1), (2, 1, 3))
    ),
    *(
        Case(BatchNormalizationTraining(0.1, 0.75, k), ((2, 3, *s), (3,), (3,), (3,), (3,)), positive=(4,))
        for k in range(3)
        for s in ((4,), (2, 5))
    ),
    Case(BatchNormalizationTraining(), ((5, 3), (3,), (3,), (3,), (3,)), positive=(4,)),
    Case(BatchNormalization(epsilon=0.5), ((1, 1, 2), (1,), (1,), (1,), (1,)), positive=(4,)),
]

CONSTANTS = [
    Case(Fill(value=0.5, shape=(2, 3)), (), first=LAST_OPSET + 1),
    Case(Fill(value=7.0, shape=(), dtype="int64"), (), first=LAST_OPSET + 1),
    Case(Eye(size=3), (), first=LAST_OPSET + 1),
]

CASES: list[Case] = [
    *ARITHMETIC,
    *VARIADIC,
    *ACTIVATIONS,
    *LOGIC,
    *PRODUCTS,
    *REDUCTIONS,
    *NORMALIZATIONS,
    *CONSTANTS,
]
