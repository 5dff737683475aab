"""Interpreters of an operator's meaning over concrete sizes: values in float64, and operation counts.

Reductions run as fixed-order loops over the bound variable, vectorised over the output elements, so a folded
weight does not depend on a BLAS, a thread count or a block size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.graph.sizes import Entry, Floor, Size, Symbol, element_variables, symbols
from taso_py.graph.types import INTEGERS, TensorType
from taso_py.ops.meaning import TYPE_CODES, Apply, Choose, Compare, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.ops.operator import Operator

_Environment: TypeAlias = dict[str, npt.NDArray[np.int64]]

_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def _elu(x: Array, alpha: float) -> Array:
    return np.asarray(np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x))


def _cast(x: Array, code: float) -> Array:
    target = next(name for name, known in TYPE_CODES.items() if known == int(code))
    return _widen(x.astype(target))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "reciprocal": lambda x: np.divide(1.0, x),
    "erf": lambda x: np.asarray(_erf(x), dtype=np.float64),
    "relu": lambda x: np.maximum(x, 0),
    "leakyrelu": lambda x, alpha: np.where(x < 0, alpha * x, x),
    "prelu": lambda x, slope: np.where(x < 0, slope * x, x),
    "elu": _elu,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "pow": np.power,
    "where": lambda c, a, b: np.where(c != 0, a, b),
    "equal": np.equal,
    "less": np.less,
    "greater": np.greater,
    "lessorequal": np.less_equal,
    "greaterorequal": np.greater_equal,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "cast": _cast,
}
"""Named scalar functions; attributes are trailing scalars (of `cast`: ONNX's number of the type)."""


def evaluate(operator: Operator, operands: Sequence[Array], types: Sequence[TensorType]) -> Array:
    """The operator's value on concrete arrays: its kernel's, else computed from its meaning.

    Floats are computed in float64, integers in int64; the caller rounds.  The shape is ``infer``'s.
    """
    kernel = operator.kernel(*operands)
    if kernel is None:
        return evaluate_meaning(operator, operands, types)
    result = operator.infer(*types)
    return np.asarray(kernel, dtype=working_dtype(result.dtype), order="C")


def evaluate_meaning(operator: Operator, operands: Sequence[Array], types: Sequence[TensorType]) -> Array:
    """`evaluate` without the kernel."""
    result = operator.infer(*types)
    shape = tuple(_concrete(d) for d in result.dims)
    names = element_variables(len(shape))
    grid = np.indices(shape, dtype=np.int64, sparse=True)
    environment: _Environment = dict(zip(names, grid, strict=True))
    views = tuple(Operand(k, t) for k, t in enumerate(types))
    meaning = operator.element(views, tuple(s.size for s in names))
    dtype = working_dtype(result.dtype)
    with np.errstate(all="ignore"):
        value = _Evaluator(operands, shape, integral=dtype == np.int64).value(meaning, environment)
    return np.array(np.broadcast_to(value, shape), dtype=dtype, order="C")


def working_dtype(dtype: str) -> npt.DTypeLike:
    """The type in which values of an element type are computed."""
    return np.dtype(np.int64 if dtype in INTEGERS else np.bool_ if dtype == "bool" else np.float64)


def _widen(array: Array) -> Array:
    """Integers and bools as int64, floats as float64."""
    return array.astype(np.int64 if array.dtype.kind in "iub" else np.float64, copy=False)


class _Evaluator:
    def __init__(self, operands: Sequence[Array], shape: tuple[int, ...], *, integral: bool) -> None:
        self.operands = [_widen(a) for a in operands]
        self.shape = shape
        self.axes: dict[Size, int] = {s.size: axis for axis, s in enumerate(element_variables(len(shape)))}
        self.integral = integral
        self.free: dict[int, tuple[str, ...]] = {}
        self.latest: dict[int, tuple[list[Array], Array]] = {}

    def value(self, expression: Scalar, env: _Environment) -> Array:
        # The innermost step of every draw: class patterns take three times as long.
        if isinstance(expression, Read):
            return self._read(expression, env)[0]
        if isinstance(expression, Apply):
            arguments = [self.value(a, env) for a in expression.arguments]
            return np.asarray(FUNCTIONS[expression.function](*arguments, *expression.attributes))
        if isinstance(expression, Number):
            # A float constant would turn exact int64 arithmetic into float64.
            number = expression.value
            return np.asarray(int(number) if self.integral and math.isfinite(number) else number)
        if isinstance(expression, Reduce):
            return self._reduce_once(expression, env)
        if isinstance(expression, Integer):
            return size_value(expression.value, env)
        holds = self._holds(expression.conditions, env)
        return np.where(holds, self.value(expression.then, env), self.value(expression.otherwise, env))

    def _view(self, read: Read, env: _Environment) -> Array | None:
        """The elements as a view, when every index is a whole axis of the result or one place."""
        array = self.operands[read.operand]
        picks: list[int | slice] = []
        axes: list[int] = []
        for size, extent in zip(read.index, array.shape, strict=True):
            axis = self.axes.get(size)
            if axis is not None and axis not in axes and self.shape[axis] == extent:
                picks.append(slice(None))
                axes.append(axis)
                continue
            place = size_value(size, env)
            if place.ndim or not 0 <= place < extent:
                return None
            picks.append(int(place))
        view = array[tuple(picks)].transpose(sorted(range(len(axes)), key=axes.__getitem__))
        return view.reshape([n if axis in axes else 1 for axis, n in enumerate(self.shape)] if axes else ())

    def _read(self, read: Read, env: _Environment) -> tuple[Array, Array]:
        view = self._view(read, env)
        if view is not None:
            return view, np.asarray(True)
        array = self.operands[read.operand]
        index = [np.asarray(size_value(i, env)) for i in read.index]
        if array.size == 0:
            shape = np.broadcast_shapes(*(i.shape for i in index))
            return np.zeros(shape, array.dtype), np.zeros(shape, bool)
        present: Array = np.asarray(True)
        for i, n in zip(index, array.shape, strict=True):
            if i.size and (i.min() < 0 or i.max() >= n):
                present = np.logical_and(present, np.logical_and(i >= 0, i < n))
        if present.ndim == 0:
            return np.asarray(array[tuple(index)]), present
        clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True))
        return np.where(present, array[clipped], np.zeros((), array.dtype)), present

    def _holds(self, conditions: Sequence[Compare], env: _Environment) -> Array:
        holds: Array = np.asarray(True)
        for c in conditions:
            left, right = size_value(c.left, env), size_value(c.right, env)
            test = {"<": np.less, "<=": np.less_equal, "==": np.equal}[c.relation]
            holds = np.logical_and(holds, test(left, right))
        return holds

    def _reduce_once(self, reduce: Reduce, env: _Environment) -> Array:
        """The reduction, kept while what it depends on stays: a mean in a variance is computed once."""
        key = id(reduce)
        if key not in self.free:
            self.free[key] = tuple(sorted(_free(reduce)))
        depends = [env[name] for name in self.free[key]]
        known = self.latest.get(key)
        if known is not None and all(a is b for a, b in zip(known[0], depends, strict=True)):
            return known[1]
        value = self._reduce(reduce, env)
        self.latest[key] = (depends, value)
        return value

    def _reduce(self, reduce: Reduce, env: _Environment) -> Array:
        extents = np.unique(size_value(reduce.extent, env))
        if extents.size > 1:
            raise TypingError(f"the range {reduce.extent} of {reduce.variable} differs between elements")
        total: Array | None = None
        for k in range(int(extents[0]) if extents.size else 0):
            inner = {**env, reduce.variable: np.asarray(k)}
            if reduce.kind == "sum":
                term = self.value(reduce.body, inner)
                # From the second term on the total is an array of our own.
                own = total if k > 1 and total is not None and total.shape == term.shape else None
                total = term if total is None else np.asarray(np.add(total, term, out=own))
            else:
                term, present = self._present(reduce.body, inner)
                term = np.where(present, term, _least(term))
                total = term if total is None else np.maximum(total, term)
        if total is None:
            return np.asarray(0 if reduce.kind == "sum" else -np.inf)
        return total

    def _present(self, body: Scalar, env: _Environment) -> tuple[Array, Array]:
        """Value of the body of a maximum and whether it takes part: absent reads do not."""
        if isinstance(body, Read):
            return self._read(body, env)
        return self.value(body, env), np.asarray(True)


