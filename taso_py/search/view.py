"""A model table as the matcher sees it: with composite operators looked through.

A composite value has, besides the node that computes it, *expansions*: equivalent definitions that canonical rules
and the laws of variable arity give.  Expansions exist only in the view; a rewrite that used one puts it into the table.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from taso_py.errors import TypingError
from taso_py.graph.table import Node, Opaque, Table, Values
from taso_py.search.topology import Ranks, ranks_after, ranks_of

if TYPE_CHECKING:
    from taso_py.search.matcher import Match

ConstantReader = Callable[[int, Mapping[int, Node]], npt.NDArray[np.generic]]
"""Value of a constant id in a table."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """An equivalent definition of a value: its node, and the inner nodes that the definition needs."""

    root: Node
    inner: tuple[tuple[int, Node], ...]
    match: Match = field(compare=False, repr=False)
    """Of the rule that says so."""

    @property
    def rule(self) -> str:
        """The rule's name."""
        return self.match.rule.name


Expander = Callable[["View", int, Node], Iterable[Expansion]]


@dataclass(slots=True)
class View:
    """Definitions, users and constants of one table; ``expander`` gives expansions, memoised by (id, node)."""

    model: Table
    expander: Expander
    read_constant: ConstantReader
    memo: dict[tuple[int, int | Node], tuple[Node, tuple[Expansion, ...], frozenset[type]]]
    """By value and node, or its identity, which the entry keeps alive: the expansions, and all operators it may be."""
    tame: dict[int, bool]
    users: dict[int, tuple[int, ...]] = field(default_factory=dict)
    owners: dict[int, tuple[tuple[int, Expansion], ...]] = field(default_factory=dict)
    inner: dict[int, Node] = field(default_factory=dict)
    by_operator: dict[type, tuple[int, ...]] = field(default_factory=dict)
    ranked: Ranks | None = None
    """Ranks of the table's ids once they were asked for."""

    @staticmethod
    def of(model: Table, expander: Expander, read_constant: ConstantReader) -> View:
        """The view of a table, less the nodes that only compute what others read as an attribute (a shape, axes)."""
        live = replace(model, nodes=dict(model.order()))
        view = View(live, expander, read_constant, {}, {})
        for value, node in live.nodes.items():
            view._enter(value, node)
        return view

    @property
    def values(self) -> Values:
        """What is known of the ids."""
        return self.model.values

    def ranks(self) -> Ranks:
        """A number for each id of the table, above those of the operands of its node."""
        if self.ranked is None:
            self.ranked = ranks_of(self.model)
        return self.ranked

    def looking_through(self, given: Mapping[int, tuple[Expansion, ...]]) -> View:
        """The same table with just these expansions of just these values; the first of several owns what they share."""
        view = View(
            self.model,
            lambda _, value, node: given.get(value, ()),
            self.read_constant,
            {},
            self.tame,
            dict(self.users),
            by_operator=dict(self.by_operator),
        )
        for value in given:
            view._enter(value, self.model.nodes[value])
        return view

    def after(self, model: Table) -> View:
        """The view of a table that differs from this one in a few nodes; the rest is shared."""
        view = View(
            model,
            self.expander,
            self.read_constant,
            self.memo,
            self.tame,
            dict(self.users),
            dict(self.owners),
            dict(self.inner),
            dict(self.by_operator),
        )
        old, new = self.model.nodes, model.nodes
        gone = [(v, n) for v, n in old.items() if new.get(v) is not n]
        for value, node in gone:
            view._leave(value, node)
        entering = {v: n for v, n in new.items() if old.get(v) is not n}
        for value, node in entering.items():
            view._enter(value, node)
        view.ranked = None if self.ranked is None else ranks_after(self.ranked, entering)
        view._restore([value for value, _ in gone if value not in new])
        return view

    def _enter(self, value: int, node: Node) -> None:
        if self.owners.pop(value, None):
            self._unlink(value, self.inner[value])
        self._link(value, node)
        for expansion in self.expansions(value):
            self._link(value, expansion.root)
            for inner, inner_node in expansion.inner:
                # Also where the table holds it: a rewrite may drop it there while the expansion still needs it.
                self.inner[inner] = inner_node
                if inner not in self.model.nodes and inner not in self.values.constant:
                    self._own(inner, inner_node, value, expansion)

    def _own(self, inner: int, inner_node: Node, value: int, expansion: Expansion) -> None:
        owner = (value, expansion)
        if owner not in self.owners.get(inner, ()):
            self.owners[inner] = (*self.owners.get(inner, ()), owner)
        self._link(inner, inner_node)

    def _restore(self, dropped: Sequence[int]) -> None:
        """Values that the table no longer holds exist in the view as long as an expansion needs them."""
        lost = {v for v in dropped if v in self.inner and v not in self.values.constant}
        for value in self.model.nodes if lost else ():
            for expansion in self.expansions(value):
                for inner, inner_node in expansion.inner:
                    if inner in lost:
                        self._own(inner, inner_node, value, expansion)

    def _leave(self, value: int, node: Node) -> None:
        self._unlink(value, node)
        for expansion in self._entry(value, node)[1]:
            self._unlink(value, expansion.root)
            for inner, inner_node in expansion.inner:
                owners = tuple(o for o in self.owners.get(inner, ()) if o[0] != value)
                if owners:
                    self.owners[inner] = owners
                elif self.owners.pop(inner, None) and inner not in self.model.nodes:
                    self._unlink(inner, inner_node)

    def _link(self, value: int, node: Node) -> None:
        for i in dict.fromkeys(node.inputs):
            if i is not None and value not in self.users.get(i, ()):
                self.users[i] = (*self.users.get(i, ()), value)
        kind = type(node.operator)
        if value not in self.by_operator.get(kind, ()):
            self.by_operator[kind] = (*self.by_operator.get(kind, ()), value)

    def _unlink(self, value: int, node: Node) -> None:
        for i in dict.fromkeys(node.inputs):
            if i is not None and i in self.users:
                self.users[i] = tuple(u for u in self.users[i] if u != value)
        kind = type(node.operator)
        self.by_operator[kind] = tuple(u for u in self.by_operator.get(kind, ()) if u != value)

    def _entry(self, value: int, node: Node) -> tuple[Node, tuple[Expansion, ...], frozenset[type]]:
        found = self.memo.get((value, id(node)))
        if found is None:
            # Another state of the search may have made an equal node.
            known = self.memo.get((value, node)) or (node, *self._looked_through(value, node))
            found = self.memo[value, id(node)] = self.memo[value, node] = (node, *known[1:])
        return found

    def _looked_through(self, value: int, node: Node) -> tuple[tuple[Expansion, ...], frozenset[type]]:
        expansions: tuple[Expansion, ...] = ()
        if not isinstance(node.operator, Opaque) and value not in self.values.constant:
            expansions = tuple(self.expander(self, value, node))
        return expansions, frozenset(type(n.operator) for n in (node, *(e.root for e in expansions)))

    def expansions(self, value: int) -> tuple[Expansion, ...]:
        """Equivalent definitions of a value of the table."""
        node = self.model.nodes.get(value)
        return () if node is None else self._entry(value, node)[1]

    def kinds(self, value: int) -> frozenset[type]:
        """Operators that compute a value in one of its definitions."""
        node = self.model.nodes.get(value)
        if node is not None:
            return self._entry(value, node)[2]
        inner = self._virtual(value)
        return frozenset() if inner is None else frozenset((type(inner.operator),))

    def _virtual(self, value: int) -> Node | None:
        """The node of a value that only expansions hold; None when the last of them is gone."""
        alive = value in self.owners or value in self.values.constant
        return self.inner.get(value) if alive else None

    def definitions(self, value: int) -> list[Node]:
        """The nodes that compute a value, expansions last."""
        node = self.model.nodes.get(value)
        if node is None:
            inner = self._virtual(value)
            return [inner] if inner is not None else []
        return [node, *(e.root for e in self._entry(value, node)[1])]

    def constant(self, value: int) -> npt.NDArray[np.generic] | None:
        """The value of an id that depends on fixed initializers only; None for any other and for what is not folded."""
        if value not in self.values.constant:
            return None
        try:
            return self.read_constant(value, ChainMap(dict(self.model.nodes), self.inner))
        except TypingError:
            return None

    def is_tame(self, value: int) -> bool:
        """Whether no source of a constant holds NaN, an infinity, or a number so large that it stands for one."""
        known = self.tame.get(value)
        if known is None:
            node = self.model.nodes.get(value) or self.inner.get(value)
            if node is not None:
                known = all(self.is_tame(i) for i in node.inputs if i is not None)
            else:
                known = _is_tame(self.constant(value))
            self.tame[value] = known
        return known


_HUGE = 1e30


def _is_tame(array: npt.NDArray[np.generic] | None) -> bool:
    if array is None or array.size == 0 or not np.issubdtype(array.dtype, np.floating):
        return True
    return bool(np.all(np.abs(array) <= _HUGE))  # false for NaN
