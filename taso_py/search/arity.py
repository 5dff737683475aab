"""Laws of operators whose number of operands or outputs varies: one rule for each number that occurs.

No rule has symbolic arity, so these are written when they are needed.  They are rules like any other: matched,
recorded and proved as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache, reduce
from itertools import combinations, count, pairwise
from typing import Any
from zlib import crc32

from taso_py.graph.table import Node
from taso_py.graph.types import TensorType
from taso_py.ops.elementwise import Add, Sum
from taso_py.ops.layout import Concat, Split
from taso_py.ops.operator import Operator
from taso_py.ops.slicing import Slice
from taso_py.rules.coverage import DEFINED
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.unify import Binding
from taso_py.search.matcher import Match, matcher
from taso_py.search.rewriter import Rewrite, rewrite, rewrite_all
from taso_py.search.view import View

_PAIRED = 8
"""Most summands of which any two are looked at as one."""


MOST_OPERANDS = 64
"""Wider operators are left as they are: a law is as deep as what it nests, and matching it goes as deep."""
_ORDERS = 64
"""Most orders of a law's commutative operators that are tried: where it is refused in these, so it is in all 2^n."""
_MOST_PIECES = 128
"""Parts of a Split, and slices that become one: a law adds up their sizes, and a sum is as deep as it is long."""


def expanding_laws(operator: Operator, operands: Sequence[TensorType]) -> tuple[Rule, ...]:
    """What an operator of variable arity is made of: `Operator.expand` as laws, for any attributes."""
    if isinstance(operator, Split):
        return (_piece_law(len(operator.split), operator.output),) if len(operator.split) <= _MOST_PIECES else ()
    return _nesting_laws(operator, len(operands), _alike(operator, operands))


def _alike(operator: Operator, operands: Sequence[TensorType]) -> bool:
    """Whether nothing is broadcast: a law that says so has one proof, not one for each way of broadcasting."""
    return operator.pointwise and len({t.shape for t in operands}) == 1


@lru_cache(maxsize=4096)
def _nesting_laws(operator: Operator, operands: int, alike: bool) -> tuple[Rule, ...]:
    left = _call(operator, (f"x{k}" for k in range(operands)))
    nested = (*operator.expand(operands), *_pairs_first(operator, operands))
    sides = (f"{left} => {_nested(e, operator)}" for e in nested)
    return tuple(_law(operator, side, operands, alike) for side in sides)


def _pairs_first(operator: Operator, operands: int) -> Iterator[tuple[Operator, tuple[Any, ...]]]:
    """Any two summands of a sum added first, any two neighbours in a Concat joined first."""
    if isinstance(operator, Sum) and 3 <= operands <= _PAIRED:
        for pair in combinations(range(operands), 2):
            yield operator, ((Add(), pair), *(k for k in range(operands) if k not in pair))
    if isinstance(operator, Concat):
        for k in range(operands - 1) if 3 < operands <= MOST_OPERANDS else ():
            yield operator, (*range(k), (operator, (k, k + 1)), *range(k + 2, operands))


def _law(operator: Operator, sides: str, operands: int, alike: bool) -> Rule:
    shapes = f" for {', '.join(f'x{k}[*s]' for k in range(operands))}" if alike else ""
    return _written(f"rule {_name(operator)}: {sides}{shapes}")


def _written(text: str) -> Rule:
    """Many laws have one name here and no file: the line tells them apart, as a rule's hash is that of its place."""
    return replace(parse_rule(text), patterns=DEFINED, line=crc32(text.encode()))


def _name(operator: Operator) -> str:
    return f"{operator.onnx.lower()}-variadic"


def _nested(expansion: tuple[Operator, tuple[Any, ...]], whole: Operator) -> str:
    operator, arguments = expansion
    assert operator == whole or not fields(operator)
    return _call(operator, (f"x{a}" if isinstance(a, int) else _nested(a, whole) for a in arguments))


def _call(operator: Operator, arguments: Iterator[str]) -> str:
    attributes = (f"{f.name}={f.name}" for f in fields(operator))
    return f"{operator.onnx}({', '.join([*arguments, *attributes])})"


@lru_cache(maxsize=1024)
def _piece_law(pieces: int, output: int) -> Rule:
    sizes = [f"m{k}" for k in range(pieces)]
    begin, end = _sum(sizes[:output]), _sum(sizes[: output + 1])
    return _written(
        f"rule split-variadic: Split(x, axis=rank(p), split=[{', '.join(sizes)}], output={output})"
        f" => Slice(x, axes=[rank(p)], starts=[{begin}], ends=[{end}], steps=[1]) for x[*p, {_sum(sizes)}, *q]"
    )


def _sum(terms: Sequence[str]) -> str:
    return " + ".join(terms) or "0"


@lru_cache(maxsize=1024)
def _flat_law(operator: Operator, whole: str, operands: int, alike: bool) -> Rule:
    """``whole``: the operator's applications in one another, to x0, x1, ... in this order."""
    return _law(operator, f"{whole} => {_call(operator, (f'x{k}' for k in range(operands)))}", operands, alike)


