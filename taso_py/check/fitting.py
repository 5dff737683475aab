"""Sizes and inputs that a model runs with, found by trial where those that were made up for it are refused.

A model whose input is a shape, a number of parts or an axis takes few of the values that its type allows, and often
what decides lies far below.  So the run tells: a change of one size or one input above the node that failed is kept
where the model runs then, or fails further down.  The tries are counted: the same model gets the same sizes anywhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any, Literal, TypeAlias

import numpy as np

from taso_py.backend.client import Worker
from taso_py.backend.protocol import CPU, ModelRef
from taso_py.check.facts import InputSpec, ModelFacts
from taso_py.check.inputs import is_discrete, make_feeds, operand_shape
from taso_py.check.proposals import LONGEST, common_sizes, other_shapes, other_sizes, other_values, scaled
from taso_py.check.roles import Role
from taso_py.check.shapes import Assignment, Shape, resolve_shapes, symbols_of
from taso_py.check.traced import Failure, Traced
from taso_py.errors import ModelError, UsageError, WorkerError

TRIES = 600
"""Runs of one model, at most."""
_TRY_S, FIT_S = 10.0, 60.0
"""What one run and all of them may take: who needs that long has no sizes that nobody chose."""
_DEATHS = 3
"""Workers that may die of it."""
_FEW = 8
"""Proposals for one input before another one is looked at."""
_PAIRED = 10
"""Proposals of each of two inputs that are tried together."""
_LARGE, _MUCH = 2**17, 4
"""Elements of all inputs together, and times as many as now: larger inputs are tried last."""
_SMALL = 16
"""Sizes below this are not made smaller."""
_NOTHING = Role("chosen", None, (), {})


@dataclass(frozen=True, slots=True)
class Fit:
    """Inputs as a model takes them."""

    inputs: tuple[InputSpec, ...]
    sizes: Mapping[str, int]
    """Of symbols for which nobody chose any; the default ones where one is absent."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Another size of a symbol, other values of an input, or a shape of one whose rank nobody states."""

    of: Literal["symbol", "input", "rank"]
    name: str
    value: Any = None


_Step: TypeAlias = tuple[Fit, Failure | None]
_Kind: TypeAlias = tuple[int | None, str]


def fitted(
    worker: Worker,
    original: ModelRef,
    facts: ModelFacts,
    given: Mapping[str, Shape],
    overrides: Mapping[str, Any],
    *,
    seed: int,
    seconds: float = FIT_S,
) -> Fit | None:
    """Inputs that the model runs with, ``given`` sizes and ``overrides`` kept; None where none were found."""
    traced = Traced.of(original)
    if traced is None:
        return None
    try:
        handle = worker.open(traced.ref, level="disable", ep=CPU)
    except (ModelError, WorkerError):
        return None
    try:
        return _Trials(worker, handle, traced, given, overrides, seed=seed, seconds=seconds).run(facts.inputs)
    finally:
        worker.close(handle)


def fitted_instead(
    worker: Worker,
    original: ModelRef,
    facts: ModelFacts,
    given: Mapping[str, Shape],
    overrides: Mapping[str, Any],
    *,
    seed: int,
) -> Fit | None:
    """As `fitted`, where the model failed: None also where the inputs made up first are not what it refuses."""
    fit = fitted(worker, original, facts, given, overrides, seed=seed)
    if fit is None:
        return None
    first = resolve_shapes(facts.inputs, given)
    same = fit.inputs == facts.inputs and resolve_shapes(fit.inputs, given, fit.sizes).shapes == first.shapes
    return None if same else fit


