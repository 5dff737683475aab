"""Refuting a law: a random instance at which ONNX Runtime computes two different results, made small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.table import Values
from taso_py.graph.types import TensorType
from taso_py.prove.trials.adversary import rounding_explains
from taso_py.prove.trials.runs import (
    Drawn,
    Gap,
    Replay,
    Sampler,
    Trial,
    integral,
    leaves,
    literal_name,
    named,
    replaying,
    with_values,
)
from taso_py.prove.verdict import Counterexample
from taso_py.rules.build import Builder, NotBuildable, number_type
from taso_py.rules.element_types import DEFAULT
from taso_py.rules.instances import Instance
from taso_py.rules.rule import Rule
from taso_py.rules.term import Predicate, Scalar, Side, Term
from taso_py.rules.unify import Binding

ATTEMPTS = 180
_BATCH = 18
_EMPTY = 3
"""Batches without an instance to look at after which `differs` expects none."""
_RUNS = 80
"""Most runs that making a counterexample smaller may take."""
_SMALL = 40
"""Most elements that are tried one by one."""


def refute(
    rule: Rule,
    *,
    attempts: int = ATTEMPTS,
    seed: int = 0,
    replay: Replay | None = None,
    weakest: Gap = Gap.LOST,
    among: Callable[[Instance], bool] | None = None,
) -> Counterexample | None:
    """The smallest counterexample among ``attempts`` random instances; None when there is none.

    A difference counts from ``weakest`` on; ``among`` picks the instances that are looked at.
    """
    with replaying(replay) as run:
        found = _search(Sampler(rule, seed), attempts, run, weakest, among)
        return None if found is None else counterexample(_shrunk(found, run))


def differs(rule: Rule, *, seed: int, replay: Replay, among: Callable[[Instance], bool]) -> bool:
    """Whether `refute` would soon find something; nothing is made small, and what is rarely drawn is not waited for."""
    empty = 0
    for batch in _batches(Sampler(rule, seed, attempts=300), ATTEMPTS // 2, replay, among):
        if any(t.gap >= Gap.UNDEFINED and not rounding_explains(t) for t in batch):
            return True
        empty = 0 if batch else empty + 1
        if empty == _EMPTY:
            break
    return False


def _search(
    sampler: Sampler, attempts: int, replay: Replay, weakest: Gap, among: Callable[[Instance], bool] | None
) -> Trial | None:
    """The smallest of the strongest differences; one more batch is drawn after the first that shows one."""
    found: list[Trial] = []
    for batch in _batches(sampler, attempts, replay, among):
        last = bool(found)
        found += [t for t in batch if t.gap >= weakest and not rounding_explains(t)]
        if last:
            break
    return min(found, key=lambda t: (-t.gap, _extent(t.instance)), default=None)


def _batches(
    sampler: Sampler, attempts: int, replay: Replay, among: Callable[[Instance], bool] | None
) -> Iterator[list[Trial]]:
    """Trials of random instances until there were so many attempts, or none of a batch could be drawn."""
    for _ in range(0, attempts, _BATCH):
        drawn = [d for d in (sampler.draw() for _ in range(_BATCH)) if d is not None]
        yield replay.trials([d for d in drawn if among is None or among(d.instance)])
        if not drawn:
            return


def _extent(instance: Instance) -> tuple[int, float]:
    arrays = list(leaves(instance).values())
    return sum(a.size for a in arrays), float(sum(np.sum(np.abs(a.astype(np.float64))) for a in arrays))


def _shrunk(trial: Trial, replay: Replay) -> Trial:
    """The same difference with simpler values, run again in a session of its own."""
    best = replay.trial(Drawn(trial.instance, trial.flipped)) or trial
    runs = 0
    for simpler in _Simpler(best.instance).steps():
        if runs >= _RUNS:
            break
        if _same(candidate := simpler(best.instance), best.instance):
            continue
        runs += 1
        tried = replay.trial(Drawn(candidate, best.flipped))
        if tried is not None and tried.gap == trial.gap:
            best = tried
    return best


def _same(one: Instance, other: Instance) -> bool:
    arrays = leaves(other)
    return all(np.array_equal(a, arrays[v], equal_nan=a.dtype.kind == "f") for v, a in leaves(one).items())


@dataclass(frozen=True, slots=True)
class _Simpler:
    """Ways to make the elements of an instance simpler; constants with conditions stay as they are."""

    instance: Instance

    def steps(self) -> Iterator[Callable[[Instance], Instance]]:
        yield lambda i: integral(i, zeros=False)
        free = self._free()
        for value, array in free.items():
            for constant in (0, 1):
                yield _setting(value, np.full_like(array, constant))
        if sum(a.size for a in free.values()) > _SMALL:
            return
        for value, array in free.items():
            for place in np.ndindex(array.shape):
                for constant in (0, 1, -1) if array.dtype.kind == "f" else (0,):
                    yield _placing(value, place, constant)

    def _free(self) -> dict[int, Array]:
        tensors = self.instance.binding.tensors
        bound = {v for c in self.instance.rule.conditions if isinstance(c, Predicate) for v in c.variables}
        return {v: leaves(self.instance)[v] for name, v in sorted(tensors.items()) if name not in bound}


def _setting(value: int, array: Array) -> Callable[[Instance], Instance]:
    return lambda instance: with_values(instance, {value: array})


def _placing(value: int, place: tuple[int, ...], constant: int) -> Callable[[Instance], Instance]:
    def simpler(instance: Instance) -> Instance:
        array = leaves(instance)[value].copy()
        old = float(array[place])
        if abs(old) > abs(constant) or not old.is_integer():
            array[place] = constant
        return with_values(instance, {value: array})

    return simpler


def counterexample(trial: Trial) -> Counterexample:
    """A trial whose sides differ, in the rule's own words and direction."""
    place = trial.place
    sides = trial.left[place], trial.right[place]
    left, right = sides[::-1] if trial.flipped else sides
    return counterexample_at(trial.instance, left, right)


