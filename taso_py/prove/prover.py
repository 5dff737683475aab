"""Proves a rule for all sizes: every typing, every output, every index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from taso_py.graph.ordering import deciding
from taso_py.graph.sizes import Expression, Role, Size, Symbol, floor_divide
from taso_py.ops.algebra import Algebra
from taso_py.prove.expansion.judge import Enumerated, bounded
from taso_py.prove.kernel.arithmetic import Context, Guard, Witness, ordered, replaced
from taso_py.prove.kernel.attempt import STEPS, Attempt, Unprovable
from taso_py.prove.kernel.congruence import Alike
from taso_py.prove.kernel.definedness import Definedness
from taso_py.prove.kernel.equality import Equality
from taso_py.prove.kernel.facts import Functions
from taso_py.prove.kernel.maxima import unbounded
from taso_py.prove.kernel.normal import Sum, scaled, splitting, text
from taso_py.prove.kernel.obligations import FORM, Z3, Kind, Obligation, implied
from taso_py.prove.kernel.simplify import collected
from taso_py.prove.kernel.values import Elements, MaximumRange
from taso_py.prove.typings.conditions import condition, stated
from taso_py.prove.typings.reach import proved_types
from taso_py.prove.typings.schema import Case, Untyped, typings
from taso_py.prove.typings.shapes import Unsupported
from taso_py.prove.typings.site import Site
from taso_py.prove.verdict import Proved, Reason, Unknown
from taso_py.rules.alpha import normal_law
from taso_py.rules.coverage import arithmetic_on_axes, may_be_empty
from taso_py.rules.coverage import covered as covered_by
from taso_py.rules.rule import Rule
from taso_py.rules.term import Comparison

_CONDITIONS = 12
"""Most conditions that are added to one law."""
BOUND = 2
"""Largest size in proofs for bounded sizes."""


def prove(rule: Rule) -> Proved | Unknown:
    """Proves ``rule`` (both directions of an ``==`` law) for all sizes, else up to `BOUND`; never refutes it.

    A claim for bounded sizes is one that was enumerated: all instances over stated menus, beside the typings.
    """
    verdict = prove_all_sizes(rule)
    if isinstance(verdict, Proved):
        return verdict
    small = _both(rule, BOUND, Attempt())
    if isinstance(small, Unknown):
        return verdict
    shown = [bounded(directed, BOUND) for directed in normal_law(rule).directions()]
    if not all(isinstance(e, Enumerated) for e in shown):
        return verdict
    ranks = min(e.menus.ranks for e in shown if isinstance(e, Enumerated))
    return replace(small, ranks=ranks, method="enumeration")


def prove_all_sizes(rule: Rule, steps: int = STEPS) -> Proved | Unknown:
    """`prove` without the fallback to bounded sizes, and with so many steps at most."""
    return _both(rule, None, Attempt(steps))


def _both(rule: Rule, limit: int | None, attempt: Attempt) -> Proved | Unknown:
    """All directions of a rule."""
    found: list[Proved] = []
    with attempt.working():
        for directed in normal_law(rule).directions():
            verdict = _directed(directed, limit)
            if isinstance(verdict, Unknown):
                return verdict
            found.append(verdict)
    facts = sorted({f for p in found for f in p.facts})
    patterns = tuple(x for p in found for x in p.patterns)
    ranks = min((p.ranks for p in found if p.ranks is not None), default=None)
    cases = sum(p.cases for p in found)
    shown = tuple(x for p in found for x in p.obligations)
    return Proved(
        limit, ranks, "multiplicities", cases, tuple(facts), patterns, types=found[0].types, obligations=shown
    )


def prove_with_conditions(rule: Rule, steps: int = STEPS) -> tuple[Rule, Proved | Unknown, int]:
    """Proves the rule with the conditions that its right side needs; that rule, the verdict, the steps left."""
    for _ in range(_CONDITIONS):
        attempt = Attempt(steps)
        verdict = _both(rule, None, attempt)
        steps = attempt.steps
        if isinstance(verdict, Proved) or verdict.missing is None:
            break
        rule = stated(rule, verdict.missing)
    return rule, verdict, steps


def prove_at(rule: Rule, site: Site, steps: int) -> Proved | Unknown:
    """Proves a directed rule for all sizes at one match's numbers of axes, axes and flags; names are normal ones."""
    with Attempt(steps).working():
        return _directed(rule, None, site)


