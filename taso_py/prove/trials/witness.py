"""A witness of a rule: an instance, run in ONNX Runtime, that shows that the rule speaks of something.

Its free sizes should be pairwise different and at least 2: a law about sizes that are all alike says too little.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taso_py.prove.trials.runs import Drawn, Gap, Replay, Sampler, Trial, leaves, named, replaying
from taso_py.rules.alpha import normal_text
from taso_py.rules.instances import Instance
from taso_py.rules.printer import stated
from taso_py.rules.rule import Rule, axis_names
from taso_py.rules.term import Block

DRAWS = 24
_BATCHES = 4


@dataclass(frozen=True, slots=True)
class Survey:
    """Random instances of a rule whose sides have equal types, run; ``drawn`` counts those that there were."""

    trials: tuple[Trial, ...]
    drawn: int
    attempts: int = 0
    """How often an instance was tried to draw."""

    @property
    def undrawn(self) -> bool:
        """Whether no instance was drawn at all."""
        return self.drawn == 0

    @property
    def contradictions(self) -> tuple[Trial, ...]:
        """Instances at which the left side is defined and the right side is something else."""
        return tuple(t for t in self.trials if t.gap >= Gap.LOST)

    @property
    def witness(self) -> Trial | None:
        """The most general instance on which both sides agree."""
        agreeing = [t for t in self.trials if t.agrees]
        demands = [_demands(free_sizes(t.instance)) for t in agreeing]
        possible = {demand for met, _ in demands for demand in met}
        # What is declared goes first: tensors without a declaration have sizes enough that may be alike.
        declared = [len(_demands(free_sizes(t.instance)[:1])[1] & possible) for t in agreeing]
        ranked = [(declared[k], len(missed & possible), -len(met), k) for k, (met, missed) in enumerate(demands)]
        return agreeing[min(ranked)[-1]] if ranked else None

    @property
    def general(self) -> bool:
        """Whether the declared sizes of the witness are pairwise different and at least 2."""
        witness = self.witness
        return witness is not None and not _demands(free_sizes(witness.instance)[:1])[1]


def survey(rule: Rule, replay: Replay, draws: int = DRAWS) -> Survey:
    """Draws instances of a rule and runs them; the same ones every time.

    So many more are drawn, at most `_BATCHES` times, while the witness has free sizes that are equal or below 2.
    """
    sampler = Sampler(rule, seed_of(rule), typed=True)
    found = Survey((), 0)
    for _ in range(_BATCHES):
        drawn: list[Drawn] = []
        for k in range(draws):
            instance = sampler.draw()
            if instance is None and k >= 1 and not drawn:
                break  # both directions were tried
            drawn += [instance] if instance is not None else []
        trials = (*found.trials, *replay.trials(drawn))
        found = Survey(trials, found.drawn + len(drawn), sampler.count * sampler.attempts)
        if not drawn or found.general:
            break
    return found


def witness(rule: Rule, *, replay: Replay | None = None) -> Trial | None:
    """An instance on which both sides agree, its free sizes different and at least 2 wherever the rule allows."""
    with replaying(replay) as run:
        return survey(rule, run).witness


def seed_of(rule: Rule) -> int:
    """A seed that depends on the law alone."""
    return zlib.crc32(normal_text(rule).encode())


def free_sizes(instance: Instance) -> list[dict[str, int]]:
    """Sizes that the rule leaves free, in groups within which they should differ.

    The first group has the declared sizes and the axes of blocks; every tensor without a declaration is one more.
    """
    rule, binding = instance.rule, instance.binding
    declared: dict[str, int] = {}
    for declaration in rule.declarations:
        for axis in declaration.axes:
            declared |= {n: binding.names[n] for n in axis_names(axis) if isinstance(binding.names.get(n), int)}
            if isinstance(axis, Block) and not axis.broadcast:
                sizes = binding.blocks.get(axis.name, ())
                declared |= {f"{axis.name}.{k}": d for k, d in enumerate(sizes) if isinstance(d, int)}
    known = {d.variable for d in rule.declarations}
    arrays = leaves(instance)
    others = [
        {f"{name}[{k}]": d for k, d in enumerate(arrays[v].shape)}
        for name, v in sorted(binding.tensors.items())
        if name not in known and v in arrays
    ]
    return [declared, *others]


def _demands(groups: Sequence[Mapping[str, int]]) -> tuple[set[str], set[str]]:
    """What is wished of the free sizes of an instance, in groups: what it meets and what it misses."""
    met: set[str] = set()
    missed: set[str] = set()
    for group in groups:
        for name, size in group.items():
            (met if size >= 2 else missed).add(name)
        for (one, a), (other, b) in itertools.combinations(sorted(group.items()), 2):
            (met if a != b else missed).add(f"{one} != {other}")
    return met, missed


def summary(instance: Instance) -> str:
    """Shapes and attributes in one line: ``w[3, 4], x[2, 3]; k=3, m=2``."""
    shapes = ", ".join(f"{name}{list(a.shape)}" for name, a in sorted(named(instance).items()))
    binding = instance.binding
    names = ", ".join(f"{k}={_plain(v)}" for k, v in stated(binding.names, binding.blocks))
    return f"{shapes}; {names}" if names else shapes


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def smallest(trials: Sequence[Trial], count: int) -> list[Trial]:
    """Some of the smaller instances on which both sides agree."""
    agreeing = [t for t in trials if t.agrees]
    return sorted(agreeing, key=lambda t: sum(a.size for a in leaves(t.instance).values()))[:count]
