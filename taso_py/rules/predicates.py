"""Conditions on the values of constants, evaluated on the actual weights when a rule is matched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from taso_py.arrays import Array


@dataclass(frozen=True, slots=True)
class ValuePredicate:
    """A named test of constant arrays; ``sample`` draws an array that passes, for testing rules."""

    holds: Callable[..., bool]
    sample: Callable[[np.random.Generator, tuple[int, ...]], Array]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


PREDICATES: Mapping[str, ValuePredicate] = {
    "constant": ValuePredicate(lambda a: True, _normal),
    "number": ValuePredicate(lambda a: a.size == 1, _normal),
    "positive": ValuePredicate(lambda a: bool(np.all(a > 0)), lambda rng, s: rng.uniform(0.5, 2.0, s)),
    "nonnegative": ValuePredicate(lambda a: bool(np.all(a >= 0)), lambda rng, s: rng.uniform(0.0, 2.0, s)),
    "nonzero": ValuePredicate(lambda a: bool(np.all(a != 0)), lambda rng, s: rng.uniform(0.5, 2.0, s)),
    "true": ValuePredicate(lambda a: a.dtype == bool and bool(np.all(a)), lambda rng, s: np.ones(s, dtype=bool)),
    "false": ValuePredicate(lambda a: a.dtype == bool and not np.any(a), lambda rng, s: np.zeros(s, dtype=bool)),
}
"""Every predicate also demands that its tensors are constants that no caller can override."""