def _directed(rule: Rule, limit: int | None, site: Site | None = None) -> Proved | Unknown:
    cases, largest, skipped = 0, 0, ""
    facts: set[str] = set()
    kinds: set[Algebra] = set()
    patterns: set[str] = set()
    shown: list[tuple[str, tuple[Obligation, ...]]] = []
    try:
        for case in typings(rule, limit, site):
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
                return Unknown(why, missing=proof.missing)
            facts |= proof.facts
            shown.append((case.patterns[0], tuple(proof.obligations)))
            patterns.update(case.patterns)
            kinds |= case.kinds
            largest = max(largest, case.rank)
            cases += 1
    except (Unprovable, Unsupported) as error:
        return Unknown(str(error))
    if not cases:
        return Unknown(f"no typing of the left side is known: {skipped}", Reason.UNTYPED)
    ranks = None if site is not None or general(rule, patterns, limit) else largest
    types = proved_types(rule, kinds)
    if types == ():
        return Unknown("no element type holds its literals")
    signatures = tuple(sorted(patterns))
    found = (limit, ranks, "multiplicities", cases, tuple(sorted(facts)), signatures)
    return Proved(*found, types=types, obligations=tuple(shown))


WIDE = 120
"""Most typings with one axis more that are looked at before a claim is kept to the numbers of axes that were proved."""


def general(rule: Rule, patterns: Iterable[str], limit: int | None) -> bool:
    """Whether proved typings cover every number of axes.

    They do where the rule does not compute with axes and where, with one axis more than any proof has looked at, all
    typings are instances of proved ones: the further axes are parallel throughout.
    """
    if arithmetic_on_axes(rule):
        return False
    known = tuple(patterns)
    try:
        for count, case in enumerate(typings(rule, limit, wide=True)):
            if count >= WIDE:
                return False
            if not (case.definite if isinstance(case, Untyped) else covered_by(known, case.patterns[0])):
                return False
    except (Unprovable, Unsupported):
        return False
    return True


