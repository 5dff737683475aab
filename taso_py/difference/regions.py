"""The places where two graphs differ: nodes without a partner, in pieces that meet only at values of both graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from taso_py.difference.graph import Graph, Operation
from taso_py.difference.matching import Matching, paired


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One side of a region: its nodes, what they read from outside and what others read of them."""

    nodes: tuple[Operation, ...]
    """In a topological order; none where the other side only adds or removes nodes."""
    inputs: tuple[str, ...]
    """Values from outside, constants left out.  Of a side without nodes: those of the other side, as they are here."""
    outputs: tuple[str, ...]
    makers: Mapping[str, Operation]
    """Input -> the node outside that makes it; graph inputs have none."""
    readers: Mapping[str, tuple[Operation, ...]]
    """Output -> the nodes outside that read it."""
    results: frozenset[str]
    """The outputs that are outputs of the graph."""


@dataclass(frozen=True, slots=True)
class Region:
    """One place, as it was and as it is."""

    before: Piece
    after: Piece
    ends: tuple[tuple[str, str], ...]
    """Values of `before` that stay, and what they are called in `after`."""

    @property
    def form(self) -> Hashable:
        """Equal for regions that consist of the same operators in the same way, whatever their sizes and names."""
        return (_form(self.before), _form(self.after))


def regions(matching: Matching) -> tuple[Region, ...]:
    """The places where two graphs differ, in the order of `before`; near-linear in the number of nodes."""
    return _Regions(matching).found()


@dataclass(slots=True)
class _Groups:
    """Union-find."""

    parents: dict[Hashable, Hashable] = field(default_factory=dict)

    def of(self, item: Hashable) -> Hashable:
        root = item
        while (above := self.parents.setdefault(root, root)) != root:
            root = above
        while item != root:
            self.parents[item], item = root, self.parents[item]
        return root

    def join(self, one: Hashable, other: Hashable) -> None:
        self.parents[self.of(one)] = self.of(other)


@dataclass(slots=True)
class _Regions:
    matching: Matching
    groups: _Groups = field(default_factory=_Groups)
    same: dict[str, str] = field(default_factory=dict)
    """Values of `before` at which regions end -> values of `after`."""
    same_after: dict[str, str] = field(default_factory=dict)

    def found(self) -> tuple[Region, ...]:
        self._border()
        before, after = self.matching.before, self.matching.after
        changed = [k for k in range(len(before.nodes)) if k not in self.matching.partner]
        changed_after = [j for j in range(len(after.nodes)) if j not in self.matching.back]
        self._join(before, changed, 0, set(self.same))
        self._join(after, changed_after, 1, set(self.same_after))
        for value, other in self.same.items():
            if value in before.producers and other in after.producers:
                self.groups.join((0, value), (1, other))
        members: dict[Hashable, tuple[list[int], list[int]]] = {}
        for side, nodes in enumerate((changed, changed_after)):
            for k in nodes:
                members.setdefault(self.groups.of((side, k)), ([], []))[side].append(k)
        return tuple(self._region(*one) for one in self._with_strays(list(members.values())))

    def _border(self) -> None:
        """Which values are known to be the same although what makes them changed."""
        matching = self.matching
        before, after = matching.before, matching.after
        for k, j in matching.partner.items():
            for pair in zip(before.nodes[k].reads, after.nodes[j].reads, strict=True):
                self._same(*pair)
        for value, other in paired(before, after, before.outputs, after.outputs).items():
            self._same(value, other)
        if matching.names_count:
            for value in after.producers:
                if value in before.producers and matching.correspond(value, value) is None:
                    self._same(value, value)

    def _same(self, value: str, other: str) -> None:
        if value:
            self.same.setdefault(value, other)
            self.same_after.setdefault(other, value)

    def _join(self, graph: Graph, changed: list[int], side: int, border: set[str]) -> None:
        """Nodes of one graph hold together where one reads of the other what the other graph does not have."""
        members = set(changed)
        for k in changed:
            for value in graph.nodes[k].outputs:
                if value:
                    self.groups.join((side, k), (side, value))
                    for reader in graph.readers.get(value, ()) if value not in border else ():
                        if reader in members:
                            self.groups.join((side, k), (side, reader))

    def _with_strays(self, found: list[tuple[list[int], list[int]]]) -> Iterator[tuple[list[int], list[int]]]:
        """Nodes that nothing of the other graph replaces are one place with such nodes there that read the same."""
        strays: dict[Hashable, list[int]] = {}
        for _, after in (pair for pair in found if not pair[0]):
            strays.setdefault(self._read_after(after), []).extend(after)
        for before, after in found:
            if before:
                alone = not after and not any(v in self.same for k in before for v in self._outputs(k))
                yield before, strays.pop(self._read(before), []) if alone else after
        for nodes in strays.values():
            yield [], nodes

    def _outputs(self, k: int) -> tuple[str, ...]:
        return self.matching.before.nodes[k].outputs

    def _read(self, nodes: list[int]) -> Hashable:
        graph = self.matching.before
        return frozenset(self._there(value) for value in _inputs(graph, nodes))

    def _read_after(self, nodes: list[int]) -> Hashable:
        return frozenset(_inputs(self.matching.after, nodes))

    def _there(self, value: str) -> str:
        """What a value of `before` is called in `after`."""
        matching = self.matching
        made = matching.before.producers.get(value)
        if made is None:
            return matching.inputs.get(value, value)
        if made[0] in matching.partner:
            return matching.after.nodes[matching.partner[made[0]]].outputs[made[1]]
        return self.same.get(value, value)

    def _here(self, value: str) -> str:
        """The inverse."""
        matching = self.matching
        made = matching.after.producers.get(value)
        if made is None:
            return next((a for a, b in matching.inputs.items() if b == value), value)
        if made[0] in matching.back:
            return matching.before.nodes[matching.back[made[0]]].outputs[made[1]]
        return self.same_after.get(value, value)

    def _region(self, before: list[int], after: list[int]) -> Region:
        one, two = self.matching.before, self.matching.after
        if not after:
            values = [[self._there(v) for v in ends(one, before)] for ends in (_inputs, _outputs)]
            return self._made(_piece(one, before), _piece(two, [], *values))
        if not before:
            values = [[self._here(v) for v in ends(two, after)] for ends in (_inputs, _outputs)]
            return self._made(_piece(one, [], *values), _piece(two, after))
        return self._made(_piece(one, before), _piece(two, after))

    def _made(self, before: Piece, after: Piece) -> Region:
        there = set(after.outputs)
        ends = ((value, self._there(value)) for value in before.outputs)
        return Region(before, after, tuple(pair for pair in ends if pair[1] in there))


