"""Instances of a rule in ONNX Runtime, its optimiser off: the outputs of both sides, compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import TracebackType
from typing import Self

import numpy as np

from taso_py.arrays import Array
from taso_py.backend.client import Worker
from taso_py.backend.protocol import WorkerConfig
from taso_py.errors import ModelError, TypingError, WorkerError
from taso_py.graph.table import Values
from taso_py.onnx_io.fragment import fragment
from taso_py.rules.instances import Instance, draw
from taso_py.rules.rule import Rule
from taso_py.rules.term import Predicate

OPSET = 23
EQUAL, DIFFERENT = 1e-4, 1e-3
"""Errors of floats: below the first both sides agree, above the second they differ."""
_ATTEMPTS = 3000
_RUN_S = 60.0


class Gap(IntEnum):
    """How the outputs of two sides differ, the least telling difference first."""

    NONE = 0
    ROUNDING = 1
    UNDEFINED = 2
    """The left side is no finite number where the right side is one."""
    LOST = 3
    """The right side is no finite number where the left side is one."""
    TYPES = 4
    """Another shape or another element type."""
    VALUES = 5
    """Other numbers."""


def gap(left: Array, right: Array) -> Gap:
    """How ``right`` differs from ``left``."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return Gap.TYPES
    if left.dtype.kind != "f":
        return Gap.NONE if np.array_equal(left, right) else Gap.VALUES
    defined, other = np.isfinite(left), np.isfinite(right)
    both = defined & other
    error = _error(left[both], right[both])
    if error > DIFFERENT:
        return Gap.VALUES
    if np.any(defined & ~other):
        return Gap.LOST
    if np.any(other & ~defined):
        return Gap.UNDEFINED
    return Gap.ROUNDING if error > EQUAL else Gap.NONE


def _error(left: Array, right: Array) -> float:
    """Relative to the largest element; of short binary fractions, which no rounding made, each to itself."""
    if not left.size:
        return 0.0
    a, b = left.astype(np.float64), right.astype(np.float64)
    size = np.abs(a) if short(a) and short(b) else np.max(np.abs(a))
    return float(np.max(np.abs(a - b) / np.maximum(1.0, size)))


def short(array: Array) -> bool:
    """Whether every element is a binary fraction of few digits: products and small sums of such are exact."""
    scaled = np.asarray(array, dtype=np.float64) * 2.0**10
    return bool(np.all(np.isfinite(scaled)) and np.all(scaled == np.rint(scaled)) and np.all(abs(scaled) <= 2.0**24))


@dataclass(frozen=True, slots=True)
class Trial:
    """One instance with the outputs of both sides; ``flipped``: drawn for the rule read from right to left."""

    instance: Instance
    left: tuple[Array, ...]
    right: tuple[Array, ...]
    flipped: bool = False

    @property
    def gap(self) -> Gap:
        """The strongest difference between the outputs."""
        return max(gap(a, b) for a, b in zip(self.left, self.right, strict=True))

    @property
    def place(self) -> int:
        """The output that differs most."""
        gaps = [gap(a, b) for a, b in zip(self.left, self.right, strict=True)]
        return gaps.index(max(gaps))

    @property
    def agrees(self) -> bool:
        """Whether both sides are equal, and defined somewhere."""
        return self.gap is Gap.NONE and all(np.isfinite(a).any() for a in self.left)


@dataclass(frozen=True, slots=True)
class Drawn:
    """An instance of one direction of a rule."""

    instance: Instance
    flipped: bool = False


@dataclass(slots=True)
class Sampler:
    """Random instances of a rule, the same ones for the same seed; a law with two directions is drawn from both.

    Every third instance has normal values, every third small integers without zero, every third with zero.
    """

    rule: Rule
    seed: int
    typed: bool = False
    attempts: int = _ATTEMPTS
    """Draws for one instance."""
    values: Values = field(default_factory=Values)
    random: np.random.Generator = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def draw(self, *, both: bool = True) -> Drawn | None:
        """The next instance; None when no attempt gives one."""
        directions = self.rule.directions() if both else (self.rule,)
        directed = directions[self.count % len(directions)]
        style = self.count // len(directions) % 3
        self.count += 1
        found = draw(directed, self.random, self.values, self.attempts, typed=self.typed)
        if found is None:
            return None
        return Drawn(found if style == 0 else integral(found, zeros=style == 2), directed is not self.rule)


