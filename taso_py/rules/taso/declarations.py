"""The sizes of TASO's shipped substitutions, which state operators and leave sizes open.

What the operators imply is made explicit: the numbers of axes, the sizes that must be equal, those that may
broadcast, and channels as multiples of group counts.

Source: jiazhihao/TASO, src/core/substitution.cc and the operators' own files, for what its matching accepts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any, Literal, TypeAlias

Reference: TypeAlias = tuple[int, int]
"""(step, output) or, with a negative number in place of the step, an input."""
Dim: TypeAlias = tuple[frozenset[str], ...]
"""A sum, and each part the largest of several sizes."""
Shape: TypeAlias = tuple[Dim, ...]
SideName: TypeAlias = Literal["left", "right"]

_SAME_RANK = ("ewadd", "ewmul", "relu", "split")
"""Operators whose operands and result have one number of axes."""


class DeclaredSizes(Enum):
    """What a law says of sizes that a substitution leaves open."""

    MATCHED = "matched"
    """TASO's own matching: each convolution has as many groups as the channels of its input are times those of its
    kernel, and sums and products broadcast.  They do not along the axis of a Concat, where the shape of the result
    would change: TASO aborts when an edge of the graph does not keep its shape."""
    EXPLICIT = "explicit"
    """Operands of sums and products have equal shapes; the convolutions of a law have kernels of one size and one
    group count, which is 1 where a convolution reads channels or kernels side by side."""


@dataclass(frozen=True, slots=True)
class SubstitutionStep:
    """One operator of a substitution."""

    op: str
    inputs: tuple[Reference, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Substitution:
    """left[i] is replaced by right[j] for every pair of ``outputs``."""

    id: int
    left: tuple[SubstitutionStep, ...]
    right: tuple[SubstitutionStep, ...]
    outputs: tuple[tuple[Reference, Reference], ...]

    def sides(self) -> Iterator[tuple[SideName, int, SubstitutionStep]]:
        """Every step with its side and its number."""
        yield from (("left", k, s) for k, s in enumerate(self.left))
        yield from (("right", k, s) for k, s in enumerate(self.right))

    def inputs(self) -> tuple[int, ...]:
        """The inputs, in TASO's order."""
        return tuple(sorted({t for _, _, s in self.sides() for t, _ in s.inputs if t < 0}, reverse=True))


