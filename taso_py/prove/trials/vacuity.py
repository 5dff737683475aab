"""Whether it can be shown that a rule has no instance: its declarations and conditions contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Call,
    Comparison,
    Listing,
    Name,
    Product,
    Quantity,
    Rank,
    Variable,
    ordered_names,
)

_WORK = 2_000_000
"""What Z3 may spend, in its own units."""
_WINDOWED = ("MaxPool", "AveragePool")
_CONVOLUTIONS = ("Conv",)


class _Unsaid(Exception):
    """An expression that is not translated: what it says is left out, which never makes a contradiction."""


def contradictory(rule: Rule) -> bool:
    """Whether no sizes and attributes satisfy the rule; False where that is not shown."""
    terms = _Terms(rule)
    solver = z3.Solver(ctx=terms.z3)
    solver.set("rlimit", _WORK)
    solver.add(*terms.facts())
    return bool(solver.check() == z3.unsat)


@dataclass(slots=True)
class _Terms:
    """The rule's conditions, and what its operators demand of declared operands, about whole numbers."""

    rule: Rule
    shapes: dict[str, tuple[Axis, ...]] = field(init=False)
    orders: dict[str, int] = field(default_factory=dict)
    """Names of permutations, and of how many axes."""
    z3: z3.Context = field(default_factory=z3.Context)

    def __post_init__(self) -> None:
        left = self.rule.left.variables()
        self.shapes = {d.variable: d.axes for d in self.rule.declarations if d.variable in left}

    def facts(self) -> list[z3.BoolRef]:
        found = [z3.Int(name, self.z3) >= 0 for name in self._sizes()]
        for application in self.rule.left.applications():
            found += self._demands(application)
        for condition in self.rule.conditions:
            if isinstance(condition, Comparison) and self._whole(condition):
                found += self._said(lambda c=condition: [_related(self._term(c.left), c.relation, self._term(c.right))])
        return found

    def _sizes(self) -> list[str]:
        axes = [a for shape in self.shapes.values() for a in shape if not isinstance(a, Block)]
        whole = [f for a in axes for f in (a.factors if isinstance(a, Product) else (a,))]
        return list(dict.fromkeys(f.name for f in whole if isinstance(f, Name)))

    def _whole(self, condition: Comparison) -> bool:
        """Whether it speaks of whole numbers alone: of sizes, cuts, pads, windows and orders."""
        known = {*self._sizes(), *self.orders, *self._positions()}
        return {*ordered_names(condition.left), *ordered_names(condition.right)} <= known

    def _positions(self) -> Iterator[str]:
        whole = ("axes", "starts", "ends", "steps", "pads", "kernel_shape", "strides", "dilations", "axis", "split")
        for application in self.rule.left.applications():
            for name, expression in application.attributes:
                if name in whole and isinstance(expression, Listing):
                    yield from ordered_names(expression)

    def _said(self, facts: Any) -> list[z3.BoolRef]:
        try:
            return list(facts())
        except _Unsaid:
            return []

    # ---- operators -----------------------------------------------------------------------------------------------

    def _demands(self, application: Application) -> list[z3.BoolRef]:
        attributes = dict(application.attributes)
        operand = self.rule.left.resolve(application.arguments[0]) if application.arguments else None
        axes = self.shapes.get(operand.name) if isinstance(operand, Variable) else None
        if axes is None or any(isinstance(a, Block) for a in axes):
            return []
        match application.operator.onnx:
            case "Transpose":
                return self._order(attributes.get("perm"), len(axes))
            case "Slice":
                return self._said(lambda: self._cuts(attributes, axes))
            case name if name in (*_WINDOWED, *_CONVOLUTIONS):
                return self._said(lambda: self._windows(application, attributes, axes))
            case _:
                return []

    def _order(self, perm: AttributeExpression | None, rank: int) -> list[z3.BoolRef]:
        if not isinstance(perm, Name):
            return []
        self.orders[perm.name] = rank
        entries = [self._entry(perm.name, k) for k in range(rank)]
        return [*(z3.And(e >= 0, e < rank) for e in entries), z3.Distinct(*entries)] if entries else []

    def _cuts(self, attributes: Mapping[str, AttributeExpression], axes: Sequence[Axis]) -> list[z3.BoolRef]:
        """0 <= start <= end <= size, in normal form, for positive steps."""
        cut, starts, ends, steps = (_items(attributes.get(n)) for n in ("axes", "starts", "ends", "steps"))
        found = []
        for axis, start, end, step in zip(cut, starts, ends, steps, strict=True):
            forward = isinstance(step, Quantity) and isinstance(step.value, int) and step.value > 0
            if not (forward and isinstance(axis, Quantity) and isinstance(axis.value, int) and axis.value < len(axes)):
                raise _Unsaid
            first, last = self._term(start), self._term(end)
            if isinstance(start, Quantity) or isinstance(end, Quantity):
                continue  # literal ones may count from the end
            found += [first >= 0, first <= last, last <= self._axis(axes[axis.value])]
        return found

    def _windows(
        self, application: Application, attributes: Mapping[str, AttributeExpression], axes: Sequence[Axis]
    ) -> list[z3.BoolRef]:
        """Pads are not negative; no window is larger than what it slides over."""
        spatial = len(axes) - 2
        pads = [self._term(p) for p in _items(attributes["pads"])] if "pads" in attributes else [0] * 2 * spatial
        if len(pads) != 2 * spatial:
            raise _Unsaid
        found = [p >= 0 for p in pads if not isinstance(p, int)]
        if "dilations" in attributes:
            return found
        for k, window in enumerate(self._window(application, attributes)):
            found.append(window <= self._axis(axes[2 + k]) + pads[k] + pads[spatial + k])
        return found

    def _window(self, application: Application, attributes: Mapping[str, AttributeExpression]) -> list[z3.ArithRef]:
        if "kernel_shape" in attributes:
            return [self._term(w) for w in _items(attributes["kernel_shape"])]
        return []

    # ---- expressions ---------------------------------------------------------------------------------------------

    def _axis(self, axis: Axis) -> Any:
        if isinstance(axis, (Block, Product)):
            raise _Unsaid
        return self._term(axis)

    def _term(self, expression: AttributeExpression | Block) -> Any:
        match expression:
            case Quantity(value) if isinstance(value, int):
                return z3.IntVal(value, self.z3)
            case Name(name) if name not in self.orders:
                return z3.Int(name, self.z3)
            case Rank(block):
                return z3.Int(f"rank {block}", self.z3)
            case Binary("+" | "-" | "*" as operation, left, right):
                a, b = self._term(left), self._term(right)
                return a + b if operation == "+" else a - b if operation == "-" else a * b
            case Binary("//" | "%" as operation, left, Quantity(value)) if isinstance(value, int) and value > 0:
                a = self._term(left)
                return a / value if operation == "//" else a % value
            case Call("at", (Name(name), Quantity(value))) if name in self.orders and isinstance(value, int):
                if not 0 <= value < self.orders[name]:
                    raise _Unsaid
                return self._entry(name, value)
            case _:
                raise _Unsaid

    def _entry(self, order: str, place: int) -> z3.ArithRef:
        return z3.Int(f"{order} at {place}", self.z3)


def _items(listing: AttributeExpression | None) -> tuple[AttributeExpression, ...]:
    if not isinstance(listing, Listing):
        raise _Unsaid
    items = tuple(i for i in listing.items if not isinstance(i, Block))
    if len(items) != len(listing.items):
        raise _Unsaid
    return items


def _related(left: Any, relation: str, right: Any) -> z3.BoolRef:
    match relation:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right
