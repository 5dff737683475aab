"""A model table as the matcher sees it: with composite operators looked through.

A composite value has, besides the node that computes it, *expansions*: equivalent definitions that canonical rules
and the laws of variable arity give.  Expansions exist only in the view; a rewrite that used one puts it into the table.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import sha256
from itertools import takewhile
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from taso_py.errors import TooLateError, TypingError
from taso_py.graph.table import Node, Opaque, Table, Values
from taso_py.search.topology import Ranks, ranks_after, ranks_of
from taso_py.search.watch import Watch

if TYPE_CHECKING:
    from taso_py.onnx_io.branches import Scope
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


def _all_equal(level: tuple[str, ...]) -> bool:
    return len(set(level)) == 1


Expander = Callable[["View", int, Node], Iterable[Expansion]]


@dataclass(slots=True)
class View:
    """Definitions, users and constants of one table; ``expander`` gives expansions, memoised by (id, node)."""

    table: Table
    expander: Expander
    read_constant: ConstantReader
    _: KW_ONLY
    memo: dict[tuple[int, int | Node], tuple[Node, tuple[Expansion, ...], frozenset[type]]]
    """By value and node, or its identity, which the entry keeps alive: the expansions, and all operators it may be."""
    tame: dict[int, bool]
    digests: dict[int, bytes | None] = field(default_factory=dict)
    """Of constants that were compared; None for what is too large to be."""
    tops: dict[int, float] = field(default_factory=dict)
    """The largest magnitudes of constants that were looked into."""
    users: dict[int, dict[int, None]] = field(default_factory=dict)
    """The ids that read each id, in order; one of them may be shared with other views and is copied to be changed."""
    owners: dict[int, tuple[tuple[int, Expansion], ...]] = field(default_factory=dict)
    inner: dict[int, Node] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    rounding: frozenset[int] = frozenset()
    """Keys of opaque nodes in whose bodies something rounds."""
    scopes: Mapping[str, Scope] = field(default_factory=dict)
    """By name, the branches of If nodes that a value is computed in."""
    unsought: frozenset[int] = frozenset()
    """Ids at which a search for matches in the whole table does not look."""
    by_operator: dict[type, dict[int, None]] = field(default_factory=dict)
    """Ids by the operators that compute them, in order: a dict for a set, since one operator may have most ids."""
    ranked: Ranks | None = None
    """Ranks of the table's ids once they were asked for."""
    ancestors: dict[tuple[int, ...], Mapping[int, int]] = field(default_factory=dict)
    """By ids that were candidates together, which of them each id is computed from, as bits; what was asked for."""
    rounded: dict[bool, frozenset[int]] = field(default_factory=dict)
    """What reaches an operator that rounds, once that was asked for; whether float16 is among the values that do."""
    kept: set[int] = field(default_factory=set)
    """Values that a match would have moved by an error of rounding, but that reach such an operator."""
    _copied: set[int] = field(default_factory=set)
    """Ids whose readers are this view's own."""

    @staticmethod
    def of(
        table: Table, expander: Expander, read_constant: ConstantReader, watch: Watch | None = None,
        *, rounding: frozenset[int] = frozenset(), scopes: Mapping[str, Scope] | None = None,
    ) -> View:  # fmt: skip
        """The view of a table, less the nodes that only compute what others read as an attribute (a shape, axes).

        OutOfTime as soon as the ``watch`` says so.
        """
        live = replace(table, nodes=dict(table.order()))
        view = View(
            live, expander, read_constant, memo={}, tame={}, watch=watch or Watch(), rounding=rounding,
            scopes=scopes or {},
        )  # fmt: skip
        for value, node in live.nodes.items():
            view.watch.look()
            view._enter(value, node)
        return view

    @property
    def values(self) -> Values:
        """What is known of the ids."""
        return self.table.values

    def scope(self, value: int) -> Scope:
        """The branches that a value is computed in; one that has no name yet is where all are that read it."""
        scopes: list[Scope] = []
        waiting, seen = [value] if self.scopes else [], {value}
        while waiting:
            one = waiting.pop()
            name = self.values.names.get(one)
            if name is None:
                readers = [reader for reader in self.users.get(one, ()) if reader not in seen]
                seen.update(readers)
                waiting += readers
            else:
                scopes.append(self.scopes.get(name, ()))
        return tuple(level[0] for level in takewhile(_all_equal, zip(*scopes, strict=False)))

    def ranks(self) -> Ranks:
        """A number for each id of the table, above those of the operands of its node."""
        if self.ranked is None:
            self.ranked = ranks_of(self.table)
        return self.ranked

    def looking_through(self, given: Mapping[int, tuple[Expansion, ...]]) -> View:
        """The same table with just these expansions of just these values; the first of several owns what they share."""
        view = View(
            self.table,
            lambda _, value, node: given.get(value, ()),
            self.read_constant,
            memo={},
            tame=self.tame,
            digests=self.digests,
            tops=self.tops,
            watch=self.watch,
            rounding=self.rounding,
            scopes=self.scopes,
            users=dict(self.users),
            by_operator={kind: dict(ids) for kind, ids in self.by_operator.items()},
        )
        for value in given:
            view._enter(value, self.table.nodes[value])
        return view

    def after(self, table: Table) -> View:
        """The view of a table that differs from this one in a few nodes; the rest is shared."""
        self.watch.look()
        view = View(
            table,
            self.expander,
            self.read_constant,
            memo=self.memo,
            tame=self.tame,
            digests=self.digests,
            tops=self.tops,
            watch=self.watch,
            rounding=self.rounding,
            scopes=self.scopes,
            unsought=self.unsought,
            users=dict(self.users),
            owners=dict(self.owners),
            inner=dict(self.inner),
            by_operator={kind: dict(ids) for kind, ids in self.by_operator.items()},
        )
        old, new = self.table.nodes, table.nodes
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
                if inner not in self.table.nodes and inner not in self.values.constant:
                    self._own(inner, inner_node, value, expansion)

    def _own(self, inner: int, inner_node: Node, value: int, expansion: Expansion) -> None:
        owner = (value, expansion)
        if owner not in self.owners.get(inner, ()):
            self.owners[inner] = (*self.owners.get(inner, ()), owner)
        self._link(inner, inner_node)

    def _restore(self, dropped: Sequence[int]) -> None:
        """Values that the table no longer holds exist in the view as long as an expansion needs them."""
        lost = {v for v in dropped if v in self.inner and v not in self.values.constant}
        for value in self.table.nodes if lost else ():
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
                elif self.owners.pop(inner, None) and inner not in self.table.nodes:
                    self._unlink(inner, inner_node)

    def _link(self, value: int, node: Node) -> None:
        for i in dict.fromkeys(node.inputs):
            if i is not None and value not in self.users.get(i, ()):
                self._readers(i)[value] = None
        self.by_operator.setdefault(type(node.operator), {})[value] = None

    def _unlink(self, value: int, node: Node) -> None:
        for i in dict.fromkeys(node.inputs):
            if i is not None and value in self.users.get(i, ()):
                del self._readers(i)[value]
        self.by_operator.get(type(node.operator), {}).pop(value, None)

    def _readers(self, value: int) -> dict[int, None]:
        """What reads a value, to be changed."""
        if value not in self._copied:
            self._copied.add(value)
            self.users[value] = dict(self.users.get(value, {}))
        return self.users[value]

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
        node = self.table.nodes.get(value)
        return () if node is None else self._entry(value, node)[1]

    def kinds(self, value: int) -> frozenset[type]:
        """Operators that compute a value in one of its definitions."""
        node = self.table.nodes.get(value)
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
        node = self.table.nodes.get(value)
        if node is None:
            inner = self._virtual(value)
            return [inner] if inner is not None else []
        return [node, *(e.root for e in self._entry(value, node)[1])]

    def constant(self, value: int) -> npt.NDArray[np.generic] | None:
        """The value of an id that depends on fixed initializers only; None for any other and for what is not folded."""
        if value not in self.values.constant:
            return None
        try:
            # Only read: a copy of the table for each constant would cost more than the constants.
            return self.read_constant(value, ChainMap(cast("dict[int, Node]", self.table.nodes), self.inner))
        except (TypingError, TooLateError):
            return None

    def digest(self, value: int) -> bytes | None:
        """What tells a constant's content, bit for bit; None for one that is not folded or too large to be compared."""
        if value not in self.digests:
            type_ = self.values.types[value]
            small = type_.known and isinstance(type_.elements, int) and type_.elements <= _COMPARED
            array = self.constant(value) if small else None
            self.digests[value] = None if array is None else sha256(array.tobytes()).digest()
        return self.digests[value]

    def largest(self, value: int) -> float:
        """The largest magnitude in a constant; inf where that is not folded."""
        if value not in self.tops:
            array = self.constant(value)
            self.tops[value] = math.inf if array is None else float(np.max(np.abs(array), initial=0))
        return self.tops[value]

    def is_tame(self, value: int) -> bool:
        """Whether no source of a constant holds NaN, an infinity, or a number so large that it stands for one."""
        stack = [value]
        while stack:
            at = stack[-1]
            if at in self.tame:
                stack.pop()
                continue
            node = self.table.nodes.get(at) or self.inner.get(at)
            inputs = [] if node is None else [i for i in node.inputs if i is not None]
            missing = [i for i in inputs if i not in self.tame]
            if missing:
                stack.extend(missing)
            else:
                stack.pop()
                self.tame[at] = self._is_tame_source(at) if node is None else all(self.tame[i] for i in inputs)
        return self.tame[value]

    def _is_tame_source(self, value: int) -> bool:
        """Any value that is no constant; a constant that is too large to be looked at might hold anything."""
        array = self.constant(value)
        return value not in self.values.constant if array is None else _is_tame(array)


_COMPARED = 2**22
"""Most elements of constants that are compared."""
_HUGE = {"float16": 2.0**12}
_HUGE_ELSEWHERE = 1e30
"""A mask's "minus infinity" is beyond these; weights are not."""


def _is_tame(array: npt.NDArray[np.generic]) -> bool:
    if array.size == 0 or not np.issubdtype(array.dtype, np.floating):
        return True
    return bool(np.all(np.abs(array) <= _HUGE.get(array.dtype.name, _HUGE_ELSEWHERE)))  # false for NaN
