"""The corpus of false laws: each with the corner where it fails and an instance that shows it.

A file ``tests/data/false_laws/FAMILY.rules`` holds laws in the rule language.  Two comment lines stand before each::

    # corner: x is negative
    # instance: {"x": {"shape": [2, 3], "values": "negative"}, "k": 4, "*s": [2, 3]}
    rule name: left => right for x[*s] when ...

``corner`` says in words where the law fails ("everywhere" if so).  ``instance`` is JSON: a tensor by its variable's
name ({"shape"; "dtype", float32 if absent; "values": nested lists or a word of `law_instances.VALUES`;
"constant": true for an initializer}), a block ``*s`` by its sizes, and each name that the declared shapes leave open.
A third comment line ``# load error`` marks a law that the rule language itself rejects; it needs no instance.  One with
``# no match`` marks a law whose conditions do not admit its instance: ``true(v)`` of numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.table import Node, Table
from taso_py.prove.verdict import Proved, Verdict
from taso_py.rules.build import Builder, number_type
from taso_py.rules.lock import Record, with_verdict
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search.matcher import Match, matcher
from taso_py.search.view import View
from tests.helpers.law_instances import OPSET, NoInstance, NotComputable, Sides, build, differs, meaning_of

FOLDER = Path(__file__).parents[1] / "data" / "false_laws"
_SPLIT = re.compile(r"^(?=# corner:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FalseLaw:
    """One law of the corpus as it is written."""

    name: str
    text: str
    corner: str
    _: KW_ONLY
    instance: Mapping[str, Any]
    load_error: bool
    no_match: bool
    file: str
    line: int

    @property
    def rule(self) -> Rule:
        """The law; `RuleError` where the language rejects it."""
        return _parsed(self.text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Rule:
    return parse_rule(text)


def read_laws(path: Path) -> list[FalseLaw]:
    """The laws of a file, in its order; ValueError for a part that is not written as described above."""
    text, line, found = path.read_text(encoding="utf-8"), 1, []
    for part in _SPLIT.split(text):
        if part.startswith("# corner:"):
            found.append(_law(part, path.name, line))
        line += part.count("\n")
    return found


def _law(part: str, file: str, line: int) -> FalseLaw:
    comments = dict(re.findall(r"^# (corner|instance|load error|no match):?(.*)$", part, re.MULTILINE))
    named = re.search(r"^rule ([^\s:]+)", part, re.MULTILINE)
    if named is None or ("instance" not in comments and "load error" not in comments):
        raise ValueError(f"{file}:{line}: a law needs an instance and a rule")
    try:
        instance = json.loads(comments.get("instance", "{}"))
    except ValueError as error:
        raise ValueError(f"{file}:{line}: {named[1]}: {error}") from None
    law = part[named.start() :]
    return FalseLaw(
        named[1],
        law,
        comments["corner"].strip(),
        instance=instance,
        load_error="load error" in comments,
        no_match="no match" in comments,
        file=file,
        line=line,
    )


def files() -> list[Path]:
    """The files of the corpus."""
    return sorted(FOLDER.glob("*.rules"))


def difference(rule: Rule, instance: Mapping[str, Any]) -> str:
    """How a direction of the rule fails at the instance, in words; empty where every direction holds.

    `NoInstance` where no direction admits the instance.
    """
    refused: list[str] = []
    for directed in rule.directions():
        try:
            sides = build(directed, instance)
        except NoInstance as error:
            refused.append(str(error))
            continue
        found = _difference(sides)
        if found:
            return found
    if len(refused) == len(rule.directions()):
        raise NoInstance("; ".join(refused))
    return ""


def _difference(sides: Sides) -> str:
    wrong, arrays = f"the right side is not typed: {sides.wrong}", []
    if not sides.wrong:
        try:
            arrays = sides.compute([*sides.left, *sides.right])
        except NotComputable as error:
            wrong = f"the right side has no value: {error}"
    if not arrays:
        return wrong if _somewhere_finite(sides.compute(sides.left)) else ""
    for k, (a, b) in enumerate(zip(arrays[: len(sides.left)], arrays[len(sides.left) :], strict=True)):
        if differs(a, b):
            return f"output {k}: {a.dtype}{list(a.shape)} {_few(a)} and {b.dtype}{list(b.shape)} {_few(b)}"
    return ""


def _somewhere_finite(arrays: Sequence[Array]) -> bool:
    return all(a.dtype.kind != "f" or bool(np.isfinite(a).any()) or not a.size for a in arrays)


def _few(array: Array) -> str:
    return " ".join(f"{float(v):.5g}" for v in array.ravel()[:6])


# ---- what a claim includes ---------------------------------------------------------------------------------------


def claim_includes(rule: Rule, verdict: Verdict | None, instance: Mapping[str, Any]) -> bool:
    """Whether a rule with this verdict would rewrite the instance into something else.

    The rule is stamped as `taso_py.rules.lock` does it (None: it is stamped already), matched against its left side
    in a table of its own, and every accepted match is rewritten and computed.  A proof up to some size, or for some
    numbers of axes, does not claim an instance with a larger one.
    """
    if verdict is not None and not isinstance(verdict, Proved):
        return False
    stamped = rule if verdict is None else _stamped(rule, verdict)
    for directed in stamped.directions():
        try:
            sides = build(directed, instance)
        except NoInstance:
            continue
        if verdict is not None and not _bounded_by(verdict, sides):
            continue
        try:
            if any(_rewrites_wrongly(sides, match) for match in matches(sides)):
                return True
        except (ArithmeticError, ValueError):
            # A right side that the matcher fails on, such as one with a literal NaN, is not rejected.
            return True
    return False


def _stamped(rule: Rule, proof: Proved) -> Rule:
    claim = Record("proved", limit=proof.limit, ranks=proof.ranks, patterns=proof.patterns, types=proof.types)
    return with_verdict(rule, claim)


def _bounded_by(proof: Proved, sides: Sides) -> bool:
    shapes = [t.dims for t in sides.values.types.values()]
    largest = max((d for dims in shapes for d in dims if isinstance(d, int)), default=0)
    rank = max(map(len, shapes), default=0)
    return (proof.limit is None or largest <= proof.limit) and (proof.ranks is None or rank <= proof.ranks)


def matches(sides: Sides) -> Iterator[Match]:
    """The accepted matches of the rule at exactly its left side."""
    nodes = dict(sorted(sides.left_nodes.items()))
    table = Table(sides.values, nodes, sides.left, sides.left, OPSET)
    constants = dict(sides.weights)

    def read(value: int, known: Mapping[int, Node]) -> Array:
        return meaning_of(sides, {**sides.nodes, **known}, value, constants)

    view = View.of(table, lambda view, value, node: (), read)
    for match in matcher(sides.rule).matches_at(view, sides.left[0]):
        if match.outputs == sides.left:
            yield match


def _rewrites_wrongly(sides: Sides, match: Match) -> bool:
    types = sides.values.types
    dtype = number_type(match.binding, types.__getitem__, types[sides.left[0]].dtype)
    builder = Builder(sides.values, match.binding, match.rule.right, dtype)
    right = [builder.output(t) for t in match.rule.right.outputs]
    try:
        arrays = sides.compute([*sides.left, *right], builder.nodes)
    except NotComputable:
        return True
    return any(differs(a, b) for a, b in zip(arrays[: len(right)], arrays[len(right) :], strict=True))


__all__ = [
    "FOLDER",
    "FalseLaw",
    "NoInstance",
    "claim_includes",
    "difference",
    "differs",
    "files",
    "matches",
    "read_laws",
]
