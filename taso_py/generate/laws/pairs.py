"""Candidate laws: equal values as pairs of terms, each law once up to renaming, operand order and direction."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from taso_py.arrays import Array
from taso_py.generate.terms.atoms import DTYPE
from taso_py.generate.terms.enumeration import Collision, Enumeration, applied, constant
from taso_py.generate.terms.field import Kernel, draw, fingerprints
from taso_py.generate.terms.templates import TemplateSet
from taso_py.graph.types import TensorType

Tree: TypeAlias = tuple[Any, ...]
"""(template, operand trees...), (CONSTANT, source) or (VARIABLE, shape, number): sorts, hashes and travels.

The side of a law of several outputs is (OUTPUTS, trees...).
"""
Law: TypeAlias = tuple[Tree, Tree]

CONSTANT, VARIABLE, OUTPUTS = -1, -2, -3
_MOST_SPLITS = 64
"""Most ways in which the occurrences of one variable are told apart."""


@dataclass(slots=True)
class Terms:
    """Terms of a table's values, their evaluation, and the one form that all renamings of a law share."""

    table: Enumeration
    trees: dict[int, Tree] = field(default_factory=dict)
    shapes: dict[Tree, str] = field(default_factory=dict)
    types: dict[Tree, TensorType] = field(default_factory=dict)
    known: dict[Tree, tuple[Array, bool]] = field(default_factory=dict)

    @property
    def chosen(self) -> TemplateSet:
        """The template set."""
        return self.table.chosen

    def laws(self, collisions: Iterable[Collision]) -> Iterator[Law]:
        """Each law once, in the order of first appearance."""
        seen: set[Law] = set()
        for c in collisions:
            law = self.canonical(*self.pair(c))
            if law is not None and law not in seen:
                seen.add(law)
                yield law

    def pair(self, collision: Collision) -> Law:
        """The two terms, each with its own names."""
        known, found = collision.known, self.application(*collision.found)
        return (self.tree(known) if isinstance(known, int) else self.application(*known)), found

    def tree(self, value: int) -> Tree:
        """The representative's term."""
        if value not in self.trees:
            v = self.table.values[value]
            if v.template >= 0:
                self.trees[value] = self.application(v.template, v.arguments)
            else:
                source = self.chosen.sources[v.arguments[0]]
                plain = (VARIABLE, source.shape, v.arguments[0])
                self.trees[value] = plain if source.build is None else (CONSTANT, v.arguments[0])
        return self.trees[value]

    def application(self, template: int, arguments: tuple[int, ...]) -> Tree:
        """The term of an application."""
        return (template, *(self.tree(a) for a in arguments))

    # ---- one form ----------------------------------------------------------------------------------------------

    def canonical(self, one: Tree, other: Tree) -> Law | None:
        """The pair with variables renamed by first occurrence, in the lesser direction; None for x = x."""
        found = [self._renamed(a, b) for a, b in ((one, other), (other, one))]
        law = min(found, key=lambda pair: (size(pair[1]), repr(pair)))
        return None if law[0] == law[1] else law

    def _renamed(self, one: Tree, other: Tree) -> Law:
        names: dict[Tree, int] = {}
        used: Counter[Any] = Counter()

        def walk(tree: Tree) -> Tree:
            if tree[0] == CONSTANT:
                return tree
            if tree[0] == VARIABLE:
                if tree not in names:
                    names[tree] = used[tree[1]]
                    used[tree[1]] += 1
                return (VARIABLE, tree[1], names[tree])
            operands = tree[1:]
            if self._swappable(tree):
                # What is named already comes first, so that equal laws meet in one order.
                operands = tuple(sorted(operands, key=lambda t: (self.shape(t), [names.get(v, 99) for v in leaves(t)])))
            found = (tree[0], *map(walk, operands))
            return self._ordered(found)

        return walk(one), walk(other)

    def _swappable(self, tree: Tree) -> bool:
        """Whether its two operands may change places: the template of a broadcast knows one order."""
        return self.chosen.templates[tree[0]].operator.commutative and self.type(tree[1]) == self.type(tree[2])

    def _ordered(self, tree: Tree) -> Tree:
        if self._swappable(tree):
            return (tree[0], *sorted(tree[1:], key=lambda t: (self.shape(t), repr(t))))
        return tree

    def shape(self, tree: Tree) -> str:
        """The term without the names of its variables."""
        if tree not in self.shapes:
            below = ",".join(map(self.shape, tree[1:])) if tree[0] >= 0 else ""
            self.shapes[tree] = f"{tree[0]}({below})" if below else repr(tree[:2])
        return self.shapes[tree]

    # ---- evaluation --------------------------------------------------------------------------------------------

    def type(self, tree: Tree) -> TensorType:
        """The term's type."""
        if tree not in self.types:
            if tree[0] == VARIABLE:
                self.types[tree] = TensorType(DTYPE, tree[1])
            elif tree[0] == CONSTANT:
                self.types[tree] = self.chosen.sources[tree[1]].type
            else:
                self.types[tree] = self._kernels(tree)[-1].result
        return self.types[tree]

    def _kernels(self, tree: Tree) -> tuple[Kernel, ...]:
        kernels = applied(self.chosen.templates[tree[0]], tuple(map(self.type, tree[1:])))
        assert kernels is not None
        return kernels

    def equal(self, one: Tree, other: Tree) -> bool:
        """Whether both terms have one type and equal fingerprints."""
        if self.type(one) != self.type(other):
            return False
        (x, exact), (y, sure) = self.evaluated(one), self.evaluated(other)
        return bool((_print(x, exact and sure) == _print(y, exact and sure)).all())

    def evaluated(self, tree: Tree) -> tuple[Array, bool]:
        """The term's residues [2, elements], and whether those modulo both primes count."""
        if tree not in self.known:
            self.known[tree] = self._evaluate(tree)
        return self.known[tree]

    def _evaluate(self, tree: Tree) -> tuple[Array, bool]:
        if tree[0] == VARIABLE:
            return draw(tree[1], tree[2]), True
        if tree[0] == CONSTANT:
            return constant(self.chosen.sources[tree[1]]), True
        operands = [self.evaluated(t) for t in tree[1:]]
        first, *rest = self._kernels(tree)
        values = first.run([x[None] for x, _ in operands])
        for k in rest:
            values = k.run([values])
        return values[0], all(exact for _, exact in operands) and not first.taints

    # ---- more general laws ------------------------------------------------------------------------------------

    def general(self, law: Law) -> Law | None:
        """The law with as much as possible of what both sides share made a variable; None when nothing is left."""
        before, found = None, law
        while found != before:  # occurrences that were told apart may belong to parts that a variable can stand for
            before, found = found, self._apart_everywhere(*self._abstracted(*found))
        return self.canonical(*found)

    def _abstracted(self, one: Tree, other: Tree) -> Law:
        """Parts of the first side made variables, the largest first, where the law still holds."""
        for part in sorted(_inner(one) - {one}, key=lambda t: (-size(t), repr(t))):
            if part in _inner(one):
                fresh = (VARIABLE, self.type(part).dims, _fresh(one, other))
                tried = replaced(one, part, fresh), replaced(other, part, fresh)
                if self.equal(*tried):
                    one, other = tried
        return one, other

    def _apart_everywhere(self, one: Tree, other: Tree) -> Law:
        for variable in sorted(set(leaves(one)), key=repr):
            one, other = self._apart(one, other, variable)
        return one, other

    def _apart(self, one: Tree, other: Tree, variable: Tree) -> Law:
        """The occurrences of a variable told apart, where the law still holds."""
        left, right = leaves(one).count(variable), leaves(other).count(variable)
        if left < 2 or right < 1 or left**right > _MOST_SPLITS or variable[0] != VARIABLE:
            return one, other
        start = _fresh(one, other)
        names = [(VARIABLE, variable[1], start + k) for k in range(left)]
        split = _occurrences(one, variable, iter(names))
        for picks in itertools.product(names, repeat=right):
            tried = _occurrences(other, variable, iter(picks))
            if self.equal(split, tried):
                return split, tried
        return one, other


