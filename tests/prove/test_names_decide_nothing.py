"""What is proved rests on what symbols, heads and rules are, never on what they are called, nor on texts of errors."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Collection, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import taso_py
from taso_py.ops import OPERATORS

PACKAGE = Path(taso_py.__file__).parent
SOURCES = sorted(path for room in ("prove", "rules", "generate") for path in (PACKAGE / room).rglob("*.py"))
AFFIXES = {"startswith", "endswith", "removeprefix", "removesuffix"}
ONNX_WORDS = {*OPERATORS, *(f.name for operator in OPERATORS.values() for f in fields(operator))}
"""Names of operators and attributes, which are ONNX's and nobody else's."""
ALLOWED = {
    ("prove/kernel/normal.py", "import re"): "sorts terms by their texts without the numbers of bound variables",
    ("rules/rule.py", "self.name.removesuffix(_REVERSED)"): "how a law read backwards is called; `backwards` decides",
}
"""Lines that look at a text all the same, each with its reason."""


def findings(source: str, constants: dict[str, object]) -> Iterator[str]:
    """What is done to names and texts of errors in a module with these ``constants``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names) if any(alias.name == "re" for alias in names):
                yield ast.unparse(node)
            case ast.Call(ast.Attribute(_, method)) if method in AFFIXES:
                yield ast.unparse(node)
            case ast.Compare(left, _, rights) if any(_tells([left, *rights], constants)):
                yield ast.unparse(node)
            case ast.Match(ast.Attribute(_, "name")):
                yield ast.unparse(node.subject)


def _tells(operands: list[ast.expr], constants: dict[str, object]) -> Iterator[bool]:
    words = {word for operand in operands for word in _words(operand, constants)}
    for operand in operands:
        match operand:
            case ast.Attribute(_, "name"):
                yield bool(words)
            case ast.Name("name" | "names"):
                yield not words <= ONNX_WORDS
            case ast.Call(ast.Name("str"), [ast.Name("error" | "exception" | "e")]) | ast.Attribute(_, "args"):
                yield True


def _words(operand: ast.expr, constants: dict[str, object]) -> Collection[str]:
    """The texts that an operand is or holds, where it is a constant."""
    match operand:
        case ast.Constant(str(text)):
            return (text,)
        case ast.Tuple(items) | ast.Set(items) | ast.List(items):
            return [word for item in items for word in _words(item, constants)]
        case ast.Name(name) if isinstance(held := constants.get(name), tuple | list | set | frozenset | dict):
            return [word for word in held if isinstance(word, str)]
        case _:
            return ()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_name_decides(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    module = importlib.import_module(".".join(("taso_py", *path.relative_to(PACKAGE).with_suffix("").parts)))
    found = {(place, text) for text in findings(path.read_text(encoding="utf-8"), vars(module))}
    assert found == {key for key in ALLOWED if key[0] == place}


def test_few_lines_are_allowed() -> None:
    assert len(ALLOWED) <= 10


@pytest.mark.parametrize(
    "line",
    [
        'if symbol.startswith("_"): pass',
        'found = name.endswith("-reversed")',
        "import re",
        'if head.name == "exp": pass',
        "if head.name in FUNCTIONS: pass",
        'if name in ("abs", "exp"): pass',
        'if "rank" in str(error): pass',
        'if error.args == ("rank",): pass',
        'match head.name:\n  case "abs": pass',
    ],
)
def test_what_is_found(line: str) -> None:
    assert list(findings(line, {"FUNCTIONS": frozenset({"exp"})}))


@pytest.mark.parametrize(
    "line", ['if name == "axis": pass', "if head.name == other: pass", 'if head.kind == "size": pass']
)
def test_what_is_not(line: str) -> None:
    assert not list(findings(line, {}))
