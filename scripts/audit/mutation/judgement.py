"""What the oracle says of a law, and which of its findings a proof speaks of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from taso_py.prove.typings.site import Site
from taso_py.rules.build import Builder
from taso_py.rules.coverage import Typing
from taso_py.rules.coverage import covered as covers
from taso_py.rules.instances import Instance
from taso_py.rules.rule import Rule

Truth: TypeAlias = Literal["different", "mistyped", "refused", "equal", "none"]

TOLERANCE = 1e-4
"""Of the largest element of the left side; below it lies the rounding of functions and quotients."""
_MOST_PATTERNS = 60


@dataclass(frozen=True, slots=True, order=True)
class Against:
    """An instance that speaks against a law: its most axes, its longest axis, and the instance in words."""

    rank: int
    size: int
    text: str
    site: Mapping[str, Any] | None = field(default=None, compare=False)
    """Its numbers of axes, axes and flags, as `plain_site` says them; None where its numbers are of several types."""


@dataclass(slots=True, kw_only=True)
class Judgement:
    """What the draws of a law say.

    ``typed`` counts those with equal types on both sides, ``mistyped`` those on which the right side has another
    type, ``refused`` those on which an operator of the right side cannot be applied, ``void`` those that ONNX
    Runtime does not take; ``gap`` is the largest relative difference.  ``differences`` and ``types`` have the
    smallest instance with different values, and with different types, for each way in which the left side is typed.
    """

    typed: int = 0
    mistyped: int = 0
    refused: int = 0
    void: int = 0
    gap: float = 0.0
    differences: dict[str, Against] = field(default_factory=dict)
    types: dict[str, Against] = field(default_factory=dict)

    @property
    def truth(self) -> Truth:
        """What the law is; ``none`` without an instance of equal types."""
        if self.differences:
            return "different"
        if not self.typed:
            return "none"
        return "mistyped" if self.mistyped else "refused" if self.refused else "equal"

    @property
    def example(self) -> str:
        """The smallest instance that shows a difference, of types when no values differ."""
        found = min((self.differences or self.types).values(), default=None)
        return "" if found is None else found.text

    def add(self, other: Judgement) -> None:
        """Takes up the draws of another judgement of the same law."""
        for name in ("typed", "mistyped", "refused", "void"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.gap = max(self.gap, other.gap)
        for mine, theirs in ((self.differences, other.differences), (self.types, other.types)):
            for key, against in theirs.items():
                put(mine, key, against)

    def plain(self) -> dict[str, Any]:
        """The judgement as JSON has it."""
        return {**asdict(self), "truth": self.truth, "example": self.example}

    @staticmethod
    def of(raw: Mapping[str, Any]) -> Judgement:
        """The judgement of `plain`."""
        counts = {n: raw[n] for n in ("typed", "mistyped", "refused", "void", "gap")}
        found = Judgement(**counts)
        for name in ("differences", "types"):
            getattr(found, name).update({k: Against(**a) for k, a in raw[name].items()})
        return found


def put(found: dict[str, Against], key: str, against: Against) -> None:
    """Keeps the smallest instance of each kind."""
    if key in found or len(found) < _MOST_PATTERNS:
        found[key] = min(against, found.get(key, against))


def covered(against: Mapping[str, Mapping[str, Any]], proof: Mapping[str, Any]) -> str:
    """The smallest instance that a proof speaks of, in words; empty when there is none.

    A match is accepted by its signature alone, however many axes it has; a proof may also speak of small sizes only.
    """
    limit, patterns = proof.get("limit"), proof.get("patterns")
    found = [
        Against(**a) for key, a in against.items() if (limit is None or a["size"] <= limit) and covers(patterns, key)
    ]
    return min(found).text if found else ""


def typing(rule: Rule, instance: Instance, right: Builder) -> Typing:
    """How both sides of a directed rule are typed at an instance; ``right`` has built the right side there."""
    outputs = tuple(zip(instance.left, map(right.output, rule.right.outputs), strict=True))
    types = instance.values.types.__getitem__
    return Typing(
        rule, instance.placed, right.placed(), instance.binding.tensors, outputs, types,
        blocks=instance.binding.block_ranks(),
    )  # fmt: skip


def plain_site(site: Site | None) -> dict[str, Any] | None:
    """A site as JSON has it."""
    return None if site is None else asdict(site)


def site_of_plain(raw: Mapping[str, Any]) -> Site:
    """The site of `plain_site`, whose tuples JSON has made lists."""
    ones = {name: tuple(flags) for name, flags in raw["ones"].items()}
    names = {name: tuple(v) if isinstance(v, list) else v for name, v in raw["names"].items()}
    return Site(ones, raw["blocks"], names, raw.get("lengths", {}), raw["dtype"])


def extent(instance: Instance, ids: Sequence[int]) -> tuple[int, int]:
    """The most axes of these values and of all that an instance computes, and their longest axis."""
    types = instance.values.types
    shapes = [types[v].dims for v in {*ids, *instance.nodes, *instance.binding.tensors.values()}]
    return max(map(len, shapes)), max((d for s in shapes for d in s if isinstance(d, int)), default=0)
