"""Moves: what one decision of the search does.

A move applies one rule to a whole class of alike sites, because a network repeats its layers.  A rule with several
outputs (siblings) is applied again and again to what it just merged, so that n siblings become one in one move:
chains of pairwise merges climb a hill first.  Every step is the application of one rule and is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

from taso_py.graph.table import Table
from taso_py.ops.layout import Concat
from taso_py.rules.rule import Rule
from taso_py.search.arity import nested
from taso_py.search.canonical import Canonicalizer
from taso_py.search.index import RuleIndex
from taso_py.search.matcher import Match, Matcher, matcher
from taso_py.search.receding import BEGINNING, Receding, moves, only_recedes
from taso_py.search.rewriter import Rewrite, rewrite, rewrite_all
from taso_py.search.view import View

_DEPTH = 6
"""How far above a change a pattern's root can lie: no rule's left side is deeper."""
_CHAIN = 128
"""Longest chain of pairwise merges in one move."""
_FURTHER = "-further"
"""A rule of the name of another with this behind it adds one more sibling to those that the other merged."""


@dataclass(frozen=True, slots=True)
class AppliedSite:
    """One application of a rule: the ONNX names (or ids) of the values that it replaced."""

    rule: str
    outputs: tuple[int, ...]


Applied = tuple[Match, ...]
"""Matches of one rule that were applied at once."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The table after a move, the sites where its rule was applied and where others tidied up after it.

    ``applied`` is all of that in order: what leads from the table before to the one after.
    """

    view: View
    sites: tuple[AppliedSite, ...]
    tidied: tuple[AppliedSite, ...]
    applied: tuple[Applied, ...]


@dataclass(slots=True)
class _Log:
    """What a move has done so far."""

    sites: list[AppliedSite] = field(default_factory=list)
    tidied: list[AppliedSite] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)

    def own(self, step: Rewrite) -> None:
        self.sites += [AppliedSite(step.rule, match.outputs) for match in step.matches]
        self.applied.append(step.matches)

    def tidying(self, steps: Iterable[Rewrite]) -> None:
        for step in steps:
            self.tidied.append(AppliedSite(step.rule, step.outputs))
            self.applied.append(step.matches)


Matches = dict[int, tuple[Match, ...]]


@dataclass(slots=True)
class Later:
    """Matches that are sought when they are first asked for: most tables that a search builds lead nowhere."""

    seek: Callable[[], Matches] | None
    found: Matches = field(default_factory=dict)

    def __call__(self) -> Matches:
        if self.seek is not None:
            self.found, self.seek = self.seek(), None
        return self.found


@dataclass(frozen=True, slots=True)
class Rewriter:
    """The rules of a search, ready to be matched: by the operator of their first output."""

    index: RuleIndex
    canonical: Canonicalizer
    receding: Receding

    @staticmethod
    def of(rules: Iterable[Rule], canonical: Canonicalizer) -> Rewriter:
        """Every direction of every rule."""
        return Rewriter.directed([d for rule in rules for d in rule.directions()], canonical)

    @staticmethod
    def directed(rules: Sequence[Rule], canonical: Canonicalizer) -> Rewriter:
        """The rules in the direction in which each is given."""
        return Rewriter(RuleIndex.of(moves(rules)), canonical, Receding.of(rules))

    def only(self, names: Iterable[str]) -> Rewriter:
        """The rewriter that makes no moves but these rules', for making known moves again: it matches little."""
        wanted = {name for told in names for name in (told, told + _FURTHER)}
        return replace(self, index=self.index.only(wanted))

    # ---- matches ---------------------------------------------------------------------------------------------

    def matches(self, view: View, roots: Iterable[int]) -> Matches:
        """Matches by the id of their first output."""
        found: Matches = {}
        for value in roots:
            here = tuple(m for compiled in self.index.at(view, value) for m in compiled.matches_at(view, value))
            if here:
                found[value] = here
        return found

    def all_matches(self, view: View) -> Matches:
        """Every match in a table, but of one so large that half of the time is gone the first ones."""
        enough = view.watch.halfway()
        found: Matches = {}
        for value in (*view.table.nodes, *view.owners):
            if value not in view.unsought:
                found.update(self.matches(view, [value]))
            if time.monotonic() > enough:
                break
        return found

    def later(self, view: View, parent: tuple[View, Later] | None = None) -> Later:
        """Every match in a table, found when it is asked for; from the matches in the ``parent`` that it came from."""
        if parent is None:
            return Later(lambda: self.all_matches(view))
        before, known = parent
        return Later(lambda: self.matches_after(before, known(), view))

    def matches_after(self, before: View, known: Matches, after: View) -> Matches:
        """Every match in ``after``: those of ``before`` that still stand, and new ones near what changed."""
        old, new = before.table.nodes, after.table.nodes
        touched = {v for v in new if old.get(v) is not new[v]} | {v for v in old if v not in new}
        touched |= {i for v in list(touched) for i in _inner_of(before, v)}
        near = _near(after, [v for v in touched if v in new])
        kept = {
            root: matches
            for root, matches in known.items()
            if root not in near and root not in touched and (root in new or root in after.owners)
        }
        filtered = {root: tuple(m for m in ms if _stands(m, touched, after)) for root, ms in kept.items()}
        found = {root: ms for root, ms in filtered.items() if ms}
        found.update(self.matches(after, [v for v in near if v in new or v in after.owners]))
        return found

    # ---- moves -----------------------------------------------------------------------------------------------

    def groups(self, view: View, matches: Matches) -> list[list[Match]]:
        """Matches grouped by rule, choices and whether they leave what they look through: one sweep each."""
        groups: dict[Hashable, list[Match]] = {}
        leaves = _leaving_inner(view)
        for root in matches:
            for match in matches[root]:
                left = leaves(match)
                if not (left and only_recedes(match.rule)):
                    groups.setdefault((match.rule.name, match.choice, left), []).append(match)
        return list(groups.values())

    def classes(self, matches: Iterable[Match]) -> list[list[Match]]:
        """Matches grouped by what the site looks like as well."""
        groups: dict[Hashable, list[Match]] = {}
        for match in matches:
            groups.setdefault(match.signature, []).append(match)
        return list(groups.values())

    def apply(self, view: View, matches: Sequence[Match], rounds: int = 1) -> Moved | None:
        """One move: all the matches as far as they stand together, tidied; again, while that makes the graph smaller.

        Further rounds take the rule's matches near what the round before made.
        """
        log = _Log()
        leaves = _leaving_inner(view)(matches[0])
        for _ in range(rounds):
            before = len(log.sites)
            after = self._round(view, matches, log)
            smaller = live_size(after.table) < live_size(view.table)
            changed = [v for v, n in after.table.nodes.items() if view.table.nodes.get(v) is not n]
            view = after
            if len(log.sites) == before or not smaller:
                break
            found = self._same_rule(view, matches[0], sorted(_near(view, changed)))
            leaving = _leaving_inner(view)
            matches = [m for m in found if leaving(m) == leaves]
            if not matches:
                break
        return Moved(view, tuple(log.sites), tuple(log.tidied), tuple(log.applied)) if log.sites else None

    def _same_rule(self, view: View, like: Match, roots: Iterable[int]) -> list[Match]:
        compiled = matcher(like.rule)
        known = [v for v in roots if (v in view.table.nodes or v in view.owners) and v not in view.values.constant]
        return [m for v in known for m in compiled.matches_at(view, v) if m.choice == like.choice]

    def _round(self, view: View, matches: Sequence[Match], log: _Log) -> View:
        waiting = list(matches)
        if len(matches[0].outputs) == 1:
            grows = [self._grows(view, m) for m in matches]
            growing = list(compress(matches, grows))
            for alike in _by_law(m for m, g in zip(matches, grows, strict=True) if not g):
                step = rewrite_all(view, _independent(view, alike))
                if step is not None:
                    log.own(step)
                    view = self._tidied(*self._receded(view.after(step.table), step, log), log)
                    waiting = growing
        # Siblings in the order of the file: merged alike in several places, they are alike again.
        waiting.sort(key=lambda m: (_place(view, m), m.outputs))
        for match in waiting:
            if _current(match, view):
                view = self._chain(view, match, log)
        return view

    def _receded(self, view: View, step: Rewrite, log: _Log) -> tuple[View, Iterable[int]]:
        """The view in which the cuts that a step made have gone back, and all that changed since before the step."""
        if not self.receding.begins(step.matches[0].rule):
            return view, step.changed
        view, further = self.receding.recede(view, step.changed)
        log.tidying(further)
        return view, step.changed.union(*(more.changed for more in further))

    def _chain(self, view: View, match: Match, log: _Log) -> View:
        """The match and all that joins what it made, tidied at the end: cuts of cuts of cuts become one cut at once."""
        grows = self._grows(view, match)
        current: Match | None = match
        changed: dict[int, None] = {}
        links = 0
        step = _neighbours_first(view, match)
        if step is not None:
            log.tidying([step])
            view = view.after(step.table)
            changed.update(dict.fromkeys(sorted(step.changed)))
        while current is not None and links < _CHAIN:
            step = rewrite(view, current)
            if step is None:
                break
            log.own(step)
            view = view.after(step.table)
            changed.update(dict.fromkeys(sorted(step.changed)))
            links += 1
            current = self._next_link(view, current, step) if grows else None
        return self._tidied(view, changed, log, links)

    def _grows(self, view: View, match: Match) -> bool:
        """Whether siblings may join what a match makes: further outputs, neighbours in a Concat, or by another rule."""
        return len(match.outputs) > 1 or self._further(match.rule) is not None or _joins(view, match) is not None

    def _tidied(self, view: View, changed: Iterable[int], log: _Log, links: int = 1) -> View:
        """What operands are made of is tidied before them."""
        ranks = view.ranks()
        there = [v for v in changed if v in view.table.nodes]
        view, extra = self.canonical.tidy(view, sorted(there, key=lambda v: (-ranks[v], v)), limit=400 * links)
        log.tidying(extra)
        return view

    def _further(self, rule: Rule) -> Matcher | None:
        """The rule that adds one more sibling to what this one has merged, where that takes another rule."""
        return self.index.named(rule.name if rule.name.endswith(_FURTHER) else rule.name + _FURTHER)

    def _next_link(self, view: View, last: Match, step: Rewrite) -> Match | None:
        """A match of the same rule, or of the one that goes on from it, of what was merged and one more sibling."""
        compiled = self._further(last.rule) or matcher(last.rule)
        changed = [value for value in sorted(step.changed) if value in view.table.nodes]
        inner = [i for v in changed for i in _inner_of(view, v) if i in view.owners]
        above = [u for v in changed for u in view.users.get(v, ())] if len(last.outputs) == 1 else []
        for value in dict.fromkeys([*changed, *inner, *above]):
            if compiled.root in view.kinds(value):
                for match in compiled.matches_at(view, value):
                    if match.choice == last.choice and rewrite(view, match) is not None:
                        return match
        return None


