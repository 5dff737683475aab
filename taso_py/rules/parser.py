"""Parsing rules; errors name file, line and column."""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken, v_args

from taso_py.errors import RuleError, TypingError
from taso_py.ops import OPERATORS
from taso_py.rules.predicates import PREDICATES
from taso_py.rules.rule import Rule
from taso_py.rules.term import (
    Application,
    Binary,
    Block,
    Call,
    Comparison,
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
    Variable,
)

_DIGITS = 300
"""Most characters of a number: Python writes no integer of over 4,300 digits, and no float has one of over 308."""


def parse_rules(text: str, file: str = "<text>") -> tuple[Rule, ...]:
    """The rules of a text; each is checked for unbound names."""
    try:
        found: Any = _lark().parse(text)
    except UnexpectedInput as error:
        raise RuleError(_explain(error, file)) from None
    except _Misspelt as error:
        raise RuleError(f"{file}:{error.place.line}:{error.place.column}: {error}") from None
    rules: tuple[Rule, ...] = tuple(dataclasses.replace(rule, file=file) for rule in found)
    for rule in rules:
        rule.check()
    return rules


def parse_rule(text: str) -> Rule:
    """The one rule of a text."""
    (rule,) = parse_rules(text)
    return rule


@lru_cache(maxsize=1)
def _lark() -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text()
    # Building rules while parsing, without a tree in between, takes less than half the time.
    return Lark(grammar, parser="lalr", transformer=_Build())


def _explain(error: UnexpectedInput, file: str) -> str:
    at = f"{file}:{error.line}:{error.column}"
    if isinstance(error, UnexpectedToken):
        found = "the end of the file" if error.token.type == "$END" else f"{str(error.token)!r}"
        *others, last = sorted({words for name in error.accepts or error.expected for words in _in_words(name)})
        wanted = f"{', '.join(others)} or {last}" if others else last
        return f"{at}: unexpected {found}; expected {wanted}"
    if isinstance(error, UnexpectedCharacters):
        return f"{at}: unexpected character {error.char!r}"
    return f"{at}: the text ends in the middle of a rule"


_WORDS = {
    "ARROW": ("'=>'", "'=='"),
    "RELATION": ("'=='", "'!='", "'<='", "'>='", "'<'", "'>'"),
    "FUNCTION": ("a function of lists",),
    "RULE_NAME": ("a rule's name",),
    "OPERATOR": ("an operator",),
    "NAME": ("a name",),
    "NUMBER": ("a number",),
    "SIGNED": ("a number",),
    "STRING": ("a text in double quotes",),
    "$END": ("the end of the file",),
}
"""What stands for a token of the grammar in a text, where it is not one text only."""


def _in_words(token: str) -> tuple[str, ...]:
    known = _WORDS.get(token)
    return (f"'{_lark().get_terminal(token).pattern.value}'",) if known is None else known


class _Misspelt(Exception):
    """A name or number at ``place`` that means nothing there."""

    def __init__(self, place: Token, message: str) -> None:
        super().__init__(message)
        self.place = place


def _number(token: Token) -> int | float:
    text = str(token)
    if len(text) > _DIGITS:
        raise _Misspelt(token, f"a number of {len(text)} characters: at most {_DIGITS} are read")
    value = int(text) if text.isdigit() else float(text)
    if math.isinf(value):
        raise _Misspelt(token, f"{text} is beyond what a float holds: infinity is written inf, in an attribute")
    return value


def _binary(operation: str) -> Any:
    return lambda self, left, right: Binary(operation, left, right)  # type: ignore[arg-type]


def _infix(name: str) -> Any:
    return lambda self, *arguments: Application(OPERATORS[name], arguments)