def _print(values: Array, exact: bool) -> Array:
    return fingerprints(values[None].astype(np.int64), exact=exact)


def size(tree: Tree) -> int:
    """The number of operators in the term's graph."""
    return len(applications(tree))


def applications(tree: Tree) -> set[Tree]:
    """Its distinct applications."""
    if tree[0] in (CONSTANT, VARIABLE):
        return set()
    own = set() if tree[0] == OUTPUTS else {tree}
    return own.union(*(applications(t) for t in tree[1:]))


def outputs(side: Tree) -> tuple[Tree, ...]:
    """The trees of a law's side."""
    return side[1:] if side[0] == OUTPUTS else (side,)


def leaves(tree: Tree) -> list[Tree]:
    """Its variables and constants, from left to right."""
    return [tree] if tree[0] in (CONSTANT, VARIABLE) else [leaf for t in tree[1:] for leaf in leaves(t)]


def replaced(tree: Tree, part: Tree, new: Tree) -> Tree:
    """The tree with another one in the place of a part."""
    if tree == part:
        return new
    return tree if tree[0] < 0 else (tree[0], *(replaced(t, part, new) for t in tree[1:]))


def _occurrences(tree: Tree, variable: Tree, names: Iterator[Tree]) -> Tree:
    """The tree with every occurrence of a variable replaced by the next of ``names``."""
    if tree == variable:
        return next(names)
    return tree if tree[0] < 0 else (tree[0], *(_occurrences(t, variable, names) for t in tree[1:]))


def _inner(tree: Tree) -> set[Tree]:
    """Parts that a variable could stand for."""
    return applications(tree) | {leaf for leaf in leaves(tree) if leaf[0] == CONSTANT}


def _fresh(*trees: Tree) -> int:
    return 1 + max((leaf[2] for t in trees for leaf in leaves(t) if leaf[0] == VARIABLE), default=0)