def counterexample_at(instance: Instance, left: Array, right: Array) -> Counterexample:
    """The instance as one at which the sides have these two results."""
    binding = instance.binding
    return Counterexample(dict(binding.names), named(instance), left, right, dict(binding.blocks))


def replayed(rule: Rule, found: Counterexample, replay: Replay | None = None) -> bool:
    """Whether both sides, built anew on the counterexample's shapes and values, differ once more."""
    with replaying(replay) as run:
        try:
            trial = run.trial(Drawn(_rebuilt(rule, found)))
        except NotBuildable:
            return False
        return trial is not None and trial.gap >= Gap.UNDEFINED


def _rebuilt(rule: Rule, found: Counterexample) -> Instance:
    """The instance that a counterexample describes; its tensors are run-time inputs, so that nothing is folded."""
    values, binding = Values(), Binding()
    binding.names, binding.blocks = dict(found.attributes), dict(found.blocks)
    ids = {name: values.new(TensorType(str(a.dtype), a.shape)) for name, a in found.inputs.items()}
    values.inputs.update(ids.values())
    variables = rule.left.variables() | rule.right.variables()
    binding.tensors = {name: v for name, v in ids.items() if name in variables}
    literals: dict[Term, int] = {
        t: ids[literal_name(t.value)] for t in _literals(rule.left) if literal_name(t.value) in ids
    }
    lefts = Builder(values, binding, rule.left, next((str(a.dtype) for a in found.inputs.values()), DEFAULT))
    lefts.done.update(literals)
    left = tuple(lefts.output(t) for t in rule.left.outputs)
    dtype = number_type(binding, values.types.__getitem__, values.types[left[0]].dtype)
    rights = Builder(values, binding, rule.right, dtype)
    right = tuple(rights.output(t) for t in rule.right.outputs)
    nodes = dict(sorted((lefts.nodes | rights.nodes).items()))
    feeds = {ids[name]: a for name, a in found.inputs.items()}
    return Instance(rule, binding, values, nodes, left, right, feeds=feeds, weights={})


def _literals(side: Side) -> Iterator[Scalar]:
    yield from (t for t in side.outputs if isinstance(t, Scalar))
    yield from (t for a in side.applications() for t in a.arguments if isinstance(t, Scalar))
