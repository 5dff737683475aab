"""From equal terms to rules: the forms of a law from the most general one down, each with sizes instead of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taso_py.errors import TypingError
from taso_py.generate.direction import directed, sized
from taso_py.generate.pairs import CONSTANT, VARIABLE, Law, Tree, applications, leaves, outputs
from taso_py.generate.sizing import Dims, Sizing, Solved, Unsized, around
from taso_py.generate.templates import Template, TemplateSet
from taso_py.graph.sizes import Expression, Size, symbol
from taso_py.graph.types import TensorType
from taso_py.ops.activations import Relu
from taso_py.ops.convolution import Conv
from taso_py.ops.layout import Concat
from taso_py.ops.linear import MatMul
from taso_py.ops.operator import Operator
from taso_py.ops.padding import Pad
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
_WINDOWS = frozenset({"group", "strides", "pads", "kernel_shape", "scales"})
_LOOSE: Sequence[tuple[frozenset[str], Solved, bool]] = (
    (_WINDOWS | {"around"}, "larger", False),
    (_WINDOWS | {"around"}, "smaller", False),
    (_WINDOWS | {"around"}, "around", False),
    (_WINDOWS | {"around"}, "", False),
    (_WINDOWS, "", False),
    (_WINDOWS - {"group"}, "", False),
    (frozenset({"group", "strides"}), "", False),
    (frozenset({"strides"}), "", False),
    (frozenset(), "", False),
    (_WINDOWS, "", True),
    (frozenset(), "", True),
)
"""Which attributes become variables, which of them depends on others, and whether kernels of one pixel stay such and
move by one; the most general form first."""


def rules(law: Law, chosen: TemplateSet) -> list[list[Rule]]:
    """The forms of the law as rules, the most general first, those of which none is more general together.

    None without a variable or a symbolic typing.
    """
    if not any(leaf[0] == VARIABLE for leaf in leaves(law[0])):
        return []
    found: dict[str, Rule] = {}
    together: list[list[Rule]] = [[]]
    for loose, solved, pointwise in _LOOSE:
        for rule in _forms(law, chosen, Sizing(loose, solved, pointwise)):
            if found.setdefault(rule.id, rule) is rule:
                if solved:
                    together[0].append(rule)
                else:
                    together.append([rule])
        if not solved and not _has_windows(law, chosen):
            break
    return [forms for forms in together if forms]


def _has_windows(law: Law, chosen: TemplateSet) -> bool:
    used = {chosen.templates[t[0]].operator for side in law for t in applications(side)}
    return any({"strides", "pads", "scales"} & o.__dataclass_fields__.keys() for o in used)


def _forms(law: Law, chosen: TemplateSet, sizing: Sizing) -> Iterator[Rule]:
    try:
        typed = _Typed(chosen, sizing)
        if sizing.solved:
            typed.relate(law)
            if not sizing.summed:
                return
        sides = [[typed.add(tree) for tree in outputs(side)] for side in law]
        for one, other in zip(*sides, strict=True):
            for a, b in zip(typed.dims[one], typed.dims[other], strict=True):
                typed.sizing.unify(a, b)
    except (Unsized, TypingError, ValueError):
        return
    for form in (_Broadcast, _Blocked, _Batched, _Form):
        try:
            rule = form(typed).rule(sides[0], sides[1])
        except (Unsized, TypingError):
            continue
        if rule is not None:
            yield rule


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a law with its operands' places; ``operator`` None: a source."""

    operator: Operator | None
    operands: tuple[int, ...]
    source: Tree = ()


