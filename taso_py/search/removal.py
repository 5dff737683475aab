"""Removing what computes nothing: the first thing to try on any graph, because it cannot cost time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from taso_py.cost.roofline import Roofline
from taso_py.ops.slicing import Slice
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Listing
from taso_py.search.canonical import Canonicalizer
from taso_py.search.index import RuleIndex
from taso_py.search.moves import AppliedSite, Rewriter
from taso_py.search.rewriter import Rewrite
from taso_py.search.state import State, TraceStep
from taso_py.search.view import View

_LAYOUT = frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Identity"})
"""Operators that only say where elements are: one of them is never slower than two."""


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
    return kept.keys() <= _LAYOUT and kept <= kinds and not any(map(_cuts_several_axes, right))


def _cuts_several_axes(application: Application) -> bool:
    axes = dict(application.attributes).get("axes")
    return application.operator is Slice and isinstance(axes, Listing) and len(axes.items) > 1


def removing(rules: Iterable[Rule]) -> list[Rule]:
    """The directions of rules that only remove."""
    return [directed for rule in rules for directed in rule.directions() if removes(directed)]


def without_idle_nodes(
    start: View, rules: Iterable[Rule], rewriter: Rewriter, roofline: Roofline, cost: float
) -> State | None:
    """The state in which nothing is left that a rule can remove, at the start's ``cost``; None: there is nothing."""
    laws = removing(rules)
    if not laws:
        return None
    nodes = list(start.table.nodes)
    remover = Canonicalizer(RuleIndex.of(()), RuleIndex.of(laws))
    view, rewrites = remover.tidy(start, nodes, limit=len(nodes))
    steps: list[TraceStep] = []
    for rewrite in rewrites:
        if steps and steps[-1].rule == rewrite.rule:
            steps[-1] = _longer(steps[-1], rewrite)
        else:
            steps.append(_step(rewrite, cost))
    if not steps:
        return None
    return State(view, rewriter.later(view), cost, roofline.total(view.table), tuple(steps))


def _step(rewrite: Rewrite, cost: float) -> TraceStep:
    sites, applied = (AppliedSite(rewrite.rule, rewrite.outputs),), (rewrite.matches,)
    return TraceStep(
        rule=rewrite.rule, sites=sites, tidied=(), before=cost, after=cost, table=rewrite.table, applied=applied
    )


def _longer(step: TraceStep, rewrite: Rewrite) -> TraceStep:
    more = _step(rewrite, step.after)
    sites, applied = (*step.sites, *more.sites), (*step.applied, *more.applied)
    return replace(step, sites=sites, applied=applied, table=rewrite.table)