@v_args(inline=True)
class _Build(Transformer[Token, list[Rule]]):
    def start(self, *rules: Rule) -> list[Rule]:
        return list(rules)

    def rule(self, name: Token, doc: Token | None, left: Side, arrow: Token, right: Side, *clauses: Any) -> Rule:
        found: dict[str, list[Any]] = {"for": [], "when": [], "choose": []}
        for keyword, items in clauses:
            found[keyword].extend(items)
        return Rule(
            name=str(name),
            left=left,
            right=right,
            arrow="==" if arrow == "==" else "=>",
            declarations=tuple(found["for"]),
            conditions=tuple(found["when"]),
            choices=tuple(found["choose"]),
            doc=str(doc)[1:-1] if doc else "",
            line=name.line or 0,
        )

    def side(self, *parts: Any) -> Side:
        lets = tuple(p for p in parts if isinstance(p, tuple))
        return Side(lets, tuple(p for p in parts if not isinstance(p, tuple)))

    def let(self, name: Token, term: Any) -> tuple[str, Any]:
        return (str(name), term)

    def declarations(self, *items: Any) -> tuple[str, tuple[Any, ...]]:
        return ("for", items)

    def conditions(self, *items: Any) -> tuple[str, tuple[Any, ...]]:
        return ("when", items)

    def choices(self, *items: Any) -> tuple[str, tuple[Any, ...]]:
        return ("choose", items)

    def declaration(self, name: Token, *axes: Any) -> Declaration:
        return Declaration(str(name), tuple(a for a in axes if a is not None))

    def block(self, name: Token) -> Block:
        return Block(str(name))

    def broadcast_block(self, name: Token) -> Block:
        return Block(str(name), broadcast=True)

    def product(self, *factors: Any) -> Product:
        return Product(tuple(factors))

    def plain_axis(self, expression: Any) -> Any:
        return expression

    def comparison(self, left: Any, relation: Token, right: Any) -> Comparison:
        return Comparison(left, str(relation), right)  # type: ignore[arg-type]

    def member(self, name: Token, *menu: Any) -> Membership:
        return Membership(str(name), tuple(menu))

    def condition(self, item: Any) -> Any:
        return item

    def predicate(self, name: Token, *arguments: Any) -> Predicate:
        if str(name) not in PREDICATES:
            raise _Misspelt(name, f"unknown predicate {name}; known are {', '.join(sorted(PREDICATES))}")
        variables = tuple(a for a in arguments if isinstance(a, str))
        return Predicate(str(name), variables, tuple(a for a in arguments if not isinstance(a, str)))

    def predicate_variable(self, name: Token) -> str:
        return str(name)

    def predicate_number(self, number: Token) -> float:
        return float(_number(number))

    def variable(self, name: Token) -> Variable:
        return Variable(str(name))

    def scalar(self, number: Token) -> Scalar:
        return Scalar(float(_number(number)))

    def negate(self, term: Any) -> Any:
        if isinstance(term, Scalar):
            return Scalar(-term.value)
        return Application(OPERATORS["Neg"], (term,))

    def application(self, name: Token, *parts: Any) -> Application:
        operator = OPERATORS.get(str(name))
        if operator is None:
            raise _Misspelt(name, f"unknown operator {name}")
        arguments = tuple(p for p in parts if p is not None and not isinstance(p, tuple))
        attributes = tuple(p for p in parts if isinstance(p, tuple))
        fields = {f.name for f in dataclasses.fields(operator)}
        try:
            operator.check_arity(len(arguments))
        except TypingError as error:
            named = (
                f"; its attributes are written by name: {', '.join(f'{f}=' for f in sorted(fields))}" if fields else ""
            )
            raise _Misspelt(name, f"{error}{named}") from None
        for key, _ in attributes:
            if key not in fields:
                raise _Misspelt(name, f"{name} has no attribute {key}; it has {', '.join(sorted(fields)) or 'none'}")
        return Application(operator, arguments, attributes)

    def operand(self, term: Any) -> Any:
        return term

    def attribute(self, name: Token, value: Any) -> tuple[str, Any]:
        return (str(name), value)

    def sequence(self, *items: Any) -> Listing:
        return Listing(tuple(i for i in items if i is not None))

    def string(self, text: Token) -> Quantity:
        return Quantity(str(text)[1:-1])

    def name(self, name: Token) -> Name:
        return Name(str(name))

    def number(self, number: Token) -> Quantity:
        return Quantity(_number(number))

    def infinity(self) -> Quantity:
        return Quantity(float("inf"))

    def expr_neg(self, atom: Any) -> Any:
        if isinstance(atom, Quantity) and not isinstance(atom.value, str):
            return Quantity(-atom.value)
        return Call("neg", (atom,))

    def rank(self, name: Token) -> Rank:
        return Rank(str(name))

    def call(self, function: Token, *arguments: Any) -> Call:
        return Call(str(function), tuple(arguments))

    add = _infix("Add")
    sub = _infix("Sub")
    mul = _infix("Mul")
    div = _infix("Div")
    matmul = _infix("MatMul")
    expr_add = _binary("+")
    expr_sub = _binary("-")
    expr_mul = _binary("*")
    expr_div = _binary("/")
    expr_floordiv = _binary("//")
    expr_mod = _binary("%")