@dataclass(slots=True)
class _Typed:
    """A law's operators in the order of evaluation, with concrete and symbolic types by place."""

    chosen: TemplateSet
    sizing: Sizing
    steps: list[Step] = field(default_factory=list)
    types: list[TensorType] = field(default_factory=list)
    dims: list[Dims] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def add(self, tree: Tree) -> int:
        """The place of a term's value."""
        if tree not in self.places:
            self.places[tree] = self._source(tree) if tree[0] < 0 else self._application(tree)
        return self.places[tree]

    def relate(self, law: Law) -> None:
        """Looks at all pads of the law before any of them becomes a variable."""
        plain = _Typed(self.chosen, Sizing(frozenset()))
        for side in law:
            for tree in outputs(side):
                plain.add(tree)
        used = [s.operator for s in plain.steps if s.operator is not None]
        amounts = [found for o in used if isinstance(o, Pad) and (found := around(o.pads)) is not None]
        self.sizing.relate([o.pads for o in used if isinstance(o, Conv)], amounts)

    def _source(self, tree: Tree) -> int:
        if tree[0] == VARIABLE:
            return self._place(Step(None, (), tree), tree[1], self.sizing.source(tree[1]))
        source = self.chosen.sources[tree[1]]
        dims = [d if k in source.fixed else self.sizing.fresh(d) for k, d in enumerate(source.shape)]
        if source.square:
            self.sizing.unify(dims[0], dims[1])
        return self._place(Step(None, (), tree), source.shape, tuple(dims))

    def _application(self, tree: Tree) -> int:
        template: Template = self.chosen.templates[tree[0]]
        operands = tuple(self.add(t) for t in tree[1:])
        operator = template.at([self.types[o] for o in operands])
        assert operator is not None
        place = self._applied(operator, operands)
        return self._applied(Relu(), (place,)) if template.relu else place

    def _applied(self, operator: Operator, operands: tuple[int, ...]) -> int:
        types = [self.types[o] for o in operands]
        general, dims = self.sizing.apply(operator, types, [self.dims[o] for o in operands])
        return self._place(Step(general, operands), operator.infer(*types).dims, dims)

    def _place(self, step: Step, shape: Sequence[Size], dims: Dims) -> int:
        self.steps.append(step)
        self.types.append(TensorType("float32", tuple(shape)))
        self.dims.append(dims)
        return len(self.steps) - 1


@dataclass(slots=True)
class _Form:
    """One way to write a typed law: every tensor with the axes that it had."""

    typed: _Typed
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
        added: list[Size] = [symbol(n) for n in self.names if n.startswith("a")]
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

    def _term(self, step: Step, place: int) -> Term:
        if step.operator is not None:
            arguments = tuple(self.term(o) for o in step.operands)
            return Application(type(step.operator), arguments, self.attributes(step))
        if step.source[0] == CONSTANT:
            build = self.typed.chosen.sources[step.source[1]].build
            assert build is not None
            return build([self.size(d) for d in self.typed.sizing.dims(self.typed.dims[place])])
        return self.variable(place)

    def variable(self, place: int) -> Variable:
        """The tensor variable of a source."""
        return Variable(self.tensors.setdefault(place, _TENSORS[len(self.tensors)]))

    # ---- attributes ------------------------------------------------------------------------------------------

    def attributes(self, step: Step) -> tuple[tuple[str, AttributeExpression], ...]:
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
            whole = [f"{variable}.{k}" for k in range(len(value))]
            if variable not in self.typed.sizing.summed and [str(v) for v in value] == whole:
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
                factors.append(Name(self.name(str(atom), _group(str(atom)))))
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
            options = [*wished, *_SIZES] if wished else list(_SIZES)
            if wished:
                options = [wished, *(f"{wished}{k}" for k in range(2, 9))]
            else:
                options = [c for c in options if c not in "spgk"] + [f"n{k}" for k in range(2, 40)]
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
            if coefficient == 1 and len(monomial) > 1 and all(isinstance(a, str) for a in monomial):
                ordered = sorted(map(str, monomial), key=lambda a: (not a.startswith("g"), a))
                return Product(tuple(Name(self.name(a, _group(a))) for a in ordered))
        return self.size(size)

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


def _group(name: str) -> str:
    return "g" if name.startswith("g") else ""


def _default(name: str, value: Any, plain: Any) -> bool:
    """Whether it is what ONNX takes where the attribute is not given; ``plain`` is the operator's own default."""
    if value == plain or not isinstance(value, tuple):
        return bool(value == plain)
    return set(value) == ({0} if name == "pads" else {1} if name in ("strides", "dilations") else None)


@dataclass(slots=True)
class _Blocked(_Form):
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
        return Listing((Rank("a"),)) if name == "axes" else _Form.value(self, name, value)


@dataclass(slots=True)
class _Broadcast(_Form):
    """Tensors of any shapes that broadcast, for laws of point-wise operators."""

    def applies(self) -> bool:
        """All operators are point-wise, and some join tensors."""
        return not self.constants and all(o.pointwise for o in self.operators) and len(self.sources) > 1

    def rule(self, left: Sequence[int], right: Sequence[int]) -> Rule | None:
        rule = _Form.rule(self, left, right)
        return None if rule is None else replace(rule, declarations=())


@dataclass(slots=True)
class _Batched(_Form):
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

    def _mixed(self, step: Step) -> bool:
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
        own = _Form.axes(self, place)
        return own if len(own) < 2 or place in self.plain else (Block("s"), *own)

    def value(self, name: str, value: Any) -> AttributeExpression:
        if name == "axis":
            return Quantity(value - 2)
        return Listing((Quantity(value[0] - 2),)) if name == "axes" else _Form.value(self, name, value)
