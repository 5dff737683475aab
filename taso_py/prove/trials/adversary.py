"""Looking for an instance that contradicts a law, independently of whatever proved it.

Instances are drawn from the rule's text alone, with what is easily forgotten (`taso_py.prove.trials.extremes`), and
computed by the operators' meaning in float64.  Where the left side is defined the right side must be defined and
equal, element by element, up to what rounding can do to that very element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from functools import partial

import numpy as np
import numpy.typing as npt

from taso_py.arrays import Array
from taso_py.graph.table import Values
from taso_py.prove.trials.admission import FAILED, admitted, cost, small
from taso_py.prove.trials.dtypes import free_types
from taso_py.prove.trials.evaluation import DISTURBANCE, Evaluation
from taso_py.prove.trials.extremes import Extremes
from taso_py.prove.trials.marks import marks
from taso_py.prove.trials.runs import Drawn, Gap, Replay, Trial, gap
from taso_py.prove.trials.witness import seed_of
from taso_py.rules.instances import Instance, Manner, draw
from taso_py.rules.rule import Rule

Mask = npt.NDArray[np.bool_]

COUNT = 200
_DRAWS_A_SECOND = 2500
"""Draws that a slow machine makes in a second: the unit in which work is counted."""
_CLOSE = 1e-9
"""Relative errors that nobody looks at."""
_SPREADS = 4
_SAFETY = 64.0


class Kind(Enum):
    """What an instance says against a law."""

    TYPES = "types"
    """The right side cannot be built, or has another shape or element type."""
    LOST = "lost"
    """The right side is no finite number where the left side is one."""
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An instance at which the left side is defined and the right side is not, or is something else.

    ``left`` and ``right`` are the outputs, as ONNX Runtime computes them if it could be asked (``confirmed``), else by
    the operators' meaning; ``right`` is empty where it cannot be built (``why`` says why).
    """

    instance: Instance
    kind: Kind
    left: tuple[Array, ...]
    right: tuple[Array, ...]
    flipped: bool = False
    why: str = ""
    _: KW_ONLY
    confirmed: bool = False
    place: int = 0
    """The output that differs."""


@dataclass(slots=True)
class Adversary:
    """Instances of a law drawn to contradict it: the same ones for the same law and seed, whatever the machine's load.

    ``work`` bounds the draws, an instance that is computed counting as several.
    """

    rule: Rule
    seed: int
    work: float
    includes: Callable[[Instance], bool] | None = None
    drawn: int = 0
    """Instances that were computed."""
    random: np.random.Generator = field(init=False)
    manner: Manner = field(init=False)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        menus = partial(Extremes, marks=marks(self.rule))
        self.manner = Manner(menus, free_types, unbuilt=True)

    def instances(self, count: int) -> Iterator[tuple[Instance, bool]]:
        """At most ``count`` instances, and whether each is of the rule read from right to left."""
        directions = self.rule.directions()
        step = 0
        while self.drawn < count and self.work > 0:
            directed = directions[step % len(directions)]
            step += 1
            self.work -= 1
            found = draw(directed, self.random, Values(), 1, typed=False, manner=self.manner)
            if found is None or not small(found) or not admitted(found):
                continue
            if self.includes is not None and not self.includes(found):
                continue
            self.drawn += 1
            self.work -= cost(found)
            yield found, directed is not self.rule


def contradictions(
    rule: Rule,
    *,
    replay: Replay | None = None,
    count: int = COUNT,
    seconds: float = 1.0,
    seed: int = 0,
    includes: Callable[[Instance], bool] | None = None,
) -> Iterator[Contradiction]:
    """What contradicts a law among ``count`` instances that ``includes`` admits (None: all), as it is found.

    ``seconds`` stands for so much work on a slow machine; nothing depends on a clock.  With a ``replay`` values are
    ONNX Runtime's, and a difference that it does not see although it should is none.
    """
    adversary = Adversary(rule, seed ^ seed_of(rule), seconds * _DRAWS_A_SECOND, includes)
    for instance, flipped in adversary.instances(count):
        found = contradiction(instance, flipped=flipped)
        if found is not None and replay is not None and found.right:
            found = replayed(found, replay)
        if found is not None:
            yield found


def contradiction(instance: Instance, *, flipped: bool = False) -> Contradiction | None:
    """What one instance says against its law; None when the sides agree wherever the left one is defined."""
    exact = Evaluation(instance)
    try:
        left = _outputs(exact, instance.left)
    except FAILED:
        return None  # the left side has no value that the right side could differ from
    if not instance.right:
        return Contradiction(instance, Kind.TYPES, left, (), flipped, instance.refusal)
    types = instance.values.types
    for place, (a, b) in enumerate(zip(instance.left, instance.right, strict=True)):
        if types[a] != types[b]:
            return Contradiction(instance, Kind.TYPES, left, (), flipped, f"{types[a]} became {types[b]}", place=place)
    try:
        right = _outputs(exact, instance.right)
    except FAILED as error:
        return Contradiction(instance, Kind.TYPES, left, (), flipped, f"{type(error).__name__}: {error}")
    for place in range(len(left)):
        kind = _difference(exact, instance.left[place], instance.right[place])
        if kind is not None:
            return Contradiction(instance, kind, left, right, flipped, place=place)
    return None