def _inputs(graph: Graph, nodes: Iterable[int]) -> list[str]:
    inside = {v for k in nodes for v in graph.nodes[k].outputs}
    read = dict.fromkeys(value for k in nodes for value in graph.nodes[k].reads if value)
    return [value for value in read if value not in inside and value not in graph.constants]


def _outputs(graph: Graph, nodes: Iterable[int]) -> list[str]:
    """Values that are read outside, or by nobody: those are results of the graph, or idle."""
    members = set(nodes)
    made = [value for k in nodes for value in graph.nodes[k].outputs if value]
    results = set(graph.outputs)
    return [v for v in made if v in results or not members.issuperset(graph.readers.get(v, (-1,)))]


def _piece(graph: Graph, nodes: list[int], inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> Piece:
    members = set(nodes)
    read = _inputs(graph, nodes) if nodes else list(dict.fromkeys(inputs))
    made = _outputs(graph, nodes) if nodes else list(dict.fromkeys(outputs))
    makers = {value: graph.producer(value) for value in read}
    outside = {v: tuple(k for k in graph.readers.get(v, ()) if k not in members) for v in made}
    return Piece(
        nodes=tuple(graph.nodes[k] for k in nodes),
        inputs=tuple(read),
        outputs=tuple(made),
        makers={value: graph.nodes[k] for value, k in makers.items() if k is not None},
        readers={value: tuple(graph.nodes[k] for k in readers) for value, readers in outside.items()},
        results=frozenset(made) & frozenset(graph.outputs),
    )


def _form(piece: Piece) -> Hashable:
    """Every node by its operator and its operands' numbers; nodes are numbered in their order."""
    numbers: dict[str, int] = dict.fromkeys(piece.inputs, -1)
    rows = []
    for node in piece.nodes:
        read = tuple(numbers.get(value, -2) if value else -3 for value in node.reads)
        rows.append((node.operator, read, len(node.outputs)))
        for value in node.outputs:
            numbers[value] = len(rows)
    ends = tuple(numbers[value] for value in piece.outputs if value in numbers)
    return (tuple(rows), ends, len(piece.inputs))
