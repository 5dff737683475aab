"""Laws of Einsum: which products of matrices its labels describe, one law for each equation that occurs.

No rule has labels for names, so these are written when they are needed.  They are rules like any other: matched, proved
where they match, and recorded as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations
from math import prod
from zlib import crc32

from taso_py.graph.sizes import Size
from taso_py.ops.einsum import Einsum
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search.here import matcher_here
from taso_py.search.matcher import Matcher
from taso_py.search.view import View

EINSUM = "einsum-as-products"
"""The name of all of these laws; that of ``ab,bc->ac`` stands for them in the library."""
_USUAL = 64
"""What a size that is not known is taken for where the order of products is chosen."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """An operand of an equation: its labels, their sizes, and whether it is constant: moving its data takes no time."""

    labels: str
    sizes: tuple[Size, ...]
    constant: bool = False


Axes = tuple[str, ...]
"""The labels of each axis: several where axes are one."""


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a law, its axes, about how often all its data are moved to make it, and whether it is constant."""

    text: str
    axes: Axes
    moves: float = 0.0
    constant: bool = False

    @property
    def labels(self) -> str:
        return "".join(self.axes)

    def reshaped(self, axes: Sequence[str]) -> _Term:
        """With axes joined, taken apart, or put in of size 1, where there is no label."""
        if tuple(axes) == self.axes:
            return self
        text = f"Reshape({self.text}, shape=[{', '.join(map(_size, axes))}])"
        return replace(self, text=text, axes=tuple(axes))

    def joined(self, part: str) -> _Term:
        """With the axes of these labels as one where they stand side by side."""
        if len(part) < 2 or part not in self.labels:
            return self
        kept = [part if c == part[0] else c for axis in self.axes for c in ([axis] if axis[0] not in part[1:] else [])]
        return self.reshaped(kept)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes terms; an axis with a label of ``ones`` has one entry."""

    ones: frozenset[str]

    def transposed(self, term: _Term, axes: Sequence[str], *, multiplied: bool = False) -> _Term:
        """The term with its axes in this order; ``multiplied``: it is an operand of a product of matrices."""
        if tuple(axes) == term.axes:
            return term
        perm = [term.axes.index(axis) for axis in axes]
        moves = 0.0 if term.constant else self._moves(term.axes, axes, multiplied)
        return replace(term, text=f"Transpose({term.text}, perm={perm})", axes=tuple(axes), moves=term.moves + moves)

    def _moves(self, before: Sequence[str], after: Sequence[str], multiplied: bool) -> float:
        """Products read transposed matrices, whole rows are copied at once, and axes of one entry are no matter."""
        before, after = ([axis for axis in axes if not self.ones.issuperset(axis)] for axes in (before, after))
        if before == after:
            return 0.0
        swapped = [*before[:-2], *before[:-3:-1]]
        return 0.25 if multiplied and after == swapped else 1.0 if after[-1] == before[-1] else 2.0

    def product(self, x: _Term, y: _Term, result: str) -> _Term:
        """The sum of products with the fewest moves."""
        if not set(x.labels) & set(y.labels) - set(result):
            return self._outer(x, y, result)
        shared = [c for c in result if c in x.labels and c in y.labels]
        last = max((result.index(c) for c in shared), default=-1)
        batches = ["".join(shared), *(result[:k] for k in range(last + 1, len(result) - 1))]
        written = (self._matmul(*pair, result, batch) for pair in ((x, y), (y, x)) for batch in batches)
        return min(written, key=lambda t: (t.moves, len(t.text)))

    def _outer(self, x: _Term, y: _Term, result: str) -> _Term:
        """Nothing is summed."""
        wide = []
        for term in (x, y):
            own = self.transposed(term, [c for c in result if c in term.labels])
            axes = [k for k, c in enumerate(result) if c not in own.labels]
            wide.append(f"Unsqueeze({own.text}, axes={axes})" if axes else own.text)
        return _Term(f"Mul({', '.join(wide)})", tuple(result))

    def _matmul(self, x: _Term, y: _Term, result: str, batch: str) -> _Term:
        """``batch``: labels of the result that stay apart, also where one of the operands has no such axis."""
        summed = "".join(c for c in x.labels if c in y.labels and c not in result)
        rows, columns = ("".join(c for c in result if c in t.labels and c not in batch) for t in (x, y))
        left, right = self._operand(x, batch, (rows, summed)), self._operand(y, batch, (summed, columns))
        # A product with one matrix is one of all rows.
        moves = left.moves + right.moves + self._missing(x, batch)
        moves += self._missing(y, batch) if set(batch) & set(y.labels) else 0
        whole = _Term(f"MatMul({left.text}, {right.text})", (*batch, rows, columns), moves)
        return self.transposed(whole.reshaped(whole.labels), list(result))

    def _missing(self, term: _Term, batch: str) -> float:
        """For what an operand is repeated: many small products take longer than a large one."""
        return sum(c not in self.ones and c not in term.labels for c in batch) / 4

    def _operand(self, term: _Term, batch: str, matrix: tuple[str, str]) -> _Term:
        """A batch of matrices: axes that the operand has not are of size 1, leading ones of them left out."""
        own = [c for c in batch if c in term.labels]
        joined = term.joined(matrix[0]).joined(matrix[1])
        split = [axis for part in matrix for axis in ([part] if part in joined.axes else part)]
        moved = self.transposed(joined, [*own, *split], multiplied=True)
        leading = batch[batch.index(own[0]) :] if own else ""
        return moved.reshaped([*(c if c in own else "" for c in leading), *matrix])


def _size(labels: str) -> str:
    return " * ".join(f"n{c}" for c in labels) or "1"


def _names(labels: str) -> str:
    return ", ".join(f"n{c}" for c in labels)


@lru_cache(maxsize=1)
def einsum_sample() -> Rule:
    """The law that stands for all in the library."""
    return einsum_law((Labelled("ab", (_USUAL, _USUAL)), Labelled("bc", (_USUAL, _USUAL))), "ac")


def einsum_matcher(view: View, value: int) -> Matcher | None:
    """The law of the equation at a value, for the sizes there; None where there is no Einsum, or nothing to be said."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Einsum):
        return None
    given, _, result = node.operator.equation.partition("->")
    operands = []
    for i, labels in zip(node.inputs, given.split(","), strict=True):
        assert i is not None
        operands.append(Labelled(labels, view.table.type(i).dims, i in view.values.constant))
    return _matcher(tuple(operands), result)


