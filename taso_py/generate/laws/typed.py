"""A law's operators one after the other, with the types that they had and the types that they have in general."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from taso_py.generate.laws.equations import Dims
from taso_py.generate.laws.pairs import VARIABLE, Law, Tree, outputs
from taso_py.generate.laws.sizing import Sizing, around
from taso_py.generate.terms.templates import Template, TemplateSet
from taso_py.graph.sizes import Size
from taso_py.graph.types import TensorType
from taso_py.ops.activations import Relu
from taso_py.ops.convolution import Conv
from taso_py.ops.operator import Operator
from taso_py.ops.padding import Pad
from taso_py.ops.pool import MaxPool


@dataclass(frozen=True, slots=True)
class LawStep:
    """One operator of a law with its operands' places; ``operator`` None: a source."""

    operator: Operator | None
    operands: tuple[int, ...]
    source: Tree = ()


@dataclass(slots=True)
class Typed:
    """A law's operators in the order of evaluation, with concrete and symbolic types by place."""

    chosen: TemplateSet
    sizing: Sizing
    _: KW_ONLY
    steps: list[LawStep] = field(default_factory=list)
    types: list[TensorType] = field(default_factory=list)
    dims: list[Dims] = field(default_factory=list)
    factors: dict[int, Dims] = field(default_factory=dict)
    """The sizes that a constant is computed from, by place."""
    places: dict[Any, int] = field(default_factory=dict)

    def add(self, tree: Tree) -> int:
        """The place of a term's value."""
        if tree not in self.places:
            self.places[tree] = self._source(tree) if tree[0] < 0 else self._application(tree)
        return self.places[tree]

    def relate(self, used: Sequence[Operator]) -> None:
        """Looks at all windows and pads of the law's operators before any of them becomes a variable."""
        if self.sizing.solved == "window":
            self.sizing.compose([(o.kernel_shape, o.pads) for o in used if isinstance(o, MaxPool)])
            return
        amounts = [found for o in used if isinstance(o, Pad) and (found := around(o.pads)) is not None]
        self.sizing.relate([o.pads for o in used if isinstance(o, Conv)], amounts)

    def _source(self, tree: Tree) -> int:
        if tree[0] == VARIABLE:
            return self._place(LawStep(None, (), tree), tree[1], self.sizing.source(tree[1]))
        source = self.chosen.sources[tree[1]]
        if source.build is None:
            return self._place(LawStep(None, (), tree), source.shape, tuple(map(self.sizing.fresh, source.shape)))
        groups, rest = source.build.sizes[: source.build.groups], source.build.sizes[source.build.groups :]
        sizes = (*(self.sizing.attribute("group", g) for g in groups), *map(self.sizing.fresh, rest))
        place = self._place(LawStep(None, (), tree), source.shape, source.build.shape(*sizes))
        self.factors[place] = sizes
        return place

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
        return self._place(LawStep(general, operands), operator.infer(*types).dims, dims)

    def _place(self, step: LawStep, shape: Sequence[Size], dims: Dims) -> int:
        self.steps.append(step)
        self.types.append(TensorType("float32", tuple(shape)))
        self.dims.append(dims)
        return len(self.steps) - 1


def operators(law: Law, chosen: TemplateSet) -> list[Operator]:
    """The operators of a law with the attributes that they had."""
    plain = Typed(chosen, Sizing(frozenset()))
    for side in law:
        for tree in outputs(side):
            plain.add(tree)
    return [s.operator for s in plain.steps if s.operator is not None]
