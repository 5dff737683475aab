"""Look-through and re-fusion: both are the rules of ``canonical.rules``, read left to right and right to left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from taso_py.graph.table import Node, Opaque
from taso_py.rules.build import Builder, number_type
from taso_py.rules.rule import Rule, RuleSet
from taso_py.search.arity import MOST_OPERANDS, adjoined, expanding_laws, flatten, split_of_slices
from taso_py.search.index import RuleIndex
from taso_py.search.matcher import Match, matcher
from taso_py.search.rewriter import Rewrite, rewrite
from taso_py.search.view import Expansion, View


def nothing(*_: object) -> Iterable[Expansion]:
    """The expander of a view that looks through no operator."""
    return ()


@dataclass(frozen=True, slots=True)
class Canonicalizer:
    """``expanding`` rules give composite operators their expansions, ``tidying`` rules are applied to new nodes."""

    expanding: RuleIndex
    tidying: RuleIndex

    @staticmethod
    def of(canonical: RuleSet, cleanup: RuleSet) -> Canonicalizer:
        """From the two rule files: laws of one operator in canonical.rules expand, and every == re-fuses backwards."""
        fusing = [rule.reversed() for rule in canonical if rule.arrow == "=="]
        definitions = [rule for rule in canonical if len(list(rule.left.applications())) == 1]
        return Canonicalizer(RuleIndex.of(definitions), RuleIndex.of([*cleanup, *fusing]))

    def expand(self, view: View, value: int, node: Node) -> Iterator[Expansion]:
        """Equivalent definitions of a value: one for each canonical rule whose left side its node is."""
        plain = bare(view)
        laws: tuple[Rule, ...] = ()
        if len(node.inputs) <= MOST_OPERANDS and node.operator.expand(len(node.inputs)):
            laws = expanding_laws(node.operator, [view.table.type(i) for i in node.inputs if i is not None])
        for compiled in (*map(matcher, laws), *self.expanding.by_root.get(type(node.operator), ())):
            match = next(compiled.matches_at(plain, value), None)
            if match is not None:
                yield expansion(view, match)

    def tidy(self, view: View, changed: Iterable[int], limit: int = 400) -> tuple[View, list[Rewrite]]:
        """Tidying rules near the changed ids, to a fixed point; returns the last view and the steps."""
        steps: list[Rewrite] = []
        start = list(changed)
        queue = list(dict.fromkeys([*start, *(u for v in start for u in view.users.get(v, ()))]))
        while queue and len(steps) < limit:
            value = queue.pop()
            step = self._first(view, value)
            if step is None:
                continue
            before = view
            view = view.after(step.table)
            steps.append(step)
            near = set(step.changed)
            near.update(u for v in step.changed for u in before.users.get(v, ()))
            queue = [v for v in dict.fromkeys([*queue, value, *sorted(near)]) if v in view.table.nodes]
        for value in [*start, *(v for s in steps for v in sorted(s.changed))]:
            step = split_of_slices(view, value)
            if step is not None:
                view = view.after(step.table)
                steps.append(step)
        return view, steps

    def _first(self, view: View, value: int) -> Rewrite | None:
        node = view.table.nodes.get(value)
        if node is None or isinstance(node.operator, Opaque) or value in view.values.constant:
            return None
        for regrouping in (flatten, adjoined):
            step = regrouping(view, value)
            if step is not None:
                return step
        for compiled in self.tidying.at(view, value):
            for match in compiled.matches_at(view, value):
                step = rewrite(view, match)
                if step is not None and not _in_a_circle(match, node, step.table.nodes.get(value)):
                    return step
        return None


def _in_a_circle(match: Match, node: Node, after: Node | None) -> bool:
    """Whether a composite was looked through only to be put together again."""
    seen = dict(match.placed).get(match.outputs[0])
    return seen != node and after is not None and type(after.operator) is type(node.operator)


def bare(view: View) -> View:
    """The view of the same table in which no operator is looked through: composites are matched in it."""
    return View(
        view.table, nothing, view.read_constant, memo={}, tame=view.tame, digests=view.digests, tops=view.tops,
        watch=view.watch, rounding=view.rounding,
    )  # fmt: skip


def expansion(view: View, match: Match) -> Expansion:
    """The definition that the match's right side gives to its one output."""
    rule, (value,) = match.rule, match.outputs
    dtype = number_type(match.binding, view.table.type, view.table.type(value).dtype)
    builder = Builder(view.values, match.binding, rule.right, dtype)
    root = builder.output(rule.right.outputs[0])
    inner = tuple((v, n) for v, n in builder.nodes.items() if v != root)
    return Expansion(builder.nodes[root], inner, match)
