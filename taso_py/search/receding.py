"""What is not read is not computed: cuts go back through what they are cut from, as far as nothing is computed twice.

Where a classifier reads one token, the last layer needs its queries, its sum and its perceptron for that token alone;
where one time step is read, a stack of convolutions needs the places that it depends on.  No single step of that gains
much, and each is useless while something still reads the whole: they are made in one move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from taso_py.ops.slicing import Slice
from taso_py.rules.library import RECEDING
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Variable
from taso_py.search.index import RuleIndex
from taso_py.search.matcher import Match
from taso_py.search.rewriter import Rewrite, rewrite
from taso_py.search.view import View

BEGINNING = frozenset({"gather-one", "gather-neighbours"})
"""Rules that read by a cut, which may go back then, what was picked."""
_CUTS_OF_ONE = ("cuts-within-cut", "cuts-within-cut-single", "cuts-within-hull")
"""Make of several cuts of one tensor cuts of the range that they share."""
_MOST = 10_000
"""Steps of one move."""


def recedes(rule: Rule) -> bool:
    """Whether the left side is a cut of what one operator computes, and the right side that operator of cuts."""
    outer = rule.left.resolve(rule.left.outputs[0])
    if len(rule.left.outputs) > 1 or not isinstance(outer, Application) or outer.operator is not Slice:
        return False
    inner = rule.left.resolve(outer.arguments[0])
    if not isinstance(inner, Application):
        return False
    operands = [rule.left.resolve(a) for a in inner.arguments]
    new = list(rule.right.applications())
    cuts = [a for a in new if a.operator is Slice and isinstance(a.arguments[0], Variable)]
    rest = [a for a in new if a not in cuts]
    # A cut of a cut only becomes one: two of them would change places for ever.
    return all(isinstance(a, Variable) for a in operands) and all(
        a.operator is inner.operator and inner.operator is not Slice for a in rest
    )


def only_recedes(rule: Rule) -> bool:
    """Whether the rule is a move only where nothing else reads what it cuts."""
    return Path(rule.file).name == RECEDING


@dataclass(frozen=True, slots=True)
class Receding:
    """The rules by which cuts go back."""

    index: RuleIndex

    @staticmethod
    def of(rules: Iterable[Rule]) -> Receding:
        """Those of the directed rules that let cuts go back."""
        return Receding(RuleIndex.of(r for r in rules if recedes(r) or r.name in _CUTS_OF_ONE))

    def begins(self, rule: Rule) -> bool:
        """Whether cuts may go on from what the rule makes."""
        return rule.name in BEGINNING or recedes(rule)

    def recede(self, view: View, changed: Collection[int]) -> tuple[View, list[Rewrite]]:
        """Every cut among what changed goes back as far as it can, and those that come of it."""
        steps: list[Rewrite] = []
        waiting = sorted(changed)
        while waiting and len(steps) < _MOST:
            value = waiting.pop()
            step = self._back(view, value)
            if step is None:
                continue
            view = view.after(step.table)
            steps.append(step)
            waiting += [v for v in (value, *sorted(step.changed)) if v in view.table.nodes]
        return view, steps

    def _back(self, view: View, value: int) -> Rewrite | None:
        """One step further back from a cut; None where something else needs more of what it is cut from."""
        whole = _cut_from(view, value)
        if whole is None or whole in view.values.constant or whole in view.table.outputs:
            return None
        readers = [v for v in view.users.get(whole, ()) if v in view.table.nodes]
        if any(_cut_from(view, v) != whole for v in readers):
            return None
        found = self._matches(view, value) if len(readers) == 1 else self._shared(view, value, readers)
        return next((step for match in found if (step := rewrite(view, match)) is not None), None)

    def _matches(self, view: View, value: int) -> Iterator[Match]:
        for compiled in self.index.at(view, value):
            if compiled.rule.name not in _CUTS_OF_ONE:
                yield from compiled.matches_at(view, value)

    def _shared(self, view: View, value: int, readers: Iterable[int]) -> Iterator[Match]:
        """Of the cuts of one tensor, those that make one range of two of them, if that is not the whole."""
        compiled = [m for name in _CUTS_OF_ONE if (m := self.index.named(name)) is not None]
        for other in readers:
            pairs = ((value, other), (other, value)) if other != value else ()
            for pair in pairs:
                for one in compiled:
                    yield from one.matches_on(view, pair)


def _cut_from(view: View, value: int) -> int | None:
    """What a value is cut from along one axis; None where it is no such cut."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Slice) or len(node.operator.axes) != 1:
        return None
    return node.inputs[0]
