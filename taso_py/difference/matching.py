"""Which nodes of two graphs are the same: equal operators and attributes on values that correspond.

Certain are nodes that compute the same of the inputs (equal numbers, given to nodes from the inputs on) and those that
a name makes the same: a value keeps its name through most tools, and whether it does is judged by the certain ones.
Then outputs are followed backwards: where a value is the same and equal operators make it, their operands are taken
for the same too.  What this makes known is carried forwards again, and so on.  At the end every match whose operands
are known to be others is undone.  Each pass looks at every node once; nothing recurs over the depth of a graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass, field

from taso_py.difference.graph import Graph, Operation
from taso_py.graph.types import NO_TYPE

_PASSES = 12
"""Forwards and backwards; what is not found by then counts as changed."""


@dataclass(slots=True)
class Matching:
    """The nodes of ``before`` and ``after`` that are the same, and the values that correspond to each other."""

    before: Graph
    after: Graph
    _: KW_ONLY
    partner: dict[int, int] = field(default_factory=dict)
    """Node of `before` -> node of `after`."""
    back: dict[int, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """Values of `before` that are taken for values of `after` because the same nodes read them."""
    linked: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """Input of `before` -> input of `after`."""
    uses: tuple[list[int], list[int]] = ([], [])
    """Of each node of both graphs: equal numbers where the same is computed of its outputs."""
    first: dict[int, int] = field(default_factory=dict)
    """Node of `after` -> the first that computes the same: values of both are one value."""
    names_count: bool = True
    """Whether values of one name are one value."""

    def begin(self) -> Matching:
        """Find what computes the same of the inputs: no name is asked for that."""
        self.inputs = paired(self.before, self.after, self.before.inputs, self.after.inputs)
        numbers: dict[Hashable, int] = {}
        self.uses = _uses(self.before, numbers), _uses(self.after, numbers)
        self._forwards()
        return self

    def finish(self, names_count: bool) -> Matching:
        """Find all else that is the same."""
        self.names_count = names_count
        if names_count:
            self._by_name()
        for name, other in paired(self.before, self.after, self.before.outputs, self.after.outputs).items():
            self._link(name, other)
        count = -1
        for _ in range(_PASSES):
            if len(self.partner) == count:
                break
            count = len(self.partner)
            self._backwards()
            self._forwards()
        if not self.names_count and self._anchors():
            self._backwards()
            self._forwards()
        if self._undo_contradicted():
            self._backwards()
            self._forwards()
            self._undo_contradicted()
        return self

    # ---- what is known of two values ---------------------------------------------------------------------------------

    def correspond(self, value: str, other: str) -> bool | None:
        """Whether a value of `before` is this value of `after`; None: at least one of them was changed."""
        if not value or not other:
            return value == other
        one, two = self._known(value), self._known_after(other)
        if one is not None and two is not None:
            return one == two
        return None if self._types_agree(value, other) else False

    def _known(self, value: str) -> Hashable | None:
        if (digest := self.before.constants.get(value)) is not None:
            return digest
        made = self.before.producers.get(value)
        if made is None:
            return ("input", self.inputs.get(value, f"{value} before"))
        other = self.partner.get(made[0])
        return None if other is None else (self.first.get(other, other), made[1])

    def _known_after(self, value: str) -> Hashable | None:
        if (digest := self.after.constants.get(value)) is not None:
            return digest
        made = self.after.producers.get(value)
        if made is None:
            return ("input", value)
        return (self.first.get(made[0], made[0]), made[1]) if made[0] in self.back else None

    def _types_agree(self, value: str, other: str) -> bool:
        one, two = self.before.types.get(value, NO_TYPE), self.after.types.get(other, NO_TYPE)
        if not one.dtype or not two.dtype:
            return True
        if one.dtype != two.dtype or one.shape is None or two.shape is None:
            return one.dtype == two.dtype
        sizes = zip(one.shape, two.shape, strict=False)
        same = all(a == b for a, b in sizes if isinstance(a, int) and isinstance(b, int))
        return same and len(one.shape) == len(two.shape)

    def _alike(self, k: int, j: int) -> bool:
        """Whether two nodes that nothing is known of can be the same."""
        node, other = self.before.nodes[k], self.after.nodes[j]
        if k in self.partner or j in self.back or not _same_form(node, other):
            return False
        pairs = dict.fromkeys(zip(node.reads, other.reads, strict=True))
        known = [self.correspond(a, b) for a, b in pairs]
        # That f(t, u) is f(v, w) says little of t and v: one operand may be open, more only where all is renamed.
        guessed = [p for p, same in zip(pairs, known, strict=True) if same is None and not self._expected(*p)]
        return False not in known and (len(guessed) <= 1 or not self.names_count)

    def _expected(self, value: str, other: str) -> bool:
        """Whether two values that were changed are taken for the same for another reason."""
        return (self.names_count and value == other) or self.links.get(value) == other

    # ---- matching ----------------------------------------------------------------------------------------------------

    def _match(self, k: int, j: int) -> None:
        self.partner[k], self.back[j] = j, k

    def _link(self, value: str, other: str) -> None:
        self.links.setdefault(value, other)
        self.linked.setdefault(other, value)

    def _forwards(self) -> None:
        """Nodes with equal digests whose operands have equal numbers get equal numbers, and are the same.

        Which of several that compute the same is which is told by what is computed of them, then by names.
        """
        numbers: dict[Hashable, int] = {}
        before, after = self._numbered(self.before, numbers, False), self._numbered(self.after, numbers, True)
        first: dict[int, int] = {}
        for j, number in after:
            self.first.setdefault(j, first.setdefault(number, j))
        for by_use, by_name in ((True, True), (True, False), (False, True), (False, False)):
            free: dict[Hashable, deque[int]] = {}
            for j, number in after:
                if j not in self.back:
                    free.setdefault(self._key(self.after, j, number, by_use, by_name), deque()).append(j)
            for k, number in before:
                left = None if k in self.partner else free.get(self._key(self.before, k, number, by_use, by_name))
                if left:
                    self._match(k, left.popleft())

    def _key(self, graph: Graph, k: int, number: int, by_use: bool, by_name: bool) -> Hashable:
        uses = self.uses[graph is self.after][k] if by_use else -1
        outputs = graph.nodes[k].outputs
        return number, uses, outputs if by_name else len(outputs)

    def _numbered(self, graph: Graph, numbers: dict[Hashable, int], after: bool) -> list[tuple[int, int]]:
        """The nodes that have no partner, with their numbers."""
        links = {v: v for v in self.linked} if after else self.links
        matched = self.back if after else self.partner
        of_node: dict[int, int] = {}

        def key(value: str) -> Hashable:
            known = self._known_after(value) if after else self._known(value)
            if known is None and value in links:
                return ("link", links[value])
            if known is None:
                k, port = graph.producers[value]
                return ("number", of_node.get(k), port)
            return ("known", known)

        found = []
        for k, node in enumerate(graph.nodes):
            if k not in matched:
                read = tuple(key(value) if value else "" for value in node.reads)
                of_node[k] = numbers.setdefault((node.digest, len(node.inputs), read), len(numbers))
                found.append((k, of_node[k]))
        return found

    def names_agree(self) -> bool | None:
        """Whether tools kept names, asked of the nodes that are surely the same; None: there are none to ask.

        Outputs of the graph say nothing: every tool keeps their names.
        """
        kept = set(self.before.outputs)
        pairs = [(self.before.nodes[k].outputs, self.after.nodes[j].outputs) for k, j in self.partner.items()]
        same = [one == two for one, two in pairs if kept.isdisjoint(one)]
        return 2 * sum(same) >= len(same) if same else None

    def _by_name(self) -> None:
        for j, other in enumerate(self.after.nodes):
            k = self.before.producer(other.outputs[0]) if other.outputs and other.outputs[0] else None
            if k is not None and self.before.nodes[k].outputs == other.outputs and self._alike(k, j):
                self._match(k, j)
        for k, j in self.partner.items():
            self._link_reads(k, j)

    def _backwards(self) -> None:
        """From values that correspond to the equal nodes that make them, and to what those read."""
        for k, j in list(self.partner.items()):
            self._link_reads(k, j)
        waiting = list(self.links.items())
        while waiting:
            value, other = waiting.pop()
            made, made_after = self.before.producers.get(value), self.after.producers.get(other)
            if made is None or made_after is None or made[1] != made_after[1]:
                continue
            k, j = made[0], made_after[0]
            if self._alike(k, j):
                self._match(k, j)
                waiting.extend(self._link_reads(k, j))

    def _link_reads(self, k: int, j: int) -> list[tuple[str, str]]:
        """The operands of a match of which nothing is known yet are taken for the same."""
        found = []
        for value, other in zip(self.before.nodes[k].reads, self.after.nodes[j].reads, strict=True):
            if value and value not in self.links and self.correspond(value, other) is None:
                self._link(value, other)
                found.append((value, other))
        return found

    def _anchors(self) -> bool:
        """Where names say nothing: nodes whose operator and weights occur once in each graph are the same."""
        before = _by_weights(self.before, self.partner)
        after = _by_weights(self.after, self.back)
        found = [(k, after[key]) for key, k in before.items() if key in after]
        for k, j in found:
            outputs = zip(self.before.nodes[k].outputs, self.after.nodes[j].outputs, strict=False)
            if self._alike(k, j) and all(self._types_agree(a, b) for a, b in outputs):
                self._match(k, j)
        return bool(found)

    def _undo_contradicted(self) -> int:
        """From the inputs on, because a node that is undone leaves open what its readers read; how many were."""
        count = len(self.partner)
        for k, node in enumerate(self.before.nodes):
            j = self.partner.get(k)
            if j is not None:
                pairs = zip(node.reads, self.after.nodes[j].reads, strict=True)
                if any(self.correspond(a, b) is False for a, b in pairs):
                    del self.partner[k], self.back[j]
        return count - len(self.partner)


def matched(before: Graph, after: Graph, ignore_names: bool = False) -> Matching:
    """All that is the same in two graphs.

    Whether a name says anything is asked of the nodes that are surely the same; where there are none, the answer that
    leaves fewer nodes changed is taken.
    """
    found = Matching(before, after).begin()
    agree = False if ignore_names else found.names_agree()
    if agree is not None:
        return found.finish(names_count=agree)
    unnamed = Matching(before, after).begin().finish(names_count=False)
    return max(found.finish(names_count=True), unnamed, key=lambda matching: len(matching.partner))


def _uses(graph: Graph, numbers: dict[Hashable, int]) -> list[int]:
    """Equal numbers for nodes that are read in the same way by nodes with equal numbers, graph outputs by place."""
    ends: dict[str, list[int]] = {}
    for place, value in enumerate(graph.outputs):
        ends.setdefault(value, []).append(place)
    reads: dict[str, list[tuple[int, int]]] = {}
    found = [0] * len(graph.nodes)
    for k in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[k]
        used = tuple((tuple(sorted(reads.get(v, ()))), tuple(ends.get(v, ()))) for v in node.outputs)
        found[k] = numbers.setdefault((node.digest, used), len(numbers))
        for position, value in enumerate(node.reads):
            reads.setdefault(value, []).append((found[k], position))
    return found


def _same_form(node: Operation, other: Operation) -> bool:
    sizes = (len(node.inputs), len(node.captured), len(node.outputs))
    return node.digest == other.digest and sizes == (len(other.inputs), len(other.captured), len(other.outputs))


def paired(before: Graph, after: Graph, names: tuple[str, ...], others: tuple[str, ...]) -> dict[str, str]:
    """The same inputs or outputs of two graphs: by name; those left over in their order where their types are equal."""
    found = {name: name for name in names if name in set(others)}
    rest = (name for name in others if name not in found)
    for name, other in zip((name for name in names if name not in found), list(rest), strict=False):
        one, two = before.types.get(name, NO_TYPE), after.types.get(other, NO_TYPE)
        if one.dtype == two.dtype and str(one) == str(two):
            found[name] = other
    return found


def _by_weights(graph: Graph, matched: dict[int, int]) -> dict[Hashable, int]:
    """The nodes that are the only ones with their operator and weights."""
    found: dict[Hashable, list[int]] = {}
    for k, node in enumerate(graph.nodes):
        weights = tuple(graph.constants.get(value) for value in node.reads)
        if k not in matched and any(weight is not None for weight in weights):
            found.setdefault((node.digest, weights), []).append(k)
    return {key: nodes[0] for key, nodes in found.items() if len(nodes) == 1}
