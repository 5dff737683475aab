"""Ways to write a typed law as a rule: for fixed numbers of axes, any number of them, or shapes that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taso_py.generate.kept.direction import directed, sized
from taso_py.generate.laws.equations import Dims, Unsized
from taso_py.generate.laws.pairs import CONSTANT, VARIABLE
from taso_py.generate.laws.typed import LawStep, Typed
from taso_py.graph.sizes import Expression, Size, symbol
from taso_py.ops.layout import Concat
from taso_py.ops.linear import MatMul
from taso_py.ops.operator import Operator
from taso_py.ops.slicing import Slice
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Comparison,
    Condition,
    Declaration,
    Listing,
    Name,
    Product,
    Quantity,
    Rank,
    Side,
    Term,
    Variable,
)

_TENSORS = "xyzuvwabcdef"
_SIZES = "mnkpqrtijlocdefhvuwab"


@dataclass(slots=True)
class Form:
    """One way to write a typed law: every tensor with the axes that it had."""

    typed: Typed
    names: dict[str, str] = field(default_factory=dict)
    tensors: dict[int, str] = field(default_factory=dict)
    terms: dict[int, Term] = field(default_factory=dict)

    def rule(self, left: Sequence[int], right: Sequence[int]) -> Rule | None:
        """The rule with these places as outputs; None when it has no such form or leaves a name unbound."""
        if not self.applies():
            return None
        sides = [Side((), tuple(map(self.term, places))) for places in (left, right)]
        declarations = tuple(Declaration(n, self.axes(p)) for p, n in self.tensors.items())
        rule = Rule("law", sides[0], sides[1], "==", declarations, self.conditions())
        return directed(rule) if sized(rule) else None

    def conditions(self) -> tuple[Condition, ...]:
        """Nothing is cut off by what is added around a tensor, and no pads are negative."""
        sizing = self.typed.sizing
        added: list[Size] = [symbol(n) for n in self.names if sizing.attribute_of.get(n) == "around"]
        added += [d for d in sizing.differences if sizing.solved != "larger"]
        return tuple(Comparison(self.size(size), ">=", Quantity(0)) for size in added)

    def applies(self) -> bool:
        """Whether the law can be written in this form."""
        return True

    def term(self, place: int) -> Term:
        """The term of a place."""
        if place not in self.terms:
            self.terms[place] = self._term(self.typed.steps[place], place)
        return self.terms[place]

    def _term(self, step: LawStep, place: int) -> Term:
        if step.operator is not None:
            arguments = tuple(self.term(o) for o in step.operands)
            return Application(type(step.operator), arguments, self.attributes(step))
        if step.source[0] == CONSTANT:
            build = self.typed.chosen.sources[step.source[1]].build
            assert build is not None
            return build.term([self.size(d) for d in self.typed.factors[place]])
        return self.variable(place)

    def variable(self, place: int) -> Variable:
        """The tensor variable of a source."""
        return Variable(self.tensors.setdefault(place, _TENSORS[len(self.tensors)]))

    # ---- attributes ------------------------------------------------------------------------------------------

    def attributes(self, step: LawStep) -> tuple[tuple[str, AttributeExpression], ...]:
        """The attributes that differ from ONNX's defaults."""
        assert step.operator is not None
        plain = type(step.operator)().attributes()
        own = step.operator.attributes()
        given = {k: v for k, v in own.items() if (k in ("axis", "axes") and v != ()) or not _default(k, v, plain[k])}
        return tuple((k, self.value(k, v)) for k, v in given.items())

    def value(self, name: str, value: Any) -> AttributeExpression:
        """An attribute's value: the variable that it became, or what it is."""
        if isinstance(value, tuple):
            variable = str(value[0]).partition(".")[0] if value else ""
            whole = tuple(symbol(f"{variable}.{k}") for k in range(len(value)))
            if variable not in self.typed.sizing.summed and value == whole:
                return Name(self.name(variable, name[0]))
            return Listing(tuple(self.value(name, v) for v in value))
        if isinstance(value, Expression):
            return self.size(value)
        return Quantity(value)

    def size(self, size: Size) -> AttributeExpression:
        """A size in the rule's names: a sum of products."""
        size = self.typed.sizing.resolved(size)
        if isinstance(size, int):
            return Quantity(size)
        whole: AttributeExpression | None = None
        for monomial, coefficient in sorted(size.terms, key=lambda t: (t[1] < 0, str(t[0]))):
            if coefficient < 0 and whole is None:
                raise Unsized(f"{size} has no plain text")
            several = abs(coefficient) != 1 or not monomial
            factors: list[AttributeExpression] = [Quantity(abs(coefficient))] if several else []
            for atom in monomial:
                if not isinstance(atom, str):
                    raise Unsized(f"{size} has no plain text")
                factors.append(Name(self.name(str(atom), "g" if self._counts_groups(atom) else "")))
            part = factors[0]
            for f in factors[1:]:
                part = Binary("*", part, f)
            whole = part if whole is None else Binary("-" if coefficient < 0 else "+", whole, part)
        assert whole is not None
        return whole

    def name(self, internal: str, wished: str = "") -> str:
        """The rule's name of a size or attribute variable, given in the order of first use."""
        if internal not in self.names:
            taken = set(self.names.values())
            if wished:
                options = [wished, *(f"{wished}{k}" for k in range(2, 9))]
            else:
                options = [c for c in _SIZES if c not in "spgk"] + [f"n{k}" for k in range(2, 40)]
            self.names[internal] = next(o for o in options if o not in taken)
        return self.names[internal]

    # ---- shapes ----------------------------------------------------------------------------------------------

    def axes(self, place: int) -> tuple[Axis, ...]:
        """The declared shape of a source."""
        return tuple(map(self.axis, self.typed.sizing.dims(self.typed.dims[place])))

    def axis(self, size: Size) -> Axis:
        """One declared axis; a product is written as factors, the group first."""
        if not isinstance(size, int) and len(size.terms) == 1:
            (monomial, coefficient), *_ = size.terms
            if coefficient > 0 and len(monomial) > 1 and all(isinstance(a, str) for a in monomial):
                factors = sorted(map(str, monomial))
                names = [Name(self.name(a)) for a in factors if not self._counts_groups(a)]
                groups = [Name(self.name(a, "g")) for a in factors if self._counts_groups(a)]
                number = [Quantity(coefficient)] if coefficient > 1 else []
                return Product((*groups, *number, *names))
        return self.size(size)

    def _counts_groups(self, variable: str) -> bool:
        return self.typed.sizing.attribute_of.get(variable) == "group"

    @property
    def operators(self) -> list[Operator]:
        """All operators of the law."""
        return [s.operator for s in self.typed.steps if s.operator is not None]

    @property
    def sources(self) -> list[int]:
        """Places of the tensor variables."""
        return [p for p, s in enumerate(self.typed.steps) if s.operator is None and s.source[0] == VARIABLE]

    @property
    def constants(self) -> bool:
        """Whether the law has constants."""
        return any(s.operator is None and s.source[0] == CONSTANT for s in self.typed.steps)


