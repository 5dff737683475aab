"""From equal terms to rules: the forms of a law from the most general one down, each with sizes instead of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taso_py.errors import TypingError
from taso_py.generate.laws.equations import Unsized
from taso_py.generate.laws.forms import FORMS
from taso_py.generate.laws.pairs import VARIABLE, Law, applications, leaves, outputs
from taso_py.generate.laws.sizing import Sizing, Solved
from taso_py.generate.laws.typed import Typed, operators
from taso_py.generate.terms.templates import TemplateSet
from taso_py.ops.constants import Eye
from taso_py.ops.operator import Operator
from taso_py.rules.printer import law_text
from taso_py.rules.rule import Rule
from taso_py.rules.term import Comparison, Name, Quantity

_WINDOWS = frozenset({"group", "strides", "pads", "kernel_shape", "scales"})
_LOOSE: Sequence[tuple[frozenset[str], Solved, bool]] = (
    (_WINDOWS | {"around"}, "larger", False),
    (_WINDOWS | {"around"}, "smaller", False),
    (_WINDOWS | {"around"}, "around", False),
    (_WINDOWS | {"around"}, "", False),
    (_WINDOWS, "", False),
    (_WINDOWS - {"group"}, "", False),
    (frozenset({"kernel_shape", "pads"}), "window", False),
    (frozenset({"group", "strides"}), "", False),
    (frozenset({"strides"}), "", False),
    (frozenset(), "", False),
    (_WINDOWS, "", True),
    (frozenset(), "", True),
)
"""Which attributes become variables, which of them depends on others, and whether kernels of one pixel stay such and
move by one; the most general form first."""


def rules(law: Law, chosen: TemplateSet) -> list[list[Rule]]:
    """The forms of the law as rules, the most general first, those of which none is more general together.

    None without a variable or a symbolic typing.
    """
    if not any(leaf[0] == VARIABLE for leaf in leaves(law[0])):
        return []
    found: dict[str, Rule] = {}
    together: list[list[Rule]] = [[]]
    windows = _has_windows(law, chosen)
    related = _related(law, chosen) if windows else []
    for loose, solved, pointwise in _LOOSE:
        if solved and not windows:
            continue
        for rule in _forms(law, chosen, Sizing(loose, solved, pointwise), related):
            if found.setdefault(law_text(rule), rule) is rule:
                if "around" in loose and solved:
                    together[0].append(rule)
                else:
                    together.append([rule])
        if not windows:
            break
    levels = [forms for forms in together if forms]
    return [*levels, *(_of_two_or_more(levels[0][0]) if levels else ())]


def _of_two_or_more(rule: Rule) -> list[list[Rule]]:
    """The rule where no constant matrix is a single number, which broadcasts: as a law, then one direction alone."""
    constants = [a for side in (rule.left, rule.right) for a in side.applications() if a.operator is Eye]
    sizes = dict.fromkeys(e for a in constants for _, e in a.attributes if isinstance(e, Name))
    if not sizes:
        return []
    more = tuple(Comparison(size, ">=", Quantity(2)) for size in sizes)
    larger = replace(rule, conditions=(*rule.conditions, *more))
    directed = [replace(r, arrow="=>", name=rule.name) for r in (larger, larger.reversed())]
    return [[larger], *([r] for r in directed if not r.unbound())] if rule.arrow == "==" else [[larger]]


def _has_windows(law: Law, chosen: TemplateSet) -> bool:
    used = {chosen.templates[t[0]].operator for side in law for t in applications(side)}
    return any({"strides", "pads", "scales"} & o.__dataclass_fields__.keys() for o in used)


def _related(law: Law, chosen: TemplateSet) -> list[Operator]:
    """The law's operators, whose windows and pads may be sums of each other; none where the law has no typing."""
    try:
        return operators(law, chosen)
    except (Unsized, TypingError, ValueError):
        return []


def _forms(law: Law, chosen: TemplateSet, sizing: Sizing, related: Sequence[Operator]) -> Iterator[Rule]:
    try:
        typed = Typed(chosen, sizing)
        if sizing.solved:
            typed.relate(related)
            if not sizing.summed:
                return
        sides = [[typed.add(tree) for tree in outputs(side)] for side in law]
        for one, other in zip(*sides, strict=True):
            for a, b in zip(typed.dims[one], typed.dims[other], strict=True):
                typed.sizing.unify(a, b)
    except (Unsized, TypingError, ValueError):
        return
    for form in FORMS:
        try:
            rule = form(typed).rule(sides[0], sides[1])
        except (Unsized, TypingError):
            continue
        if rule is not None:
            yield rule
