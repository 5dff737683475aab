"""Random equations that are true because laws of the library make them so, and false ones by one change of those.

A law at random numbers of axes is the core; its variables become terms, its outputs go into a random context, and
both sides are rewritten further at random places by whatever the matcher accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scripts.audit.mutation.express import Equation, NotExpressible
from scripts.audit.mutation.sampling import BAD_DRAW
from scripts.audit.mutation.scope import Scope
from scripts.audit.mutation.symbolic import symbolic
from scripts.audit.mutation.terms import side_variants
from taso_py.errors import RuleError, TypingError
from taso_py.graph.sizes import Size, symbol
from taso_py.graph.table import Node, Table, Values
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.operator import Operator
from taso_py.rules.library import load
from taso_py.rules.rule import Rule
from taso_py.rules.term import Predicate, Variable
from taso_py.search.matcher import Matcher, matcher
from taso_py.search.rewriter import rewrite
from taso_py.search.view import View

Random: TypeAlias = np.random.Generator
_UNARY = ("Relu", "Neg", "Sigmoid", "Tanh", "Abs", "HardSwish")
_BINARY = ("Add", "Mul", "Sub", "Max", "Min")
_REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax")
_PLAIN = frozenset({"operator", "variable", "operands", "dropped-operator", "dropped-operand"})
"""Changes that nearly always make an equation false; the others are tried first."""
_OPSET = 23
_MOST_NODES = 16


@lru_cache(maxsize=1)
def directed() -> tuple[Rule, ...]:
    """Every rewrite of the library."""
    return tuple(d for rule in load().all() for d in rule.directions())


@lru_cache(maxsize=1)
def _moves() -> Mapping[type[Operator], tuple[Matcher, ...]]:
    """Rewrites that look at no constant, by the operator at their root."""
    found: dict[type[Operator], list[Matcher]] = {}
    for rule in directed():
        if not any(isinstance(c, Predicate) for c in rule.conditions):
            try:
                move = matcher(rule)
            except TypingError:
                continue  # a bare variable, which everything matches
            found.setdefault(move.root, []).append(move)
    return {root: tuple(moves) for root, moves in found.items()}


def true_equation(number: int, seed: int) -> Rule | None:
    """Equation ``number`` of a seed; None where its draw came to nothing."""
    random = np.random.default_rng((seed, number))
    law = directed()[int(random.integers(len(directed())))]
    core = symbolic(law, random)
    if core is None:
        return None
    try:
        equation = _Growth(core, random).grown()
        rule = equation.rule(f"equation-{number}")
        rule.check()
    except (NotExpressible, RuleError, *BAD_DRAW):
        return None
    return None if rule.left == rule.right else replace(rule, doc=f"From {law.name}.")


def changes(rule: Rule, random: Random, count: int) -> list[Rule]:
    """Up to ``count`` equations with one change to one side, of different kinds; the doc says which kind."""
    scope = Scope.of(rule)
    edits: dict[str, list[Rule]] = {}
    for e in side_variants(rule.right, scope):
        edits.setdefault(e.kind, []).append(replace(rule, right=e.side))
    for e in side_variants(rule.left, scope):
        edits.setdefault(e.kind, []).append(replace(rule, left=e.side))
    kinds = [str(k) for k in random.permutation(list(edits))]
    subtle, plain = ([k for k in kinds if (k in _PLAIN) == rough] for rough in (False, True))
    found: list[Rule] = []
    for kind in (*subtle[: count - 1], *plain, *subtle[count - 1 :], *kinds):
        pick = edits[kind][int(random.integers(len(edits[kind])))]
        changed = replace(_pruned(pick), name=f"{rule.name}-not", doc=kind)
        if _sound(changed) and changed not in found and len(found) < count:
            found.append(changed)
    return found


def _sound(rule: Rule) -> bool:
    try:
        rule.check()
    except RuleError:
        return False
    return rule.left != rule.right and not _bare(rule)


def _bare(rule: Rule) -> bool:
    return any(isinstance(rule.left.resolve(t), Variable) for t in rule.left.outputs)


def _pruned(rule: Rule) -> Rule:
    """The rule without declarations of tensors that no side uses any more."""
    used = rule.left.variables() | rule.right.variables()
    return replace(rule, declarations=tuple(d for d in rule.declarations if d.variable in used))


# ---- growing -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Growth:
    core: Equation
    random: Random
    values: Values = field(init=False)
    nodes: dict[int, Node] = field(init=False)
    inputs: dict[int, str] = field(init=False)
    fresh: int = 0

    def __post_init__(self) -> None:
        self.values, self.nodes, self.inputs = self.core.values, dict(self.core.nodes), dict(self.core.inputs)

    def grown(self) -> Equation:
        """The core inside terms, inside a context, rewritten."""
        self._inner()
        sides = [self.core.left, self.core.right]
        for _ in range(int(self.random.integers(0, 4))):
            sides = self._around(sides)
        rewritten = [self._rewritten(side, int(self.random.integers(0, 3))) for side in sides]
        tables = [m.nodes for m in rewritten]
        # A value keeps its id through a rewrite, with another definition on either side: the ids are told apart.
        return _joined(self, rewritten[0], tables[1], rewritten[1].outputs)

    def _pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.random.integers(len(options)))]

    def _input(self, dims: tuple[Size, ...]) -> int:
        value = self.values.new(TensorType("float32", dims))
        self.inputs[value] = f"t_{self.fresh}"
        self.fresh += 1
        return value

    def _size(self) -> Size:
        self.fresh += 1
        return symbol(f"d_{self.fresh}")

    def _node(self, name: str, *inputs: int, **attributes: Any) -> int:
        types = [self.values.types[i] for i in inputs]
        operator = OPERATORS[name](**attributes).normal(*types)
        node = Node(operator, inputs)
        value = self.values.intern(node, operator.infer(*types))
        self.nodes[value] = node
        return value

    def _inner(self) -> None:
        """Some variables of the core become terms."""
        bound = {v for c in self.core.conditions if isinstance(c, Predicate) for v in c.variables}
        for value, name in list(self.inputs.items()):
            type_ = self.values.types[value]
            if name not in bound and type_.dtype == "float32" and self.random.random() < 0.3:
                node = self._making(type_)
                del self.inputs[value]
                self.nodes[value] = node

    def _making(self, type_: TensorType) -> Node:
        """A node whose result has that type."""
        dims, kind = type_.dims, int(self.random.integers(4))
        if kind == 0 and len(dims) > 1:
            perm = tuple(int(a) for a in self.random.permutation(len(dims)))
            source = self._input(tuple(dims[perm.index(a)] for a in range(len(dims))))
            return Node(OPERATORS["Transpose"](perm=perm), (source,))  # type: ignore[call-arg]
        if kind == 1:
            other = self._input(dims[int(self.random.integers(0, len(dims) + 1)) :])
            return Node(OPERATORS[self._pick(_BINARY)](), (self._input(dims), other))
        return Node(OPERATORS[self._pick(_UNARY)](), (self._input(dims),))

    # ---- context ---------------------------------------------------------------------------------------------------

    def _around(self, sides: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """One more operator around one output, the same on both sides."""
        place = int(self.random.integers(len(sides[0])))
        step = self._step(self.values.types[sides[0][place]])
        found = []
        for side in sides:
            try:
                after = step(side[place])
            except TypingError:
                return sides
            found.append((*side[:place], after, *side[place + 1 :]))
        return found

    def _step(self, type_: TensorType) -> Callable[[int], int]:
        dims, rank = type_.dims, type_.rank
        axis = int(self.random.integers(max(rank, 1)))
        kind = self._pick(("unary", "binary", "matmul", "transpose", "reduce", "concat", "softmax", "before"))
        name = self._pick(_UNARY)
        if kind == "binary":
            name, other = self._pick(_BINARY), self._input(dims[int(self.random.integers(0, rank + 1)) :])
            return lambda value: self._node(name, value, other)
        if kind == "matmul" and rank > 1:
            other = self._input((dims[-1], self._size()))
            return lambda value: self._node("MatMul", value, other)
        if kind == "transpose" and rank > 1:
            perm = tuple(int(a) for a in self.random.permutation(rank))
            return lambda value: self._node("Transpose", value, perm=perm)
        if kind == "reduce" and rank:
            name, keep = self._pick(_REDUCE), int(self.random.integers(2))
            return lambda value: self._node(name, value, axes=(axis,), keepdims=keep)
        if kind in ("concat", "before") and rank:
            other = self._beside(dims, axis)
            if kind == "concat":
                return lambda value: self._node("Concat", value, other, axis=axis)
            return lambda value: self._node("Concat", other, value, axis=axis)
        if kind == "softmax" and rank:
            return lambda value: self._node("Softmax", value, axis=axis)
        return lambda value: self._node(name, value)

    def _beside(self, dims: tuple[Size, ...], axis: int) -> int:
        """What something of these dims can be joined with along ``axis``: a variable, or a term with a meaning of
        its own, whose guards, ranges and domains must not be taken to hold for what it is joined with.
        """

        def sized(size: Size) -> tuple[Size, ...]:
            return (*dims[:axis], size, *dims[axis + 1 :])

        free, window = sized(self._size()), len(dims) - 2
        match self._pick(("variable", "table", "quotient", "softmax", "reduced", "window")):
            case "table":
                return self._node("Gather", self._input(sized(4)), axis=axis, indices=(3, 0, 2), indices_shape=(3,))
            case "quotient":
                return self._node("Div", self._input(free), self._input(free))
            case "softmax":
                return self._node("Softmax", self._input(free), axis=axis)
            case "reduced":
                source = self._input((*free[:axis], self._size(), *free[axis:]))
                return self._node(self._pick(_REDUCE), source, axes=(axis,), keepdims=0)
            case "window" if window > 0:
                shape = {"kernel_shape": (3,) * window, "pads": (1,) * (2 * window)}
                return self._node(self._pick(("MaxPool", "AveragePool")), self._input(free), **shape)
        return self._input(free)

    # ---- rewriting -------------------------------------------------------------------------------------------------

    def _rewritten(self, outputs: tuple[int, ...], steps: int) -> Table:
        """The table of these outputs after some random rewrites."""
        table = Table(self.values, dict(self.nodes), outputs, outputs, _OPSET)
        kept = table.reachable()
        table = replace(table, nodes={v: n for v, n in self.nodes.items() if v in kept and v not in self.inputs})
        for _ in range(steps):
            view = View.of(table, lambda view, value, node: (), _no_constant)
            options = list(_matches(view, table, self.random))
            if options:
                step = rewrite(view, self._pick(options))
                table = step.table if step is not None and len(step.table.nodes) <= _MOST_NODES else table
        return table


def _matches(view: View, table: Table, random: Random) -> Iterator[Any]:
    """Matches of a random third of the rules at every place."""
    for value, node in table.nodes.items():
        for move in _moves().get(type(node.operator), ()):
            if random.random() < 0.35:
                yield from move.matches_at(view, value)


def _no_constant(_value: int, _nodes: Mapping[int, Node]) -> npt.NDArray[np.generic]:
    raise TypingError("constants of symbolic shape have no values")


def _joined(growth: _Growth, left: Table, right: Mapping[int, Node], outputs: Sequence[int]) -> Equation:
    """Both tables as one, the right one under ids of its own."""
    values, inputs = growth.values, growth.inputs
    own: dict[int, int] = {}
    for value in right:
        own[value] = values.new(values.types[value])
    nodes = dict(left.nodes)
    for value, node in right.items():
        nodes[own[value]] = Node(node.operator, tuple(own.get(i, i) if i is not None else None for i in node.inputs))
    after = tuple(own.get(v, v) for v in outputs)
    return Equation(values, nodes, inputs, left.outputs, after, growth.core.conditions)
