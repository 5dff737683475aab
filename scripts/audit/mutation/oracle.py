"""Whether a law is false: both sides in ONNX Runtime at small exact inputs, many laws in one session.

Nothing here evaluates an operator by the project's own definitions; only shapes come from them, and a shape that
ONNX Runtime finds to be another makes the instance void.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scripts.audit.mutation.judgement import TOLERANCE, Against, Judgement, extent, plain_site, put, typing
from scripts.audit.mutation.runtime import OPSET, Compiled, NotRun, compiled
from scripts.audit.mutation.sampling import BAD_DRAW, REGIMES, SETS, Regime, arrays, instances
from taso_py.arrays import Array
from taso_py.graph.table import Node, Values
from taso_py.ops.constants import Eye, Fill
from taso_py.prove.sites import site_of
from taso_py.rules.build import Builder
from taso_py.rules.instances import Instance
from taso_py.rules.rule import Rule
from taso_py.rules.term import Comparison

FIRST: tuple[Regime, ...] = REGIMES
FOCUSED: tuple[Regime, ...] = ("wild", "any", "equal", "wild", "ones", "wild", "wild")
MORE: tuple[Regime, ...] = REGIMES * 2
_PARTIAL = frozenset({"Div", "Reciprocal", "Sqrt", "Log", "Pow", "Power"})
"""Operators that are not defined everywhere: where one on the left is not, nothing is compared; where only one on the
right is not, the law is false, although what ONNX Runtime makes of an infinity may agree."""
_RISKY = _PARTIAL | {"Exp"}
_MOST_ELEMENTS = 100_000
_SHAKE, _CLEAR = 2.0**-20, 0.05
"""A smaller difference than `_CLEAR` counts where rounding cannot have made it: functions of large numbers that are not
integers, such as a softmax of their sums, lose what float32 holds of them."""
_BATCH = 160
"""Pairs of sides in one session."""


@dataclass(frozen=True, slots=True)
class Case:
    """A law to judge; ``focus`` is a condition under which it is looked at first."""

    rule: Rule
    focus: Comparison | None = None


@dataclass(slots=True)
class _Pair:
    """One law at one instance; ``rule`` is read from left to right."""

    case: int
    rule: Rule
    instance: Instance
    right: tuple[int, ...]
    builder: Builder

    @property
    def nodes(self) -> Mapping[int, Node]:
        """The nodes of the right side."""
        return self.builder.nodes

    def risky(self) -> list[int]:
        """Values of the left side that may not be finite."""
        return [v for v, n in self.instance.nodes.items() if n.operator.onnx in _RISKY]

    def partial(self) -> list[int]:
        """Values of the right side that may not be defined."""
        return [v for v, n in self.nodes.items() if n.operator.onnx in _PARTIAL]


@dataclass(slots=True)
class _Group:
    """Laws with one left side and one set of clauses: they share their instances."""

    pattern: Rule
    focus: Comparison | None
    rules: dict[int, Rule] = field(default_factory=dict)
    failed: Counter[Regime] = field(default_factory=Counter)


def judged(cases: Sequence[Case], seed: int = 0, *, thorough: bool = False) -> list[Judgement]:
    """One judgement per law; those that still look equal after a few draws are drawn more often.

    An equation is looked at from both sides.  A ``thorough`` look goes on after the first difference.
    """
    found = [Judgement() for _ in cases]
    for turned in (False, True):
        for group in _groups(cases, turned):
            some = _look(group, FIRST, False, found, seed, thorough)
            _look(group, FOCUSED, True, found, seed, thorough)
            if some:
                _look(group, MORE, False, found, seed, thorough)
    return found


def _groups(cases: Sequence[Case], turned: bool) -> Iterator[_Group]:
    groups: dict[Any, _Group] = {}
    for k, case in enumerate(cases):
        rule = case.rule.reversed() if turned else case.rule
        if turned and (rule.arrow == "=>" or rule.unbound()):
            continue
        key = (rule.left, rule.declarations, rule.conditions, rule.choices, case.focus)
        groups.setdefault(key, _Group(rule, case.focus)).rules[k] = rule
    yield from groups.values()


def _look(
    group: _Group, regimes: Sequence[Regime], focused: bool, found: list[Judgement], seed: int, thorough: bool
) -> bool:
    """Draws instances of a group and runs its laws on them; False when the left side has no instance."""
    left = {k: rule for k, rule in group.rules.items() if thorough or found[k].truth != "different"}
    if not left or (focused and group.focus is None):
        return True
    pattern = group.pattern
    if focused and group.focus is not None:
        pattern = replace(pattern, conditions=(*pattern.conditions, group.focus))
    values = Values()
    random = np.random.default_rng((seed, zlib.crc32(pattern.text().encode()), len(regimes)))
    drawn = instances(pattern, regimes, random, values, None if focused else group.failed)
    pairs = [p for instance in drawn for k, rule in left.items() for p in _paired(k, rule, instance, found[k])]
    for start in range(0, len(pairs), _BATCH):
        _run(pairs[start : start + _BATCH], values, random, found)
    return bool(drawn)


def _paired(case: int, rule: Rule, instance: Instance, judgement: Judgement) -> list[_Pair]:
    """The right side built at an instance; nothing when it has another type."""
    values, left = instance.values, instance.left
    builder = Builder(values, instance.binding, rule.right, "float32")
    try:
        right = tuple(builder.output(t) for t in rule.right.outputs)
        writable = all(_writable(n, values) for n in builder.nodes.values())
    except BAD_DRAW:
        judgement.refused += 1
        return []
    if any(values.types[a] != values.types[b] for a, b in zip(left, right, strict=True)):
        judgement.mistyped += 1
        _put(judgement.types, rule, instance, builder, _described_types(instance, right))
        return []
    if not (writable and _small([*builder.nodes, *instance.nodes], values)):
        judgement.void += 1
        return []
    return [_Pair(case, rule, instance, right, builder)]


def _described_types(instance: Instance, right: Sequence[int]) -> str:
    types = instance.values.types
    sides = [", ".join(str(types[v]) for v in ids) for ids in (instance.left, right)]
    tensors = ", ".join(f"{n} {types[v]}" for n, v in sorted(instance.binding.tensors.items()))
    return f"{instance.binding.names}; {tensors}: left {sides[0]}, right {sides[1]}"


def _writable(node: Node, values: Values) -> bool:
    if isinstance(node.operator, Eye | Fill):
        return True
    types = [values.types[i] for i in node.inputs if i is not None]
    return node.operator.write(OPSET, types) is not None


def _small(ids: Sequence[int], values: Values) -> bool:
    sizes = [values.types[v].elements for v in ids]
    return all(isinstance(s, int) and s <= _MOST_ELEMENTS for s in sizes)


def _run(pairs: Sequence[_Pair], values: Values, random: np.random.Generator, found: list[Judgement]) -> None:
    """Runs pairs in one session; halves them when ONNX Runtime refuses, down to the one that it does not take."""
    if not pairs:
        return
    whole = {id(p.instance): p.instance for p in pairs}
    nodes = {v: n for p in pairs for v, n in (*p.instance.nodes.items(), *p.nodes.items())}
    inputs = [v for i in whole.values() for v in (*i.feeds, *i.weights)]
    outputs = [v for p in pairs for v in (*p.instance.left, *p.right, *p.risky(), *p.partial())]
    try:
        session = compiled(nodes, inputs, outputs, values)
        results = [_results(session, list(whole.values()), kind, random) for kind in SETS]
    except NotRun:
        if len(pairs) > 1:
            middle = len(pairs) // 2
            _run(pairs[:middle], values, random, found)
            _run(pairs[middle:], values, random, found)
        else:
            found[pairs[0].case].void += 1
        return
    for pair in pairs:
        _compare(pair, results, found[pair.case])


@dataclass(slots=True)
class _Results:
    """Inputs and outputs of a session, and on demand what inputs that are nearly the same make of the outputs."""

    session: Compiled
    feeds: Mapping[int, Array]
    outputs: Mapping[int, Array] = field(init=False)
    shaken: Mapping[int, Array] | None = None

    def __post_init__(self) -> None:
        self.outputs = self.session.run(self.feeds)

    def rounding(self, value: int) -> float:
        """How far rounding may move an output: as far as a relative change of the inputs by `_SHAKE` moves it."""
        if self.shaken is None:
            random = np.random.default_rng(0)
            self.shaken = self.session.run({v: _shaken(a, random) for v, a in self.feeds.items()})
        return difference(self.outputs[value], self.shaken[value])


def _shaken(array: Array, random: np.random.Generator) -> Array:
    if array.dtype != np.float32:
        return array
    return np.asarray(array * (1 + _SHAKE * random.choice([-1.0, 1.0], array.shape)), dtype=np.float32)


def _results(session: Compiled, whole: Sequence[Instance], kind: str, random: np.random.Generator) -> _Results:
    return _Results(session, {v: a for i in whole for v, a in arrays(i, kind, random).items()})


def _compare(pair: _Pair, results: Sequence[_Results], judgement: Judgement) -> None:
    """Puts the largest difference into the judgement; where the left side is not defined nothing is compared."""
    values, compared = pair.instance.values, False
    for result in results:
        outputs = result.outputs
        if not _finite(outputs, pair.risky()):
            continue
        defined = _finite(outputs, pair.partial())
        for a, b in zip(pair.instance.left, pair.right, strict=True):
            left, right = outputs[a], outputs[b]
            if left.shape != values.types[a].shape or right.shape != values.types[b].shape:
                judgement.void += 1
                return
            if left.size == 0 or not np.isfinite(left).all():
                continue
            compared = True
            gap = difference(left, right) if defined else float("inf")
            judgement.gap = max(judgement.gap, gap)
            if gap > _CLEAR or (gap > TOLERANCE and gap > result.rounding(a)):
                text = described(pair.instance, result.feeds, left, right)
                _put(judgement.differences, pair.rule, pair.instance, pair.builder, text)
    judgement.typed += compared


def _put(found: dict[str, Against], rule: Rule, instance: Instance, builder: Builder, text: str) -> None:
    """Keeps an instance against a law under its signature."""
    typed = typing(rule, instance, builder)
    site = plain_site(site_of(rule, typed, instance.binding))
    put(found, typed.signature(), Against(*extent(instance, [*builder.nodes]), text, site))


def _finite(outputs: Mapping[int, Array], ids: Sequence[int]) -> bool:
    return all(bool(np.isfinite(outputs[v]).all()) for v in ids)


def difference(left: Array, right: Array) -> float:
    """max |left - right| relative to max |left|; infinite where right is not finite; left is."""
    if not np.isfinite(right).all():
        return float("inf")
    a, b = left.astype(np.float64), right.astype(np.float64)
    return float(np.max(np.abs(a - b)) / max(1.0, float(np.max(np.abs(a)))))


def described(instance: Instance, feeds: Mapping[int, Array], left: Array, right: Array) -> str:
    """An instance in words: sizes, attributes, inputs and one element at which the sides differ."""
    binding = instance.binding
    names = {**binding.names, **{f"*{k}": list(v) for k, v in binding.blocks.items()}}
    tensors = [f"{n}{list(feeds[v].shape)}={_short(feeds[v])}" for n, v in sorted(binding.tensors.items())]
    with np.errstate(invalid="ignore"):
        gap = np.abs(left.astype(np.float64) - right.astype(np.float64))
    at = np.unravel_index(int(np.argmax(np.where(np.isnan(gap), np.inf, gap))), left.shape)
    place = [int(i) for i in at]
    return f"{names}; {', '.join(tensors)}; at {place} left {left[at]:g}, right {right[at]:g}"


def _short(array: Array) -> str:
    flat = [f"{v:g}" for v in array.reshape(-1)[:6].astype(np.float64)]
    return "[" + " ".join(flat) + (" ..." if array.size > 6 else "") + "]"
