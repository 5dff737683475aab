"""What the prover says of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Proved:
    """Both sides have equal types and equal elements wherever the left side is defined.

    ``limit`` is None for all sizes, else the largest size of any axis up to which it was shown.  ``ranks`` is None
    for every number of axes, else the largest number of axes of any tensor of the rule.  ``method`` names how
    the elements were compared; ``cases`` counts the typings that were proved; ``facts`` are the names of the
    facts of `taso_py.prove.facts` that were used.
    """

    limit: int | None = None
    ranks: int | None = None
    method: str = ""
    cases: int = 0
    facts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """The ways of broadcasting that were proved (`taso_py.rules.coverage`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Counterexample:
    """An instance of the rule at which ONNX Runtime, its optimiser off, computes two different results.

    ``attributes`` are the rule's integer names and blocks, ``inputs`` the tensors by variable name; ``left`` and
    ``right`` are the outputs of the two sides where they differ.
    """

    attributes: Mapping[str, Any]
    inputs: Mapping[str, npt.NDArray[np.generic]]
    left: npt.NDArray[np.generic]
    right: npt.NDArray[np.generic]

    def __str__(self) -> str:
        shapes = ", ".join(f"{name}{list(a.shape)}" for name, a in sorted(self.inputs.items()))
        names = ", ".join(f"{k}={v}" for k, v in sorted(self.attributes.items()))
        return f"{shapes}{'; ' if names else ''}{names}"


@dataclass(frozen=True, slots=True)
class Refuted:
    """The law is false: the counterexample was replayed in ONNX Runtime."""

    counterexample: Counterexample


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither proved nor refuted, and why."""

    why: str


Verdict: TypeAlias = Proved | Refuted | Unknown
