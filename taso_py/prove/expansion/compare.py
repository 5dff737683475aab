"""Whether two elements are equal wherever the left one is defined, by canonical forms along all paths of choices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from taso_py.prove.expansion.atoms import POSITIVE, Undefined, Unsettled
from taso_py.prove.expansion.canonical import CanonicalForms, LeafFacts, Need
from taso_py.prove.expansion.elements import Element
from taso_py.prove.expansion.polynomials import ONE, Polynomial, TooLarge, atoms_of, leading, minus, times, value_of

_MOST_PATHS = 64
_MOST_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Shown:
    """Equal, and the right side is defined wherever the left side is; ``work`` counts products of terms."""

    work: int = 0


@dataclass(frozen=True, slots=True)
class Undecided:
    """Not shown, and why: nothing is said about the law."""

    why: str
    work: int = 0


def compare(left: Element, right: Element, leaves: Mapping[str, LeafFacts]) -> Shown | Undecided:
    """Compares the forms of two elements, splitting paths at truth values and at maxima of two."""
    if left is right:
        return Shown()
    canonical = CanonicalForms(leaves)
    waiting: list[dict[int, int]] = [{}]
    for _ in range(_MOST_PATHS):
        if not waiting:
            return Shown(canonical.atoms.ring.work)
        path = waiting.pop()
        canonical.take(path)
        if not canonical.atoms.consistent():
            continue
        try:
            why = _on_path(canonical, left, right)
        except Unsettled as choice:
            waiting += [{**path, choice.atom: value} for value in (0, 1)]
            continue
        except TooLarge:
            return Undecided("a form is too large", canonical.atoms.ring.work)
        if why:
            return Undecided(why, canonical.atoms.ring.work)
    return Undecided("too many choices", canonical.atoms.ring.work)


def _on_path(canonical: CanonicalForms, left: Element, right: Element) -> str:
    """Why the elements are not shown equal on the present path; "" when they are."""
    try:
        form = canonical.form(left)
        given = _needs(canonical, left)
    except Undefined:
        return ""
    try:
        other = canonical.form(right)
        asked = _needs(canonical, right)
    except Undefined:
        return "the right side is undefined"
    if form == canonical.nothing():
        # Not finite, whatever the right side is: equality is over finite numbers.
        return ""
    if form != other:
        difference = _cleared(canonical, minus(form, other))
        if difference or canonical.atoms.is_wild(form) or canonical.atoms.is_wild(other):
            _split(canonical, difference)
            return "the forms differ"
    if unmet := asked - given:
        for need in sorted(unmet, key=repr):
            _split(canonical, need.value)
        return "the right side may be undefined"
    return ""


def _cleared(canonical: CanonicalForms, difference: Polynomial) -> Polynomial:
    """The difference times what it divides by; 0 exactly when the difference is."""
    atoms = canonical.atoms
    for _ in range(_MOST_ROUNDS):
        least: dict[int, int] = {}
        for atom, exponent in atoms_of(difference):
            if atoms.all[atom].kind in ("root", "max") and exponent < 0:
                least[atom] = max(least.get(atom, 0), math.ceil(-exponent))
        if not least:
            break
        difference = atoms.ring.product(difference, frozenset({(tuple(sorted(least.items())), 1)}))
    return difference


# ---- splitting -----------------------------------------------------------------------------------------------------


def _split(canonical: CanonicalForms, difference: Polynomial) -> None:
    """Raises `Unsettled` for a truth value on which the difference depends, when there is one left to try."""
    atoms = canonical.atoms
    maxima: list[frozenset[Polynomial]] = []
    for number in _inside(canonical, difference):
        info = atoms.all[number]
        if info.boolean and number not in atoms.path:
            raise Unsettled(number)
        if info.kind == "max" and isinstance(info.key, frozenset):
            maxima.append(info.key)
    # The simplest first: the signs of the factors settle the sign of a product.
    for elements in sorted(maxima, key=_complexity):
        first, second = sorted(elements, key=lambda p: repr(sorted(p, key=repr)))[:2]
        truth = atoms.positive(minus(first, second))
        if value_of(truth) is None:
            raise Unsettled(min(a for a, _ in atoms_of(truth)))


def _complexity(elements: frozenset[Polynomial]) -> tuple[int, int, str]:
    degree = max(sum(1 for _ in m) for p in elements for m, _ in p)
    return degree, sum(len(p) for p in elements), repr(sorted(map(sorted, elements), key=repr))


def _inside(canonical: CanonicalForms, p: Polynomial) -> Iterator[int]:
    """All atoms of a form, those inside of other atoms included, the outer ones first."""
    seen: set[int] = set()
    level = sorted({a for a, _ in atoms_of(p)})
    while level:
        yield from level
        seen.update(level)
        below = {a for number in level for q in _parts(canonical.atoms.all[number].key) for a, _ in atoms_of(q)}
        level = sorted(below - seen)


def _parts(key: object) -> list[Polynomial]:
    """Polynomials in the description of an atom: itself, its members, or one monomial."""
    if isinstance(key, frozenset):
        return [q for q in key if isinstance(q, frozenset)] or ([key] if _is_polynomial(key) else [])
    if isinstance(key, tuple):
        if key and all(isinstance(f, tuple) and len(f) == 2 and isinstance(f[0], int) for f in key):
            return [frozenset({(key, 1)})]
        return [q for q in key if isinstance(q, frozenset) and _is_polynomial(q)]
    return []


def _is_polynomial(key: frozenset[object]) -> bool:
    return all(isinstance(t, tuple) and len(t) == 2 and isinstance(t[0], tuple) for t in key)


# ---- definedness ---------------------------------------------------------------------------------------------------


def _needs(canonical: CanonicalForms, root: Element) -> set[Need]:
    """What must hold for the element to be defined along its selected path, without what always does."""
    found: set[Need] = set()
    seen: set[Element] = set()
    stack = [root]
    while stack:
        element = stack.pop()
        if element in seen:
            continue
        seen.add(element)
        if element.function == "where":
            stack += [element.arguments[0], canonical.selected(element)]
            continue
        stack += element.arguments
        found |= _own_needs(canonical, element)
    return _closed(found)


def _own_needs(canonical: CanonicalForms, element: Element) -> set[Need]:
    match element.function:
        case "div":
            return _nonzero(canonical, canonical.form(element.arguments[1]))
        case "reciprocal":
            return _nonzero(canonical, canonical.form(element.arguments[0]))
        case "sqrt":
            return _signed(canonical, "nonnegative", canonical.form(element.arguments[0]))
        case "log":
            return _signed(canonical, "positive", canonical.form(element.arguments[0]))
        case "pow":
            return _power_needs(canonical, element)
        case _:
            return set()


def _power_needs(canonical: CanonicalForms, element: Element) -> set[Need]:
    forms = [canonical.form(a) for a in element.arguments]
    exponent = element.attributes[0] if element.attributes else value_of(forms[1])
    if not isinstance(exponent, (int, Fraction)):
        return {Need("power", forms[0]), Need("exponent", forms[1])}
    found: set[Need] = set()
    if Fraction(exponent).denominator != 1:
        found |= _signed(canonical, "nonnegative", forms[0])
    if exponent < 0:
        found |= _nonzero(canonical, forms[0])
    return found


def _nonzero(canonical: CanonicalForms, p: Polynomial) -> set[Need]:
    """p != 0 as needs of its factors."""
    atoms = canonical.atoms
    if POSITIVE in (atoms.sign(p), atoms.sign(times(-1, p))):
        return set()
    if not p:
        raise Undefined
    found: set[Need] = set()
    _, common, rest = atoms.factored(p, -1)
    if len(common) != 1:
        return {Need("nonzero", p)}
    for atom, exponent in atoms_of(common):
        info = atoms.all[atom]
        if exponent < 0 and not info.nonzero and atoms.monomial_sign(((atom, 1),)) != POSITIVE:
            inside = info.key if info.kind == "root" else None
            found.add(Need("nonzero", inside if isinstance(inside, frozenset) else atoms.power_of(atom, 1)))
    if rest != ONE and POSITIVE not in (atoms.sign(rest), atoms.sign(times(-1, rest))):
        found.add(Need("nonzero", rest))
    return found


def _signed(canonical: CanonicalForms, kind: str, p: Polynomial) -> set[Need]:
    sign = canonical.atoms.sign(p)
    if sign == POSITIVE or (kind == "nonnegative" and sign):
        return set()
    value = value_of(p)
    if value is not None:
        raise Undefined
    lead = leading(p)[1]
    return {Need(kind, times(Fraction(1) / (lead if lead > 0 else -lead), p))}


def _closed(needs: set[Need]) -> set[Need]:
    """With what follows from them: a positive number is neither zero nor negative."""
    found = set(needs)
    for need in needs:
        if need.kind == "positive":
            found.add(Need("nonnegative", need.value))
            lead = leading(need.value)[1]
            found.add(Need("nonzero", times(Fraction(1) / lead, need.value)))
    return found
