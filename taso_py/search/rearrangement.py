"""Laws of chains of reshapes and transpositions: each is one transposition between two reshapes at most.

Exporters put axes of size 1 in and take them out, join and split others, and turn them on the way.  No rule has such
chains of any length, so these laws are written where one stands, from the axes that its elements have throughout.  They
are rules like any other: matched, proved where they match, and recorded as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from zlib import crc32

from taso_py.graph.sizes import Size, product, symbol
from taso_py.graph.table import Node
from taso_py.ops.linear import MatMul
from taso_py.ops.operator import Operator
from taso_py.ops.reshape import Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Listing, Quantity
from taso_py.search.here import matcher_here
from taso_py.search.matcher import Matcher
from taso_py.search.view import View

REARRANGEMENT = "layouts-as-one"
"""The name of all of these laws; that of one chain stands for them in the library."""
_LONGEST = 8
"""So many operators are looked at together."""

Axes = tuple[tuple[int, ...], ...]
"""The factors of each axis, in order; none where its size is 1."""


@dataclass(frozen=True, slots=True)
class Step:
    """An operator of a chain and the sizes of its result."""

    operator: Operator
    dims: tuple[Size, ...]


@dataclass(slots=True)
class _Factors:
    """The axes of the operand and of each result of a chain, as products of factors that no operator takes apart."""

    sizes: list[Size]
    shapes: list[Axes]

    @staticmethod
    def of(dims: Sequence[Size]) -> _Factors:
        sizes = [d for d in dims if d != 1]
        numbers = iter(range(len(sizes)))
        return _Factors(sizes, [tuple((next(numbers),) if d != 1 else () for d in dims)])

    def after(self, step: Step) -> bool:
        """Go on by one operator; False where it takes an axis apart of which no part is known."""
        last = self.shapes[-1]
        if isinstance(step.operator, Transpose):
            perm = step.operator.perm or tuple(reversed(range(len(last))))
            self.shapes.append(tuple(last[a] for a in perm))
            return True
        axes: list[tuple[int, ...]] = []
        waiting = [f for axis in last for f in axis]
        for size in step.dims:
            axis: list[int] = []
            while (done := product(self.sizes[f] for f in axis)) != size:
                if not waiting or not self._fit(waiting, size, done):
                    return False
                axis.append(waiting.pop(0))
            axes.append(tuple(axis))
        self.shapes.append(tuple(axes))
        return not waiting

    def _fit(self, waiting: list[int], size: Size, done: Size) -> bool:
        """Whether the first factor, or what is split off it here, goes into an axis of this size."""
        first = self.sizes[waiting[0]]
        if not (isinstance(first, int) and isinstance(size, int) and isinstance(done, int)):
            return True  # what is too much is seen at the end of the axis
        left, rest = divmod(size, done) if done else (0, 1)
        if rest or left < 2:
            return False
        if left % first == 0:
            return True
        if first % left:
            return False
        self._split(waiting, left, first // left)
        return True

    def _split(self, waiting: list[int], size: int, rest: int) -> None:
        old, new = waiting[0], len(self.sizes)
        self.sizes[old] = size
        self.sizes.append(rest)
        waiting.insert(1, new)
        self.shapes = [tuple(tuple(_behind(axis, old, new)) for axis in axes) for axes in self.shapes]


def _behind(axis: Iterable[int], old: int, new: int) -> Iterator[int]:
    for factor in axis:
        yield from (factor, new) if factor == old else (factor,)


@dataclass(slots=True)
class _Text:
    """Spells sizes: those that are known are numbers, others have names."""

    sizes: Sequence[Size]
    named: set[int] = field(default_factory=set)

    def of(self, axis: Sequence[int]) -> str:
        known = product(self.sizes[f] for f in axis if isinstance(self.sizes[f], int))
        names = [f"n{f}" for f in axis if not isinstance(self.sizes[f], int)]
        self.named.update(f for f in axis if not isinstance(self.sizes[f], int))
        return " * ".join([*([str(known)] if known != 1 or not names else []), *names])

    def shape(self, axes: Axes) -> str:
        return f"[{', '.join(map(self.of, axes))}]"


def rearranged(dims: Sequence[Size], steps: Sequence[Step]) -> Rule | None:
    """The law that makes a chain shorter, for an operand of these sizes; None where there is none.

    Sizes that are numbers are numbers in the law, others are any.
    """
    factors = _Factors.of(dims)
    if 0 in dims or not all(factors.after(step) for step in steps):
        return None
    first, last = factors.shapes[0], factors.shapes[-1]
    text = _Text(factors.sizes)
    right = _shortest(first, last, text)
    turns = sum(isinstance(step.operator, Transpose) for step in steps)
    if (right.count("("), right.count("Transpose")) >= (len(steps), turns):
        return None
    left = "x"
    for step, axes in zip(steps, factors.shapes[1:], strict=True):
        left = f"{type(step.operator).__name__}({left}, {_attribute(step.operator, axes, text)})"
    told = [first, *(a for s, a in zip(steps, factors.shapes[1:], strict=True) if isinstance(s.operator, Reshape))]
    if not text.named <= {axis[0] for axes in told for axis in axes if len(axis) == 1}:
        return None
    written = f"rule {REARRANGEMENT}: {left} => {right} for x{text.shape(first)}"
    return replace(parse_rule(written), line=crc32(written.encode()))


def _attribute(operator: Operator, axes: Axes, text: _Text) -> str:
    match operator:
        case Transpose(perm=perm):
            return f"perm={list(perm)}"
        case Squeeze(axes=given) | Unsqueeze(axes=given):
            return f"axes={list(given)}"
        case Flatten(axis=axis):
            return f"axis={axis}"
        case _:
            return f"shape={text.shape(axes)}"


def _shortest(first: Axes, last: Axes, text: _Text) -> str:
    """The shortest spelling of what brings these axes of x into those."""
    before, after = _flat(first), _flat(last)
    if before == after:
        return _reshaped("x", first, last, text)
    blocks = _blocks(before, after)
    ways = [
        (blocks, _ordered(blocks, after)),
        (first, last),
        (_ordered(last, before), last),
        (first, _ordered(first, after)),
    ]
    fit = [(m, t) for m, t in ways if sorted(m) == sorted(t) and _flat(m) == before and _flat(t) == after]
    middle, turned = min(fit, key=lambda way: (way[0] != first) + (way[1] != last))
    inner = _reshaped("x", first, middle, text)
    return _reshaped(f"Transpose({inner}, perm={_permutation(middle, turned)})", turned, last, text)


def _reshaped(term: str, axes: Axes, wanted: Axes, text: _Text) -> str:
    return term if axes == wanted else f"Reshape({term}, shape={text.shape(wanted)})"


def _flat(axes: Axes) -> list[int]:
    return [factor for axis in axes for factor in axis]


def _blocks(before: Sequence[int], after: Sequence[int]) -> Axes:
    """The factors that stay side by side, as axes."""
    place = {factor: k for k, factor in enumerate(after)}
    blocks: list[list[int]] = []
    for factor in before:
        if blocks and place[factor] == place[blocks[-1][-1]] + 1:
            blocks[-1].append(factor)
        else:
            blocks.append([factor])
    return tuple(map(tuple, blocks))


def _ordered(axes: Axes, factors: Sequence[int]) -> Axes:
    """The axes in the order that their factors have here, those of size 1 first."""
    place = {factor: k for k, factor in enumerate(factors)}
    return tuple(sorted(axes, key=lambda axis: place[axis[0]] if axis else -1))


def _permutation(before: Axes, after: Axes) -> list[int]:
    """Which axis comes where; those of size 1 keep their order."""
    left = list(enumerate(before))
    perm = []
    for axis in after:
        found = next(pair for pair in left if pair[1] == axis)
        left.remove(found)
        perm.append(found[0])
    return perm


@lru_cache(maxsize=1)
def rearrangement_sample() -> Rule:
    """The law that stands for all in the library: heads become batches, of which the matrices are then transposed."""
    n, h, d = (symbol(name) for name in ("n", "h", "d"))
    steps = (
        Step(Transpose((0, 2, 1, 3)), (1, h, n, d)),
        Step(Reshape((h, n, d)), (h, n, d)),
        Step(Transpose((0, 2, 1)), (h, d, n)),
    )
    found = rearranged((1, n, h, d), steps)
    assert found is not None
    return found


# ---- where a chain stands --------------------------------------------------------------------------------------------

_CHAINED = (Flatten, Reshape, Squeeze, Transpose, Unsqueeze)


def rearrangement_matcher(view: View, value: int) -> Matcher | None:
    """The law of the chain that ends at a value; None where none ends there, or it is as short as can be."""
    node = _link(view, value)
    users = view.users.get(value, {})
    if node is None or (users and all(_link(view, u) and not _free(view, u) for u in users)):
        return None
    free = _free(view, value)
    chain: list[Step] = []
    while node is not None and len(chain) < _LONGEST:
        chain.insert(0, Step(node.operator, view.table.type(value).dims))
        (value,) = (i for i in node.inputs if i is not None)
        node = _link(view, value)
    return _matcher(view.table.type(value).dims, tuple(chain), free) if len(chain) > 1 else None


def _link(view: View, value: int) -> Node | None:
    node = view.table.nodes.get(value)
    return node if node is not None and isinstance(node.operator, _CHAINED) else None


def _free(view: View, value: int) -> bool:
    """Whether only products read it, and it turns nothing but their matrices: they read those either way."""
    node, rank = view.table.nodes[value], view.table.type(value).rank
    users = view.users.get(value, {})
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return (
        isinstance(node.operator, Transpose)
        and tuple(node.operator.perm) == swapped
        and bool(users)
        and all(isinstance(view.table.nodes[u].operator, MatMul) for u in users if u in view.table.nodes)
    )


@lru_cache(maxsize=1024)
def _matcher(dims: tuple[Size, ...], chain: tuple[Step, ...], free: bool) -> Matcher | None:
    """``free``: the last transposition costs nothing, so what becomes of all must move whole rows."""
    rule = rearranged(dims, chain)
    return None if rule is None or (free and not _moves_rows(rule)) else matcher_here(rule)


def _moves_rows(rule: Rule) -> bool:
    """Whether the right side's transposition, if it has one, leaves the last axis where it is."""
    term: object = rule.right.outputs[0]
    while isinstance(term, Application):
        if term.operator is Transpose:
            perm = dict(term.attributes)["perm"]
            assert isinstance(perm, Listing)
            return perm.items[-1] == Quantity(len(perm.items) - 1)
        term = term.arguments[0]
    return True