def flatten(view: View, value: int) -> Rewrite | None:
    """f(f(a, b), c) as f(a, b, c) for an operator of variable arity, at any depth, where nothing else needs f(a, b)."""
    nodes = view.table.nodes
    operator = nodes[value].operator
    if not operator.expand(3) or _only_for_its_like(view, value):
        return None
    if _nest(view, value) > MOST_OPERANDS:
        return None
    operands: list[int | None] = []

    def tree(at: int | None) -> str:
        if at is None or (at != value and not _only_for_its_like(view, at)):
            operands.append(at)
            return f"x{len(operands) - 1}"
        return _call(operator, (tree(i) for i in nodes[at].inputs))

    whole = tree(value)
    if not len(nodes[value].inputs) < len(operands) <= MOST_OPERANDS:
        return None
    alike = _alike(operator, [view.table.type(i) for i in operands if i is not None])
    return _applied(view, value, _flat_law(operator, whole, len(operands), alike))


def _applied(view: View, value: int, law: Rule) -> Rewrite | None:
    """The table after a law that is written for a value: its operands come in the order that they have there."""
    match = next(matcher(law).matches_on(view, (value,), _ORDERS), None)
    return None if match is None else rewrite(view, match)


def _nest(view: View, value: int) -> int:
    """How many applications of one operator stand in one another, each for the next alone; no more are counted than
    `flatten` takes.
    """
    stack, found = [value], 0
    while stack and found <= MOST_OPERANDS:
        found += 1
        inputs = view.table.nodes[stack.pop()].inputs
        stack.extend(i for i in inputs if i is not None and _only_for_its_like(view, i))
    return found


def adjoined(view: View, value: int) -> Rewrite | None:
    """The first neighbouring cuts of one tensor among the operands of a Concat as one cut, or as all of the tensor."""
    node = view.table.nodes[value]
    if not isinstance(node.operator, Concat) or not 2 <= len(node.inputs) <= MOST_OPERANDS:
        return None
    axis = node.operator.axis
    cuts = [_cut(view, i, axis) for i in node.inputs]
    for first, cut in enumerate(cuts):
        if cut is None:
            continue
        last, (source, start, end) = first, cut
        for following in cuts[first + 1 :]:
            if following is None or following[:2] != (source, end):
                break
            last, end = last + 1, following[2]
        if last > first:
            whole = start == 0 and end == view.table.type(source).dims[axis]
            law = _adjoining_law(len(cuts), first, last, whole=whole)
            return _applied(view, value, law)
    return None


def _cut(view: View, value: int | None, axis: int) -> tuple[int, int, int] | None:
    """(tensor, start, end) of a value that is a cut of one tensor along ``axis``, as an output of a Split is."""
    node = view.table.nodes.get(value) if value is not None else None
    source = node.inputs[0] if node is not None and node.inputs else None
    if node is None or source is None:
        return None
    if isinstance(node.operator, Split) and node.operator.axis == axis:
        before = [s for s in node.operator.split[: node.operator.output + 1] if isinstance(s, int)]
        return (source, sum(before[:-1]), sum(before)) if len(before) == node.operator.output + 1 else None
    part = _part(node, axis)
    return None if part is None else (source, *part)


@lru_cache(maxsize=1024)
def _adjoining_law(operands: int, first: int, last: int, *, whole: bool) -> Rule:
    """Operands ``first`` to ``last`` are cuts, each beginning where the one before it ends; ``whole``: of it all."""
    cuts = last - first + 1
    ends = ["0" if whole else "e0", *(f"e{k}" for k in range(1, cuts)), "m" if whole else f"e{cuts}"]

    def cut(start: str, end: str) -> str:
        return f"Slice(y, axes=[rank(p)], starts=[{start}], ends=[{end}], steps=[1])"

    before, behind = ([f"x{k}" for k in places] for places in (range(first), range(last + 1, operands)))
    left = f"Concat({', '.join([*before, *(cut(a, b) for a, b in pairwise(ends)), *behind])}, axis=rank(p))"
    joined = [*before, "y" if whole else cut(ends[0], ends[-1]), *behind]
    right = f"Concat({', '.join(joined)}, axis=rank(p))" if len(joined) > 1 else joined[0]
    return _written(f"rule concat-of-cuts: {left} => {right} for y[*p, m, *q]")


def _only_for_its_like(view: View, value: int) -> bool:
    """Whether nothing but the same operator needs a value: it is flattened with that."""
    nodes, users = view.table.nodes, view.users.get(value, ())
    user = next(iter(users), None)
    if user is None or len(users) > 1 or value not in nodes or user not in nodes or value in view.table.roots:
        return False
    return bool(nodes[user].operator == nodes[value].operator)


