"""Enumeration of values: every application of a template to class representatives, and which of them are equal.

A value's cost is the number of operators in its graph; shared operands count once.  Each class of equal values keeps
one cheapest representative, and only representatives grow further.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

import numpy as np

from taso_py.arrays import Array
from taso_py.errors import TypingError
from taso_py.generate.terms.atoms import DTYPE, Source
from taso_py.generate.terms.field import Kernel, draw, fingerprints, kernel
from taso_py.generate.terms.representatives import Columns, Representative
from taso_py.generate.terms.stacks import Stacks
from taso_py.generate.terms.templates import Template, TemplateSet
from taso_py.graph.table import Values
from taso_py.graph.types import TensorType
from taso_py.ops.activations import Relu
from taso_py.ops.operator import Operator
from taso_py.rules.build import Builder
from taso_py.rules.term import Side
from taso_py.rules.unify import Binding

PART = 20_000
"""Applications that are evaluated at a time."""
_STEP = 1 << 20
"""Pairs of values that are compared at a time."""
Key: TypeAlias = tuple[TensorType, bool]
"""A type, and whether values are computed from weights alone: the kind of an operand."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Applications of one template to operands of given types: arrays of value numbers, one per operand."""

    template: int
    types: tuple[TensorType, ...]
    operands: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.operands[0])

    def parts(self) -> Iterator[Shard]:
        """Its applications in order, `PART` at a time."""
        for at in range(0, len(self), PART):
            yield Shard(self.template, self.types, tuple(o[at : at + PART] for o in self.operands))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Operand tuples that need not exist yet: ``left`` alone (values, or a table of pairs), or with all of ``right``.

    ``ordered``: of a pair and its mirror image only one counts.
    """

    left: Array
    right: Array | None = None
    ordered: bool = False

    def __len__(self) -> int:
        whole = len(self.left) * (1 if self.right is None else len(self.right))
        return whole // 2 if self.ordered else whole

    def __call__(self) -> Array:
        """The tuples [n, operands]."""
        if self.right is None:
            pairs = self.left.reshape(len(self.left), -1)
        else:
            pairs = np.stack(np.meshgrid(self.left, self.right, indexing="ij"), axis=-1).reshape(-1, 2)
        return pairs[pairs[:, 0] <= pairs[:, 1]] if self.ordered else pairs


@dataclass(frozen=True, slots=True)
class Collision:
    """Two terms of equal fingerprints: a representative or an application, and an application."""

    known: int | tuple[int, tuple[int, ...]]
    found: tuple[int, tuple[int, ...]]


@dataclass(slots=True)
class Enumeration:
    """The values found so far; ``collisions`` are the equalities met on the way."""

    chosen: TemplateSet
    stacks: Stacks = field(default_factory=Stacks)
    _: KW_ONLY
    values: list[Representative] = field(default_factory=list)
    index: dict[tuple[TensorType, int], int] = field(default_factory=dict)
    collisions: list[Collision] = field(default_factory=list)
    applications: int = 0
    families: list[list[int]] = field(default_factory=list)
    _columns: Columns = field(default_factory=lambda: Columns.of(()))

    def __post_init__(self) -> None:
        families: dict[str, list[int]] = {}
        for k, source in enumerate(self.chosen.sources):
            residues = draw(source.shape, k) if source.build is None else constant(source)
            weight = source.kind != "activation"
            self._add(
                residues,
                type_=source.type,
                cost=0,
                template=-1,
                arguments=(k,),
                sources=1 << k,
                weight=weight,
                exact=True,
            )
            families.setdefault(source.family, []).append(k)
        self.families = [members for members in families.values() if len(members) > 1]

    # ---- growing ---------------------------------------------------------------------------------------------

    def grow(self, cost: int) -> None:
        """Adds every new value of this cost."""
        for part in [part for shard in self.shards(cost) for part in shard.parts()]:
            results, prints, exact = self.evaluate(part)
            self.applications += len(part)
            for row in range(len(part)):
                self._meet(part, row, cost, int(prints[row]), bool(exact[row]), results[row])

    def _meet(self, shard: Shard, row: int, cost: int, print_: int, exact: bool, residues: Array) -> None:
        arguments = tuple(int(o[row]) for o in shard.operands)
        type_ = self.kernels(shard)[-1].result
        known = self.index.get((type_, print_))
        if known is not None:
            self.collisions.append(Collision(known, (shard.template, arguments)))
            return
        operands = [self.values[a] for a in arguments]
        sources = 0
        for v in operands:
            sources |= v.sources
        weight = all(v.weight for v in operands)
        self._add(
            residues,
            print_,
            type_=type_,
            cost=cost,
            template=shard.template,
            arguments=arguments,
            sources=sources,
            weight=weight,
            exact=exact,
        )

    def _add(
        self,
        residues: Array,
        print_: int | None = None,
        *,
        type_: TensorType,
        cost: int,
        template: int,
        arguments: tuple[int, ...],
        sources: int,
        weight: bool,
        exact: bool,
    ) -> None:
        number = len(self.values)
        if print_ is None:
            print_ = int(fingerprints(residues[None].astype(np.int64), exact=exact)[0])
        nodes: frozenset[int] = frozenset()
        if template >= 0:
            nodes = frozenset({number}).union(*(self.values[a].nodes for a in arguments))
        row = self.stacks.append(type_, residues)
        self.values.append(
            Representative(
                type=type_,
                cost=cost,
                template=template,
                arguments=arguments,
                nodes=nodes,
                sources=sources,
                weight=weight,
                exact=exact,
                row=row,
            )
        )
        self.index[type_, print_] = number

    # ---- applications ----------------------------------------------------------------------------------------

    def shards(self, cost: int) -> Iterator[Shard]:
        """All applications whose graph has ``cost`` operators, in a fixed order."""
        for template, keys, parts in self._combinations(cost):
            operands = np.concatenate([part() for part in parts])
            if len(operands):
                given = self.chosen.given(self.chosen.templates[template])
                further = [np.full(len(operands), k, dtype=operands.dtype) for k in given]
                types = (*(type_ for type_, _ in keys), *(self.chosen.sources[k].type for k in given))
                yield Shard(template, types, (*operands.T, *further))

    def estimate(self, cost: int) -> int:
        """The number of applications of `shards`, renamings included."""
        return sum(len(part) for _, _, parts in self._combinations(cost) for part in parts)

    def _combinations(self, cost: int) -> Iterator[tuple[int, tuple[Key, ...], list[_Pairs]]]:
        """For each template and kinds of operands: sets of operand tuples."""
        kinds = {constants: self._groups(constants) for constants in (False, True)}
        sharing = self._sharing(cost)
        for t, template in enumerate(self.chosen.templates):
            groups = kinds[template.constants]
            if template.arity == 1:
                for key, of in groups.items():
                    if cost - 1 in of and accepted(self.chosen, template, (key,)):
                        yield t, (key,), [_Pairs(of[cost - 1])]
                continue
            for keys in itertools.product(groups, repeat=2):
                commutative = template.operator.commutative
                if not accepted(self.chosen, template, keys) or (commutative and self._mirrored(keys)):
                    continue
                left, right = groups[keys[0]], groups[keys[1]]
                ordered = commutative and keys[0] == keys[1]
                found = [_Pairs(left[i], right[cost - 1 - i], ordered) for i in left if cost - 1 - i in right]
                if keys in sharing:
                    found.append(_Pairs(sharing[keys], None, ordered))
                if found:
                    yield t, keys, found

    def _groups(self, constants: bool) -> dict[Key, dict[int, Array]]:
        """The values that any template may read, by kind and cost; constants are among them only on request."""
        numbers: dict[Key, dict[int, list[int]]] = {}
        left_out = {"parameter"} if constants else {"parameter", "constant"}
        for number, v in enumerate(self.values):
            if v.template >= 0 or self.chosen.sources[v.arguments[0]].kind not in left_out:
                numbers.setdefault((v.type, v.weight), {}).setdefault(v.cost, []).append(number)
        return {k: {c: np.array(n, dtype=np.int32) for c, n in of.items()} for k, of in numbers.items()}

    def _mirrored(self, keys: Sequence[Key]) -> bool:
        """Whether the same pairs come from the kinds the other way round."""
        (one, weight), (other, other_weight) = keys
        return one == other and weight and not other_weight

    def _sharing(self, cost: int) -> dict[tuple[Key, Key], Array]:
        """Pairs of values that share operators and have ``cost`` - 1 together, by their kinds, in order."""
        costs = np.array([v.cost for v in self.values])
        nodes = np.full((len(costs), cost - 1), -1, dtype=np.int32)
        for number, v in enumerate(self.values):
            if v.cost < cost:
                nodes[number, : v.cost] = sorted(v.nodes)
        whole = np.flatnonzero(costs == cost - 1)  # who has all operators himself shares all of the other's
        pairs = [np.stack([np.repeat(whole, cost - 1), nodes[whole].ravel()], axis=1)]
        pairs += _overlapping(costs, nodes, cost)
        kinds: dict[Key, int] = {}
        kind = np.array([kinds.setdefault((v.type, v.weight), len(kinds)) for v in self.values])
        both = np.unique(np.concatenate([p[:, order] for p in pairs for order in ([0, 1], [1, 0])]), axis=0)
        group = kind[both[:, 0]] * len(kinds) + kind[both[:, 1]]
        names = list(kinds)
        return {
            (names[k // len(kinds)], names[k % len(kinds)]): both[group == k].astype(np.int32)
            for k in np.unique(group).tolist()
        }

    def canonical(self, shard: Shard) -> Shard:
        """The applications whose inputs of each family are its first ones: all others are renamings of them."""
        used = np.bitwise_or.reduce([self.columns().sources[o] for o in shard.operands])
        keep = np.ones(len(shard), dtype=bool)
        for family in self.families:
            for first, second in itertools.pairwise(family):
                keep &= ~((used >> second & 1).astype(bool) & ~(used >> first & 1).astype(bool))
        return Shard(shard.template, shard.types, tuple(o[keep] for o in shard.operands))

    def kernels(self, shard: Shard) -> tuple[Kernel, ...]:
        """What is evaluated for a shard, one after the other."""
        found = applied(self.chosen.templates[shard.template], shard.types)
        assert found is not None
        return found

    def evaluate(self, shard: Shard) -> tuple[Array, Array, Array]:
        """Residues, fingerprints and exactness of a shard's applications."""
        operands = [self._stack(t, o) for t, o in zip(shard.types, shard.operands, strict=True)]
        first, *rest = self.kernels(shard)
        values = first.run(operands)
        for k in rest:
            values = k.run([values])
        exact = np.all([self.columns().exact[o] for o in shard.operands], axis=0) & (not first.taints)
        prints = np.where(exact, fingerprints(values.astype(np.int64), exact=True), 0).astype(np.uint64)
        if not exact.all():
            prints = np.where(exact, prints, fingerprints(values.astype(np.int64), exact=False))
        return values, prints, exact

    def _stack(self, type_: TensorType, numbers: Array) -> Array:
        return self.stacks.take(type_, self.columns().row[numbers])

    def columns(self) -> Columns:
        """The values' fields as arrays."""
        known = len(self._columns.row)
        if known < len(self.values):
            self._columns = self._columns.extended(self.values[known:])
        return self._columns