def _default(name: str, value: Any, plain: Any) -> bool:
    """Whether it is what ONNX takes where the attribute is not given; ``plain`` is the operator's own default."""
    if value == plain or not isinstance(value, tuple):
        return bool(value == plain)
    return set(value) == ({0} if name == "pads" else {1} if name in ("strides", "dilations") else None)


@dataclass(slots=True)
class Blocked(Form):
    """Any number of axes, for laws of point-wise operators that join and cut along one axis at most."""

    def applies(self) -> bool:
        """All operators are point-wise or work along the same axis, and off that axis all sizes are equal."""
        others = [o for o in self.operators if not o.pointwise]
        if self.constants or any(not isinstance(o, Concat | Slice) for o in others):
            return False
        axes = {a for o in others for a in (o.attributes().get("axes") or (o.attributes()["axis"],))}
        full = {self.shape(p) for p in self.sources if self.shape(p)}
        off = {tuple(d for k, d in enumerate(dims) if k not in axes) for dims in full}
        return len(axes) <= 1 and len(off) == 1 and len({len(f) for f in full}) == 1

    def shape(self, place: int) -> Dims:
        """Symbolic sizes."""
        return self.typed.sizing.dims(self.typed.dims[place])

    @property
    def along(self) -> int | None:
        """The axis of the joins and cuts."""
        for o in self.operators:
            if isinstance(o, Concat):
                return o.axis
            if isinstance(o, Slice):
                return o.axes[0]
        return None

    def axes(self, place: int) -> tuple[Axis, ...]:
        dims = self.shape(place)
        if not dims:
            return ()
        return (Block("s"),) if self.along is None else (Block("a"), self.axis(dims[self.along]), Block("b"))

    def value(self, name: str, value: Any) -> AttributeExpression:
        if name == "axis":
            return Rank("a")
        return Listing((Rank("a"),)) if name == "axes" else Form.value(self, name, value)


@dataclass(slots=True)
class Broadcast(Form):
    """Tensors of any shapes that broadcast, for laws of point-wise operators."""

    def applies(self) -> bool:
        """All operators are point-wise, and some join tensors."""
        return not self.constants and all(o.pointwise for o in self.operators) and len(self.sources) > 1

    def rule(self, left: Sequence[int], right: Sequence[int]) -> Rule | None:
        rule = Form.rule(self, left, right)
        return None if rule is None else replace(rule, declarations=())


@dataclass(slots=True)
class Batched(Form):
    """Matrix products with any number of axes in front, for laws whose right factors are matrices."""

    def applies(self) -> bool:
        """All tensors are matrices or rows; what is a right factor, or beside one, has no axes in front."""
        if not any(isinstance(o, MatMul) for o in self.operators) or self.constants:
            return False
        if not all(o.pointwise or isinstance(o, MatMul | Concat | Slice) for o in self.operators):
            return False
        if any(self._mixed(s) for s in self.typed.steps if s.operator is not None and s.operator.pointwise):
            return False
        return all(len(self.typed.dims[p]) in (0, 1, 2) for p in self.sources)

    def _mixed(self, step: LawStep) -> bool:
        """Whether a matrix meets a tensor with axes in front, which no law should depend on."""
        return len({o in self.plain for o in step.operands if len(self.typed.dims[o]) > 1}) > 1

    @property
    def plain(self) -> set[int]:
        """Places that must stay matrices: right factors and all that they are computed from."""
        found: set[int] = set()
        for step in reversed(self.typed.steps):
            if isinstance(step.operator, MatMul):
                found.add(step.operands[1])
        for place in reversed(range(len(self.typed.steps))):
            if place in found:
                found.update(self.typed.steps[place].operands)
        return found

    def axes(self, place: int) -> tuple[Axis, ...]:
        own = Form.axes(self, place)
        return own if len(own) < 2 or place in self.plain else (Block("s"), *own)

    def value(self, name: str, value: Any) -> AttributeExpression:
        if name == "axis":
            return Quantity(value - 2)
        return Listing((Quantity(value[0] - 2),)) if name == "axes" else Form.value(self, name, value)


FORMS: Sequence[type[Form]] = (Broadcast, Blocked, Batched, Form)
"""The most general form first."""