def _outputs(evaluation: Evaluation, values: tuple[int, ...]) -> tuple[Array, ...]:
    found = []
    for v in values:
        type_ = evaluation.instance.values.types[v]
        with np.errstate(all="ignore"):
            found.append(evaluation.value(v).astype(type_.dtype))
    return tuple(found)


def _difference(exact: Evaluation, left: int, right: int) -> Kind | None:
    """How two values of one type differ where the left one is defined."""
    a, b = exact.value(left), exact.value(right)
    defined = exact.defined(left)
    if a.dtype.kind != "f":
        differs = defined & (a != b)
        return Kind.VALUES if differs.any() and (differs & _certain(exact, left, right)).any() else None
    finite = np.isfinite(b)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        suspect = defined & ~(finite & (apart <= _CLOSE * np.maximum(np.abs(a), np.abs(b))))
    if not suspect.any():
        return None
    suspect &= _certain(exact, left, right)
    if (suspect & ~finite).any() and not exact.overflowed(right):
        return Kind.LOST
    if not (suspect & finite).any():
        return None
    error = _spread(exact.instance, left, right)
    return Kind.VALUES if (suspect & finite & (apart > error)).any() else None


def _certain(exact: Evaluation, left: int, right: int) -> Mask:
    """Where the left side is defined in its own type too, and truth values do not hang on a rounding."""
    rounded = Evaluation(exact.instance, rounded=True)
    rounded.value(left)
    certain = rounded.defined(left)
    if exact.value(left).dtype.kind == "f":
        return certain
    for noisy in _disturbed(exact.instance):
        certain = certain & (noisy.value(left) == exact.value(left)) & (noisy.value(right) == exact.value(right))
    return certain


def _spread(instance: Instance, left: int, right: int) -> Array:
    """What rounding may do to each element of both sides, with a wide margin."""
    exact = Evaluation(instance)
    whole = np.zeros(np.shape(exact.value(left)))
    with np.errstate(all="ignore"):
        for noisy in _disturbed(instance):
            for value in (left, right):
                apart = np.abs(noisy.value(value) - exact.value(value))
                whole = np.maximum(whole, np.where(np.isnan(apart), np.inf, apart))
    return _SAFETY * whole


def rounding_explains(trial: Trial) -> bool:
    """Whether all that differs between two sides is no more than what their element types may have rounded."""
    outputs = zip(trial.instance.left, trial.instance.right, trial.left, trial.right, strict=True)
    return all(_explained(trial.instance, *output) for output in outputs)


def _explained(instance: Instance, left: int, right: int, a: Array, b: Array) -> bool:
    found = gap(a, b)
    if found < Gap.VALUES or a.dtype.kind != "f":
        return found < Gap.UNDEFINED
    try:
        error = _spread(instance, left, right) * (float(np.finfo(a.dtype).eps) / DISTURBANCE)
    except FAILED:
        return False
    both = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return bool(np.array_equal(np.isfinite(a), np.isfinite(b)) and (apart[both] <= error[both]).all())


def _disturbed(instance: Instance) -> Iterator[Evaluation]:
    """The instance with its roundings drawn a few times, each time to either side.

    A clamp shows what rounding does to one side only: drawn independently, it would hide all of some element's.
    """
    for number in range(_SPREADS):
        for mirrored in (False, True):
            yield Evaluation(instance, noise=np.random.default_rng(number), mirrored=mirrored)


def replayed(found: Contradiction, replay: Replay) -> Contradiction | None:
    """The contradiction with ONNX Runtime's values; None where it computes two equal sides.

    What ONNX Runtime cannot run stays as the operators' meaning has it.
    """
    trial: Trial | None = replay.trial(Drawn(found.instance, found.flipped))
    if trial is None:
        return found
    here, there = trial.left[found.place], trial.right[found.place]
    if gap(here, there) < Gap.ROUNDING and _visible(found):
        return None
    return Contradiction(
        found.instance, found.kind, trial.left, trial.right, found.flipped, found.why, confirmed=True, place=found.place
    )


def _visible(found: Contradiction) -> bool:
    """Whether the difference is large enough to be seen in the element type itself."""
    return gap(found.left[found.place], found.right[found.place]) >= Gap.LOST
