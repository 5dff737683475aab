"""Renaming: laws that differ in nothing but their names are one law.

Tensors and local names, sizes and attributes, and blocks are named apart from each other; a local name belongs to its
side.  `normal_law` gives the representative of which keys and seeds are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from taso_py.rules.printer import law_text
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Axis,
    Binary,
    Block,
    Call,
    Comparison,
    Condition,
    Declaration,
    Listing,
    Membership,
    Name,
    Predicate,
    Product,
    Quantity,
    Rank,
    Scalar,
    Side,
    Term,
    Variable,
)

NORMAL_NAME = "law"


@dataclass(frozen=True, slots=True)
class Naming:
    """Other names: of tensors, of the local names of each side, of sizes and attributes, and of blocks.

    What is not in a mapping keeps its name.
    """

    tensors: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a rule, each once and in the order in which the printed law mentions them."""

    tensors: tuple[str, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    sizes: tuple[str, ...]
    blocks: tuple[str, ...]

    def all(self) -> tuple[str, ...]:
        """Every name once."""
        return tuple(dict.fromkeys((*self.tensors, *self.left, *self.right, *self.sizes, *self.blocks)))


@lru_cache(maxsize=4096)
def names_of(rule: Rule) -> Names:
    """The names of a rule."""
    left, right = (tuple(dict.fromkeys(name for name, _ in side.lets)) for side in (rule.left, rule.right))
    tensors = dict.fromkeys(
        [v for side, lets in ((rule.left, left), (rule.right, right)) for v in _variables(side) if v not in lets]
        + [d.variable for d in rule.declarations]
        + [v for c in rule.conditions if isinstance(c, Predicate) for v in c.variables]
    )
    parts = list(_expressions(rule))
    sizes = dict.fromkeys(p.name for p in parts if isinstance(p, Name))
    blocks = dict.fromkeys(p.block if isinstance(p, Rank) else p.name for p in parts if isinstance(p, (Rank, Block)))
    return Names(tuple(tensors), left, right, tuple(sizes), tuple(blocks))


def normal_law(rule: Rule) -> Rule:
    """The law under names of its own: x0, x1, ... for tensors, l0, ... for local names, n0, ... for sizes and
    attributes and s0, ... for blocks, in the order of their first occurrence; without documentation, place and proof.

    Two rules have equal ones just when they differ in names alone.  Sides, outputs and clauses keep their order.
    """
    bare = replace(
        rule,
        name=NORMAL_NAME,
        doc="",
        file="",
        line=0,
        promise="proved",
        status="tested",
        patterns=None,
        limit=None,
        types=None,
        at_site=None,
    )
    return _normal_law(bare)


@lru_cache(maxsize=4096)
def _normal_law(bare: Rule) -> Rule:
    """One object for all that differs in documentation, place and proof: caches compare it with itself."""
    return _changed(bare, _normal(bare), NORMAL_NAME)


def _normal(rule: Rule) -> Naming:
    names = names_of(rule)
    local = len(names.left)
    return Naming(
        _numbered("x", names.tensors),
        _numbered("l", names.left),
        _numbered("l", names.right, local),
        _numbered("n", names.sizes),
        _numbered("s", names.blocks),
    )


def own_names(rule: Rule) -> Mapping[str, str]:
    """What the normal law's names of tensors, sizes, attributes and blocks are called in the rule."""
    normal = _normal(rule)
    return {new: old for sort in (normal.tensors, normal.sizes, normal.blocks) for old, new in sort.items()}


def in_own_names(rule: Rule, condition: Condition) -> Condition:
    """A condition of the normal law as one of the rule."""
    normal = _normal(rule)
    back = {new: old for old, new in normal.sizes.items()}
    return _Change(Naming({new: old for old, new in normal.tensors.items()}, sizes=back)).condition(condition)


def normal_text(rule: Rule) -> str:
    """The normal law in print: what keys and seeds are made of."""
    return law_text(normal_law(rule))


def _numbered(letter: str, names: Sequence[str], first: int = 0) -> Mapping[str, str]:
    return {name: f"{letter}{number}" for number, name in enumerate(names, start=first)}


def renamed(rule: Rule, names: Mapping[str, str], name: str | None = None) -> Rule:
    """The rule with other names for tensors, local names, sizes, attributes and blocks, and one for itself.

    ValueError where two names of one sort would become the same.
    """
    return with_names(rule, Naming(names, names, names, names, names), name)


def with_names(rule: Rule, naming: Naming, name: str | None = None) -> Rule:
    """The rule under a naming; ValueError where two names of one sort, or one scope, would become the same."""
    old = names_of(rule)
    _demand_distinct((old.tensors, naming.tensors), (old.left, naming.left))
    _demand_distinct((old.tensors, naming.tensors), (old.right, naming.right))
    _demand_distinct((old.sizes, naming.sizes))
    _demand_distinct((old.blocks, naming.blocks))
    return _changed(rule, naming, rule.name if name is None else name)


def _changed(rule: Rule, naming: Naming, name: str) -> Rule:
    change = _Change(naming)
    return replace(
        rule,
        name=name,
        left=change.side(rule.left, naming.left),
        right=change.side(rule.right, naming.right),
        declarations=tuple(map(change.declaration, rule.declarations)),
        conditions=tuple(map(change.condition, rule.conditions)),
        choices=tuple(map(change.member, rule.choices)),
    )


def _demand_distinct(*sorts: tuple[Sequence[str], Mapping[str, str]]) -> None:
    """A local name may hide a tensor's; after the renaming it may hide no other."""
    origin: dict[str, str] = {}
    for names, given in sorts:
        for name in names:
            new = given.get(name, name)
            if origin.setdefault(new, name) != name:
                raise ValueError(f"{origin[new]} and {name} would both be called {new}")


@dataclass(frozen=True, slots=True)
class _Change:
    naming: Naming

    def side(self, side: Side, local: Mapping[str, str]) -> Side:
        own = {name: local.get(name, name) for name, _ in side.lets}
        tensors = MappingProxyType({**self.naming.tensors, **own})
        lets = tuple((own[name], self.term(term, tensors)) for name, term in side.lets)
        return Side(lets, tuple(self.term(term, tensors) for term in side.outputs))

    def term(self, term: Term, tensors: Mapping[str, str]) -> Term:
        match term:
            case Variable(name):
                return Variable(tensors.get(name, name))
            case Scalar():
                return term
            case Application(operator, arguments, attributes):
                inner = tuple(self.term(a, tensors) for a in arguments)
                return Application(operator, inner, tuple((k, self.expression(v)) for k, v in attributes))

    def expression(self, expression: AttributeExpression) -> AttributeExpression:
        match expression:
            case Quantity():
                return expression
            case Name(name):
                return Name(self.naming.sizes.get(name, name))
            case Rank(block):
                return Rank(self.naming.blocks.get(block, block))
            case Binary(operation, left, right):
                return Binary(operation, self.expression(left), self.expression(right))
            case Call(function, arguments):
                return Call(function, tuple(map(self.expression, arguments)))
            case Listing(items):
                return Listing(tuple(self.block(i) if isinstance(i, Block) else self.expression(i) for i in items))

    def block(self, block: Block) -> Block:
        return replace(block, name=self.naming.blocks.get(block.name, block.name))

    def axis(self, axis: Axis) -> Axis:
        match axis:
            case Block():
                return self.block(axis)
            case Product(factors):
                return Product(tuple(map(self.expression, factors)))
            case _:
                return self.expression(axis)

    def declaration(self, declaration: Declaration) -> Declaration:
        variable = declaration.variable
        return Declaration(self.naming.tensors.get(variable, variable), tuple(map(self.axis, declaration.axes)))

    def condition(self, condition: Condition) -> Condition:
        match condition:
            case Comparison(left, relation, right):
                return Comparison(self.expression(left), relation, self.expression(right))
            case Membership():
                return self.member(condition)
            case Predicate(name, variables, arguments):
                tensors = self.naming.tensors
                return Predicate(name, tuple(tensors.get(v, v) for v in variables), arguments)

    def member(self, member: Membership) -> Membership:
        variable = self.naming.sizes.get(member.variable, member.variable)
        return Membership(variable, tuple(map(self.expression, member.menu)))


def _variables(side: Side) -> Iterator[str]:
    """Tensors and uses of local names, in the order of the text."""
    for term in _roots(side):
        yield from _within(term)


def _roots(side: Side) -> tuple[Term, ...]:
    return (*(term for _, term in side.lets), *side.outputs)


def _within(term: Term) -> Iterator[str]:
    if isinstance(term, Variable):
        yield term.name
    elif isinstance(term, Application):
        for argument in term.arguments:
            yield from _within(argument)


def _attributes(term: Term) -> Iterator[AttributeExpression]:
    if isinstance(term, Application):
        for argument in term.arguments:
            yield from _attributes(argument)
        for _, value in term.attributes:
            yield value


def _expressions(rule: Rule) -> Iterator[AttributeExpression | Block]:
    """Names, ranks and blocks in the order of the text."""
    for side in (rule.left, rule.right):
        for term in _roots(side):
            for value in _attributes(term):
                yield from _leaves(value)
    for declaration in rule.declarations:
        for axis in declaration.axes:
            yield from _leaves(axis)
    for condition in (*rule.conditions, *rule.choices):
        if isinstance(condition, Comparison):
            yield from _leaves(condition.left)
            yield from _leaves(condition.right)
        elif isinstance(condition, Membership):
            yield Name(condition.variable)
            for value in condition.menu:
                yield from _leaves(value)


def _leaves(part: Axis) -> Iterator[AttributeExpression | Block]:
    match part:
        case Binary(_, left, right):
            yield from _leaves(left)
            yield from _leaves(right)
        case Call(_, inner) | Listing(inner) | Product(inner):
            for item in inner:
                yield from _leaves(item)
        case Quantity():
            return
        case _:
            yield part
