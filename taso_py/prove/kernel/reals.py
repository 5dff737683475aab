"""Equations between single elements over the reals: maxima, moduli and roots told by cases, by Z3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import z3

from taso_py.graph.sizes import Size
from taso_py.prove.kernel.attempt import Attempt, current
from taso_py.prove.kernel.facts import Functions
from taso_py.prove.kernel.maxima import families_of, instance
from taso_py.prove.kernel.normal import Factor, Sum, Term

_RESOURCES = 100_000
"""Most of Z3's units that one question may take: polynomials cost more of the machine than they count for.

A question that proves a law that is shipped takes 2,500 of them at most.  A second is worth from 0.03 million (roots
of roots, when they take long) to 2 million, so the worst takes some three seconds.
"""
_POSITIVE = frozenset({"exp"})


@dataclass(frozen=True, slots=True)
class Real:
    """A condition on real attributes: value >= 0, > 0, == 0 or != 0."""

    value: Size
    kind: str

    @property
    def decided(self) -> bool | None:
        """Its truth, when no symbol is left."""
        if not isinstance(self.value, int):
            return None
        return {">=": self.value >= 0, ">": self.value > 0, "==": self.value == 0, "!=": self.value != 0}[self.kind]


@dataclass(slots=True)
class Reals:
    """Elements as Z3 reals: what is read is an unknown, what is known of functions is asserted."""

    functions: Functions
    conditions: Sequence[Real] = ()
    unknowns: dict[object, z3.ArithRef] = field(default_factory=dict)
    known: list[z3.BoolRef] = field(default_factory=list)
    attempt: Attempt = field(default_factory=current)

    def same(self, left: Sum, right: Sum) -> bool:
        """Whether both sums have one value, whatever is read."""
        if any(t.bound or t.guards for t in (*left, *right)):
            return False
        difference = self._sum(left) - self._sum(right)
        for c in self.conditions:
            value = self._size(c.value)
            self.known.append({">=": value >= 0, ">": value > 0, "==": value == 0, "!=": value != 0}[c.kind])
        solver = z3.Solver(ctx=self.attempt.z3)
        solver.set("rlimit", _RESOURCES)
        solver.add(*self.known, difference != 0)
        return bool(solver.check() == z3.unsat)

    def _size(self, size: Size) -> z3.ArithRef:
        if isinstance(size, int):
            return self._number(size)
        total = self._number(0)
        for monomial, coefficient in size.terms:
            product = self._number(coefficient)
            for atom in monomial:
                product = product * self._unknown(str(atom))
            total = total + product
        return total

    def _unknown(self, key: object) -> z3.ArithRef:
        if key not in self.unknowns:
            self.unknowns[key] = z3.Real(f"r{len(self.unknowns)}", self.attempt.z3)
        return self.unknowns[key]

    def _number(self, value: int | Fraction) -> z3.ArithRef:
        return z3.Q(value.numerator, value.denominator, self.attempt.z3)

    def _sum(self, terms: Sum) -> z3.ArithRef:
        return z3.Sum(*(self._term(t) for t in terms), self._number(0))

    def _term(self, t: Term) -> z3.ArithRef:
        product = self._number(t.coefficient)
        for f in t.factors:
            value = self._factor(f)
            for _ in range(abs(f.power)):
                product = product * value
        return product

    def _factor(self, f: Factor) -> z3.ArithRef:
        """The factor, or its reciprocal when the power is negative."""
        if f.power > 0:
            return self._base(f)
        key = ("1/", f.head, f.index)
        if key not in self.unknowns:
            inverse = self._unknown(key)
            base = self._base(f)
            # Where nothing is selected of it, a divisor may be 0.
            told = ("nonzero", f.head, f.index) in self.functions.certain
            self.known.append(z3.Implies(z3.Or(told, base != 0), inverse * base == 1))
        return self.unknowns[key]

    def _base(self, f: Factor) -> z3.ArithRef:
        key: object = f.head.name if f.head.kind == "size" else (f.head, f.index)
        if key in self.unknowns:
            return self.unknowns[key]
        value = self._unknown(key)
        one = Factor(f.head, f.index)
        if f.head.kind == "truth":
            self.known.append(z3.Or(value == 0, value == 1))
        elif f.head.kind == "maximum":
            self._maximum(value, one)
        elif f.head.kind == "function":
            self._function(value, one)
        if self.functions.never_negative(one):
            self.known.append(value >= 0)
        return value

    def _maximum(self, value: z3.ArithRef, f: Factor) -> None:
        families = families_of(f)
        if any(a.bound or a.guards or any(t.bound or t.guards for t in a.body) for a in families):
            return
        values = [self._sum(a.body) for a in families]
        self.known += [value >= v for v in values]
        self.known.append(z3.Or(*(value == v for v in values)))

    def _function(self, value: z3.ArithRef, f: Factor) -> None:
        arguments = instance(f)
        plain = not any(t.bound or t.guards for s in arguments for t in s)
        match f.head.function:
            case "abs" if plain:
                inner = self._sum(arguments[0])
                self.known += [value >= 0, z3.Or(value == inner, value == -inner)]
            case "sqrt" if plain:
                inner = self._sum(arguments[0])
                told = ("sqrt", f.head, f.index) in self.functions.certain
                self.known += [value >= 0, z3.Implies(z3.Or(told, inner >= 0), value * value == inner)]
            case "sum" if plain:
                self.known.append(value == self._sum(arguments[0]))
            case "sigmoid":
                self.known += [value > 0, value < 1]
            case "tanh":
                self.known += [value > -1, value < 1]
            case _ if f.head.function in _POSITIVE:
                self.known.append(value > 0)
