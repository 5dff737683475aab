"""Canonical forms of elements: polynomials over leaves and function values, along one path of truth values.

The facts that make forms equal are these and no others: a maximum, minimum, modulus or rectifier is a maximum of a
set; exp(a + b) = exp a · exp b; sigmoid, tanh, softplus and elu are made of exp and log; log undoes exp; erf and
sin are odd, cos is even; comparisons speak of the sign of a difference; a choice is what its condition selects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from taso_py.graph.types import INTEGERS
from taso_py.ops.meaning import TYPE_CODES
from taso_py.prove.expansion.atoms import NON_NEGATIVE, POSITIVE, Atoms, Undefined, Unsettled
from taso_py.prove.expansion.elements import Element
from taso_py.prove.expansion.polynomials import (
    ONE,
    ZERO,
    Monomial,
    Polynomial,
    Rational,
    atoms_of,
    constant,
    leading,
    minus,
    plus,
    tidy,
    times,
    value_of,
)

TYPES = {float(code): name for name, code in TYPE_CODES.items()}
NAMED: Mapping[str, Callable[[CanonicalForms, Sequence[Polynomial], Sequence[Fraction]], Polynomial]] = {
    "add": lambda c, p, _: plus(*p),
    "sum": lambda c, p, _: plus(*p),
    "mul": lambda c, p, _: c.atoms.ring.products(p),
    "neg": lambda c, p, _: times(-1, p[0]),
    "div": lambda c, p, _: c.atoms.ring.product(p[0], c.atoms.power(p[1], -1)),
    "reciprocal": lambda c, p, _: c.atoms.power(p[0], -1),
    "sqrt": lambda c, p, _: c.atoms.power(p[0], Fraction(1, 2)),
    "pow": lambda c, p, a: c.raised(p, a),
    "max": lambda c, p, _: c.atoms.maximum(p),
    "min": lambda c, p, _: c.least(p),
    "relu": lambda c, p, _: c.relu(p[0]),
    "abs": lambda c, p, _: c.atoms.absolute(p[0]),
    "leakyrelu": lambda c, p, a: c.sloped(p[0], constant(a[0])),
    "prelu": lambda c, p, _: c.sloped(p[0], p[1]),
    "elu": lambda c, p, a: c.elu(p[0], a[0]),
    "exp": lambda c, p, _: c.exp(p[0]),
    "log": lambda c, p, _: c.log(p[0]),
    "sigmoid": lambda c, p, _: c.atoms.ring.product(c.exp(p[0]), c.atoms.power(plus(ONE, c.exp(p[0])), -1)),
    "tanh": lambda c, p, _: c.tanh(p[0]),
    "softplus": lambda c, p, _: c.log(plus(ONE, c.exp(p[0]))),
    "erf": lambda c, p, _: c.signed("erf", p[0], odd=True),
    "sin": lambda c, p, _: c.signed("sin", p[0], odd=True),
    "cos": lambda c, p, _: c.signed("cos", p[0], odd=False),
    "less": lambda c, p, _: c.atoms.positive(minus(p[1], p[0])),
    "greater": lambda c, p, _: c.atoms.positive(minus(p[0], p[1])),
    "lessorequal": lambda c, p, _: minus(ONE, c.atoms.positive(minus(p[0], p[1]))),
    "greaterorequal": lambda c, p, _: minus(ONE, c.atoms.positive(minus(p[1], p[0]))),
    "equal": lambda c, p, _: c.atoms.zero(minus(p[0], p[1])),
    "not": lambda c, p, _: minus(ONE, p[0]),
    "and": lambda c, p, _: c.atoms.ring.products(p),
    "or": lambda c, p, _: minus(plus(*p), c.atoms.ring.products(p)),
    "cast": lambda c, p, a: c.cast(p[0], TYPES[float(a[0])]),
}


@dataclass(frozen=True, slots=True)
class LeafFacts:
    """What is known of all elements of a leaf: its element type and the predicates that are asked of it."""

    dtype: str
    predicates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Need:
    """What must hold for an element to be defined: ``value`` is nonzero, nonnegative or positive."""

    kind: str
    value: Polynomial


@dataclass(slots=True)
class CanonicalForms:
    """The canonical forms of elements under the present path of their atoms."""

    leaves: Mapping[str, LeafFacts]
    atoms: Atoms = field(default_factory=Atoms)
    done: dict[Element, Polynomial] = field(default_factory=dict)

    def take(self, path: Mapping[int, int]) -> None:
        """Begins a path: the truth values that are assumed."""
        self.atoms.path = dict(path)
        self.done = {}

    def form(self, element: Element) -> Polynomial:
        """The canonical form; `Undefined` where there is none, `Unsettled` where a choice depends on a truth value."""
        found = self.done.get(element)
        if found is None:
            found = self.done[element] = self._form(element)
        return found

    def _form(self, element: Element) -> Polynomial:
        match element.function:
            case "leaf":
                return self._leaf(element)
            case "number":
                return self._number(element.attributes[0])
            case "nothing":
                return self.nothing()
            case "where":
                return self.form(self.selected(element))
        forms = [self.form(a) for a in element.arguments]
        if any(self.atoms.is_wild(p) for p in forms):
            return self._wild(element, forms)
        attributes = [a for a in element.attributes if isinstance(a, Fraction)]
        if len(attributes) < len(element.attributes):
            return self._wild(element, forms)
        return NAMED[element.function](self, forms, attributes)

    def selected(self, element: Element) -> Element:
        """The branch of a choice that its condition selects on this path."""
        condition = self.form(element.arguments[0])
        value = value_of(condition)
        if value is not None:
            return element.arguments[1 if value else 2]
        raise Unsettled(min(a for a, _ in atoms_of(condition)))

    def _leaf(self, element: Element) -> Polynomial:
        leaf = self.leaves[str(element.attributes[0])]
        asked = leaf.predicates
        if "false" in asked:
            return ZERO
        if leaf.dtype == "bool":
            return ONE if "true" in asked else self.atoms.value("leaf", element.attributes, boolean=True, sign=1)
        sign = POSITIVE if "positive" in asked else NON_NEGATIVE if "nonnegative" in asked else 0
        nonzero = bool(asked & {"nonzero", "true"})
        return self.atoms.value("leaf", element.attributes, sign=sign, nonzero=nonzero)

    def _number(self, value: object) -> Polynomial:
        if isinstance(value, Fraction):
            return constant(value)
        return self.atoms.value("infinity", str(value), wild=True)

    def nothing(self) -> Polynomial:
        """The maximum of no elements: -inf, and no finite value."""
        return self.atoms.value("infinity", "nothing", wild=True)

    def _wild(self, element: Element, forms: Sequence[Polynomial]) -> Polynomial:
        """What infinity takes part in is itself alone; only a maximum with finite numbers leaves -inf out."""
        lowest = (self.atoms.value("infinity", str(-math.inf), wild=True), self.nothing())
        if element.function in ("max", "relu"):
            finite = [p for p in forms if p not in lowest] + ([ZERO] if element.function == "relu" else [])
            if finite and not any(self.atoms.is_wild(p) for p in finite):
                return self.atoms.maximum(finite)
        if element.function == "max" and set(forms) == {self.nothing()}:
            return self.nothing()
        key: Hashable = (element.function, element.attributes, tuple(forms))
        return self.atoms.value("wild", key, wild=True)

    # ---- functions -------------------------------------------------------------------------------------------------

    def least(self, polynomials: Sequence[Polynomial]) -> Polynomial:
        """min(p, q) = -max(-p, -q)."""
        return times(-1, self.atoms.maximum([times(-1, p) for p in polynomials]))

    def relu(self, p: Polynomial) -> Polynomial:
        """max(p, 0)."""
        return self.atoms.maximum([p, ZERO])

    def sloped(self, p: Polynomial, slope: Polynomial) -> Polynomial:
        """p where p >= 0, else slope · p: s·p + (1 - s)·max(p, 0)."""
        ring = self.atoms.ring
        return plus(ring.product(slope, p), ring.product(minus(ONE, slope), self.relu(p)))

    def elu(self, p: Polynomial, alpha: Fraction) -> Polynomial:
        """max(p, 0) + alpha · (exp(min(p, 0)) - 1)."""
        upper = self.relu(p)
        return plus(upper, times(tidy(alpha), minus(self.exp(minus(p, upper)), ONE)))

    def exp(self, p: Polynomial) -> Polynomial:
        """The product of the exponentials of the terms; a term c·m gives exp(m) to the power of c."""
        return self.atoms.ring.products(self._exp_term(m, c) for m, c in sorted(p, key=repr))

    def _exp_term(self, monomial: Monomial, coefficient: Rational) -> Polynomial:
        if len(monomial) == 1 and monomial[0][1] == 1 and self.atoms.all[monomial[0][0]].kind == "log":
            inside = self.atoms.all[monomial[0][0]].key
            assert isinstance(inside, frozenset)
            return self.atoms.power(inside, coefficient)
        return self.atoms.power_of(self.atoms.atom("exp", monomial, sign=POSITIVE), coefficient)

    def log(self, p: Polynomial) -> Polynomial:
        """The exponents of the exponentials that all terms share, plus the logarithm of what is left."""
        if not p or (value_of(p) or 0) < 0:
            raise Undefined
        rows = [dict(m) for m, _ in p]
        shared = {a: min(row.get(a, 0) for row in rows) for a in sorted({a for row in rows for a in row})}
        outside: list[Polynomial] = []
        taken: list[tuple[int, Rational]] = []
        for atom, exponent in shared.items():
            info = self.atoms.all[atom]
            if info.kind == "exp" and exponent:
                outside.append(times(exponent, frozenset({(info.key, 1)})))  # type: ignore[arg-type]
                taken.append((atom, -exponent))
        rest = self.atoms.ring.product(p, frozenset({(tuple(taken), 1)})) if taken else p
        return plus(*outside, self._log_rest(rest))

    def _log_rest(self, p: Polynomial) -> Polynomial:
        if p == ONE:
            return ZERO
        if len(p) == 1:
            ((monomial, coefficient),) = p
            split = len(monomial) == 1 or self.atoms.monomial_sign(monomial) == POSITIVE
            odd = all(not isinstance(e, int) or e % 2 for _, e in monomial) or (split and len(monomial) != 1)
            if coefficient > 0 and monomial and split and odd:
                parts = [times(e, self._log_atom(self._root_of(a))) for a, e in monomial]
                return plus(*parts, self._log_atom(constant(coefficient)))
        return self._log_atom(p)

    def _root_of(self, atom: int) -> Polynomial:
        info = self.atoms.all[atom]
        return info.key if info.kind == "root" else self.atoms.power_of(atom, 1)  # type: ignore[return-value]

    def _log_atom(self, p: Polynomial) -> Polynomial:
        return ZERO if p == ONE else self.atoms.value("log", p)

    def tanh(self, p: Polynomial) -> Polynomial:
        """(e²ᵖ - 1) / (e²ᵖ + 1)."""
        square = self.exp(times(2, p))
        return self.atoms.ring.product(minus(square, ONE), self.atoms.power(plus(square, ONE), -1))

    def signed(self, function: str, p: Polynomial, *, odd: bool) -> Polynomial:
        """An odd or an even function, of the argument whose first coefficient is positive."""
        if not p:
            return ZERO if odd else ONE
        flip = leading(p)[1] < 0
        value = self.atoms.value(function, times(-1, p) if flip else p)
        return times(-1, value) if flip and odd else value

    def raised(self, arguments: Sequence[Polynomial], attributes: Sequence[Fraction]) -> Polynomial:
        """p ^ a for a number a; else a value of its own."""
        exponent = attributes[0] if attributes else value_of(arguments[1])
        if exponent is not None:
            return self.atoms.power(arguments[0], tidy(exponent))
        return self.atoms.value("pow", tuple(arguments))

    def cast(self, p: Polynomial, dtype: str) -> Polynomial:
        """The number itself where the type surely holds it, a truth value, or a value of its own."""
        if dtype == "bool":
            return minus(ONE, self.atoms.zero(p))
        value = value_of(p)
        if value is not None:
            return constant(_held(value, dtype))
        truths = all(self.atoms.all[a].boolean for a, _ in atoms_of(p))
        if truths and len(p) == 1 and all(c == 1 for _, c in p):
            return p
        return self.atoms.value("cast", (dtype, p))


def _held(value: Rational, dtype: str) -> Rational:
    if dtype in INTEGERS:
        bounds = np.iinfo(dtype)
        whole = math.trunc(value)
        if not int(bounds.min) <= whole <= int(bounds.max):
            raise Undefined
        return whole
    return Fraction(float(np.array(float(value), dtype=dtype)))