def nested(view: View, value: int, first: int) -> Rewrite | None:
    """f(x0, .., xn) with the operands from ``first`` on joined one after the other, each time two."""
    node = view.table.nodes[value]
    if len(node.inputs) > MOST_OPERANDS:
        return None
    alike = _alike(node.operator, [view.table.type(i) for i in node.inputs if i is not None])
    return _applied(view, value, _fold_law(node.operator, len(node.inputs), first, alike))


@lru_cache(maxsize=1024)
def _fold_law(operator: Operator, operands: int, first: int, alike: bool) -> Rule:
    names = [f"x{k}" for k in range(operands)]
    folded = reduce(lambda before, name: _call(operator, iter((before, name))), names[first + 1 :], names[first])
    right = _call(operator, iter((*names[:first], folded))) if first else folded
    return _law(operator, f"{_call(operator, iter(names))} => {right}", operands, alike)


def gathered(view: View, value: int) -> Rewrite | None:
    """Three or more summands of one shape as one Sum, where nothing else needs the sums of some: any two can meet."""
    names = (f"x{k}" for k in count())
    most = MOST_OPERANDS

    def tree(term: int, user: int | None) -> str:
        nonlocal most
        operands = _summands(view, term) if most > 1 else None
        users = view.users.get(term, ())
        if operands is None or (user is not None and (len(users) != 1 or user not in users)):
            return next(names)
        most -= 1
        return _call(Add(), (tree(i, term) for i in operands))

    law = _sum_law(tree(value, None))
    return None if law is None else _applied(view, value, law)


def _summands(view: View, value: int) -> tuple[int, ...] | None:
    """The operands of an addition that broadcasts nothing."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Add) or value in view.values.constant:
        return None
    operands = tuple(i for i in node.inputs if i is not None)
    types = {view.table.type(i) for i in (value, *operands)}
    return operands if len(types) == 1 and all(t.known for t in types) else None


@lru_cache(maxsize=1024)
def _sum_law(nested: str) -> Rule | None:
    """``nested``: additions of x0, x1, ... in this order; None: fewer than three summands."""
    summands = nested.count("x")
    if summands < 3:
        return None
    flat = _call(Sum(), (f"x{k}" for k in range(summands)))
    return _law(Sum(), f"{nested} => {flat}", summands, alike=True)


def split_of_slices(view: View, value: int) -> Rewrite | None:
    """If the slices of one tensor along one axis are its consecutive parts, the outputs of one Split in their place."""
    node = view.table.nodes.get(value)
    if node is None or not isinstance(node.operator, Slice) or len(node.operator.axes) != 1 or node.inputs[0] is None:
        return None
    source, axis = node.inputs[0], node.operator.axes[0]
    parts: dict[tuple[int, int], list[int]] = {}
    for user in view.users.get(source, ()):
        part = _part(view.table.nodes.get(user), axis)
        if part is not None and user not in view.values.constant:
            parts.setdefault(part, []).append(user)
    ordered = sorted(parts)
    dims = view.table.type(source).dims
    if not 2 <= len(ordered) <= _MOST_PIECES or not _covers(ordered, dims[axis]):
        return None
    # What the matcher would bind; searching among so many alike outputs takes longer than the rewrite.
    sizes = {f"m{k}": end - start for k, (start, end) in enumerate(ordered)}
    binding = Binding({"x": source}, sizes, {"p": dims[:axis], "q": dims[axis + 1 :]})
    law = _cutting_law(len(ordered))
    rows = _rows([parts[part] for part in ordered])
    return rewrite_all(view, [Match(law, binding, users, frozenset(users)) for users in rows])


def _rows(columns: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Tuples with one entry of each column, until every entry has been in one."""
    for k in range(max(map(len, columns))):
        yield tuple(column[min(k, len(column) - 1)] for column in columns)


@lru_cache(maxsize=1024)
def _cutting_law(pieces: int) -> Rule:
    sizes = [f"m{k}" for k in range(pieces)]
    cuts = (
        f"Slice(x, axes=[rank(p)], starts=[{_sum(sizes[:k])}], ends=[{_sum(sizes[: k + 1])}], steps=[1])"
        for k in range(pieces)
    )
    split = f"axis=rank(p), split=[{', '.join(sizes)}]"
    outputs = (f"Split(x, {split}, output={k})" for k in range(pieces))
    return _written(f"rule split-slices: {', '.join(cuts)} => {', '.join(outputs)} for x[*p, {_sum(sizes)}, *q]")


def _part(node: Node | None, axis: int) -> tuple[int, int] | None:
    if node is None or not isinstance(node.operator, Slice) or node.operator.axes != (axis,):
        return None
    start, end, step = node.operator.starts[0], node.operator.ends[0], node.operator.steps[0]
    if not (isinstance(start, int) and isinstance(end, int) and step == 1):
        return None
    return start, end


def _covers(parts: Sequence[tuple[int, int]], extent: object) -> bool:
    at = 0
    for start, end in parts:
        if start != at:
            return False
        at = end
    return at == extent
