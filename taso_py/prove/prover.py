"""Proves a rule for all sizes: every typing, every output, every index."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from taso_py.graph.model import Values
from taso_py.graph.sizes import Size, deciding, floor_divide, symbol, symbols
from taso_py.prove.arithmetic import STEPS, Context, Guard, Unprovable, Witness, forget, ordered, replaced
from taso_py.prove.equality import Equality
from taso_py.prove.facts import Functions
from taso_py.prove.normal import Sum, Term, count_anew, splitting, text
from taso_py.prove.places import Place, covered, located
from taso_py.prove.schema import Case, Untyped, typings
from taso_py.prove.shapes import Unsupported
from taso_py.prove.values import Elements, Window
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.build import Builder
from taso_py.rules.coverage import few_axes, instance_of, pattern, typed_alike
from taso_py.rules.instances import Instance, draw
from taso_py.rules.rule import Rule

BOUND = 3
"""Largest size in proofs for bounded sizes."""
_EXCLUDED = re.compile(r"backwards|empty|\^|[r.]0[.|]|axes=\(\)|axes=\(\d+\.\d+\.\d")
"""Typings that a proof leaves out and a match is refused for: see `taso_py.rules.coverage`; also values without axes
that a regrouping makes, and lists of three axes or more."""
DRAWS, ATTEMPTS = 12, 300
"""Random instances of each direction that a proof must cover, and attempts to draw one."""


def prove(rule: Rule) -> Proved | Unknown:
    """Proves ``rule`` (both directions of an ``==`` law) for all sizes, never refutes it."""
    verdict = prove_all_sizes(rule)
    if isinstance(verdict, Proved):
        return verdict
    bounded = _covering(rule, _both(rule, BOUND))
    return bounded if isinstance(bounded, Proved) else verdict


def prove_all_sizes(rule: Rule, steps: int = STEPS) -> Proved | Unknown:
    """`prove` without the fallback to bounded sizes, and with so many steps at most."""
    return _covering(rule, _both(rule, None, steps))


def _covering(rule: Rule, verdict: Proved | Unknown) -> Proved | Unknown:
    left_out = uncovered(rule, verdict) if isinstance(verdict, Proved) else ""
    return Unknown(f"the typings that were proved leave out {left_out}") if left_out else verdict


def uncovered(rule: Rule, proof: Proved) -> str:
    """The typing of a random instance that the proof does not cover; empty when `DRAWS` of them are covered."""
    random, values = np.random.default_rng(zlib.crc32(rule.name.encode())), Values()
    for directed in rule.directions():
        for _ in range(DRAWS):
            instance = draw(directed, random, values, ATTEMPTS)
            if instance is None:
                break
            found = _pattern_of(directed, instance)
            if _EXCLUDED.search(found) or found in proof.patterns:
                continue
            if not instance_of(found, proof.patterns) or (few_axes(found) and not typed_alike(found, proof.patterns)):
                return found
    return ""


def _pattern_of(rule: Rule, instance: Instance) -> str:
    left = Builder(instance.values, instance.binding, rule.left, "float32")
    for term in rule.left.outputs:
        left.output(term)
    placed = {t: (v, left.nodes.get(v)) for t, v in left.done.items()}
    placed = {t: placed[rule.left.resolve(t)] for t in rule.left.applications()}
    return pattern(rule, placed, instance.values.types.__getitem__)


def _both(rule: Rule, limit: int | None, steps: int = STEPS) -> Proved | Unknown:
    """All directions of a rule."""
    forget(steps)
    count_anew()
    found: list[Proved] = []
    for directed in rule.directions():
        verdict = _directed(directed, limit)
        if isinstance(verdict, Unknown):
            return verdict
        found.append(verdict)
    facts = sorted({f for p in found for f in p.facts})
    patterns = tuple(x for p in found for x in p.patterns)
    return Proved(limit, None, "multiplicities", sum(p.cases for p in found), tuple(facts), patterns)


def _directed(rule: Rule, limit: int | None) -> Proved | Unknown:
    cases, skipped = 0, ""
    facts: set[str] = set()
    patterns: set[str] = set()
    try:
        for case in typings(rule, limit):
            if isinstance(case, Untyped):
                if case.side == "right":
                    return Unknown(f"the right side is not typed: {case.why}")
                if not case.definite:
                    return Unknown(f"some instances may be typed in a way that is not known: {case.why}")
                skipped = case.why
                continue
            proof = Proof(case)
            why = proof.failure()
            if why:
                return Unknown(why)
            facts |= proof.functions.used
            patterns.add(case.pattern)
            cases += 1
    except (Unprovable, Unsupported) as error:
        return Unknown(str(error))
    if not cases:
        return Unknown(f"no typing of the left side is known: {skipped}")
    return Proved(limit, None, "multiplicities", cases, tuple(sorted(facts)), tuple(sorted(patterns)))


@dataclass(slots=True)
class Proof:
    """The proof of one typing."""

    case: Case
    functions: Functions = field(init=False)

    def __post_init__(self) -> None:
        self.functions = Functions(self.case.nonnegative, self.case.positive)

    def failure(self) -> str:
        """Why the typing is not proved; empty when it is."""
        types = self.case.values.types
        for a, b in zip(self.case.left, self.case.right, strict=True):
            if types[a].dtype != types[b].dtype or types[a].rank != types[b].rank:
                return f"the types {types[a]} and {types[b]} differ"
            for d, e in zip(types[a].dims, types[b].dims, strict=True):
                if not self.case.context.implies(Guard(d - e, "==")):
                    return f"the shapes of {types[a]} and {types[b]} are not proved equal"
            why = self._elements(a, b)
            if why:
                return why
        return ""

    def _elements(self, a: int, b: int) -> str:
        """The element at a symbolic index; index variables are split into digits where floors ask for it."""
        dims = self.case.values.types[a].dims
        variables = [(symbol(f"i:{k}"), d) for k, d in enumerate(dims)]
        index: list[Size] = [0 if d == 1 else i for i, d in variables]
        bounds: dict[str, Size] = {str(i): d for i, d in variables if d != 1}
        for _ in range(12):
            context = self.case.context.and_((), bounds)
            try:
                sides, context = self._sides(a, b, index, context)
            except Unprovable as error:
                return str(error)
            sizes = [s for side in sides for t in side for s in t.sizes()]
            split = splitting(sizes, bounds)
            if split is None:
                return self._compared(sides[0], sides[1], context)
            name, divisor = split
            high, low = symbol(f"{name}h"), symbol(f"{name}l")
            extent = bounds.pop(name)
            bounds[str(high)], bounds[str(low)] = floor_divide(extent, divisor), divisor
            index = [replaced(i, {name: high * divisor + low}) for i in index]
        return "an index would have to be split too often"

    def _sides(self, a: int, b: int, index: list[Size], context: Context) -> tuple[list[Sum], Context]:
        """Both elements; a maximum of the left side is known not to be empty, of one on the right it must be shown."""
        left, right = (
            Elements(self.case.nodes, self.case.values.types, self.case.leaves, self.functions) for _ in range(2)
        )
        with deciding(_decider(context)):
            sums = [left.element(a, index, context)]
            context = _with_windows(context, left.windows)
            sums.append(right.element(b, index, context))
            context = _with_windows(context, [w for w in right.windows if w.checked])
        self._defined(left, right, context)
        return sums, context

    def _defined(self, left: Elements, right: Elements, context: Context) -> None:
        """Where the left side is defined, so must the right side be."""
        sizes = self.case.context.and_(self._not_zero(left))
        for (which, head), terms in right.domains.items():
            known = left.domains.get((which, head), [])
            for t in terms:
                if self.functions.defined(which, t.factors[0], context) or any(_same_place(t, k) for k in known):
                    continue
                if not _read_by(known, t, sizes):
                    raise Unprovable(f"the right side may not be defined: {head} must be {which}")
        for w in right.windows:
            here = frozenset(w.context.assumptions)
            others = [v for v in left.windows if not v.guards and here.issuperset(v.context.assumptions)]
            extents = {e for v in others for _, e in v.bound}
            full = not w.guards and all(e in extents or w.context.implies(Guard(e - 1, ">=")) for _, e in w.bound)
            if not full and not w.checked:
                raise Unprovable("a maximum on the right side may be empty")

    def _not_zero(self, side: Elements) -> list[Guard]:
        """Sizes by which every element of a side is divided: where one is 0, nothing of it is defined."""
        base = frozenset(self.case.context.assumptions)
        found: list[Guard] = []
        for (which, head), terms in side.domains.items():
            always = any(t.guards <= base and all(b.startswith("i:") for b, _ in t.bound) for t in terms)
            if which == "nonzero" and head.kind == "size" and always and re.fullmatch(r"[a-z][\w.:]*", head.name):
                found.append(Guard(symbol(head.name) - 1, ">="))
        return found

    def _compared(self, left: Sum, right: Sum, context: Context) -> str:
        try:
            if Equality(self.functions, self.case.reals).same(left, right, context):
                return ""
        except Unprovable as error:
            return str(error)
        return f"not proved equal: {text(left)[:600]} and {text(right)[:600]}"


def _same_place(one: Term, other: Term) -> bool:
    """Whether wherever the first term's one factor is read, the second one's is, and at the same place.

    What sizes alone decide is the same number whether or not it is read.
    """
    one, other = _without_single(one), _without_single(other)
    index = one.factors[0].index
    alone = one.factors[0].head.kind in ("size", "count")
    names = set[str]().union(*map(symbols, index), *(() if alone else (symbols(g.value) for g in other.guards)))
    ranges = [{b for b in term.bound if b[0] in names} for term in (one, other)]
    if index != other.factors[0].index or not ranges[0] >= ranges[1]:
        return False  # bound variables of one name may be different ones
    extents = [e for _, e in one.bound]
    return alone or (other.guards <= one.guards and all(e in extents for _, e in other.bound))


def _read_by(known: Sequence[Term], term: Term, sizes: Context) -> bool:
    """Whether all that one term reads, for any element of the result, others read for some element of it."""
    places = [p for k in known for p in _read_at(k)]
    return all(covered(p, places, sizes) for p in _read_at(term))


def _without_single(term: Term) -> Term:
    """The term without bound variables that can only be 0."""
    single: dict[str, Size] = {b: 0 for b, e in term.bound if e == 1}
    bound = tuple((b, e) for b, e in term.bound if e != 1)
    return replace(replace(term, bound=()).map(single), bound=bound)


def _read_at(term: Term) -> list[Place]:
    """The places of all elements that a term's one factor reads, for some element of the result."""
    return located(term, len(term.factors[0].index), ())


def _with_windows(context: Context, windows: Sequence[Window]) -> Context:
    """The context in which every maximum of windows has an element, wherever it is read."""
    base = frozenset(context.assumptions)
    for w in windows:
        if w.context.bounds.keys() <= context.bounds.keys():
            k = len(context.witnesses) + len(context.waiting)
            names: dict[str, Size] = {b: symbol(f"i:w{k}.{b}") for b, _ in w.bound}
            extents = tuple((str(names[b]), replaced(e, names)) for b, e in w.bound)
            guards = tuple(g.map(names) for g in ordered(w.guards))
            context = context.with_witness(Witness(frozenset(w.context.assumptions) - base, guards, extents))
    return context


def _decider(context: Context):  # type: ignore[no-untyped-def]
    def decide(difference: Size) -> bool | None:
        if context.implies(Guard(difference, ">=")):
            return True
        return False if context.implies(Guard(-difference - 1, ">=")) else None

    return decide


