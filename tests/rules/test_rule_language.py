"""The rule language: what it parses, what it refuses, and how names are bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from taso_py.errors import RuleError
from taso_py.graph.sizes import symbol
from taso_py.rules.functions import FUNCTIONS
from taso_py.rules.library import load_file
from taso_py.rules.parser import _WORDS, _lark, parse_rule, parse_rules
from taso_py.rules.term import Block, Listing, Name, Quantity, Rank
from taso_py.rules.unify import Binding


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rule a: Relu(x) =>", "f.rules:1:"),
        ("rule a:\n  Relu(x) => Nothing(x)", "f.rules:2:14: unknown operator Nothing"),
        ("rule a:\n  Relu(x, slope=1) => x", "f.rules:2:3: Relu has no attribute slope"),
        ("rule a:\n  Relu(x, y) => x", "f.rules:2:3: Relu takes 1 operand, got 2"),
        (
            "rule a:\n  Pow(x, 2.0) => x * x",
            "f.rules:2:3: Pow takes 1 operand, got 2; its attributes are written by name",
        ),
        ("rule a:\n  MatMul(x) => x", "f.rules:2:3: MatMul takes 2 operands, got 1"),
        ("rule a:\n  Conv(x) => x", "f.rules:2:3: Conv takes 2 to 3 operands, got 1"),
        ("rule a:\n  Max() => x", "f.rules:2:3: Max takes 1 or more operands, got 0"),
        ("rule a: Relu(x) => y", "rule a: y on the right is bound by nothing"),
        ("rule a: Relu(x) => x for y[n]", "y is declared but not used"),
        ("rule a: Relu(x) => x for x[n], x[m]", "x is declared 2 times"),
        ("rule a: Relu(x) => x when odd(x)", "unknown predicate odd"),
        ("rule a:\n  x => x - x + " + "1" * 301, "f.rules:2:16: a number of 301 characters: at most 300 are read"),
        ("rule a:\n  Add(x, -1." + "0" * 5000 + ") => x", "f.rules:2:11: a number of 5002 characters"),
        ("rule a: Min(x, 2e400) => x", "f.rules:1:16: 2e400 is beyond what a float holds"),
        ("rule a: Clip(x, max=1e309) => x", "f.rules:1:21: 1e309 is beyond what a float holds"),
        ("rule a: Relu(x), Abs(x) => x", "2 outputs on the left, 1 on the right"),
        ("rule a: Relu(x) => x when n > 1", "condition on unbound n"),
        ("rule a: Relu(x) => let y = Abs(x) in let y = Relu(y) in y", "let y stands there twice"),
        (
            "rule a: Relu(x) => let y = Abs(z) in let z = Abs(y) in z",
            "let y speaks of z, which has no meaning",
        ),
        ("rule a: Relu(x) => x\nrule a: Abs(x) => x ?", "f.rules:2:"),
    ],
)
def test_an_error_names_its_place(text: str, place: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rules(text, "f.rules")
    assert place in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rule a:\n  Add(x, y) Add(y, x)",
            "2:13: unexpected 'Add'; expected '*', '+', ',', '-', '/', '==', '=>' or '@'",
        ),
        ("rule a: Relu(Relu(x) => x", "1:22: unexpected '=>'; expected ')', '+', ',' or '-'"),
        ("rule a\n  Relu(x) => x", "2:3: unexpected 'Relu'; expected ':' or a text in double quotes"),
        ("rule", "1:1: unexpected the end of the file; expected a rule's name"),
        ("x => x", "1:1: unexpected 'x'; expected 'rule' or the end of the file"),
        (
            "rule a: x => x when x",
            "expected '!=', '%', '(', '*', '+', '-', '/', '//', '<', '<=', '==', '>', '>=' or 'in'",
        ),
        (
            "rule a: Concat(x, y, axis=) => x",
            "unexpected ')'; expected '(', '-', '[', 'inf', 'rank', a function of lists, a name, a number or "
            "a text in double quotes",
        ),
    ],
)
def test_a_syntax_error_says_what_may_be_written_there(text: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rules(text, "f.rules")
    assert str(caught.value).startswith("f.rules:")
    assert str(caught.value).endswith(message)


def test_every_token_has_words_of_its_own() -> None:
    """Else a message would show the expression that the grammar has for it."""
    for terminal in _lark().terminals:
        if terminal.name not in (*_lark().ignore_tokens, "COMMENT"):
            assert terminal.pattern.type == "str" or terminal.name in _WORDS, terminal.name


def test_every_function_of_the_language_can_be_parsed() -> None:
    arguments = {"at": "p, 0", "compose": "p, p", "plus": "p, p", "run": "0, 2"}
    for name in FUNCTIONS:
        rule = parse_rule(f"rule a: Transpose(x, perm=p) => x when {name}({arguments.get(name, 'p')}) == p")
        assert name in rule.text()
        assert parse_rule(rule.text()).id == rule.id


def test_functions_of_lists() -> None:
    p, q = (2, 0, 1), (1, 2, 0)
    assert FUNCTIONS["compose"](p, q) == (0, 1, 2)
    assert FUNCTIONS["inverse"](p) == q
    assert FUNCTIONS["at"](p, 0) == 2
    assert FUNCTIONS["plus"](p, q) == (3, 2, 1)
    assert FUNCTIONS["run"](3, 2) == (3, 4)
    assert FUNCTIONS["sort"](p) == (0, 1, 2)
    assert FUNCTIONS["least"]((3, 1)) == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("at", ((1, 2), 2)),
        ("at", ((1, 2), -1)),
        ("inverse", ((0, 0),)),
        ("plus", ((1,), (1, 2))),
        ("least", ((),)),
        ("least", ((symbol("n"),),)),
        ("run", (symbol("n"), 2)),
    ],
)
def test_a_function_that_is_not_defined_is_undecided(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        FUNCTIONS[name](*arguments)


def test_an_axis_tells_how_many_axes_stand_before_it() -> None:
    binding = Binding()
    axes = (Block("a"), Name("m"), Block("b"))
    assert binding.unify_shape(axes, (2, 3, 5, 7))
    assert binding.shapes, "two open blocks must wait"
    assert binding.unify(Rank("a"), 2)
    assert binding.settle()
    assert binding.blocks == {"a": (2, 3), "b": (7,)}
    assert binding.names["m"] == 5
    assert not binding.copy().unify(Rank("a"), 1)


def test_a_list_binds_the_block_in_it() -> None:
    binding = Binding()
    shape = Listing((Name("n"), Block("s"), Quantity(4)))
    assert binding.unify(shape, (2, 3, 5, 4))
    assert binding.names["n"] == 2
    assert binding.blocks["s"] == (3, 5)
    assert binding.value(shape) == (2, 3, 5, 4)
    assert not binding.unify(shape, (2, 3, 6, 4))
    assert not Binding().unify(shape, (2, 3, 5, 9))


def test_a_rule_is_told_apart_by_its_law_alone() -> None:
    one = parse_rule('rule a "A.": Relu(Relu(x)) => Relu(x)')
    same = parse_rule('rule b "B.":\n  Relu(Relu(x))   => Relu(x)  # comment')
    other = parse_rule("rule a: Relu(Relu(x)) => x")
    assert one.id == same.id
    assert one.id != other.id


@pytest.mark.parametrize("levels", [205, 3000])
@pytest.mark.parametrize(
    "law", ["LeakyRelu(x, alpha=a) => LeakyRelu(x, alpha={0}a)", "Relu(x) => x for x[m] when {1}m == 0"]
)
def test_a_rule_that_is_nested_too_deeply_is_named_by_its_line(law: str, levels: int, tmp_path: Path) -> None:
    text = f"rule a: Relu(x) => x\n\nrule b: {law.format('-' * levels, '1 + ' * levels)}\nrule c: Abs(x) => x\n"
    (tmp_path / "f.rules").write_text(text)
    with pytest.raises(RuleError, match=r"f\.rules:3:1: .*is nested too deeply: at most 200 levels are read"):
        load_file(tmp_path / "f.rules")
    (tmp_path / "f.rules").write_text(text.replace("-" * levels, "-" * 150).replace("1 + " * levels, "1 + " * 150))
    assert [rule.name for rule in load_file(tmp_path / "f.rules")] == ["a", "b", "c"]


def test_a_rule_of_too_many_choices_is_named_by_its_line(tmp_path: Path) -> None:
    def law(choices: int) -> str:
        menus = " ".join(f"choose {name} in {list(range(1, 33))}" for name in "abcdefgh"[:choices])
        return f"rule r: Relu(x) => Elu(Relu(x), alpha={' + '.join('abcdefgh'[:choices])}) for x[*s] {menus}\n"

    path = tmp_path / "f.rules"
    path.write_text(law(3))
    words = "its choices have 32,768 values together: at most 1,024 are tried at a match"
    with pytest.raises(RuleError, match=rf"f\.rules:1:1: rule r: {words}"):
        load_file(path)
    path.write_text(law(2))
    assert len(load_file(path)) == 1
