"""Where the left side is defined, so must the right side be: element by element, along the paths that are selected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from taso_py.graph.sizes import Role, Size, Symbol, symbols
from taso_py.prove.kernel.arithmetic import Context, Guard, ordered
from taso_py.prove.kernel.attempt import Unprovable
from taso_py.prove.kernel.demands import Chosen, Demand
from taso_py.prove.kernel.facts import Functions
from taso_py.prove.kernel.maxima import natural
from taso_py.prove.kernel.normal import Term
from taso_py.prove.kernel.obligations import FORM, Z3, Obligation, implied
from taso_py.prove.kernel.places import Place, covered, located
from taso_py.prove.kernel.values import Elements, MaximumRange

_MEANT: Mapping[str, str] = {
    "nonzero": "{} must not be 0",
    "sqrt": "the argument of {} must not be negative",
    "log": "the argument of {} must be positive",
    "pow": "the base of {} must be positive, or its exponent a whole number",
}
"""Kind of demand -> what it is for a head, where the kind itself does not say it."""


@dataclass(frozen=True, slots=True)
class Definedness:
    """What the elements of a right side need, beside what those of the left side do.

    ``typing`` is what is known of the sizes, ``context`` also of the element; ``filled`` says which sizes are not 0
    at a match.
    """

    functions: Functions
    left: Elements
    right: Elements
    typing: Context
    context: Context
    filled: Sequence[Guard] = ()

    def obligations(self) -> list[Obligation]:
        """What was shown; `Unprovable` when something is not."""
        own = {b: e for b, e in self.context.bounds.items() if b.role is Role.INDEX}
        sizes = self.typing.and_([*self._not_zero(), *self.filled], own)
        found = [self._met(d, self.left.demands, sizes, "right") for d in dict.fromkeys(self.right.demands)]
        # Where the left side hides that a demand is not met, it is finite, but not what its form says: 1/0 < y.
        found += [self._met(d, (), sizes, "left") for d in dict.fromkeys(self.left.demands) if _may_mislead(d)]
        return list(dict.fromkeys([*found, *map(self._filled, self.right.windows)]))

    def everywhere(self) -> list[Obligation]:
        """What was shown of both sides, nothing of it from what the left side demands; `Unprovable` as above."""
        both = (("left", self.left), ("right", self.right))
        found = [self._met(d, (), self.typing, side) for side, e in both for d in dict.fromkeys(e.demands)]
        return list(dict.fromkeys([*found, *(self._has_element(w) for _, e in both for w in e.windows)]))

    def _has_element(self, w: MaximumRange) -> Obligation:
        """A maximum has an element, whatever else does."""
        by = [implied(w.context.and_(self.filled), Guard(e - 1, ">=")) for _, e in w.bound]
        if not w.checked and (w.guards or not all(by)):
            raise Unprovable("a maximum may be empty")
        return Obligation("maximum", _range(w), Z3 if Z3 in by else FORM)

    def _met(self, demand: Demand, known: Sequence[Demand], sizes: Context, side: str) -> Obligation:
        factor = demand.place.factors[0]
        there = self.context.and_([*self.filled, *ordered(demand.place.guards)], dict(demand.place.bound))
        by = FORM if demand.evident else self.functions.defined(demand.which, factor, there)
        by = by or _among(known, demand, sizes)
        if not by:
            meant = _MEANT.get(demand.which, f"{{}} must be {demand.which}").format(demand.head)
            hides = "may hide that it is not defined" if side == "left" else "may not be defined"
            raise Unprovable(f"the {side} side {hides}: {meant}")
        here = replace(factor, power=1)
        what = f"{here} != 0" if demand.which == "nonzero" else f"{here} is defined"
        return Obligation("definedness", what, by)

    def _filled(self, w: MaximumRange) -> Obligation:
        """A maximum on the right side has an element: one of the left side has the same range, or it is shown."""
        here = frozenset(w.context.assumptions)
        others = [v for v in self._whole_windows() if here.issuperset(v.context.assumptions)]
        extents = {e for v in others for _, e in v.bound}
        context = w.context.and_(self.filled)
        ranges = [FORM if e in extents else implied(context, Guard(e - 1, ">=")) for _, e in w.bound]
        full = not w.guards and all(ranges)
        if not full and not w.checked:
            raise Unprovable("a maximum on the right side may be empty")
        return Obligation("maximum", _range(w), Z3 if full and Z3 in ranges else FORM)

    def _whole_windows(self) -> list[MaximumRange]:
        """Maxima of the left side that each have an element: over whole ranges, under no sum."""
        names = set(self.context.bounds)
        found: list[MaximumRange] = []
        for v in sorted(self.left.windows, key=lambda v: len(v.context.bounds)):
            if not v.guards and v.context.bounds.keys() <= names:
                found.append(v)
                names |= {b for b, _ in v.bound}
        return found

    def _not_zero(self) -> Iterator[Guard]:
        """Sizes by which every element of the left side is divided: where one is 0, nothing of it is defined."""
        base = frozenset(self.typing.assumptions)
        for demand in self.left.demands:
            always = demand.place.guards <= base and not demand.place.bound and not demand.path and not demand.hidden
            which, head = demand.which, demand.head
            if which == "nonzero" and head.kind == "size" and always and natural(head):
                yield Guard(head.size - 1, ">=")


def _range(w: MaximumRange) -> str:
    return f"a maximum over {', '.join(f'{b} < {e}' for b, e in w.bound)} has an element"


def _may_mislead(demand: Demand) -> bool:
    """Whether an element may be finite without the demand."""
    return bool(demand.hidden) and not demand.vanishing


def _among(known: Sequence[Demand], demand: Demand, sizes: Context) -> str:
    """By what the known demands are known to include one."""
    alike = [d for d in known if d.which == demand.which and d.head == demand.head]
    settled = [(demand.beside(hiding), places) for hiding, places in _settled(alike, demand).items()]
    if any(_same_place(wanted, k, sizes) for wanted, there in settled for k in there):
        return FORM
    return Z3 if any(_read_by(there, wanted, sizes) for wanted, there in settled) else ""


def _settled(known: Sequence[Demand], wanted: Demand) -> dict[tuple[int, ...], list[Term]]:
    """Places at which the left side's demands are met wherever ``wanted`` is selected.

    A demand that some elements may hide says something only of what the same elements may hide: the places are by the
    values that these belong to, and have their indices, too.  A demand on both branches of a Where is one beside it.
    """
    paths: dict[tuple[tuple[int, ...], Term], set[frozenset[Chosen]]] = {}
    possible = {a.value for a in wanted.hidden}
    for d in known:
        hiding = tuple(sorted(a.value for a in d.hidden))
        if possible.issuperset(hiding):
            paths.setdefault((hiding, d.beside(hiding)), set()).add(d.path - wanted.path)
    settled: dict[tuple[int, ...], list[Term]] = {(): []}  # what nothing reads is needed by nothing
    for (hiding, place), found in paths.items():
        if _exhausted(found):
            settled.setdefault(hiding, []).append(place)
    return settled


def _exhausted(paths: set[frozenset[Chosen]]) -> bool:
    """Whether some path is always selected, by resolving both branches of one condition."""
    for _ in range(8):
        if frozenset() in paths:
            return True
        both = {
            (p | q) - {c, replace(c, holds=not c.holds)}
            for p in paths
            for q in paths
            for c in p
            if replace(c, holds=not c.holds) in q
        }
        if both <= paths:
            return False
        paths = paths | both
    return False


def _same_place(one: Term, other: Term, sizes: Context) -> bool:
    """Whether wherever the first term's one factor is read, the second one's is, and at the same place."""
    one, other = _without_single(one), _without_single(other)
    index = one.factors[0].index
    names = set[Symbol]().union(*map(symbols, index), *(symbols(g.value) for g in other.guards))
    ranges = [{b for b in term.bound if b[0] in names} for term in (one, other)]
    if index != other.factors[0].index or not ranges[0] >= ranges[1]:
        return False  # bound variables of one name may be different ones
    extents = [e for _, e in one.bound]
    held = all(g in one.guards or sizes.implies(g) for g in ordered(other.guards))
    return held and all(e in extents or sizes.implies(Guard(e - 1, ">=")) for _, e in other.bound)


def _read_by(known: Sequence[Term], term: Term, sizes: Context) -> bool:
    """Whether all that one term reads, for any element of the result, others read for some element of it."""
    places = [p for k in known for p in _read_at(k)]
    return all(covered(p, places, sizes) for p in _read_at(term))


def _without_single(term: Term) -> Term:
    """The term without bound variables that can only be 0."""
    single: dict[Symbol, Size] = {b: 0 for b, e in term.bound if e == 1}
    bound = tuple((b, e) for b, e in term.bound if e != 1)
    return replace(replace(term, bound=()).map(single), bound=bound)


def _read_at(term: Term) -> list[Place]:
    """The places of all elements that a term's one factor reads, for some element of the result."""
    return located(term, len(term.factors[0].index), ())