def integral(instance: Instance, *, zeros: bool) -> Instance:
    """The instance with small whole values; predicates still hold, and only ``zeros`` makes zeros."""
    bound = {v for c in instance.rule.conditions if isinstance(c, Predicate) for v in c.variables}
    plain = {v for name, v in instance.binding.tensors.items() if name not in bound} | set(instance.feeds)
    literals = set(instance.weights) - set(instance.binding.tensors.values())

    def whole(value: int, array: Array) -> Array:
        if array.dtype.kind != "f" or value in literals:
            return array
        if zeros and value in plain:
            return np.asarray(np.rint(2 * array.astype(np.float64)) + 0.0, dtype=array.dtype)
        return np.asarray(np.sign(array) * np.ceil(np.abs(array.astype(np.float64))), dtype=array.dtype)

    return with_values(instance, {v: whole(v, a) for v, a in leaves(instance).items()})


def leaves(instance: Instance) -> dict[int, Array]:
    """Inputs and constants of an instance by id."""
    return {**instance.feeds, **instance.weights}


def with_values(instance: Instance, arrays: Mapping[int, Array]) -> Instance:
    """The instance with other elements in its inputs and constants."""
    feeds = {v: arrays.get(v, a) for v, a in instance.feeds.items()}
    weights = {v: arrays.get(v, a) for v, a in instance.weights.items()}
    return replace(instance, feeds=feeds, weights=weights)


def named(instance: Instance) -> dict[str, Array]:
    """Inputs and constants by variable name; a literal operand by its text."""
    arrays = leaves(instance)
    names = {v: name for name, v in instance.binding.tensors.items()}
    return {names.get(v) or literal_name(float(np.ravel(a)[0])): a for v, a in sorted(arrays.items())}


def literal_name(value: float) -> str:
    """What a literal operand is called among the inputs of an instance."""
    return f"{value:g}"


@dataclass(slots=True)
class Replay:
    """Runs instances in a worker process; a context manager."""

    worker: Worker = field(default_factory=lambda: Worker(WorkerConfig(ort_level="disable"), timeout=_RUN_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.worker.stop()

    def trials(self, drawn: Sequence[Drawn]) -> list[Trial]:
        """The outputs of instances over one table of values; those that ONNX Runtime refuses are left out."""
        if not drawn:
            return []
        try:
            found = self._outputs([d.instance for d in drawn])
        except (ModelError, TypingError, WorkerError):
            # One instance that cannot be run must not cost the others.
            middle = len(drawn) // 2
            return [*self.trials(drawn[:middle]), *self.trials(drawn[middle:])] if middle else []
        return [_trial(d, found) for d in drawn]

    def trial(self, drawn: Drawn) -> Trial | None:
        """The outputs of one instance, in a session of its own."""
        return next(iter(self.trials([drawn])), None)

    def _outputs(self, instances: Sequence[Instance]) -> dict[int, Array]:
        nodes = {v: n for i in instances for v, n in i.nodes.items()}
        feeds = {v: a for i in instances for v, a in i.feeds.items()}
        weights = {v: a for i in instances for v, a in i.weights.items()}
        wanted = list(dict.fromkeys(v for i in instances for v in (*i.left, *i.right)))
        values = instances[0].values
        with np.errstate(all="ignore"):
            proto = fragment(sorted(nodes.items()), list(feeds), wanted, values, OPSET, weights=weights, fold=True)
        handle = self.worker.open(proto.SerializeToString())
        try:
            found = self.worker.run(handle, {f"v{v}": a for v, a in feeds.items()})
        finally:
            self.worker.close(handle)
        return dict(zip(wanted, found.values(), strict=True))


def _trial(drawn: Drawn, outputs: Mapping[int, Array]) -> Trial:
    instance = drawn.instance
    return Trial(
        instance,
        tuple(outputs[v] for v in instance.left),
        tuple(outputs[v] for v in instance.right),
        drawn.flipped,
    )


@contextmanager
def replaying(replay: Replay | None) -> Iterator[Replay]:
    """The replay that is given; without one a worker of one's own, ended at exit."""
    if replay is not None:
        yield replay
        return
    with Replay() as own:
        yield own