@dataclass(slots=True)
class Proof:
    """The proof of one typing."""

    case: Case
    functions: Functions = field(init=False)
    obligations: list[Obligation] = field(default_factory=list)
    """What has been shown so far."""
    facts: set[str] = field(default_factory=set)
    """Facts that were used."""
    missing: Comparison | None = None
    """A condition that would be needed, where `failure` is for want of one."""

    def __post_init__(self) -> None:
        nonzero = frozenset(r.value for r in self.case.reals if r.kind in (">", "!="))
        case = self.case
        self.functions = Functions(case.nonnegative, case.positive, nonzero, nonzero_tensors=case.nonzero)

    def failure(self) -> str:
        """Why the typing is not proved; empty when it is."""
        for operator, size in self.case.required:
            if not self._implied("size", f"{operator} on the right: {size} >= 0", Guard(size, ">=")):
                self.missing = condition(size, self.case.named)
                return f"the right side's {operator} is not defined unless {size} >= 0: state the condition"
        why = self._indices()
        if why:
            return why
        for k, (a, b) in enumerate(zip(self.case.left, self.case.right, strict=True), start=1):
            why = self._typed(f"output {k}", a, b) or self._same(f"output {k}", a, b)
            self.facts |= self.functions.used
            self.functions.used = set()
            if why:
                return why
        return ""

    def _indices(self) -> str:
        """Indices that the right side computes with at run time are in range where those of the left side are."""
        case = self.case
        left, right = (
            Elements(case.nodes, case.values.types, case.leaves, self.functions, demands=list(demands))
            for demands in (case.ranges.left, case.ranges.right)
        )
        try:
            self.obligations += Definedness(self.functions, left, right, case.context, case.context).obligations()
        except Unprovable as error:
            return str(error)
        return ""

    def _implied(self, kind: Kind, what: str, wanted: Guard) -> bool:
        by = implied(self.case.context, wanted)
        if by:
            self.obligations.append(Obligation(kind, what, by))
        return bool(by)

    def _typed(self, name: str, a: int, b: int) -> str:
        """Equal element types, numbers of axes and sizes."""
        types = self.case.values.types
        if types[a].dtype != types[b].dtype or types[a].rank != types[b].rank:
            return f"the types {types[a]} and {types[b]} differ"
        what = f"{name}: the elements and number of axes of {types[a]} and {types[b]}"
        self.obligations.append(Obligation("typing", what, FORM))
        for d, e in zip(types[a].dims, types[b].dims, strict=True):
            if not self._implied("size", f"{name}: {d} == {e}", Guard(d - e, "==")):
                return f"the shapes of {types[a]} and {types[b]} are not proved equal"
        return ""

    def _same(self, name: str, a: int, b: int) -> str:
        """Equal elements: of the values themselves, or of those from which both are computed alike.

        Where the latter are equal and defined throughout, nothing that the same computation hides makes a difference.
        """
        shown = len(self.obligations)
        why = self._elements(name, a, b)
        if not why:
            return why
        alike = Alike(self.case.nodes, self.case.values.types)
        context = self.case.context.and_(self._filled(a))
        with deciding(_decider(context)):
            if not alike.differ(a, b) or (a, b) in alike.pairs or alike.divides(self.functions, context):
                return why
        del self.obligations[shown:]
        self.functions.used = set()
        for k, (c, d) in enumerate(alike.pairs, start=1):
            part = f"{name}, part {k}"
            if self._typed(part, c, d) or self._elements(part, c, d, total=True):
                del self.obligations[shown:]
                return why
        return ""

    def _elements(self, name: str, a: int, b: int, *, total: bool = False) -> str:
        """The element at a symbolic index; index variables are split into digits where floors ask for it."""
        dims = self.case.values.types[a].dims
        variables = [(Symbol(str(k), Role.INDEX), d) for k, d in enumerate(dims)]
        index: list[Size] = [0 if d == 1 else i.size for i, d in variables]
        whole: dict[Symbol, Size] = {i: d for i, d in variables if d != 1}
        bounds = dict(whole)
        for _ in range(12):
            context = self.case.context.and_((), bounds)
            try:
                sides, context, shown = self._sides(a, b, index, context, total=total)
            except Unprovable as error:
                return str(error)
            sizes = [s for side in sides for t in side for s in t.sizes()]
            split = splitting(sizes, bounds, context.is_natural)
            if split is None:
                if not context.possible(()) and self.case.context.and_((), whole).possible(()):
                    return f"{name}: nothing is left to compare"
                self.obligations += shown
                return self._compared(f"{name} at [{', '.join(map(str, index))}]", sides[0], sides[1], context)
            digit, divisor = split
            high, low = digit.followed_by("h"), digit.followed_by("l")
            extent = bounds.pop(digit)
            bounds[high], bounds[low] = floor_divide(extent, divisor), divisor
            index = [replaced(i, {digit: high.size * divisor + low.size}) for i in index]
        return "an index would have to be split too often"

    def _sides(
        self, a: int, b: int, index: list[Size], context: Context, *, total: bool
    ) -> tuple[list[Sum], Context, list[Obligation]]:
        """Both elements, and why the right one is defined; with ``total``, why both always are.

        A maximum of the left side is known not to be empty, of one on the right it must be shown.  Windows that their
        operator demands to be filled are known after a first look, for maxima in which minus infinity takes part.
        """
        self.functions.filled = ()
        found = self._looked_at(a, b, index, context)
        if any(map(unbounded, found[2])):
            windows = [w for side in found[:2] for w in side.windows if w.checked and _everywhere(w, found[3])]
            self.functions.filled = tuple((w.bound, w.guards) for w in windows)
            found = self._looked_at(a, b, index, context)
        left, right, sums, context = found
        self.functions.certain = left.certain(self.case.context)
        defined = Definedness(self.functions, left, right, self.case.context, context, tuple(self._filled(a)))
        return sums, context, defined.everywhere() if total else defined.obligations()

    def _filled(self, output: int) -> Iterator[Guard]:
        """Sizes of what an output of the left side sums or regroups are not 0 at a match (`rules.coverage`)."""
        level, seen = [output], {output}
        while level:
            value = level.pop()
            node = self.case.nodes.get(value)
            if node is None:
                continue
            inputs = {i for i in node.inputs if i is not None}
            dims = {d: None for v in sorted({*inputs, value}) for d in self.case.values.types[v].dims}
            if not may_be_empty(node.operator) and 0 not in dims:
                yield from (Guard(f - 1, ">=") for d in dims if not isinstance(d, int) for f in _factors(d))
            level += sorted(inputs - seen)
            seen |= inputs

    def _looked_at(
        self, a: int, b: int, index: list[Size], context: Context
    ) -> tuple[Elements, Elements, list[Sum], Context]:
        left, right = (
            Elements(self.case.nodes, self.case.values.types, self.case.leaves, self.functions) for _ in range(2)
        )
        with deciding(_decider(context)):
            sums = [left.element(a, index, context)]
            context = _with_windows(context, left.windows)
            sums.append(right.element(b, index, context))
            return left, right, sums, _with_windows(context, [w for w in right.windows if w.checked])

    def _compared(self, what: str, left: Sum, right: Sum, context: Context) -> str:
        try:
            if Equality(self.functions, self.case.reals).same(left, right, context):
                alike = left == right or not collected((*left, *scaled(right, -1)))
                by = "; ".join((FORM if alike else Z3, *sorted(self.functions.used)))
                self.obligations.append(Obligation("equality", what, by))
                return ""
        except Unprovable as error:
            return str(error)
        return f"not proved equal: {text(left)[:600]} and {text(right)[:600]}"