@lru_cache(maxsize=1024)
def _matcher(operands: tuple[Labelled, ...], result: str) -> Matcher:
    return matcher_here(einsum_law(operands, result))


def einsum_law(operands: Sequence[Labelled], result: str) -> Rule:
    """What an Einsum in normal form is: of one or two operands without labels, of more by two of them at first."""
    equation = f"{','.join(t.labels for t in operands)}->{result}"
    right = _right(operands, result) if len(operands) < 3 else _pair_first(operands, result)
    names = [f"x{k}" for k in range(len(operands))]
    shapes = ", ".join(f"{x}[{_names(t.labels)}]" for x, t in zip(names, operands, strict=True))
    left = f'Einsum({", ".join(names)}, equation="{equation}")'
    text = f"rule {EINSUM}: {left} => {right} for {shapes}"
    return replace(parse_rule(text), line=crc32(text.encode()))


def _right(operands: Sequence[Labelled], result: str) -> str:
    ones = frozenset(c for t in operands for c, size in zip(t.labels, t.sizes, strict=True) if size == 1)
    writer = _Writer(ones)
    first, *second = (_summed(f"x{k}", t, operands, result) for k, t in enumerate(operands))
    whole = writer.product(first, second[0], result) if second else writer.transposed(first, list(result))
    return whole.text


def _summed(name: str, operand: Labelled, operands: Sequence[Labelled], result: str) -> _Term:
    """An operand summed over the labels that nothing else has."""
    others = {c for t in operands if t is not operand for c in t.labels} | set(result)
    axes = [k for k, c in enumerate(operand.labels) if c not in others]
    text = f"ReduceSum({name}, axes={axes}, keepdims=0)" if axes else name
    return _Term(text, tuple(c for c in operand.labels if c in others), constant=operand.constant)


def _pair_first(operands: Sequence[Labelled], result: str) -> str:
    """The two operands of which the product takes the fewest multiplications, then the others."""
    sizes = {c: s if isinstance(s, int) else _USUAL for t in operands for c, s in zip(t.labels, t.sizes, strict=True)}
    pairs = combinations(range(len(operands)), 2)

    def work(pair: tuple[int, int]) -> tuple[int, int]:
        labels = set(operands[pair[0]].labels) | set(operands[pair[1]].labels)
        return prod(sizes[c] for c in labels), prod(sizes[c] for c in _kept(operands, pair, result))

    first, second = min(pairs, key=work)
    kept = _kept(operands, (first, second), result)
    pair = f'Einsum(x{first}, x{second}, equation="{operands[first].labels},{operands[second].labels}->{kept}")'
    others = [k for k in range(len(operands)) if k not in (first, second)]
    given = ", ".join([pair, *(f"x{k}" for k in others)])
    return f'Einsum({given}, equation="{",".join([kept, *(operands[k].labels for k in others)])}->{result}")'


def _kept(operands: Sequence[Labelled], pair: tuple[int, int], result: str) -> str:
    """Labels of a product of two operands that are needed behind it."""
    needed = set(chain(result, *(t.labels for k, t in enumerate(operands) if k not in pair)))
    return "".join(dict.fromkeys(c for k in pair for c in operands[k].labels if c in needed))
