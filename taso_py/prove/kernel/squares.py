"""Signs that the meaning of an operator shows by how it is written: a variance is a mean of squares.

In normal form it is a difference of sums, of which nothing shows that it is never negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taso_py.graph.sizes import Expression
from taso_py.ops.meaning import Apply, Integer, Number, Reduce, Scalar
from taso_py.prove.kernel.arithmetic import Context, Guard
from taso_py.prove.kernel.facts import Functions


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs of values wherever they are defined."""

    functions: Functions
    context: Context

    def meet(self, function: str, arguments: Sequence[Scalar]) -> bool:
        """Whether a root's operand is surely not negative, or a divisor not 0."""
        match function:
            case "sqrt":
                return self.never_negative(arguments[0])
            case "div" | "reciprocal":
                return self.positive(arguments[-1])
        return False

    def positive(self, expression: Scalar) -> bool:
        """Whether a value is above 0."""
        match expression:
            case Number(value):
                return self._real(value, 1)
            case Apply("add", (a, b)):
                return any(self.positive(x) and self.never_negative(y) for x, y in ((a, b), (b, a)))
            case Apply("sqrt", (a,)):
                return self.positive(a)
            case Apply("exp", _):
                return True
            case Reduce("sum", _, extent, body):
                return self.context.implies(Guard(extent - 1, ">=")) and self.positive(body)
        return False

    def never_negative(self, expression: Scalar) -> bool:
        """Whether a value is at least 0."""
        match expression:
            case Number(value):
                return self._real(value, 0)
            case Integer(value):
                return value >= 0 if isinstance(value, int) else self.context.is_natural(value)
            case Reduce("sum", _, _, body):
                return self.never_negative(body)
            case Apply("mul", (a, b)):
                return a == b or (self.never_negative(a) and self.never_negative(b))
            case Apply("add" | "div", (a, b)):
                return self.never_negative(a) and self.never_negative(b)
            case Apply("sqrt" | "abs" | "exp", _):
                return True
        return False

    def _real(self, value: object, sign: int) -> bool:
        """Whether a real constant is above 0, with ``sign`` 0 or is 0; a symbol by a condition."""
        if isinstance(value, Expression):
            return self.functions.positive_real(value)
        return isinstance(value, (int, float)) and (value > 0 or value == sign == 0)
