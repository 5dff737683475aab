"""The typing for which something was shown, in words: `taso_py.rules.coverage` writes it as a signature."""

from __future__ import annotations

from collections.abc import Sequence

from taso_py.rules.alpha import names_of
from taso_py.rules.rule import Rule
from taso_py.rules.term import Side

_DIRECTIONS = {">": "left to right", "<": "right to left"}
_NUMBER = "n"


def typing_words(rule: Rule, signature: str) -> str:
    """The direction, the axes of every tensor, and what every operator takes and gives, in the rule's names.

    ``left to right, x[d, d], y[d]; Add 2, 1 -> 2 (==, .=) => Add 1, 2 -> 2 (.=, ==)``; rules/README.md says what the
    marks mean.
    """
    arrow, *words = signature.split()
    directed = rule.reversed() if arrow == "<" else rule
    tensors = names_of(directed).tensors
    words = words[1:] if words and words[0].startswith("*") else words  # how many axes its blocks have
    shapes, nodes = words[: len(tensors)], _nodes(words[len(tensors) :])
    left, right = _operators(directed.left), _operators(directed.right)
    if arrow not in _DIRECTIONS or len(nodes) != len(left) + len(right):
        return signature  # a part that nothing uses is in no signature
    told = [f"{name} {_node(node)}" for name, node in zip((*left, *right), nodes, strict=True)]
    sides = " => ".join(", ".join(side) or "as it is" for side in (told[: len(left)], told[len(left) :]))
    axes = ", ".join(f"{name}{_axes(shape)}" for name, shape in zip(tensors, shapes, strict=True))
    return f"{', '.join(filter(None, (_DIRECTIONS[arrow], axes)))}; {sides}"


def _operators(side: Side) -> list[str]:
    return [term.operator.onnx for term in dict.fromkeys(side.applications())]


def _nodes(words: Sequence[str]) -> list[list[str]]:
    """The words of each application: the first says what it takes and gives."""
    found: list[list[str]] = []
    for word in words:
        if word.startswith("r"):
            found.append([word])
        elif found:
            found[-1].append(word)
    return found


def _axes(word: str) -> str:
    shape, _, dtype = word.partition(":")
    dims = shape.partition("/")[0]  # behind it: of which entries of the declared shape they are
    axes = f"[{', '.join(dims.replace('-', ''))}]"
    return f"{axes} {dtype}" if dtype else axes


def _node(words: Sequence[str]) -> str:
    ranks, flags, further = words[0].removeprefix("r").split("|", 2)
    axes = further.partition("|")[0].partition(":")[0]  # behind them: what the axes are, and element types
    *operands, result = ranks.split(".")
    taken = ", ".join("number" if rank == _NUMBER else rank for rank in operands)
    told = [f"{taken} -> {result}" if taken else f"-> {result}", *flags.split(";"), *axes.split(";")]
    marks = ", ".join(word.replace(",", ", ") for word in words[1:] if word.strip("b,"))
    return " ".join(filter(None, (*told, f"({marks})" if marks else "")))