def _leaving_inner(view: View) -> Callable[[Match], bool]:
    """Whether something that a match looks through is used elsewhere too: it stays, and its work may be done twice."""
    outputs, constant = frozenset(view.table.outputs), view.values.constant

    def leaves(match: Match) -> bool:
        inner = match.used.difference(match.outputs, constant)
        if match.rule.name in BEGINNING:
            inner |= {i for _, node in match.placed for i in node.inputs if i is not None}
        users = (u for v in inner for u in view.users.get(v, ()))
        return not outputs.isdisjoint(inner) or any(u not in match.used and u not in constant for u in users)

    return leaves


def _joins(view: View, match: Match) -> tuple[int, int] | None:
    """The Concat whose neighbouring operands a match joins, and the place of the first of them."""
    value = match.outputs[0]
    for owner, _ in view.owners.get(value, ()):
        whole, pair = view.table.nodes[owner], view.inner[value]
        if isinstance(whole.operator, Concat) and whole.operator == pair.operator:
            places = range(len(whole.inputs))
            return owner, next((k for k in places if whole.inputs[k : k + 2] == pair.inputs), 0)
    return None


def _by_law(matches: Iterable[Match]) -> list[list[Match]]:
    """Laws that are written where they stand have one name: each makes a step of its own."""
    laws: dict[Rule, list[Match]] = {}
    for match in matches:
        laws.setdefault(match.rule, []).append(match)
    return list(laws.values())


