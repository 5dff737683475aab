"""The closed list of facts about scalar functions that proofs use, and the constructors that apply them.

Every constructor takes sums and gives the sum of the function's value in normal form.  Each fact notes its use, so
that a proof names what it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from taso_py.graph.sizes import Size
from taso_py.prove.kernel.arithmetic import Context, Guard
from taso_py.prove.kernel.attempt import Unprovable
from taso_py.prove.kernel.forms import (
    count_of,
    ends_of,
    extracted,
    has_no_root,
    is_negative,
    only_of,
    real,
    root_of,
    whole_power,
)
from taso_py.prove.kernel.maxima import Maxima, families_of, instance, natural
from taso_py.prove.kernel.normal import (
    ONE,
    ZERO,
    Alternative,
    Factor,
    Sum,
    Term,
    multiplied,
    number,
    powers,
    scaled,
)
from taso_py.prove.kernel.obligations import implied
from taso_py.prove.kernel.simplify import cases, virtual

FACTS: Mapping[str, str] = {
    "reciprocal of a product": "1/(a·b) = 1/a · 1/b where a and b are not 0",
    "exponential of a sum": "exp(a + b) = exp a · exp b; exp(n·a) = (exp a)ⁿ",
    "logarithm of a product": "ln(a·exp b) = ln a + b, ln(1/a) = -ln a, for a > 0",
    "exponential of a logarithm": "exp(n·ln a) = aⁿ for a > 0",
    "odd function": "tanh, erf and sin of -x are -tanh x, -erf x, -sin x",
    "even function": "cos(-x) = cos x, |-x| = |x|",
    "sigmoid of a negative": "sigmoid(-x) = 1 - sigmoid x",
    "modulus of a product": "|a·b| = |a|·|b|, |a|² = a²",
    "relu is a maximum": "relu x = max(x, 0)",
    "minimum is a maximum": "min(a, b) = -max(-a, -b)",
    "maximum of maxima": "max is associative, commutative and idempotent",
    "shift of a maximum": "max(a + c, b + c) = max(a, b) + c",
    "scale of a maximum": "max(c·a, c·b) = c·max(a, b) for c >= 0",
    "rising function": "max(f a, f b) = f(max(a, b)) for f = sigmoid, tanh, exp, softplus",
    "bounded below": "exp, sigmoid, softplus, √x, |x|, even powers and sizes are not negative, nor sums, products",
    "positive sum": "exp x > 0, and so is a sum, root, power or maximum of what is not negative and somewhere positive",
    "quadratic without roots": "a·v² + b·v + c is not 0 where b² < 4·a·c",
    "leaky relu is two maxima": "leakyrelu(x, s) = max(x, 0) - s·max(-x, 0)",
    "elu is an exponential below 0": "elu(x, s) = max(x, 0) + s·(exp(x - max(x, 0)) - 1)",
    "tangent of a softplus": "tanh(softplus x) = (2·s - s²) / (2 - 2·s + s²) for s = sigmoid x",
    "choice": "where(c, a, b) = c·a + (1 - c)·b with c² = c",
    "disjunction": "a or b = a + b - a·b for truth values 0 and 1",
    "total order": "a >= b is not a < b, for numbers",
    "root of a square": "(√a)² = a for a >= 0",
}
"""Name -> statement; each holds on the domain of its left side."""

_ODD = frozenset({"tanh", "erf", "sin"})
_TRUTHS = frozenset({"equal", "less"})


@dataclass(slots=True)
class Functions(Maxima):
    """Builds values of functions; ``nonnegative`` names tensors without negative elements, ``used`` collects facts."""

    def apply(
        self, function: str, arguments: Sequence[Sum], attributes: Sequence[float | Size], context: Context
    ) -> Sum:
        """function(arguments...)."""
        build: Mapping[str, Callable[[], Sum]] = {
            "add": lambda: tuple(t for a in arguments for t in a),
            "mul": lambda: multiplied(arguments[0], arguments[1]),
            "neg": lambda: scaled(arguments[0], -1),
            "div": lambda: multiplied(arguments[0], self.reciprocal(arguments[1], context)),
            "reciprocal": lambda: self.reciprocal(arguments[0], context),
            "max": lambda: self.maximum([Alternative(a) for a in arguments], context),
            "min": lambda: self._least(arguments, context),
            "relu": lambda: self._relu(arguments[0], context),
            "where": lambda: self._where(*arguments),
            "not": lambda: (*ONE, *scaled(arguments[0], -1)),
            "and": lambda: multiplied(arguments[0], arguments[1]),
            "or": lambda: self._either(*arguments),
            "greater": lambda: self.apply("less", arguments[::-1], attributes, context),
            "lessorequal": lambda: self._not_less(arguments[::-1], context),
            "greaterorequal": lambda: self._not_less(arguments, context),
        }
        if function in build:
            return build[function]()
        if function == "leakyrelu" or function == "prelu":
            return self._leaky(arguments, attributes, context)
        if function == "elu":
            return self._elu(arguments[0], real(attributes[0]), context)
        found: list[Term] = []
        for guards, sums, inner in cases(arguments, context):
            value = self._function(function, sums, attributes, inner)
            found += [t.guarded(guards) for t in value]
        return tuple(found)

    def _either(self, a: Sum, b: Sum) -> Sum:
        self.used.add("disjunction")
        return (*a, *b, *scaled(multiplied(a, b), -1))

    def _not_less(self, arguments: Sequence[Sum], context: Context) -> Sum:
        self.used.add("total order")
        return (*ONE, *scaled(self.apply("less", arguments, (), context), -1))

    def _function(
        self, function: str, sums: tuple[Sum, ...], attributes: Sequence[float | Size], context: Context
    ) -> Sum:
        match function:
            case "exp":
                return self._exponential(sums[0], context)
            case "log":
                return self._logarithm(sums[0], context)
            case "abs":
                return self._modulus(sums[0], context)
            case "sigmoid" if is_negative(sums[0]):
                self.used.add("sigmoid of a negative")
                return (*ONE, *scaled(self.plain(function, (scaled(sums[0], -1),), attributes, context), -1))
            case "tanh" if (softened := only_of(sums[0], "softplus")) is not None:
                return self._tangent_of_softplus(softened, context)
            case _ if function in _ODD and is_negative(sums[0]):
                self.used.add("odd function")
                return scaled(self.plain(function, (scaled(sums[0], -1),), attributes, context), -1)
            case _ if function in _ODD and not sums[0]:
                return ZERO
            case "sqrt" if (root := root_of(sums[0])) is not None:
                return number(root)
            case "cos" if is_negative(sums[0]):
                self.used.add("even function")
                return self.plain(function, (scaled(sums[0], -1),), attributes, context)
            case _:
                return self.plain(function, sums, attributes, context)

    def plain(self, function: str, sums: Sequence[Sum], attributes: Sequence[float | Size], context: Context) -> Sum:
        """The function as a virtual tensor."""
        head, index = virtual(sums, (), context, function, attributes)
        if function in _TRUTHS:
            head = replace(head, kind="truth")
        return (Term(Fraction(1), (Factor(head, index),)),)

    # ---- products ------------------------------------------------------------------------------------------------

    def reciprocal(self, value: Sum, context: Context) -> Sum:
        """1 / value."""
        found: list[Term] = []
        for guards, inverse, rest in self._inverted(value, context):
            found += [t.guarded(guards) for t in (multiplied((inverse,), rest) if rest != ONE else (inverse,))]
        return tuple(found)

    def divisors(self, value: Sum, context: Context) -> Iterator[tuple[Term, Factor]]:
        """What 1 / value divides by: each factor, and a term with the sums and guards under which it does.

        They are not seen in the reciprocal: 1/c is c for a truth value c that is not 0.
        """
        for guards, inverse, rest in self._inverted(value, context):
            for term in (inverse, *rest):
                for f in term.factors:
                    if f.power < 0:
                        yield term.guarded(guards), f

    def _inverted(self, value: Sum, context: Context) -> Iterator[tuple[Iterable[Guard], Term, Sum]]:
        """Guards, and under them 1 / value as a product of the inverses of its factors and that of a sum."""
        for guards, (terms,), inner in cases((value,), context):
            if not terms:
                raise Unprovable("a division by zero")
            common, rest = extracted(terms)
            inverse = Term(1 / common.coefficient, tuple(replace(f, power=-f.power) for f in common.factors))
            if inverse.factors:
                self.used.add("reciprocal of a product")
            yield guards, inverse, rest if rest == ONE else self._powered("sum", rest, -1, inner)

    def _powered(self, name: str, value: Sum, power: int, context: Context) -> Sum:
        (term,) = self.plain(name, (value,), (), context)
        return (replace(term, factors=tuple(replace(f, power=f.power * power) for f in term.factors)),)

    def _exponential(self, value: Sum, context: Context) -> Sum:
        product = ONE
        if len(value) > 1 or any(t.coefficient != 1 for t in value):
            self.used.add("exponential of a sum")
        for term in value:
            undone = self._undone(term, context)
            if undone is not None:
                product = multiplied(product, undone)
                continue
            power = whole_power(term.coefficient) or 1
            unit: Sum = (replace(term, coefficient=term.coefficient / power),)
            product = multiplied(product, self._powered("exp", unit, power, context))
        return product

    def _undone(self, term: Term, context: Context) -> Sum | None:
        """exp(n·ln a) = aⁿ for a positive a."""
        power = whole_power(term.coefficient)
        if len(term.factors) != 1 or term.bound or term.guards or not power:
            return None
        (f,) = term.factors
        if not f.head.computes("log") or f.power != 1 or not self._positive(instance(f)[0], context):
            return None
        self.used.add("exponential of a logarithm")
        return self._powered("sum", instance(f)[0], power, context)

    def _logarithm(self, value: Sum, context: Context) -> Sum:
        if not value:
            raise Unprovable("a logarithm of zero")
        common, rest = extracted(value)
        total: list[Term] = []
        kept: list[Factor] = []
        for f in common.factors:
            if f.head.computes("exp"):
                total += scaled(instance(f)[0], f.power)
            elif f.head.computes("sum") and self._positive(instance(f)[0], context):
                total += scaled(self.plain("log", instance(f), (), context), f.power)
            else:
                kept.append(f)
        if total:
            self.used.add("logarithm of a product")
        inside = multiplied((replace(common, factors=tuple(kept)),), rest)
        if inside != ONE:
            if total and not self._positive(inside, context):
                return self.plain("log", (value,), (), context)
            total += self.plain("log", (inside,), (), context)
        return tuple(total)

    def _positive(self, value: Sum, context: Context) -> bool:
        """Whether a sum is surely positive: no term is negative, and one is positive at a place that there is."""
        if not self.not_below(value):
            return False
        absent: list[Guard] = []
        for t in value:
            if all(self._above(f, context) or self._positive_size(f, context) for f in t.factors):
                for place in ends_of(t):
                    lacking = [g for g in place if not context.implies(g)]
                    if not lacking:
                        return True
                    absent += [g.negated for g in lacking if len(lacking) == 1]
        return bool(absent) and not context.possible(absent)

    def _positive_size(self, f: Factor, context: Context) -> bool:
        if f.head.kind != "size":
            return False
        if natural(f.head):
            return context.implies(Guard(f.head.size - 1, ">="))
        return self.positive_real(f.head.size)

    def positive_real(self, value: Size) -> bool:
        """Whether a real attribute is above 0 by a condition."""
        return str(value) in self.nonnegative and value in self.nonzero

    def _modulus(self, value: Sum, context: Context) -> Sum:
        if not value:
            return ZERO
        if is_negative(value):
            self.used.add("even function")
            value = scaled(value, -1)
        common, rest = extracted(value)
        self.used.add("modulus of a product")
        product: Sum = (Term(abs(common.coefficient)),)
        for f in common.factors:
            if self.never_negative(f):
                product = multiplied(product, (Term(Fraction(1), (f,)),))
                continue
            sign = 1 if f.power > 0 else -1
            (term,) = self.plain("abs", ((Term(Fraction(1), (replace(f, power=1),)),),), (), context)
            inner = tuple(replace(g, power=g.power * abs(f.power) * sign) for g in term.factors)
            product = multiplied(product, (Term(Fraction(1), powers(inner)),))
        return product if rest == ONE else multiplied(product, self.plain("abs", (rest,), (), context))

    def defined(self, which: str, f: Factor, context: Context) -> str:
        """By what a divisor is surely not 0, a radicand not negative, an argument of log positive; else empty."""
        if which == "nonzero":
            if f.head.kind == "size":
                if natural(f.head):
                    return implied(context, Guard(f.head.size, "!="))
                stated = f.head.size in self.nonzero or -f.head.size in self.nonzero
                return f"the condition on {f.head.name}" if stated else ""
            if f.head.kind == "tensor":
                told = (("positive", self.positive), ("nonzero", self.nonzero_tensors))
                return next((f"{word}({f.head.name})" for word, names in told if f.head.name in names), "")
            if f.head.function == "sum" and has_no_root(instance(f)[0]):
                return self._by("quadratic without roots")
            return self._by("positive sum") if self._above(f, context) else ""
        if which not in ("sqrt", "log", "pow"):
            return ""
        argument = instance(f)[0]
        if which == "sqrt":
            return self._by("bounded below") if self.not_below(argument) else ""
        return self._by("positive sum") if self._positive(argument, context) else ""

    def _above(self, f: Factor, context: Context) -> bool:
        """Whether a function is surely positive."""
        if f.head.kind == "maximum":
            plain = (a.body for a in families_of(f) if not a.bound and not a.guards)
            return any(self._positive(body, context) for body in plain)
        if f.head.function in ("sum", "sqrt"):
            (argument,) = instance(f)
            count = count_of(argument)
            return self._positive(argument, context) if count is None else context.implies(Guard(count - 1, ">="))
        if f.head.function == "pow":
            return self._positive(instance(f)[0], context)
        return f.head.computes("exp")

    def _by(self, fact: str) -> str:
        self.used.add(fact)
        return fact

    def _relu(self, value: Sum, context: Context) -> Sum:
        self.used.add("relu is a maximum")
        return self.maximum([Alternative(value), Alternative(ZERO)], context)

    def _leaky(self, arguments: Sequence[Sum], attributes: Sequence[float | Size], context: Context) -> Sum:
        """max(x, 0) + slope · min(x, 0)."""
        self.used.add("leaky relu is two maxima")
        value = arguments[0]
        slope = arguments[1] if len(arguments) > 1 else real(attributes[0])
        negative = scaled(self._relu(scaled(value, -1), context), -1)
        return (*self._relu(value, context), *multiplied(slope, negative))

    def _elu(self, value: Sum, slope: Sum, context: Context) -> Sum:
        self.used.add("elu is an exponential below 0")
        positive = self._relu(value, context)
        below = self.apply("exp", ((*value, *scaled(positive, -1)),), (), context)
        return (*positive, *multiplied(slope, (*below, *scaled(ONE, -1))))

    def _tangent_of_softplus(self, value: Sum, context: Context) -> Sum:
        self.used.add("tangent of a softplus")
        s = self.apply("sigmoid", (value,), (), context)
        upper = (*scaled(s, 2), *scaled(multiplied(s, s), -1))
        return multiplied(upper, self.reciprocal((*scaled(ONE, 2), *scaled(upper, -1)), context))

    def _least(self, arguments: Sequence[Sum], context: Context) -> Sum:
        self.used.add("minimum is a maximum")
        return scaled(self.maximum([Alternative(scaled(a, -1)) for a in arguments], context), -1)

    def _where(self, condition: Sum, then: Sum, otherwise: Sum) -> Sum:
        self.used.add("choice")
        opposite = (*ONE, *scaled(condition, -1))
        return (*multiplied(condition, then), *multiplied(opposite, otherwise))