def _least(like: Array) -> Array:
    """What takes no part in a maximum of such values."""
    return np.asarray(np.iinfo(np.int64).min if like.dtype == np.int64 else -np.inf)


def _free(expression: Scalar) -> set[Symbol]:
    """The index variables on which a value depends."""
    match expression:
        case Number():
            return set()
        case Integer(value):
            return set(symbols(value))
        case Read(_, index):
            return set().union(*(symbols(i) for i in index))
        case Apply(_, arguments, _):
            return set().union(*map(_free, arguments))
        case Choose(conditions, then, otherwise):
            tested = (symbols(c.left) | symbols(c.right) for c in conditions)
            return _free(then) | _free(otherwise) | set().union(*tested)
        case Reduce(_, variable, extent, body):
            return (_free(body) - {variable}) | symbols(extent)


def size_value(size: Size, env: Mapping[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """A size whose symbols stand for integer arrays."""
    if isinstance(size, int):
        return np.asarray(size, dtype=np.int64)
    total: Any = 0
    for monomial, coefficient in size.terms:
        term: Any = coefficient
        for atom in monomial:
            if isinstance(atom, Symbol):
                term = term * env[atom]
            elif isinstance(atom, Floor):
                term = term * (size_value(atom.numerator, env) // size_value(atom.denominator, env))
            elif isinstance(atom, Entry):
                at = np.clip(size_value(atom.index, env), 0, len(atom.table) - 1)
                term = term * np.asarray(atom.table, dtype=np.int64)[at]
        total = total + term
    return np.asarray(total, dtype=np.int64)


def _concrete(size: Size) -> int:
    if not isinstance(size, int):
        raise TypingError(f"size {size} is symbolic; a concrete one is needed here")
    return size


def operations(operator: Operator, types: Sequence[TensorType]) -> float:
    """Scalar operations of one application.

    A sub-expression counts once per value of the variables it depends on.

    Symbolic sizes must have been replaced by concrete ones.
    """
    shape = [_concrete(d) for d in operator.infer(*types).dims]
    if operator.positions is not None:
        return 0.0  # it copies
    ranges = dict(zip(element_variables(len(shape)), shape, strict=True))
    views = tuple(Operand(k, t) for k, t in enumerate(types))
    meaning = operator.element(views, tuple(s.size for s in ranges))
    return _Counter().count(meaning, ranges)[0]


class _Counter:
    """Counts a shared sub-expression (a mean in a variance) once, and a - b, which is a + -1·b, as one."""

    def __init__(self) -> None:
        self.counted: dict[int, frozenset[Symbol]] = {}

    def count(self, expression: Scalar, ranges: Mapping[Symbol, int]) -> tuple[float, frozenset[Symbol]]:
        """Operations of an expression, and the variables in ``ranges`` that it depends on."""
        if id(expression) in self.counted:
            return 0.0, self.counted[id(expression)]
        cost, depends = self._count(expression, ranges)
        self.counted[id(expression)] = depends
        return cost, depends

    def _count(self, expression: Scalar, ranges: Mapping[Symbol, int]) -> tuple[float, frozenset[Symbol]]:
        match expression:
            case Apply(function, arguments, _):
                if function == "add":
                    arguments = tuple(map(_without_sign, arguments))
                cost, depends = self._parts(arguments, ranges)
                return cost + _repeats(depends, ranges), depends
            case Choose(_, then, otherwise):
                cost, depends = self._parts((then, otherwise), ranges)
                return cost, depends | (_free(expression) & set(ranges))
            case Reduce(_, variable, extent, body):
                inner = {**ranges, variable: _concrete(extent)}
                cost, depends = self.count(body, inner)
                return cost + _repeats(depends, inner), depends - {variable}
            case _:
                return 0.0, frozenset(_free(expression) & set(ranges))

    def _parts(self, parts: Sequence[Scalar], ranges: Mapping[Symbol, int]) -> tuple[float, frozenset[Symbol]]:
        counts = [self.count(part, ranges) for part in parts]
        return sum(cost for cost, _ in counts), frozenset().union(*(depends for _, depends in counts))


def _without_sign(expression: Scalar) -> Scalar:
    match expression:
        case Apply("mul", (Number(-1.0) | Integer(-1), value)):
            return value
        case _:
            return expression


def _repeats(depends: frozenset[Symbol], ranges: Mapping[Symbol, int]) -> float:
    return float(math.prod(ranges[name] for name in depends))
