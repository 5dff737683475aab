"""Which typings a proof of a rule covers.

In a rule of point-wise operators alone every broadcast is covered, because all axes behave alike.  Otherwise a proof
records for each application of the left side its flags, and along which axes the operands of an operator that
broadcasts are repeated; a match must be an instance of one of these.  Numbers of axes are on record too, but do not
bind: further axes are like those that were looked at, except that an order of three axes needs a proof with three.  A
literal or a ``number(c)`` never enlarges what it meets, no step of a Slice is negative, and nothing that is summed or
regrouped has a size of 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from taso_py.errors import TypingError
from taso_py.graph.model import Node
from taso_py.graph.sizes import Size, at_least
from taso_py.graph.types import TensorType
from taso_py.ops.operator import broadcast
from taso_py.ops.slicing import Slice
from taso_py.rules.rule import Rule
from taso_py.rules.term import Application, Predicate, Scalar, Term, Variable

_MOVES = frozenset({
    "Concat", "Expand", "Gather", "Pad", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators to which axes without elements are like any other."""
_FLAGS = ("keepdims", "transA", "transB", "count_include_pad", "flatten", "approximate", "mode", "output")
_AXES = ("axis", "axes", "perm")


def pattern(rule: Rule, placed: Mapping[Term, tuple[int, Node | None]], type_of: Callable[[int], TensorType]) -> str:
    """How a directed rule's left side is broadcast where it is placed; ``placed`` has ids and nodes by term."""
    plain = all(a.operator.pointwise for side in (rule.left, rule.right) for a in side.applications())
    numbers = {v for c in rule.conditions if isinstance(c, Predicate) and c.name == "number" for v in c.variables}
    marks = [">" if not rule.name.endswith("-reversed") else "<"]
    for term in dict.fromkeys(rule.left.applications()):
        value, node = placed[term]
        if node is None:
            continue
        inputs = [i for i in node.inputs if i is not None]
        if not plain:
            ranks = [type_of(v).rank for v in (*inputs, value)]
            marks.append(_signature(rule, term, node, ranks, numbers))
        if term.operator.pointwise and len(inputs) > 1:
            operands = [type_of(i).dims for i in inputs]
            small = [_is_small(rule, a, numbers) for a in term.arguments]
            inner = [isinstance(rule.left.resolve(a), Application) for a in term.arguments]
            marks.append(_marks(operands, type_of(value).dims, small, [i and not plain for i in inner], plain=plain))
        stretched = _stretched(node, [type_of(i).dims for i in inputs], type_of(value).dims)
        if stretched:
            marks.append("b" + ",".join(_axes(d, result, inner=False) for d, result in stretched))
        if isinstance(node.operator, Slice) and any(at_least(s, 1) is not True for s in node.operator.steps):
            marks.append("backwards")
        moves = term.operator.pointwise or term.operator.onnx in _MOVES
        if not moves and any(d == 0 for v in (value, *inputs) for d in type_of(v).dims):
            marks.append("empty")
    return " ".join(marks)


def _signature(rule: Rule, term: Application, node: Node, ranks: Sequence[int], numbers: set[str]) -> str:
    """``r`` with the ranks of operands and result (``n`` for a number), the flags, and the axes."""
    small = [_is_small(rule, a, numbers) for a in term.arguments]
    words = ["n" if s else str(r) for r, s in zip(ranks, [*small, False], strict=True)]
    flags = [f"{n}={getattr(node.operator, n)}" for n, _ in term.attributes if n in _FLAGS]
    axes = [f"{n}={getattr(node.operator, n)}" for n, _ in term.attributes if n in _AXES]
    text = "|".join((",".join(words), ";".join(flags), ";".join(axes)))
    return "r" + text.replace(" ", "").replace(",", ".")


def _stretched(
    node: Node, operands: Sequence[tuple[Size, ...]], result: tuple[Size, ...]
) -> list[tuple[tuple[Size, ...], tuple[Size, ...]]]:
    """Sizes that an operator which is not point-wise broadcasts, each beside what they become."""
    match node.operator.onnx:
        case "MatMul" if min(map(len, operands)) > 1:
            return [(d[:-2], result[:-2]) for d in operands]
        case "Gemm":
            return [(d, result) for d in operands[2:]]
        case "LayerNormalization" | "RMSNormalization":
            return [(d, operands[0][len(operands[0]) - len(d) :]) for d in operands[1:]]
        case _:
            return []


