"""What a proof has to show, and by what it was shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from taso_py.prove.kernel.arithmetic import Context, Guard

Kind: TypeAlias = Literal["typing", "size", "definedness", "maximum", "equality"]
"""Equal types; sizes equal, or not negative; values defined; maxima of something; elements equal."""
FORM = "form"
"""Seen from how it is written: both are the same, or a sum of what is never negative."""
Z3 = "Z3"
"""No integers contradict it, says the solver."""


@dataclass(frozen=True, slots=True)
class Obligation:
    """One thing that was shown of one typing, under the names of the normal law.

    ``by`` is `FORM`, `Z3`, a condition of the rule, or names of `kernel.facts.FACTS`; of an equality it is one
    of the first two, with the facts by which both elements were brought into normal form.
    """

    kind: Kind
    what: str
    by: str


def implied(context: Context, wanted: Guard) -> str:
    """By what a guard follows from a context; empty when it is not known to."""
    if not context.implies(wanted):
        return ""
    return FORM if wanted.decided is True or context.evident(wanted) else Z3
