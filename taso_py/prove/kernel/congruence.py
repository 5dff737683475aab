"""Two computations that are alike but for a few values: where these are equal, so are the results.

0 and -0 are equal, and numbers that rounding sets apart; the quotients by them are not.  So nothing may be divided by
what comes from such a value, unless it is positive by how it is written, as in a Softmax.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field

from taso_py.graph.sizes import Role, Symbol
from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Apply, Choose, Operand, Read, Reduce, Scalar
from taso_py.prove.kernel.arithmetic import Context
from taso_py.prove.kernel.facts import Functions
from taso_py.prove.kernel.squares import Signs


@dataclass(frozen=True, slots=True)
class Alike:
    """Where two computations differ: ``pairs`` of values, and the operators above them, with the operands there."""

    nodes: Mapping[int, Node]
    types: Mapping[int, TensorType]
    _: KW_ONLY
    pairs: list[tuple[int, int]] = field(default_factory=list)
    _above: dict[int, frozenset[int]] = field(default_factory=dict)
    _known: dict[tuple[int, int], bool] = field(default_factory=dict)

    def differ(self, a: int, b: int) -> bool:
        """Whether two values are not the same graph; takes note of where."""
        if (a, b) not in self._known:
            self._known[a, b] = a != b and self._differ(a, b)
        return self._known[a, b]

    def _differ(self, a: int, b: int) -> bool:
        m, n = self.nodes.get(a), self.nodes.get(b)
        if m is None or n is None or not _same_operator(m, n):
            self.pairs.append((a, b))
            return True
        inputs = [(c, d) for c, d in zip(m.inputs, n.inputs, strict=True) if c is not None and d is not None]
        found = frozenset(k for k, (c, d) in enumerate(inputs) if self.differ(c, d))
        if found:
            self._above[a] = found
        return bool(found)

    def divides(self, functions: Functions, context: Context) -> bool:
        """Whether an operator may divide by what comes from one of the pairs."""
        return any(_divides(self._meaning(v), operands, functions, context) for v, operands in self._above.items())

    def _meaning(self, value: int) -> Scalar:
        node = self.nodes[value]
        views = [Operand(k, self.types[i]) for k, i in enumerate(i for i in node.inputs if i is not None)]
        index = [Symbol(f"any{k}", Role.INDEX).size for k in range(self.types[value].rank)]
        meaning: Scalar = node.operator.element(views, index)
        return meaning


def _same_operator(m: Node, n: Node) -> bool:
    """Whether the same is computed of the same inputs: attributes 0 and -0 are equal, too."""
    given = [[i is None for i in node.inputs] for node in (m, n)]
    return m.operator == n.operator and repr(m.operator) == repr(n.operator) and given[0] == given[1]


def _divides(meaning: Scalar, operands: frozenset[int], functions: Functions, context: Context) -> bool:
    signs = Signs(functions, context)
    return any(operands & set(_read(d)) and not signs.positive(d) for d in _divisors(meaning))


def _divisors(meaning: Scalar) -> Iterator[Scalar]:
    """What is divided by, what a logarithm is taken of, and bases of powers that are no whole ones."""
    match meaning:
        case Apply(function, arguments, attributes):
            if function in ("div", "reciprocal"):
                yield arguments[-1]
            elif function == "log" or (function == "pow" and not any(map(_is_natural, attributes))):
                yield arguments[0]
            for argument in arguments:
                yield from _divisors(argument)
        case Reduce(_, _, _, body):
            yield from _divisors(body)
        case Choose(_, then, otherwise):
            yield from _divisors(then)
            yield from _divisors(otherwise)


def _is_natural(exponent: object) -> bool:
    """Whether an exponent is a natural number that is stated."""
    return isinstance(exponent, (int, float)) and exponent >= 0 and float(exponent).is_integer()


def _read(meaning: Scalar) -> Iterator[int]:
    """The operands of which a value reads elements."""
    match meaning:
        case Read(operand, _):
            yield operand
        case Apply(_, arguments):
            for argument in arguments:
                yield from _read(argument)
        case Reduce(_, _, _, body):
            yield from _read(body)
        case Choose(_, then, otherwise):
            yield from _read(then)
            yield from _read(otherwise)
