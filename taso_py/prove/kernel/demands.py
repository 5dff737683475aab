"""What an element needs to be defined, where it is selected, and what may hide that it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from taso_py.graph.sizes import Size
from taso_py.prove.kernel.normal import Head, Sum, Term


@dataclass(frozen=True, slots=True)
class Chosen:
    """The branch of a Where that is taken where its condition is ``holds``."""

    condition: Sum
    holds: bool


@dataclass(frozen=True, slots=True)
class Among:
    """An element that may be a finite number although an operand of it is none: 1/∞, max(-∞, 0).

    Of one value of the graph one element may hide what another shows, so the index belongs to it.
    """

    value: int
    index: tuple[Size, ...]


NOWHERE = Among(-1, ())


@dataclass(frozen=True, slots=True)
class Demand:
    """What must be nonzero, positive or not negative for the element to be defined, where it is selected.

    ``place`` is a term of one factor, with the guards of its context, and all indices but the element's own bound.
    ``hidden`` are the elements that may be finite although the demand is not met; the bound variables of their
    indices are those of the place.  ``vanishing``: something is divided by the infinity: it is 0, as in the form.
    ``evident``: it is met, by how the operator that demands it is written.
    """

    which: str
    place: Term
    path: frozenset[Chosen] = frozenset()
    hidden: frozenset[Among] = frozenset()
    vanishing: bool = False
    evident: bool = False

    @property
    def head(self) -> Head:
        """What the demand is about."""
        return self.place.factors[0].head

    def beside(self, values: Sequence[int]) -> Term:
        """The place and, as further indices, those of the elements of ``values`` that may hide it."""
        (factor,) = self.place.factors
        indices = {a.value: a.index for a in self.hidden}
        wider = (i for v in values for i in indices[v])
        return replace(self.place, factors=(replace(factor, index=(*factor.index, *wider)),))
