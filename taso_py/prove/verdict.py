"""What the prover says of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from taso_py.graph.sizes import Size
from taso_py.prove.kernel.obligations import Obligation
from taso_py.rules.printer import stated
from taso_py.rules.term import Comparison


@dataclass(frozen=True, slots=True)
class Proved:
    """Both sides have equal types and equal elements wherever the left side is defined.

    ``limit`` is None for all sizes, else the largest size of any axis up to which it was shown.  ``ranks`` is None
    where every number of axes is covered, else the largest of any tensor of the rule that was proved.  ``method``
    names how the elements were compared; ``cases`` counts the typings that were proved; ``facts`` are the names of
    the facts of `taso_py.prove.kernel.facts` that were used.
    """

    limit: int | None = None
    ranks: int | None = None
    method: str = ""
    cases: int = 0
    facts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    """The typings that were proved (`taso_py.rules.coverage`); a match is an instance of one of them."""
    _: KW_ONLY
    types: tuple[str, ...] | None = None
    """The element types of numbers for which it holds; None for any."""
    obligations: tuple[tuple[str, tuple[Obligation, ...]], ...] = field(default=(), compare=False, repr=False)
    """What was shown of each typing, which its signature stands for; nothing of it is on record."""


@dataclass(frozen=True, slots=True, eq=False)
class Counterexample:
    """An instance of the rule at which ONNX Runtime, its optimiser off, computes two different results.

    ``attributes`` are the rule's sizes and attributes by name, ``blocks`` its blocks, ``inputs`` the tensors by
    variable name; ``left`` and ``right`` are the outputs of the two sides where they differ.
    """

    attributes: Mapping[str, Any]
    inputs: Mapping[str, npt.NDArray[np.generic]]
    left: npt.NDArray[np.generic]
    right: npt.NDArray[np.generic]
    blocks: Mapping[str, tuple[Size, ...]] = field(default_factory=dict)

    def stated(self) -> list[tuple[str, Any]]:
        """Its sizes, attributes and blocks as rules write them, in order."""
        return stated(self.attributes, self.blocks)

    def __str__(self) -> str:
        shapes = ", ".join(f"{name}{list(a.shape)}" for name, a in sorted(self.inputs.items()))
        names = ", ".join(f"{k}={v}" for k, v in self.stated())
        return f"{shapes}{'; ' if names else ''}{names}"


@dataclass(frozen=True, slots=True)
class Refuted:
    """The law is false: the counterexample was replayed in ONNX Runtime."""

    counterexample: Counterexample


class Reason(Enum):
    """Why nothing is known of a rule."""

    OPEN = "open"
    """The prover does not reach it."""
    CONTRADICTORY = "contradictory"
    """No instance of it exists: its declarations and conditions contradict each other."""
    UNTYPED = "untyped"
    """No way is known in which its left side is typed."""
    UNDRAWN = "undrawn"
    """No instance of it was drawn, although there may be some."""
    UNSEEN = "unseen"
    """It is proved, but both sides were seen to agree nowhere."""
    UNFINISHED = "unfinished"
    """The process that looked at it was lost."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither proved nor refuted, and why."""

    why: str
    reason: Reason = Reason.OPEN
    missing: Comparison | None = None
    """A condition, under the names of the normal law, without which the right side may not be defined."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A proof and an instance that its claim includes and that contradicts it: one of them is a bug of ours.

    ``difference`` says how the sides differ: types, lost (no finite number any more) or values.
    """

    proof: Proved
    counterexample: Counterexample
    difference: str
    why: str = ""


Verdict: TypeAlias = Proved | Refuted | Unknown | Disagreement
