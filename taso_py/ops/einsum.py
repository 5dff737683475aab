"""Sums of products that an equation of labels describes."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Self

from taso_py.errors import RankError, TypingError
from taso_py.graph.sizes import Size
from taso_py.graph.types import FLOATS, INTEGERS, TensorType
from taso_py.ops.meaning import Index, Operand, Scalar, mul, total
from taso_py.ops.operator import OnnxCall, Operator, Reading, same_dtype

_ELLIPSIS = "..."
_MOST = 4
"""Operands of those that are defined here: ONNX Runtime multiplies two at a time, from the left."""


@dataclass(frozen=True)
class Einsum(Operator):
    """out[result's labels] = Σ over the other labels of the product of all operands at their labels.

    In normal form the labels are a, b, c, ... in the order in which they occur, the result's are written out, and
    labels stand for an ellipsis.  A label that an operand has twice, a size of 1 that is broadcast, and ellipses of
    different lengths are not defined here.
    """

    onnx: ClassVar[str] = "Einsum"
    arity: ClassVar[tuple[int, int]] = (1, _MOST)
    since: ClassVar[int] = 12
    dtypes: ClassVar[frozenset[str] | None] = FLOATS | (INTEGERS & {"int32", "int64"})
    equation: str = ""

    def terms(self, ranks: Sequence[int]) -> tuple[tuple[str, ...], str]:
        """The labels of each operand, and the result's; `TypingError` for what is not defined."""
        given, arrow, result = _without_ellipsis(self.equation, ranks).partition("->")
        operands = tuple(given.split(","))
        labels = "".join(operands)
        if not arrow:
            result = "".join(sorted(c for c in labels if labels.count(c) == 1))
        known = all(set(t) <= set(string.ascii_letters) and len(set(t)) == len(t) for t in (*operands, result))
        if not known or not set(result) <= set(labels):
            raise TypingError(f"the equation {self.equation!r} is not one of plain labels")
        return operands, result

    def infer(self, *operands: TensorType) -> TensorType:
        (terms, result), shapes = self.terms([t.rank for t in operands]), [t.dims for t in operands]
        sizes = self._sizes(terms, shapes)
        return TensorType(same_dtype(*operands), tuple(sizes[c] for c in result))

    def _sizes(self, terms: Sequence[str], shapes: Sequence[Sequence[Size]]) -> Mapping[str, Size]:
        """Of each label."""
        if len(terms) != len(shapes) or any(len(t) != len(s) for t, s in zip(terms, shapes, strict=False)):
            raise RankError(f"{self.equation!r} does not fit {', '.join(str(tuple(s)) for s in shapes)}")
        found: dict[str, Size] = {}
        for label, size in ((c, d) for t, s in zip(terms, shapes, strict=True) for c, d in zip(t, s, strict=True)):
            if found.setdefault(label, size) != size:
                raise TypingError(f"{label} of {self.equation!r} is both {found[label]} and {size}")
        return found

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        terms, result = self.terms([x.type.rank for x in operands])
        sizes = self._sizes(terms, [x.dims for x in operands])
        summed = [c for c in sizes if c not in result]

        def sum_over(labels: Sequence[str], places: Mapping[str, Size]) -> Scalar:
            if not labels:
                reads = [x[tuple(places[c] for c in t)] for x, t in zip(operands, terms, strict=True)]
                return reduce(mul, reads)
            return total(sizes[labels[0]], lambda k: sum_over(labels[1:], {**places, labels[0]: k}))

        return sum_over(summed, dict(zip(result, index, strict=True)))

    def normal(self, *operands: TensorType) -> Self:
        terms, result = self.terms([t.rank for t in operands])
        names = dict(zip(dict.fromkeys("".join(terms)), string.ascii_letters, strict=False))
        left, right = (["".join(names[c] for c in t) for t in side] for side in (terms, (result,)))
        return replace(self, equation=f"{','.join(left)}->{right[0]}")

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        if not 1 <= len(call.inputs) <= _MOST:
            return None
        return super().read(call)


def _without_ellipsis(equation: str, ranks: Sequence[int]) -> str:
    """An equation without spaces, with labels of its own for the axes that an ellipsis stands for."""
    equation = "".join(equation.split())
    given, arrow, result = equation.partition("->")
    operands = given.split(",")
    lengths = {r - len(t) + len(_ELLIPSIS) for t, r in zip(operands, ranks, strict=False) if _ELLIPSIS in t}
    if not lengths:
        return equation
    free = [c for c in string.ascii_letters if c not in equation]
    if len(lengths) > 1 or not 0 <= min(lengths) <= len(free):
        raise TypingError(f"the ellipses of {equation!r} stand for different numbers of axes")
    labels = "".join(free[: lengths.pop()])
    if not arrow:
        letters = "".join(c for c in given if c in string.ascii_letters)
        result = _ELLIPSIS + "".join(sorted(c for c in letters if letters.count(c) == 1))
    return f"{given.replace(_ELLIPSIS, labels)}->{result.replace(_ELLIPSIS, labels)}"
