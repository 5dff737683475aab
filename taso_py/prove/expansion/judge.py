"""The third judge: every instance of a rule over stated menus, both sides written out element by element.

It shares nothing with the prover but the operators' meaning and the rule language.  What it says holds for the
instances that it looked at: a contradiction is an instance (with values), never the absence of a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from itertools import chain
from typing import Literal

from taso_py.graph.table import Node
from taso_py.prove.expansion.canonical import LeafFacts
from taso_py.prove.expansion.compare import Shown, Undecided, compare
from taso_py.prove.expansion.elements import Element, Forest, Meaning, OutOfTable
from taso_py.prove.expansion.instance import SmallInstance
from taso_py.prove.expansion.instances import Enumeration
from taso_py.prove.expansion.menus import SmallMenus
from taso_py.prove.expansion.points import ROUNDS, Difference, Number, difference
from taso_py.rules.rule import Rule

_RANKS = (1, 2, 3)
"""Numbers of axes of undeclared tensors that are tried, until all instances fit into the budget."""
_MOST_PARTS = 120
_DEEP = 5
_FEW = 1.5
_MOST_ELEMENTS = 2048
_MOST_KEPT = 3
_MOST_SEARCHED = 12
"""Pairs of elements whose forms differ for which many points are tried; few for all others."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts and no clock, so that a verdict does not depend on load.

    ``runs`` ways to pick, of which many give no instance; ``drawn`` of them where not all can be tried; ``elements``
    of all tensors that are written out; ``work`` products of terms in all forms.
    """

    runs: int = 6000
    drawn: int = 1000
    elements: int = 60_000
    work: int = 150_000


@dataclass(frozen=True, slots=True)
class FalseInstance:
    """An instance at which the law is false.

    ``kind`` is ``values`` (different numbers), ``undefined`` (the right side has no value where the left one
    has) or ``types`` (the right side has another type, or cannot be built: a match would refuse it).
    """

    kind: Literal["values", "undefined", "types"]
    instance: str
    what: str

    def __str__(self) -> str:
        return f"{self.instance}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """What the enumeration of one direction of a rule says.

    ``instances`` were looked at, ``proved`` of them are equal in every element by form, ``undecided`` agree at all
    points that were tried; ``mistyped`` have a right side of another type.  ``filled`` of the proved ones have
    elements at all.  ``complete`` is whether these are all instances over ``menus``; ``why`` says what was open
    first.  ``contradictions`` holds the first few.
    """

    menus: SmallMenus
    instances: int
    complete: bool
    proved: int
    filled: int
    undecided: int
    mistyped: int
    contradictions: tuple[FalseInstance, ...] = ()
    why: str = ""
    beyond: int = 0
    """Instances over larger menus, drawn, that were looked at too: they can only contradict."""

    def beside(self, other: Expanded) -> Expanded:
        """This one, with what instances drawn from larger menus contradict."""
        contradictions = sorted((*self.contradictions, *other.contradictions), key=lambda c: c.kind == "types")
        return replace(self, contradictions=tuple(contradictions), beyond=other.instances)

    @property
    def refuted(self) -> bool:
        """Whether an instance was found whose elements differ."""
        return any(c.kind != "types" for c in self.contradictions)

    @property
    def shown(self) -> bool:
        """Whether every instance over the menus is proved, and there are some that have elements."""
        return self.complete and self.filled > 0 and self.proved == self.instances and not self.contradictions

    def __str__(self) -> str:
        extent = "all" if self.complete else "not all"
        counts = f"{self.proved} proved, {self.undecided} undecided, {self.mistyped} mistyped"
        first = "".join(f"; {c.kind}: {c}" for c in self.contradictions[:1])
        return f"{self.instances} instances ({extent} of the menus): {counts}{first}"


def exhaustive(rule: Rule, *, size: int = 2, ranks: int | None = None, budget: Budget | None = None) -> Expanded:
    """Looks at all instances of a directed rule with sizes 0..size.

    Undeclared tensors have up to ``ranks`` axes; by default the most, from 3 down, whose instances fit into the
    budget.  Where none fit, instances are drawn and nothing is claimed.
    """
    limit = budget or Budget()
    ladder = _ladder(rule, size, ranks)
    found: _Rung | None = None
    runs = 0
    for menus in ladder:
        if found is not None and found.runs * found.growth(menus) > limit.runs - runs:
            break
        tried = _Rung.tried(rule, menus, limit.runs - runs, limit.elements, found)
        runs += tried.runs
        if not tried.whole:
            break
        found = tried
    # The last menus are larger than what was asked for: no claim needs them.
    largest = ladder[-2]
    if found is None or not any(i.outputs for i in found.instances):
        judging = _Judging(rule, largest, limit)
        judging.look(Enumeration(rule, largest).drawn(limit.drawn))
        return judging.expansion(complete=False)
    judging = _Judging(rule, found.menus, limit)
    complete = judging.look(found.instances)
    expansion = judging.expansion(complete=complete)
    if found.menus in ladder[-2:] or expansion.refuted:
        return expansion
    beyond = _Judging(rule, largest, limit)
    # All axes of size 2, so that axes of every number are soon met.
    even = replace(largest, ranks=0, blocks=0)
    beyond.look(chain(Enumeration(rule, even).every(limit.drawn), Enumeration(rule, largest).drawn(limit.drawn)))
    return expansion.beside(beyond.expansion(complete=False))


def _ladder(rule: Rule, size: int, ranks: int | None) -> list[SmallMenus]:
    """Menus, each within the next: more axes of undeclared tensors, some of many axes, larger sizes."""
    declared = {d.variable for d in rule.declarations}
    steps = (ranks,) if ranks is not None else _RANKS if rule.left.variables() - declared else _RANKS[-1:]
    found = [SmallMenus(size=size, ranks=r) for r in steps]
    deep = replace(found[-1], deep=_DEEP)
    return [*found, deep, replace(deep, size=size + 1)]


@dataclass(frozen=True, slots=True)
class _Rung:
    """All instances over menus, or as many as the budget allows; ``before`` is the rung below."""

    menus: SmallMenus
    instances: list[SmallInstance]
    runs: int
    whole: bool
    before: int

    @staticmethod
    def tried(rule: Rule, menus: SmallMenus, most_runs: int, most_elements: int, below: _Rung | None) -> _Rung:
        enumeration = Enumeration(rule, menus)
        instances: list[SmallInstance] = []
        elements = 0
        for instance in enumeration.every(most_runs):
            instances.append(instance)
            elements += instance.elements
            if elements > most_elements:
                break
        whole = enumeration.whole and elements <= most_elements
        return _Rung(menus, instances, enumeration.runs, whole, below.runs if below else enumeration.runs)

    def growth(self, menus: SmallMenus) -> float:
        """By how much the number of runs will grow, going by how it grew; a few tensors of many axes are few."""
        return _FEW if menus.deep > self.menus.deep else max(self.runs / self.before, 2 * _FEW)


@dataclass(slots=True)
class _Judging:
    rule: Rule
    menus: SmallMenus
    budget: Budget
    _: KW_ONLY
    proved: int = 0
    filled: int = 0
    undecided: int = 0
    mistyped: int = 0
    instances: int = 0
    elements: int = 0
    searched: int = 0
    work: int = 0
    why: str = ""
    contradictions: list[FalseInstance] = field(default_factory=list)
    known: dict[tuple[object, ...], bool] = field(default_factory=dict)

    def look(self, instances: Iterable[SmallInstance]) -> bool:
        """Judges them until the budget is spent or an element differs; whether all of them were judged."""
        for instance in instances:
            if self.elements > self.budget.elements or self.work > self.budget.work:
                return False
            self.instances += 1
            self._judge(instance)
            if any(c.kind != "types" for c in self.contradictions):
                return False
        return True

    def expansion(self, *, complete: bool) -> Expanded:
        """What was seen."""
        return Expanded(
            menus=self.menus,
            instances=self.instances,
            complete=complete,
            proved=self.proved,
            filled=self.filled,
            undecided=self.undecided,
            mistyped=self.mistyped,
            contradictions=tuple(sorted(self.contradictions, key=lambda c: c.kind == "types")),
            why=self.why,
        )

    def _judge(self, instance: SmallInstance) -> None:
        if instance.mistyped:
            self.mistyped += 1
            if len(self.contradictions) < _MOST_KEPT:
                self.contradictions.append(FalseInstance("types", str(instance), instance.mistyped))
            return
        try:
            sides = _Sides.of(instance)
        except OutOfTable as error:
            self._open(str(error))
            return
        if sides is None:
            self._open(f"{instance}: too many elements")
            return
        self.elements += sides.size
        shown = True
        for place, (left, right) in enumerate(zip(sides.left, sides.right, strict=True)):
            if left is right:
                continue
            shown = self._pair(instance, sides.leaves, place, left, right) and shown
            if any(c.kind != "types" for c in self.contradictions):
                return
        if shown:
            self.proved += 1
            self.filled += bool(sides.left)
        else:
            self.undecided += 1

    def _open(self, why: str) -> None:
        self.undecided += 1
        self.why = self.why or why

    def _pair(
        self, instance: SmallInstance, leaves: Mapping[str, LeafFacts], place: int, left: Element, right: Element
    ) -> bool:
        """Whether the elements are shown to be equal; elements of equal structure are looked at once."""
        signature = _signature(left, right, leaves)
        shown = self.known.get(signature)
        if shown is None:
            verdict = compare(left, right, leaves)
            shown = isinstance(verdict, Shown)
            self.work += verdict.work
            if isinstance(verdict, Undecided):
                found = difference(
                    left,
                    right,
                    leaves,
                    ROUNDS if self.searched < _MOST_SEARCHED and len(signature[-1]) < _MOST_PARTS else 1,
                )
                self.searched += 1
                if found is not None:
                    self.contradictions.append(_contradiction(instance, place, found))
                    return False
                self.why = self.why or f"{instance}: {verdict.why}"
            self.known[signature] = shown
        return shown


@dataclass(frozen=True, slots=True)
class _Sides:
    """The elements of all outputs of both sides."""

    left: list[Element]
    right: list[Element]
    leaves: dict[str, LeafFacts]
    size: int

    @staticmethod
    def of(instance: SmallInstance) -> _Sides | None:
        forest = Forest()
        values: dict[int, list[Element]] = {}
        leaves: dict[str, LeafFacts] = {}
        for value, (name, leaf) in instance.leaves.items():
            leaves[name] = leaf
            values[value] = [forest.element("leaf", (), (name, k)) for k in range(_count(instance, value))]
        for value, number in instance.literals.items():
            values[value] = [forest.number(number)] * _count(instance, value)
        for value in sorted(instance.nodes):
            if _count(instance, value) > _MOST_ELEMENTS:
                return None
            values[value] = _result(instance, forest, values, instance.nodes[value], value)
        assert instance.right is not None
        left = [e for v in instance.left for e in values[v]]
        right = [e for v in instance.right for e in values[v]]
        return _Sides(left, right, leaves, sum(map(len, values.values())))


def _result(
    instance: SmallInstance, forest: Forest, values: Mapping[int, list[Element]], node: Node, value: int
) -> list[Element]:
    inputs = [i for i in node.inputs if i is not None]
    types = [instance.values.types[i] for i in inputs]
    shape = [d for d in instance.values.types[value].dims if isinstance(d, int)]
    return Meaning(forest, [values[i] for i in inputs], types).result(node.operator, shape)


def _count(instance: SmallInstance, value: int) -> int:
    return math.prod(d for d in instance.values.types[value].dims if isinstance(d, int))


def _signature(left: Element, right: Element, leaves: Mapping[str, LeafFacts]) -> tuple[int, int, tuple[object, ...]]:
    """Two elements up to the names of their leaves: equal signatures are settled alike."""
    numbers: dict[Element, int] = {}
    rows: list[object] = []

    def visit(root: Element) -> int:
        stack = [(root, False)]
        while stack:
            element, ready = stack.pop()
            if element in numbers:
                continue
            if not ready:
                stack.append((element, True))
                stack.extend((a, False) for a in reversed(element.arguments))
                continue
            numbers[element] = len(numbers)
            if element.function == "leaf":
                leaf = leaves[str(element.attributes[0])]
                rows.append((leaf.dtype, leaf.predicates))
            else:
                rows.append((element.function, element.attributes, tuple(numbers[a] for a in element.arguments)))
        return numbers[root]

    return visit(left), visit(right), tuple(rows)


def _contradiction(instance: SmallInstance, place: int, found: Difference) -> FalseInstance:
    values = ", ".join(f"{name}[{at}]={_text(v)}" for (name, at), v in found.point.items())
    where = f"at {values or 'all values'} element {place}"
    if found.right is None:
        return FalseInstance("undefined", str(instance), f"{where} is {_text(found.left)} left, undefined right")
    return FalseInstance("values", str(instance), f"{where} is {_text(found.left)} left, {_text(found.right)} right")


def _text(value: Number) -> str:
    return str(value) if isinstance(value, Fraction) and value.denominator < 10**4 else f"{float(value):.9g}"


# ---- bounded claims ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Enumerated:
    """Every instance over ``menus`` is proved: the law holds there, and nothing is said of other instances."""

    menus: SmallMenus
    instances: int


@dataclass(frozen=True, slots=True)
class NotEnumerated:
    """No bounded claim is made, and why; ``expansion`` says what was seen."""

    why: str
    expansion: Expanded


def bounded(rule: Rule, size: int, *, budget: Budget | None = None) -> Enumerated | NotEnumerated:
    """The claim "proved up to sizes of ``size``": only when every instance over the stated menus is proved."""
    found = exhaustive(rule, size=size, budget=budget)
    if found.refuted:
        return NotEnumerated(f"refuted: {found.contradictions[0]}", found)
    if not found.complete:
        return NotEnumerated(f"only {found.instances} instances were looked at", found)
    if not found.filled:
        return NotEnumerated("no instance over the menus has elements", found)
    if not found.shown:
        return NotEnumerated(
            f"{found.undecided} of {found.instances} instances are undecided, "
            f"{found.mistyped} are mistyped: {found.why}",
            found,
        )
    return Enumerated(found.menus, found.instances)
