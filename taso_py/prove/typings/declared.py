"""What a rule's clauses say of its names: menus, declared shapes and conditions, with symbols for all sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from taso_py.graph.sizes import Expression, Role, Size, symbols
from taso_py.graph.types import TensorType
from taso_py.prove.kernel.arithmetic import Context, Guard
from taso_py.prove.kernel.reals import Real
from taso_py.prove.typings.shapes import (
    POOLS,
    SPATIAL,
    AnyMode,
    Excluded,
    Shapes,
    Undetermined,
    Unsupported,
)
from taso_py.rules.element_types import asked, indexing
from taso_py.rules.rule import Rule
from taso_py.rules.signs import is_real, never_negative
from taso_py.rules.term import (
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Call,
    Comparison,
    Declaration,
    Listing,
    Membership,
    Name,
    Predicate,
    Product,
    Quantity,
    Term,
    Variable,
    names_in,
)
from taso_py.rules.unify import Binding, Unbound, Value, decide

BLOCKS = (0, 1, 2)
"""Numbers of axes for which a block stands in proofs: every further one behaves like the second."""
PERMUTED = (0, 1, 2, 3)
"""The same where axes are permuted: two axes have no order that is not its own inverse."""


@dataclass(slots=True)
class _Binding(Binding):
    """A binding that decides max(a, b) by a choice where symbols leave it open."""

    greater: Callable[[Any, Any], bool] = lambda a, b: True
    divisors: list[Size] = field(default_factory=list)
    """Sizes that were divided by: no value is defined where one of them is 0."""

    def operate(self, operation: str, left: Value, right: Value) -> Value:
        """left (+ - * / // %) right."""
        if operation in ("//", "%") and (_real(left) or _real(right)):
            # Floors and remainders of sizes say nothing of numbers with a fraction.
            raise Unsupported(f"{operation} of a real attribute")
        if operation in ("//", "%") and isinstance(right, Expression):
            self.divisors.append(right)
        return Binding.operate(self, operation, left, right)

    def exact(self, expression: AttributeExpression) -> Value:
        if isinstance(expression, Call) and expression.function in ("max", "min"):
            left, right = (self.exact(a) for a in expression.arguments)
            return left if self.greater(left, right) == (expression.function == "max") else right
        return Binding.exact(self, expression)


def _infinity(value: Any) -> int:
    """-1, 0 or 1: whether a value is infinite; all other numbers are fractions, and symbols stand for finite ones."""
    if isinstance(value, float) and math.isnan(value):
        raise Unsupported("a bound that is no number")
    return (value > 0) - (value < 0) if isinstance(value, float) and math.isinf(value) else 0


@dataclass(slots=True)
class Declared:
    """What a rule's clauses say: menus, declared shapes and conditions, with symbols for all sizes."""

    rule: Rule
    shapes: Shapes
    _: KW_ONLY
    binding: _Binding = field(default_factory=_Binding)
    types: dict[str, TensorType] = field(default_factory=dict)
    digits: dict[tuple[str, int], tuple[Size, ...]] = field(default_factory=dict)
    done: dict[Term, TensorType] = field(default_factory=dict)
    column: Size | None = None
    reals: list[Real] = field(default_factory=list)
    dtype: str = "float32"
    """Element type of the numbers."""

    def __post_init__(self) -> None:
        self.binding.greater = self._greater

    @property
    def context(self) -> Context:
        """What is assumed so far."""
        return Context(tuple(dict.fromkeys(self.shapes.assumptions)))

    def decide(self, difference: Size) -> bool | None:
        """Whether a difference of sizes is >= 0."""
        if _real(difference):
            return None
        context = self.context
        if context.implies(Guard(difference, ">=")):
            return True
        return False if context.implies(Guard(-difference - 1, ">=")) else None

    def _greater(self, left: Any, right: Any) -> bool:
        """Whether left >= right, chosen and assumed where it is open; what is written with symbols is finite."""
        low, high = (_infinity(side) for side in (left, right))
        if low or high:
            return low >= high
        known = decide(left, ">=", right)
        if known is not None:
            return known
        if not all(isinstance(side, (int, Expression)) for side in (left, right)):
            raise Unsupported(f"the greater of {left} and {right}")
        chosen = self.shapes.choices.pick((True, False))
        if _real(left - right):
            self.reals.append(Real(left - right, ">=") if chosen else Real(right - left, ">"))
        else:
            self.shapes.assumptions.append(Guard(left - right if chosen else right - left - 1, ">="))
        return chosen

    def _value(self, expression: AttributeExpression) -> Any:
        try:
            return self.binding.value(expression)
        except Unbound:
            return None

    # ---- menus and equations ---------------------------------------------------------------------------------------

    def _menus(self) -> None:
        if any(names_in(e) for c in self.rule.choices for e in c.menu):
            raise Unsupported("a choice among values that depend on names")
        members = [*self.rule.choices, *(c for c in self.rule.conditions if isinstance(c, Membership))]
        for member in members:
            if member.variable not in self.binding.names and not any(names_in(e) for e in member.menu):
                options = [self.binding.value(e) for e in member.menu]
                self.binding.names[member.variable] = self.shapes.choices.pick(options)

    def _equations(self) -> None:
        """Conditions that pin a name, a == b or a % b == 0, as values of names, so that types agree in form."""
        order = [c for c in self.rule.conditions if isinstance(c, Comparison) and c.relation == "=="]
        for c in order:
            if isinstance(c.left, Binary) and c.left.operation == "%" and c.right == Quantity(0):
                self._multiple(c.left.left, c.left.right)

    def _multiple(self, whole: AttributeExpression, divisor: AttributeExpression) -> None:
        """name % divisor == 0, or (name - other) % divisor == 0."""
        base: Size = 0
        target = whole
        if isinstance(whole, Binary) and whole.operation == "-":
            target = whole.left
            base = self._natural(whole.right)
        if not isinstance(target, Name) or target.name in self.binding.names:
            return
        step = self._natural(divisor)
        self._demand_whole(target.name)
        if target.name not in never_negative(self.rule):
            value: Size = base + step * self.shapes.integer(f"{target.name}/")
        elif base == 0:
            value = self.shapes.product(self.shapes.size(f"{target.name}/"), step)
        else:
            above = any(
                isinstance(c, Comparison) and c.left == target and c.relation == ">=" and c.right == whole.right  # type: ignore[union-attr]
                for c in self.rule.conditions
            )
            quotient = self.shapes.size(f"{target.name}/") if above else self.shapes.integer(f"{target.name}/")
            value = base + step * quotient
            if not above:
                self.shapes.assumptions.append(Guard(value, ">="))
        self.binding.names[target.name] = value

    def _sized(self, expression: AttributeExpression) -> Size:
        for name in sorted(names_in(expression)):
            if name not in self.binding.names:
                self._demand_whole(name)
                natural = name in never_negative(self.rule)
                self.binding.names[name] = self.shapes.size(name) if natural else self.shapes.integer(name)
        value = self.binding.value(expression)
        if not isinstance(value, (int, Expression)):
            raise Unsupported(f"{value} is no integer")
        return value

    def _is_whole(self, name: str) -> bool:
        """Whether a name is itself an axis, or stands for an integer attribute or an entry of one."""
        attributes = (e for a in self.rule.left.applications() for f, e in a.attributes if not is_real(a.operator, f))
        listed = (i for e in attributes for i in (e.items if isinstance(e, Listing) else (e,)))
        return Name(name) in (*listed, *(axis for d in self.rule.declarations for axis in d.axes))

    def _natural(self, expression: AttributeExpression) -> Size:
        """A size that a condition divides, or by which it divides: one that is never negative."""
        value = self._sized(expression)
        if not self.context.implies(Guard(value, ">=")):
            raise Unsupported(f"{value} may be negative where a condition divides it or by it")
        return value

    def _demand_whole(self, name: str, *, known: bool = False) -> None:
        """Raises `Unsupported` for a name in a real attribute that may be a fraction: not one ``known`` as a size."""
        attributes = ((a.operator, f, e) for a in self.rule.left.applications() for f, e in a.attributes)
        if not known and any(is_real(operator, f) and name in names_in(e) for operator, f, e in attributes):
            raise Unsupported(f"{name} is a real attribute, of which sizes say nothing")

    # ---- declared shapes -------------------------------------------------------------------------------------------

    def _declared(self, declaration: Declaration) -> None:
        dims: list[Size] = []
        for k, axis in enumerate(declaration.axes, 1):
            found = self._axis(declaration.variable, len(dims), axis, len(declaration.axes) - k)
            if axis in self._kernel(declaration) and not isinstance(axis, Block):
                self.shapes.assumptions += [Guard(d - 1, ">=") for d in found]
            dims.extend(found)
        self.types[declaration.variable] = self._tensor(declaration.variable, tuple(dims))

    def _axis(self, variable: str, place: int, axis: Axis, behind: int) -> tuple[Size, ...]:
        if isinstance(axis, Block):
            if axis.name not in self.binding.blocks:
                self.binding.blocks[axis.name] = self._block(axis.name)
            dims: tuple[Size, ...] = self.binding.blocks[axis.name]
            return self.shapes.narrowed(dims, variable, place, behind) if axis.broadcast else dims
        factors = axis.factors if isinstance(axis, Product) else (axis,)
        sizes = [self._name_sized(f) for f in factors]
        self.shapes.assumptions += [
            Guard(s, ">=") for s, f in zip(sizes, factors, strict=True) if not isinstance(f, Name)
        ]
        if len(sizes) > 1:
            self.digits[variable, place] = tuple(s for s in sizes if s != 1)
        return (self.shapes.product(*sizes),)

    def _block(self, name: str) -> tuple[Size, ...]:
        spatial = self._spatial(name)
        least = int(self._is_kernel(name))
        if self.shapes.site is not None:
            return self.shapes.sizes(name, self.shapes.site.blocks[name], least)
        rank = self.binding.ranks.get(name)
        count = self.shapes.rank(name, PERMUTED if self._permutes() else BLOCKS) if rank is None else rank
        if self._pointwise_only():
            count = min(count, 1)
            return tuple(self.shapes.choices.pick((1, self._column())) for _ in range(count))
        if spatial:
            count = self.shapes.rank(name, spatial)
        return self.shapes.sizes(name, count, least)

    def _permutes(self) -> bool:
        """Whether some Transpose has an order that the rule leaves open."""
        sides = (self.rule.left, self.rule.right)
        orders = [e for s in sides for a in s.applications() for n, e in a.attributes if n == "perm"]
        return any(not isinstance(e, Listing) for e in orders)

    def _is_kernel(self, name: str) -> bool:
        """Whether a block is the spatial axes of a convolution's weights, which are positive."""
        kernels = (axis for d in self.rule.declarations for axis in self._kernel(d))
        return any(isinstance(axis, Block) and axis.name == name for axis in kernels)

    def _kernel(self, declaration: Declaration) -> tuple[Axis, ...]:
        """The declared axes of a convolution's weights that lie behind two others: a block may have none."""
        plain = [k for k, axis in enumerate(declaration.axes) if not isinstance(axis, Block)][:2]
        return declaration.axes[plain[1] + 1 :] if declaration.variable in self._weights() and len(plain) == 2 else ()

    def _spatial(self, name: str) -> Sequence[int]:
        """Numbers of axes of a block that windows slide over."""
        for a in self.rule.left.applications():
            if a.operator.onnx in POOLS | {"Conv", "ConvTranspose"}:
                for v in a.arguments:
                    declared = next((d for d in self.rule.declarations if v == Variable(d.variable)), None)
                    if declared and any(isinstance(x, Block) and x.name == name for x in declared.axes):
                        plain = sum(not isinstance(x, Block) for x in declared.axes)
                        return tuple(n + 2 - plain for n in SPATIAL)
        return ()

    def _name_sized(self, expression: AttributeExpression) -> Size:
        for name in sorted(names_in(expression)):
            self._pin(name)
        value = self.binding.value(expression)
        if not isinstance(value, (int, Expression)):
            raise Unsupported(f"{value} is no integer")
        return value

    def _pin(self, name: str) -> None:
        if name in self.binding.names:
            return
        self._demand_whole(name, known=self._is_whole(name))
        natural = name in never_negative(self.rule)
        for c in self.rule.conditions:
            if isinstance(c, Comparison) and c.relation == "==":
                for this, other in ((c.left, c.right), (c.right, c.left)):
                    if this == Name(name) and not isinstance(other, Call):
                        value = self.binding.names[name] = self._sized(other)
                        self.shapes.assumptions += [Guard(value, ">=")] if natural else []
                        return
        kernel = any(Name(name) in self._kernel(d) for d in self.rule.declarations)
        self.binding.names[name] = self.shapes.size(name, int(kernel)) if natural else self.shapes.integer(name)

    def _weights(self) -> set[str]:
        """Variables that are weights of convolutions, behind whose first two axes no size is 0."""
        convolutions = (a for a in self.rule.left.applications() if a.operator.onnx in ("Conv", "ConvTranspose"))
        return {a.arguments[1].name for a in convolutions if isinstance(a.arguments[1], Variable)}

    def _tensor(self, name: str, shape: tuple[Size, ...]) -> TensorType:
        given = "bool" if name in asked(self.rule) else "int64" if name in indexing(self.rule) else self.dtype
        return TensorType(given, shape)

    def _pointwise_only(self) -> bool:
        if self.shapes.site is not None:
            return False  # the axes of a match are looked at one by one
        sides = (self.rule.left, self.rule.right)
        return all(a.operator.pointwise for s in sides for a in s.applications())

    def _column(self) -> Size:
        """The size of the one axis on which laws of pointwise operators are proved: every axis behaves alike."""
        if self.column is None:
            self.column = self.shapes.size("d")
        return self.column

    # ---- conditions ------------------------------------------------------------------------------------------------

    def _condition(self, c: Comparison | Membership | Predicate) -> None:
        if isinstance(c, Membership):
            menu = [self.binding.value(e) for e in c.menu]
            actual = self.binding.names.get(c.variable)
            if actual not in menu:
                known = all(not isinstance(v, (Expression, AnyMode, tuple)) for v in (actual, *menu))
                raise Excluded("a value outside its menu") if known else Undetermined("a menu is open")
        elif isinstance(c, Comparison):
            self._compared(c)

    def _compared(self, c: Comparison) -> None:
        if isinstance(c.left, Call) and c.left.function == "least" and c.relation in (">=", "=="):
            right = self.binding.value(c.right)
            entries = self.binding.value(c.left.arguments[0])
            self.shapes.assumptions += [Guard(v - right, ">=") for v in entries]
            return
        left, right = self.binding.value(c.left), self.binding.value(c.right)
        if any(not isinstance(v, (int, Expression)) for v in (left, right)):
            if not self.binding.holds(c):
                entries = (e for v in (left, right) for e in (v if isinstance(v, tuple) else (v,)))
                open_ = any(isinstance(e, (Expression, AnyMode)) for e in entries)
                raise Undetermined("a condition is open") if open_ else Excluded("a condition does not hold")
            return
        if _real(left - right):
            swap = c.relation in ("<", "<=")
            kind = {"<": ">", "<=": ">="}.get(c.relation, c.relation)
            self.reals.append(Real(right - left if swap else left - right, kind))
            return
        g = {
            "==": Guard(left - right, "=="), "!=": Guard(left - right, "!="), "<": Guard(right - left - 1, ">="),
            "<=": Guard(right - left, ">="), ">": Guard(left - right - 1, ">="), ">=": Guard(left - right, ">="),
        }[c.relation]  # fmt: skip
        if g.decided is False:
            raise Excluded("a condition does not hold")
        self.shapes.assumptions.append(g)


def _real(value: Any) -> bool:
    return isinstance(value, Expression) and any(s.role is Role.REAL for s in symbols(value))