def _overlapping(costs: Array, nodes: Array, cost: int) -> Iterator[Array]:
    """Pairs [n, 2] of values of fewer than ``cost`` - 1 operators that share some and have ``cost`` - 1 together.

    ``nodes`` [values, cost - 1] are the operators of each in order, then -1.
    """
    small = np.flatnonzero((costs > 0) & (costs < cost - 1))
    users: dict[int, list[int]] = {}
    for number in small.tolist():
        for node in nodes[number, : costs[number]].tolist():
            users.setdefault(node, []).append(number)
    for node, numbers in users.items():
        of = np.array(numbers)
        step = max(1, _STEP // len(of))
        for at in range(0, len(of), step):
            one, other = (x.ravel() for x in np.meshgrid(of[at : at + step], of, indexing="ij"))
            shared = costs[one] + costs[other] - (cost - 1)
            keep = (one < other) & (shared > 0)
            one, other, shared = one[keep], other[keep], shared[keep]
            same = (nodes[one][:, :, None] == nodes[other][:, None, :]) & (nodes[one] >= 0)[:, :, None]
            first = np.where(same.any(axis=2), nodes[one], np.iinfo(np.int32).max).min(axis=1)
            keep = (same.sum(axis=(1, 2)) == shared) & (first == node)  # a pair counts at its first shared operator
            yield np.stack([one[keep], other[keep]], axis=1)


_APPLIED: dict[tuple[str, type[Operator], tuple[TensorType, ...]], tuple[Kernel, ...] | None] = {}


def applied(template: Template, types: tuple[TensorType, ...]) -> tuple[Kernel, ...] | None:
    """The kernels of a template for operands of these types; None when it does not accept them."""
    key = (template.name, template.operator, types)
    if key not in _APPLIED:
        _APPLIED[key] = _kernels(template, types)
    return _APPLIED[key]


def accepted(chosen: TemplateSet, template: Template, keys: Sequence[Key]) -> tuple[Kernel, ...] | None:
    """The kernels for operands of these kinds; None also where the template wants a weight, or none, elsewhere."""
    wanted = template.weights or (None,) * template.arity
    fits = all(w in (None, weight) for w, (_, weight) in zip(wanted, keys, strict=True))
    given = [chosen.sources[k].type for k in chosen.given(template)]
    return applied(template, (*(type_ for type_, _ in keys), *given)) if fits else None


def _kernels(template: Template, types: tuple[TensorType, ...]) -> tuple[Kernel, ...] | None:
    try:
        operator = template.at(types)
        if operator is None:
            return None
        first = kernel(operator, types)
    except (TypingError, ValueError, IndexError):
        return None
    return (first, kernel(Relu(), (first.result,))) if template.relu else (first,)


def constant(source: Source) -> Array:
    """The residues [2, elements] of a constant."""
    assert source.build is not None
    values = Values()
    term = source.build.enumerated()
    builder = Builder(values, Binding(), Side((), (term,)), DTYPE)
    last = builder.output(term)
    done: dict[int, Array] = {}
    for number, node in sorted(builder.nodes.items()):
        types = tuple(values.types[i] for i in node.inputs if i is not None)
        operands = [done[i][None] for i in node.inputs if i is not None]
        found = kernel(node.operator, types)
        done[number] = found.run(operands)[0] if operands else found.constant()
    return done[last]
