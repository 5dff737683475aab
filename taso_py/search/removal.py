"""Removing what computes nothing: the first thing to try on any graph, because it cannot cost time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from taso_py.cost.roofline import Roofline
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.exhaustive import Exhaustive
from taso_py.search.index import RuleIndex
from taso_py.search.moves import Later, Rewriter
from taso_py.search.receding import cuts_several_axes
from taso_py.search.state import State, TraceStep
from taso_py.search.view import View

_LAYOUT = frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Identity"})
"""Operators that only say where elements are: one of them is never slower than two."""
_PASSES = 40
"""Most times that all rules have their turn: each pass halves a chain of what is idle."""


def removes(rule: Rule) -> bool:
    """Whether the right side does part of what the left side does, and nothing else.

    Its applications are among the left side's, or they only say where elements are and are fewer of the same kinds.
    A cut along several axes is not among these: one Split makes all cuts along one axis.
    """
    left, right = list(rule.left.applications()), list(rule.right.applications())
    if len(right) >= len(left):
        return False
    kinds, kept = (Counter(a.operator.onnx for a in side) for side in (left, right))
    if all(a in left for a in right):
        return True
    return kept.keys() <= _LAYOUT and kept <= kinds and not any(map(cuts_several_axes, right))


def removing(rules: Iterable[Rule]) -> list[Rule]:
    """The directions of rules that only remove."""
    return [directed for rule in rules for directed in rule.directions() if removes(directed)]


def without_idle_nodes(
    start: View, rules: Iterable[Rule], roofline: Roofline, cost: float, stop: Callable[[], bool]
) -> State | None:
    """The state in which nothing is left that a rule can remove, at the start's ``cost``; None: there is nothing.

    Each rule is applied wherever it matches at once, because a graph of 100,000 nodes is not copied for each of them.
    """
    laws = removing(rules)
    if not laws:
        return None
    untidied = Canonicalizer(RuleIndex.of(()), RuleIndex.of(()))
    search = Exhaustive(Rewriter.directed(laws, untidied), roofline)
    view, trace = start, list[TraceStep]()
    for _ in range(_PASSES):
        found = search.run(view, cost, stop, lambda count, best: None)
        if not found.states:
            break
        view = found.states[0].view
        trace += [replace(step, before=cost, after=cost) for step in found.states[0].trace]
        if stop():
            break
    if not trace:
        return None
    return State(view, Later(None), cost, roofline.total(view.table), tuple(trace))