def _place(view: View, match: Match) -> int:
    """Where a Concat has what a match joins: the first neighbours begin a chain, the others follow."""
    joins = _joins(view, match)
    return 0 if joins is None else joins[1]


def _neighbours_first(view: View, match: Match) -> Rewrite | None:
    """The Concat with the neighbours that a match joins as one operand: then each link is between two operands."""
    joins = _joins(view, match)
    return None if joins is None or len(match.outputs) > 1 else nested(view, *joins)


def _independent(view: View, matches: Sequence[Match]) -> list[Match]:
    """The first matches that still stand and do not rely on what another one replaces."""
    chosen: list[Match] = []
    replaced: set[int] = set()
    for match in matches:
        outputs = set(match.outputs)
        # An expansion's owner is replaced with it.
        outputs |= {view.owners[v][0][0] for v in match.outputs if v in view.owners}
        if not (outputs | match.used) & replaced and _current(match, view):
            chosen.append(match)
            replaced |= outputs
    return chosen


def live_size(table: Table) -> int:
    """Number of nodes that run: those that do not only compute constants."""
    return sum(1 for v in table.nodes if v not in table.values.constant)


def _inner_of(view: View, value: int) -> list[int]:
    return [i for e in view.expansions(value) for i, _ in e.inner]


def _near(view: View, changed: Sequence[int]) -> set[int]:
    """Ids whose matches may be new: what is computed from a change, and siblings of what changed."""
    level = set(changed)
    for value in changed:
        level.update(i for e in view.expansions(value) for i, _ in e.inner if i in view.owners)
    near = set(level)
    for value in list(level):
        node = view.table.nodes.get(value)
        for i in node.inputs if node else ():
            if i is not None and len(view.users.get(i, ())) < 64:
                near.update(view.users.get(i, ()))
    for _ in range(_DEPTH):
        level = {u for v in level for u in view.users.get(v, ())} - near
        near |= level
    return near


def _stands(match: Match, touched: set[int], view: View) -> bool:
    return not (match.used & touched) and all(
        t in view.table.nodes or t in view.owners or t not in touched for t in match.binding.tensors.values()
    )


def _current(match: Match, view: View) -> bool:
    """Whether the definitions that a match relies on are still the ones that it saw."""
    nodes = view.table.nodes
    for value, seen in match.seen:
        node = nodes.get(value)
        if node is None:
            if value not in view.owners:
                return False
        elif node is not seen and node != seen:
            return False
    before = dict(match.seen)
    # What only an expansion held may have become real, and something else since: a sibling that was merged already.
    real = ((nodes[v], n) for v, n in match.placed if v in nodes and v not in before)
    if any(now.operator != then.operator or set(now.inputs) != set(then.inputs) for now, then in real):
        return False
    return all(o in nodes or o in view.owners for o in match.outputs)