def _factors(size: Expression) -> tuple[Size, ...]:
    """What is not 0 where a size is not: the size, and the natural sizes that it is a product of."""
    if len(size.terms) != 1:
        return (size,)
    ((atoms, _),) = size.terms
    return (size, *(a.size for a in atoms if isinstance(a, Symbol) and a.natural))


def _everywhere(window: MaximumRange, context: Context) -> bool:
    """Whether a maximum is read wherever the result has an element: one inside of a Pad is not read in the padding."""
    bounds = window.context.bounds.keys() <= context.bounds.keys()
    return bounds and frozenset(window.context.assumptions) <= frozenset(context.assumptions)


def _with_windows(context: Context, windows: Sequence[MaximumRange]) -> Context:
    """The context in which every maximum of windows has an element, wherever it is read."""
    base = frozenset(context.assumptions)
    for w in windows:
        if w.context.bounds.keys() <= context.bounds.keys():
            k = len(context.witnesses) + len(context.waiting)
            names = {b: Symbol(f"w{k}.{b}", Role.INDEX) for b, _ in w.bound}
            values: dict[Symbol, Size] = {b: name.size for b, name in names.items()}
            extents = tuple((names[b], replaced(e, values)) for b, e in w.bound)
            guards = tuple(g.map(values) for g in ordered(w.guards))
            context = context.with_witness(Witness(frozenset(w.context.assumptions) - base, guards, extents))
    return context


def _decider(context: Context):  # type: ignore[no-untyped-def]
    def decide(difference: Size) -> bool | None:
        if context.implies(Guard(difference, ">=")):
            return True
        return False if context.implies(Guard(-difference - 1, ">=")) else None

    return decide
