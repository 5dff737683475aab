"""Laws that hold for real numbers and whose right side overflows float32 where the left side does not.

A proof is about real numbers.  ``Softmax(x)`` is ``Exp(x) / ReduceSum(Exp(x))``, but at 100 one is a number and the
other NaN.  `overflow` looks for that, apart from any proof and any normal form, on some random instances of each
direction of a rule, with inputs as large as each of `MAGNITUDES`:

1. *Bounds.*  With every free input in [-M, M] ([1/M, M] where the left side divides by it or takes its root or
   logarithm, or where a condition asks for it), M the largest magnitude, each value of the right side is bounded by
   interval arithmetic.  Where all bounds stay below half of float32's largest number nothing overflows at any of the
   magnitudes, and the instance says nothing against the rule.
2. *Samples.*  Else both sides are computed on inputs of each magnitude, the smallest first, every operator's result
   rounded to float32.  The rule is flagged when each value of the left side stays finite and below `MODERATE` while
   one of the right side does not stay finite and the result shows it: it is NaN or infinite, or not a digit is right.

What is claimed.  A flag is a sample that shows the overflow, never a bound alone.  No flag means that none was seen:
where the bounds exclude it (`Finding.excluded`), for all inputs of these magnitudes, but only at the sizes, attributes
and literals of the instances that were drawn; else at the samples.  An infinity that does not reach the result
(``1 / Exp(-x)``) is no flag; neither are cancellation, other element types than float32, overflow within one composite
operator (each is taken to be computed with care), and magnitudes beyond those tested.  Constants may have any value
that their conditions admit; nothing is folded, so that values of constants overflow like others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.table import Node, Values
from taso_py.ops.numeric import evaluate
from taso_py.prove.trials.intervals import Bounds, bounds
from taso_py.prove.trials.runs import OPSET, leaves, with_values
from taso_py.rules.alpha import normal_text
from taso_py.rules.instances import Instance, draw
from taso_py.rules.menus import array_kind
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rule import Rule
from taso_py.rules.term import Predicate, Variable

MAGNITUDES = (1.0, 10.0, 100.0, 1e3, 1e4)
"""The largest absolute value of an input."""
MODERATE = 1e30
"""What a value of the left side stays below: nearer to the limit any order of the factors may pass it."""
LARGEST = float(np.finfo(np.float32).max)
DRAWS, ATTEMPTS = 4, 3000
"""Instances of each direction, and attempts to draw one."""
ROUNDS = 3
"""How often inputs are drawn in each way at each magnitude."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """At ``magnitude`` the operator of the right side overflows; ``flipped``: the law is read from right to left."""

    magnitude: float
    operator: str
    flipped: bool = False

    def __str__(self) -> str:
        way = "read from right to left, " if self.flipped else ""
        side = "left" if self.flipped else "right"
        return f"{way}{self.operator} of the {side} side leaves the range of float32 at inputs of {self.magnitude:g}"


@dataclass(frozen=True, slots=True)
class OverflowFinding:
    """What was seen of a rule: ``drawn`` instances, of which the bounds ``excluded`` an overflow."""

    overflow: Overflow | None
    drawn: int
    excluded: int


def overflow(rule: Rule) -> str | None:
    """Which operator of the right side overflows float32, and at which magnitude, where the left side does not.

    None when nothing was seen; the same answer every time, whatever the rule is called.
    """
    found = looked_at(rule).overflow
    return None if found is None else str(found)


def looked_at(rule: Rule, draws: int = DRAWS) -> OverflowFinding:
    """`overflow` with what it rests on."""
    random, values = np.random.default_rng(zlib.crc32(normal_text(rule).encode())), Values()
    drawn = excluded = 0
    for directed in rule.directions():
        flipped = directed.left != rule.left
        for _ in range(draws):
            instance = draw(directed, random, values, ATTEMPTS)
            if instance is None:
                break
            drawn += 1
            if cannot_overflow(instance):
                excluded += 1
                continue
            shown = _shown(instance, random, flipped)
            if shown is not None:
                return OverflowFinding(shown, drawn, excluded)
    return OverflowFinding(None, drawn, excluded)


def cannot_overflow(instance: Instance) -> bool:
    """Whether bounds keep every value of the right side finite for all inputs of the largest magnitude."""
    known = {v: _range(instance, v, a) for v, a in leaves(instance).items()}
    for value, node in _order(instance, instance.right):
        types = [instance.values.types[i] for i in node.inputs if i is not None]
        found = bounds(node.operator, [known[i] for i in node.inputs if i is not None], types)
        if not found.within(LARGEST / 2):
            return False
        known[value] = found
    return True


def _range(instance: Instance, value: int, array: Array) -> Bounds:
    """[-M, M], or the part of it that the conditions admit; what is no free number is known."""
    if not _free(instance, value, array):
        return Bounds.point(array)
    high = MAGNITUDES[-1]
    options = (1 / high,) if value in _away_from_zero(instance) else (-high, 0.0, 1 / high)
    least = next(x for x in (*options, high) if _admitted(instance, value, np.full(array.shape, x)))
    return Bounds(np.full(array.shape, least), np.full(array.shape, high))


def _away_from_zero(instance: Instance) -> set[int]:
    """Divisors, and operands of roots and logarithms, of the left side: positive ones stand for all that is defined."""
    left = instance.rule.left
    placed = ((a.operator, k, left.resolve(t)) for a in left.applications() for k, t in enumerate(a.arguments))
    named = {t.name for operator, k, t in placed if isinstance(t, Variable) and array_kind(operator, k)}
    return {v for name, v in instance.binding.tensors.items() if name in named}


def _free(instance: Instance, value: int, array: Array) -> bool:
    """Whether it is a tensor of numbers with a name, not a literal of the law, and may be as large as is wanted."""
    named = value in instance.binding.tensors.values()
    return named and array.dtype.kind == "f" and _admitted(instance, value, np.full(array.shape, MAGNITUDES[-1]))


def _admitted(instance: Instance, value: int, array: Array) -> bool:
    names = {name for name, v in instance.binding.tensors.items() if v == value}
    conditions = [c for c in instance.rule.conditions if isinstance(c, Predicate) and names & set(c.variables)]
    return all(PREDICATES[c.kind].holds(array, *c.arguments) for c in conditions)


def _order(instance: Instance, outputs: Sequence[int]) -> list[tuple[int, Node]]:
    return list(instance.model(outputs, OPSET).order())


def _shown(instance: Instance, random: np.random.Generator, flipped: bool) -> Overflow | None:
    """The first sample at which the right side overflows and the left side does not."""
    left, right = _order(instance, instance.left), _order(instance, instance.right)
    for magnitude in MAGNITUDES:
        for sample in _samples(instance, magnitude, random):
            known = leaves(sample)
            ours = _computed(instance, left, known)
            if not all(_moderate(a) for a in ours.values()):
                continue
            theirs = _computed(instance, right, known)
            place = next((n for v, n in right if not _finite(theirs[v])), None)
            if place is not None and any(map(_lost, _of(ours, instance.left), _of(theirs, instance.right))):
                return Overflow(magnitude, place.operator.onnx, flipped)
    return None


def _of(computed: Mapping[int, Array], outputs: Sequence[int]) -> list[Array]:
    return [computed[v] for v in outputs]


def _computed(instance: Instance, order: Sequence[tuple[int, Node]], known: Mapping[int, Array]) -> dict[int, Array]:
    """Every value of a side, rounded to its own type operator by operator."""
    done = dict(known)
    for value, node in order:
        inputs = [i for i in node.inputs if i is not None]
        types = [instance.values.types[i] for i in inputs]
        with np.errstate(all="ignore"):
            exact = evaluate(node.operator, [_wide(done[i]) for i in inputs], types)
            done[value] = exact.astype(instance.values.types[value].dtype)
    return done


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _moderate(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.all(np.abs(array) <= MODERATE))


def _lost(left: Array, right: Array) -> bool:
    """Whether an element of the right side is no number, or not a digit of it is right."""
    if left.dtype.kind != "f":
        return bool(np.any(left != right))
    a, b = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(a), max(1e-3 * float(np.max(np.abs(a), initial=0.0)), 1 / MODERATE))
        wrong = np.abs(a - b) > 0.5 * scale
    return bool(np.any(~np.isfinite(b) | wrong))


def _samples(instance: Instance, magnitude: float, random: np.random.Generator) -> Iterator[Instance]:
    """The instance with inputs of a magnitude, drawn in several ways; values that conditions refuse stay."""
    free = {v: a for v, a in sorted(leaves(instance).items()) if _free(instance, v, a)}
    for _ in range(ROUNDS):
        for way in range(_WAYS):
            drawn = {v: _drawn(a, magnitude, way, random).astype(a.dtype) for v, a in free.items()}
            yield with_values(instance, {v: a for v, a in drawn.items() if _admitted(instance, v, a)})


_WAYS = 5


def _drawn(array: Array, magnitude: float, way: int, random: np.random.Generator) -> Array:
    """One input: as drawn but larger, anything, positive of any size, one value throughout, or any of these."""
    match way:
        case 0:
            return np.asarray(array * (magnitude / max(float(np.max(np.abs(array), initial=0.0)), 1e-3)))
        case 1:
            return random.uniform(-magnitude, magnitude, array.shape)
        case 2:
            return np.asarray(np.exp(np.log(magnitude) * random.uniform(-1, 1, array.shape)))
        case 3:
            return np.full(array.shape, random.choice((magnitude, -magnitude, 1 / magnitude)))
        case _:
            return _drawn(array, float(random.choice((1.0, magnitude))), int(random.integers(4)), random)