class _Trials:
    """The search for one model."""

    def __init__(
        self,
        worker: Worker,
        handle: int,
        traced: Traced,
        given: Mapping[str, Shape],
        overrides: Mapping[str, Any],
        *,
        seed: int,
        seconds: float,
    ) -> None:
        self.worker, self.handle, self.traced = worker, handle, traced
        self.given, self.overrides, self.seed = given, overrides, seed
        self.left, self.deaths = TRIES, _DEATHS
        self.until = time.monotonic() + seconds

    def run(self, inputs: tuple[InputSpec, ...]) -> Fit | None:
        """From node to node, until the model runs or nothing helps."""
        fit = Fit(inputs, self._assigned(inputs, {}).sizes)
        failure = self._try(fit)
        if failure is None:
            return fit
        smaller = self._smaller(fit)
        if smaller is not None:
            again = self._try(smaller)
            if again is not None and again.kind[0] == failure.kind[0]:  # where it fails then says as much, and sooner
                fit, failure = smaller, again
        return self._search(fit, failure, frozenset(), 0)

    def _smaller(self, fit: Fit) -> Fit | None:
        """With inputs that take little time to make, to hand over and to compute with; None where they are so."""
        free = set(fit.sizes) - self._fixed(fit.inputs)
        sizes = dict(fit.sizes)
        try:
            while self._elements(fit.inputs, sizes) > _LARGE:
                largest = max((sizes[symbol] for symbol in free), default=0)
                if largest < _SMALL:
                    return None
                sizes.update((symbol, largest // 2) for symbol in free if sizes[symbol] == largest)
        except UsageError:
            return None
        return None if sizes == fit.sizes else Fit(fit.inputs, sizes)

    def _elements(self, inputs: Sequence[InputSpec], sizes: Mapping[str, int]) -> int:
        """Of all inputs together; UsageError where one has no such sizes."""
        return sum(math.prod(shape) for shape in self._assigned(inputs, sizes).shapes.values())

    def _fixed(self, inputs: Sequence[InputSpec]) -> set[str]:
        """Symbols whose sizes are given."""
        specs = {spec.name: spec for spec in inputs}
        said = [*self.overrides, *(name for name in self.given if name in specs)]
        return {symbol for name in said for symbol in symbols_of(specs[name])} | set(self.given)

    def _search(self, fit: Fit, failure: Failure, seen: frozenset[_Kind], keep: int) -> Fit | None:
        """What runs after further changes; the last ``keep`` tries are left to who asks."""
        seen |= {failure.kind}
        for changed, found in self._steps(fit, failure, seen, keep):
            if found is None:
                return changed
            ended = self._search(changed, found, seen, keep + (self.left - keep) // 2)
            if ended is not None:
                return ended
        return None

    def _steps(self, fit: Fit, failure: Failure, seen: Set[_Kind], keep: int) -> Iterator[_Step]:
        """Changes with which the model runs, or fails below; after some of them the first with which it fails anew."""
        above = self.traced.above(failure.node)[1] if failure.node is not None else set()
        deadly = set[tuple[str, str]]()
        for changes in self._changes(fit, failure):
            otherwise: _Step | None = None
            for several in changes:
                if self.left <= keep or self.deaths <= 0 or time.monotonic() > self.until:
                    return
                places, alive = {(change.of, change.name) for change in several}, self.deaths
                changed = None if places & deadly else self._changed(fit, several)
                if changed is None:
                    continue
                found = self._try(changed)
                if self.deaths < alive and len(places) == 1:
                    deadly |= places  # another value there would kill the next worker
                if found is None:
                    yield changed, None
                elif found.node is None or failure.node is None or found.node in above or found.kind in seen:
                    continue
                elif failure.node in self.traced.above(found.node)[1]:
                    yield changed, found
                else:
                    otherwise = otherwise or (changed, found)
            if otherwise is not None:
                yield otherwise

    def _try(self, fit: Fit) -> Failure | None:
        """None where the model runs."""
        self.left -= 1
        try:
            assignment = self._assigned(fit.inputs, fit.sizes)
            feeds = make_feeds(fit.inputs, assignment, seed=self.seed, overrides=self.overrides)
            self.worker.run(self.handle, feeds, timeout=min(_TRY_S, max(1.0, self.until - time.monotonic())))
        except (ModelError, UsageError) as error:
            return self.traced.failure(error)
        except WorkerError as error:
            self.deaths -= 1
            return Failure(str(error), None)
        return None

    def _assigned(self, inputs: Sequence[InputSpec], sizes: Mapping[str, int]) -> Assignment:
        return resolve_shapes(inputs, self.given, sizes)

    def _changed(self, fit: Fit, changes: Sequence[_Change]) -> Fit | None:
        """None where that contradicts what was given, or takes too much memory."""
        sizes, inputs = dict(fit.sizes), fit.inputs
        for change in changes:
            if change.of == "symbol":
                sizes[change.name] = change.value
            else:
                inputs = tuple(_with(spec, change) if spec.name == change.name else spec for spec in inputs)
        try:
            return None if self._assigned(inputs, sizes).shrunk else Fit(inputs, sizes)
        except UsageError:
            return None

    def _changes(self, fit: Fit, failure: Failure) -> Iterator[Iterator[Sequence[_Change]]]:
        """What was asked for; one change at a time, the likely ones first; one of several equal sizes; two changes."""
        places = self._places(fit, failure)
        yield self._asked(fit, places, failure)
        hints = self._hints(fit, failure)
        likely = [[replace(p, value=v) for v in self._proposed(p, fit, hints, failure.shapes())] for p in places]
        costly = {change for several in likely for change in several if self._is_costly(fit, change)}
        proposed = [sorted(several, key=costly.__contains__) for several in likely]
        few = (change for several in proposed for change in several[:_FEW] if change not in costly)
        dear = (change for several in likely for change in several[:_FEW] if change in costly)
        yield ((change,) for change in (*few, *dear) if not _says_little(change))
        yield self._common(fit, places, hints)
        rest = [change for several in proposed for change in several[_FEW:]]
        little = [change for several in proposed for change in several if _says_little(change)]
        yield ((change,) for change in (*(c for c in rest if not _says_little(c)), *little))
        yield (
            (first, second)
            for one, other in combinations(proposed[:5], 2)
            for first in (*one[:_PAIRED], *one[-1:])
            for second in (*other[:_PAIRED], *other[-1:])
        )

    def _is_costly(self, fit: Fit, change: _Change) -> bool:
        """Whether it makes large inputs much larger: a run then takes as long as all others together."""
        if change.of != "symbol":
            return False
        try:
            then = self._elements(fit.inputs, {**fit.sizes, change.name: change.value})
            return then > max(_LARGE, _MUCH * self._elements(fit.inputs, fit.sizes))
        except UsageError:
            return False

    def _asked(self, fit: Fit, places: Sequence[_Change], failure: Failure) -> Iterator[Sequence[_Change]]:
        """Where an input has a shape that was said, another one that was said."""
        free = {place.name: place for place in places if place.of == "symbol"}
        shapes = self._assigned(fit.inputs, fit.sizes).shapes
        for now, wanted in permutations(failure.shapes(), 2):
            for spec in (s for s in fit.inputs if s.dims is not None and shapes[s.name] == now != wanted):
                pairs = zip(spec.dims or (), wanted, strict=False)
                changes = {
                    d: replace(free[d], value=w) for d, w in pairs if isinstance(d, str) and d in free and w >= 0
                }
                if changes and len(now) == len(wanted):
                    yield list(changes.values())

    def _common(self, fit: Fit, places: Sequence[_Change], hints: list[int]) -> Iterator[Sequence[_Change]]:
        symbols = [place for place in places if place.of == "symbol"]
        for now in dict.fromkeys(fit.sizes[place.name] for place in symbols):
            alike = [place for place in symbols if fit.sizes[place.name] == now]
            if len(alike) > 1:
                for size in common_sizes(now, len(alike), hints):
                    yield [replace(place, value=size) for place in alike]

    def _hints(self, fit: Fit, failure: Failure) -> list[int]:
        """Numbers that have to do with the failure: what was said, and the sizes of what the node reads."""
        found = failure.numbers()
        if failure.node is None:
            return found
        node = self.traced.proto.graph.node[failure.node]
        try:
            feeds = make_feeds(
                fit.inputs, self._assigned(fit.inputs, fit.sizes), seed=self.seed, overrides=self.overrides
            )
        except UsageError:
            return found
        arrays = {**feeds, **self.traced.operands(self.worker, failure.node, feeds)}
        weights = {w.name: tuple(w.dims) for w in self.traced.proto.graph.initializer}
        for name in node.input:
            array = arrays.get(name)
            found += np.shape(array) if array is not None and not isinstance(array, list) else weights.get(name, ())
        return list(dict.fromkeys(found))

    def _places(self, fit: Fit, failure: Failure) -> list[_Change]:
        """What may be changed, the nearest to the failure first."""
        specs = {spec.name: spec for spec in fit.inputs}
        names = list(specs) if failure.node is None else self.traced.above(failure.node)[0]
        near = [specs[name] for name in names if name in specs]
        fixed = self._fixed(fit.inputs)
        found: list[_Change] = []
        for spec in near:
            found += [_Change("symbol", symbol) for symbol in symbols_of(spec) if symbol not in fixed]
            if spec.name in self.overrides or spec.kind != "tensor":
                continue
            if spec.dims is None and spec.name not in self.given:
                found.append(_Change("rank", spec.name))
            elif spec.role is not None or is_discrete(spec):
                found.append(_Change("input", spec.name))
        # Floats are free, unless some node takes them for sizes or indices in the end.
        free = (spec for spec in near if spec.name not in self.overrides and spec.kind == "tensor")
        found += [_Change("input", spec.name) for spec in free if spec.dims is not None]
        return list(dict.fromkeys(found))

    def _proposed(self, place: _Change, fit: Fit, hints: list[int], shapes: Sequence[Shape]) -> Sequence[Any]:
        if place.of == "rank":
            return other_shapes(hints)
        if place.of == "symbol":
            others = [size for name, size in fit.sizes.items() if name != place.name]
            now = fit.sizes[place.name]
            return other_sizes(now, [*scaled(now, shapes), *hints], list(dict.fromkeys(others))[:6])
        spec = next(s for s in fit.inputs if s.name == place.name)
        assignment = self._assigned(fit.inputs, fit.sizes)
        now = make_feeds([spec], assignment, seed=self.seed)[spec.name]
        if now.size == 0 or now.dtype.kind in "OSU":
            return ()
        if now.size > LONGEST or not (spec.role is not None or is_discrete(spec)):
            first = float(now.flat[0])
            moved = (first + a - b for a, b in permutations(hints[:6], 2)) if is_discrete(spec) else ()
            return [(float(number),) for number in dict.fromkeys((0, 1, *hints, *(-h for h in hints), *moved))]
        role = spec.role or _NOTHING
        data = operand_shape(role, assignment)
        return other_values(role.kind, tuple(map(float, now.reshape(-1))), data, hints)


def _says_little(change: _Change) -> bool:
    """A size of 1 fits everywhere and hides what the others are."""
    return change.of == "symbol" and change.value == 1


def _with(spec: InputSpec, change: _Change) -> InputSpec:
    if change.of == "rank":
        return replace(spec, dims=change.value)
    return replace(spec, role=replace(spec.role or _NOTHING, chosen=change.value))
