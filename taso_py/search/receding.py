"""What is not read is not computed: cuts go back through what they are cut from, as far as nothing is computed twice.

Where a classifier reads one token, the last layer needs its queries, its sum and its perceptron for that token alone;
where one time step is read, a stack of convolutions needs the places that it depends on.  No single step of that gains
much, and each is useless while something still reads the whole: they are made in one move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from taso_py.ops.slicing import Slice
from taso_py.rules.library import RECEDING
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Listing, Variable
from taso_py.search.index import RuleIndex
from taso_py.search.matcher import Match
from taso_py.search.rewriter import Rewrite, rewrite
from taso_py.search.view import View

BEGINNING = frozenset({"gather-one", "gather-neighbours", "cut-of-two-axes"})
"""Rules that read by cuts along one axis, which may go back then, what was picked or cut otherwise."""
_CUTS_OF_ONE = ("cuts-within-cut", "cuts-within-cut-single", "cuts-within-hull")
"""Make of several cuts of one tensor cuts of the range that they share."""
_SWAP = "cut-of-other-cut"
"""Lets a cut change places with one along another axis, as some other cut of the same tensor has."""
_CROWD = 16
"""Cuts of one tensor that are joined, at most: a tensor of which hundreds of places are read is mostly read."""
_MOST, _NODES = 2000, 10_000_000
"""Steps of one move; and as many as copies of the graph that hold so many nodes."""


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
    cuts = [a for a in new if a.operator is Slice and isinstance(a.arguments[0], Variable) and not cuts_several_axes(a)]
    rest = [a for a in new if a not in cuts]
    # A cut of a cut only becomes one: two of them would change places for ever.
    return all(isinstance(a, Variable) for a in operands) and all(
        a.operator is inner.operator and inner.operator is not Slice for a in rest
    )


def cuts_several_axes(application: Application) -> bool:
    """Whether it is a cut along several axes at once."""
    axes = dict(application.attributes).get("axes")
    return application.operator is Slice and isinstance(axes, Listing) and len(axes.items) > 1


def _prepares(rule: Rule) -> bool:
    """Whether the rule is no move by itself: it only prepares cuts to go back."""
    return rule.name in (*_CUTS_OF_ONE, _SWAP)


def only_recedes(rule: Rule) -> bool:
    """Whether the rule is a move only where nothing else reads what it cuts."""
    return Path(rule.file).name == RECEDING


def moves(rules: Sequence[Rule]) -> Sequence[Rule]:
    """The rules that are moves by themselves: all of them, where there are none for which some would prepare cuts."""
    chosen = [rule for rule in rules if not _prepares(rule)]
    return chosen if any(map(only_recedes, chosen)) else rules


@dataclass(frozen=True, slots=True)
class Receding:
    """The rules by which cuts go back."""

    index: RuleIndex

    @staticmethod
    def of(rules: Iterable[Rule]) -> Receding:
        """Those of the directed rules that let cuts go back."""
        return Receding(RuleIndex.of(r for r in rules if recedes(r) or _prepares(r)))

    def begins(self, rule: Rule) -> bool:
        """Whether cuts may go on from what the rule makes."""
        return rule.name in BEGINNING or recedes(rule)

    def recede(self, view: View, changed: Collection[int]) -> tuple[View, list[Rewrite]]:
        """Every cut among what changed goes back as far as it can, and those that come of it."""
        steps: list[Rewrite] = []
        waiting = _concerned(view, changed)
        most = min(_MOST, _NODES // (len(view.table.nodes) + 1))
        while waiting and len(steps) < most:
            value = waiting.pop()
            step = self._back(view, value)
            if step is None:
                continue
            view = view.after(step.table)
            steps.append(step)
            waiting += _concerned(view, step.changed.union(step.outputs, [value]))
        return view, steps

    def _back(self, view: View, value: int) -> Rewrite | None:
        """One step further back from a cut; None where something else needs more of what it is cut from."""
        whole = _cut_from(view, value)
        if whole is None or whole in view.values.constant or whole in view.table.outputs:
            return None
        readers = list(view.users.get(whole, ()))
        if len(readers) > _CROWD or any(_cut_from(view, v) != whole for v in readers):
            return None
        found = self._matches(view, value, whole) if len(readers) == 1 else self._shared(view, readers)
        return next((step for match in found if (step := rewrite(view, match)) is not None), None)

    def _matches(self, view: View, value: int, whole: int) -> Iterator[Match]:
        for compiled in self.index.at(view, value):
            name = compiled.rule.name
            if name not in _CUTS_OF_ONE and (name != _SWAP or _is_cut_beside(view, value, whole)):
                yield from compiled.matches_at(view, value)

    def _shared(self, view: View, readers: Sequence[int]) -> Iterator[Match]:
        """Of the cuts of one tensor, those that make one range of two of them, if that is not the whole.

        The first and the last come first: all others lie within the range of these two.
        """
        ranges = {v: _range(view, v) for v in readers}
        first = min(readers, key=lambda v: (ranges[v][0], -ranges[v][1]))
        last = max(readers, key=lambda v: ranges[v][1])
        pairs = [(first, last), *((first, v) for v in readers), *((v, first) for v in readers)]
        compiled = [m for name in _CUTS_OF_ONE if (m := self.index.named(name)) is not None]
        for pair in dict.fromkeys(p for p in pairs if p[0] != p[1]):
            for one in compiled:
                yield from one.matches_on(view, pair)


def _range(view: View, cut: int) -> tuple[int, int]:
    """Where a cut begins and ends; of what is not known as a number, the front."""
    operator = _slice(view, cut)
    start, end = operator.starts[0], operator.ends[0]
    return (start if isinstance(start, int) else 0, end if isinstance(end, int) else 0)


def _concerned(view: View, changed: Iterable[int]) -> list[int]:
    """What changed and what reads that: a cut may have waited for one along another axis to go first."""
    made = [v for v in sorted(changed) if v in view.table.nodes]
    return [*(u for v in made for u in view.users.get(v, ())), *made]


def _is_cut_beside(view: View, value: int, whole: int) -> bool:
    """Whether all else that reads what the ``whole`` is cut from, along another axis, are cuts along that of ``value``.

    Were some of them along the axis of the ``whole``, the two would change places for ever.
    """
    source = _cut_from(view, whole)
    if source is None:
        return False
    axes, others = _slice(view, value).axes, [v for v in view.users.get(source, ()) if v != whole]
    alike = all(_cut_from(view, v) == source and _slice(view, v).axes == axes for v in others)
    return bool(others) and alike and axes != _slice(view, whole).axes


def _slice(view: View, cut: int) -> Slice:
    operator = view.table.nodes[cut].operator
    assert isinstance(operator, Slice)
    return operator


def _cut_from(view: View, value: int) -> int | None:
    """What a value is cut from along one axis; None where it is no such cut."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Slice) or len(node.operator.axes) != 1:
        return None
    return node.inputs[0]