@dataclass(slots=True)
class Sizes:
    """Shapes over named sizes, which equations make equal.

    ``equal`` joins sizes that are one, ``alike`` also those of which one may be 1 where they broadcast;
    ``products`` holds the sizes that are a multiple: group count and factor.
    """

    typing: DeclaredSizes
    _: KW_ONLY
    ranks: dict[tuple[str, int], int] = field(default_factory=dict)
    shapes: dict[tuple[str, int], Shape] = field(default_factory=dict)
    equal: dict[str, str] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    equations: list[tuple[Dim, Dim]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    convs: list[tuple[Shape, Shape]] = field(default_factory=list)
    products: dict[str, tuple[str, str]] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)

    @staticmethod
    def of(rule: Substitution, typing: DeclaredSizes) -> Sizes:
        """The most general sizes for which both sides of a substitution are typed."""
        sizes = Sizes(typing)
        sizes._count_axes(rule)
        for tensor in rule.inputs():
            rank = sizes.ranks.get(("", tensor), 0)
            sizes.shapes["", tensor] = tuple((frozenset({f"x{-tensor}.{k}"}),) for k in range(rank))
        splits = {(side, k) for side, k, step in rule.sides() if step.op == "split"}
        for side, k, step in rule.sides():
            read = [place(side, t) for t, _ in step.inputs]
            if not splits.isdisjoint(read):
                raise ValueError(f"{step.op} of a part of a Split is not known")
            sizes.shapes[side, k] = sizes._result(step, [sizes.shapes[p] for p in read])
        sizes._solve()
        sizes._kernels()
        sizes._groups(len([s for s in rule.left if s.op == "conv2d"]))
        return sizes

    def _count_axes(self, rule: Substitution) -> None:
        """Numbers of axes, from the operators that fix one to those that keep it; what is left may have any."""
        fixed = {"matmul": 2, "conv2d": 4}
        for _ in range(2 * len(rule.left + rule.right)):
            for side, k, step in rule.sides():
                places = [(side, k), *(place(side, t) for t, _ in step.inputs)]
                known = [fixed.get(step.op) or step.params.get("numdim")]
                known += [self.ranks.get(p) for p in places if step.op in _SAME_RANK]
                rank = next((r for r in known if r), None)
                if rank:
                    self.ranks.update(dict.fromkeys(places, rank))

    # ---- equations ---------------------------------------------------------------------------------------------------

    def _result(self, step: SubstitutionStep, shapes: Sequence[Shape]) -> Shape:
        match step.op:
            case "matmul":
                self.equations.append((shapes[0][1], shapes[1][0]))
                return (shapes[0][0], shapes[1][1])
            case "conv2d":
                if step.params["pad"] != "same" or {step.params["stride_h"], step.params["stride_w"]} != {1}:
                    raise ValueError(f"only SAME padding at step 1 is known, not {step.params}")
                x, kernel = shapes
                self.convs.append((x, kernel))
                return (x[0], kernel[0], *x[2:])
            case "concat":
                return self._concat(step.params["axis"], shapes)
            case "ewadd" | "ewmul":
                return tuple(self._broadcast(a, b) for a, b in zip(*shapes, strict=True))
            case "relu" | "split":
                return shapes[0]
        raise ValueError(f"the operator {step.op} is not known")

    def _concat(self, axis: int, shapes: Sequence[Shape]) -> Shape:
        first = shapes[0]
        for other in shapes[1:]:
            self.equations += [(a, b) for k, (a, b) in enumerate(zip(first, other, strict=True)) if k != axis]
        joined = tuple(part for s in shapes for part in s[axis])
        return (*first[:axis], joined, *first[axis + 1 :])

    def _broadcast(self, a: Dim, b: Dim) -> Dim:
        if self.typing is DeclaredSizes.EXPLICIT or len(a) != 1 or len(b) != 1:
            self.equations.append((a, b))
            return a
        sizes = sorted(a[0] | b[0])
        self.links += itertools.pairwise(sizes)
        return (frozenset(sizes),)

    def _solve(self) -> None:
        """Joins what must be equal, plain sizes first: they may decide the others."""
        for wide in (False, True):
            for a, b in self.equations:
                if len(a) != len(b):
                    raise ValueError(f"{a} and {b} have different numbers of parts")
                for one, other in zip(a, b, strict=True):
                    if wide or len(one) == len(other) == 1:
                        self._join(one, other)
        self.alike = dict(self.equal)
        for a_size, b_size in self.links:
            _union(self.alike, a_size, b_size)

    def _join(self, one: frozenset[str], other: frozenset[str]) -> None:
        if {self.root(s) for s in one} != {self.root(s) for s in other}:
            for a, b in itertools.pairwise(sorted(one | other)):
                _union(self.equal, a, b)

    def _kernels(self) -> None:
        if self.typing is DeclaredSizes.EXPLICIT:
            for (_, one), (_, other) in itertools.pairwise(self.convs):
                self.equations += [(one[2], other[2]), (one[3], other[3])]
            self._solve()
        self.kernels = {self.base(s) for _, kernel in self.convs for d in kernel[2:] for part in d for s in part}

    # ---- groups ------------------------------------------------------------------------------------------------------

    def _groups(self, on_left: int) -> None:
        """Channels as products of group count and kernel channels, so that sizes with such a quotient are drawn."""
        if self.typing is DeclaredSizes.MATCHED:
            named = {f"g{k + 1}": self.convs[k] for k in range(on_left)}
            self._multiples(list(named.items()))
        elif any(self._joins(x, kernel) for x, kernel in self.convs):
            self.equations += [(x[1], kernel[1]) for x, kernel in self.convs if len(x[1]) == len(kernel[1])]
            self._solve()
        else:
            while self._shared():
                self._solve()
            self._multiples([("g", conv) for conv in self.convs])

    def _joins(self, x: Shape, kernel: Shape) -> bool:
        return any(len(d) > 1 for d in (x[1], *kernel[:2])) or self._bases(x[1]) == self._bases(kernel[1])

    def _shared(self) -> bool:
        """Inputs of equal channels are read by kernels of equal channels: whether that gave a new equation."""
        new = [
            (kernel[1], other[1])
            for (x, kernel), (y, other) in itertools.combinations(self.convs, 2)
            if self._bases(x[1]) == self._bases(y[1]) and self._bases(kernel[1]) != self._bases(other[1])
        ]
        self.equations += new
        return bool(new)

    def _multiples(self, convs: Sequence[tuple[str, tuple[Shape, Shape]]]) -> None:
        """The channels that convolutions read are multiples first, then those that they make."""
        groups: list[tuple[str, str]] = []
        for group, (x, kernel) in convs:
            whole, factor, outer = (self._bases(d) for d in (x[1], kernel[1], kernel[0]))
            if len(whole) == len(factor) == len(outer) == 1 and whole != factor:
                group, inner = self.products.setdefault(whole[0], (group, factor[0]))
                groups += [(outer[0], group)] if inner == factor[0] else []
        for outer_size, group in groups:
            self.products.setdefault(outer_size, (group, f"{outer_size}/"))

    def root(self, size: str) -> str:
        """The size of which all that must be equal are named."""
        return _find(self.equal, size)

    def base(self, size: str) -> str:
        """The size of which all that broadcast together are named."""
        return _find(self.alike, size)

    def _bases(self, dim: Dim) -> tuple[str, ...]:
        return tuple(self.base(next(iter(part))) for part in dim)

    def broadcasts(self, size: str) -> bool:
        """Whether the size may be 1 where another one that it meets is not."""
        met = {self.root(s) for pair in self.links for s in pair if self.base(s) == self.base(size)}
        return len(met) > 1


def place(side: SideName, tensor: int) -> tuple[str, int]:
    return (side if tensor >= 0 else "", tensor)


def _find(parents: Mapping[str, str], size: str) -> str:
    while size in parents:
        size = parents[size]
    return size


def _union(parents: dict[str, str], one: str, other: str) -> None:
    one, other = sorted((_find(parents, one), _find(parents, other)))
    if one != other:
        parents[other] = one
