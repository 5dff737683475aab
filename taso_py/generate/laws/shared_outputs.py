"""Laws of several outputs: values that are the parts of one value, such as two products that share a factor."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from taso_py.generate.laws.pairs import OUTPUTS, VARIABLE, Law, Tree, leaves, replaced, size
from taso_py.generate.terms.templates import TemplateSet

_Part: TypeAlias = tuple[Tree, Tree]
"""The cut that makes the part, and the value that it is equal to."""


def merged(laws: Iterable[Law], chosen: TemplateSet) -> list[Law]:
    """For each value whose parts are each equal to something else: both parts at once, as one law of two outputs."""
    parts: dict[tuple[str, Tree], dict[int, list[_Part]]] = {}
    for law in laws:
        for cut, other in (law, law[::-1]):
            whole = chosen.templates[cut[0]].whole if cut[0] >= 0 else ""
            if whole and size(other) and set(_variables(other)) <= set(_variables(cut)):
                names = {old: (VARIABLE, old[1], k) for k, old in enumerate(dict.fromkeys(_variables(cut)))}
                own = _renamed(cut, names)
                parts.setdefault((whole, own[1]), {}).setdefault(cut[0], []).append((own, _renamed(other, names)))
    found: list[Law] = []
    for by_template in parts.values():
        ordered = [by_template[t] for t in sorted(by_template)]
        for ones, others in itertools.combinations(ordered, 2):
            pairs = ((a, b) for a, b in itertools.product(ones, others) if _alike(a, b))
            found += [((OUTPUTS, a[1], b[1]), (OUTPUTS, a[0], b[0])) for a, b in pairs]
    return found


def _alike(one: _Part, other: _Part) -> bool:
    """Whether both parts are computed by the same operators from a common tensor: what is merged was done twice.

    What shares nothing could be merged with anything, and would have to be joined first.
    """
    shared = set(_variables(one[1])) & set(_variables(other[1]))
    return bool(shared) and _shape(one[1]) == _shape(other[1])


def _shape(tree: Tree) -> Tree:
    return (VARIABLE,) if tree[0] == VARIABLE else (tree[0], *map(_shape, tree[1:])) if tree[0] >= 0 else tree


def _variables(tree: Tree) -> Iterator[Tree]:
    return (leaf for leaf in leaves(tree) if leaf[0] == VARIABLE)


def _renamed(tree: Tree, names: dict[Tree, Tree]) -> Tree:
    marked = tree
    for old, (_, shape, number) in names.items():  # in two steps, because new names may be old ones
        marked = replaced(marked, old, (VARIABLE, shape, -1 - number))
    for _, shape, number in names.values():
        marked = replaced(marked, (VARIABLE, shape, -1 - number), (VARIABLE, shape, number))
    return marked