def _is_small(rule: Rule, argument: Term, numbers: set[str]) -> bool:
    term = rule.left.resolve(argument)
    return isinstance(term, Scalar) or (isinstance(term, Variable) and term.name in numbers)


def _marks(
    operands: Sequence[tuple[Size, ...]], result: tuple[Size, ...], small: Sequence[bool], inner: Sequence[bool],
    *, plain: bool,
) -> str:  # fmt: skip
    """One mark per operand; ``*`` where it does not matter, ``-`` for a number, ``+`` for one that enlarges.

    ``^`` stands before an intermediate value (``inner``) that is repeated.
    """
    others = [d for d, s in zip(operands, small, strict=True) if not s]
    try:
        grown = bool(others) and broadcast(*others) != result
    except TypingError:
        grown = True
    return ",".join(
        ("+" if grown else "-") if s else "*" if plain else _axes(d, result, inner=i)
        for d, s, i in zip(operands, small, inner, strict=True)
    )


def _axes(operand: tuple[Size, ...], result: tuple[Size, ...], *, inner: bool) -> str:
    """Per axis of the result ``.`` absent, ``1`` repeated, ``=`` the same, ``?`` 1 on both sides; runs shortened."""
    absent = len(result) - len(operand)
    marks = ["." for _ in range(absent)]
    marks += ["?" if d == r == 1 else "=" if d == r else "1" for d, r in zip(operand, result[absent:], strict=True)]
    repeated = inner and any(m in ".1" for m in marks)
    return "^" * repeated + _shortened(marks)


def _shortened(marks: Sequence[str]) -> str:
    return "".join(m for m, _ in itertools.groupby(marks))


def covered(rule: Rule, found: str) -> bool:
    """Whether a proof covers a pattern; a rule without a proof on record covers what its numbers do not enlarge.

    An axis of size 1 on both sides is an instance of a repeated axis as well as of an equal one.
    """
    if rule.patterns is None:
        return "+" not in found
    return found in rule.patterns or instance_of(found, rule.patterns)


def instance_of(found: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern is an instance of one of ``patterns``, whatever its numbers of axes."""
    words = found.split()
    known = [k for k in map(str.split, patterns) if len(k) == len(words)]
    return any(all(map(_alike, words, k)) for k in known)


def _alike(found: str, known: str) -> bool:
    if found.startswith("r") and known.startswith("r"):
        return found.split("|")[1] == known.split("|")[1] and _permutes(found) <= _permutes(known)
    if found.startswith("b") and known.startswith("b"):
        # No axes at all are like any number of equal ones.
        words = zip(found[1:].split(","), known[1:].split(","), strict=False)
        return found.count(",") == known.count(",") and all(b in _readings(a) or (not a and b == "=") for a, b in words)
    marks = zip(found.split(","), known.split(","), strict=False)
    return found.count(",") == known.count(",") and all(b in _readings(a) for a, b in marks)


def _permutes(signature: str) -> bool:
    """Whether three axes or more are permuted: what holds for two, whose orders commute, says nothing of these."""
    order = signature.rpartition("perm=")[2] if "perm=" in signature else ""
    return order.strip("()").rstrip(".").count(".") >= 2


def typed_alike(found: str, patterns: Iterable[str]) -> bool:
    """Whether one of ``patterns`` has the very numbers of axes, flags and axes of a pattern."""
    return any(_signatures(found) == _signatures(k) for k in patterns)


def few_axes(found: str) -> bool:
    """Whether a pattern has one or two axes everywhere: proofs look at all of these."""
    ranks = [r for word in _signatures(found) for r in word[1:].split("|")[0].split(".")]
    return all(r in ("1", "2", "n") for r in ranks)


def _signatures(found: str) -> list[str]:
    return [word for word in found.split() if word.startswith("r")]


@lru_cache(maxsize=4096)
def _readings(marks: str) -> frozenset[str]:
    """What a word may stand for once each ``?`` is read as itself, as ``=`` or as ``1``."""
    options = [("?", "=", "1", "?=", "=?", "1=", "=1", "?1", "1?") if m == "?" else (m,) for m in marks]
    return frozenset(_shortened("".join(choice)) for choice in itertools.product(*options))
