"""What a signature must tell: two typings of which one proof says nothing of the other have different ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from taso_py.errors import RuleError
from taso_py.graph.table import Node
from taso_py.prove.prover import prove_all_sizes
from taso_py.prove.sites import SiteProofs
from taso_py.prove.verdict import Proved
from taso_py.rules.build import Builder
from taso_py.rules.coverage import Placed, Typing
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.term import Term
from tests.helpers.false_laws import matches
from tests.helpers.law_instances import Sides, build

JOINED = """rule joined: MaxPool(Concat(x, y, axis=-2), kernel_shape=k, strides=u)
  => Concat(MaxPool(x, kernel_shape=k, strides=u), MaxPool(y, kernel_shape=k, strides=u), axis=-2)"""
PICKED = """rule picked: MatMul(x, y), Slice(Concat(y, z, axis=0), axes=[0], starts=[a], ends=[a + 1], steps=[1])
  => MatMul(x, y), Slice(z, axes=[0], starts=[0], ends=[1], steps=[1]) for x[a, b, m, k], z[p, q, u, v]"""
SPLIT = """rule split: Slice(z, axes=[0], starts=[0], ends=[rank(a)], steps=[1]), Neg(x)
  => Slice(z, axes=[0], starts=[0], ends=[rank(a)], steps=[1]) * Fill(value=1 - rank(a) // 3, shape=[]), Neg(x)
  for x[*a, *b], z[m]"""
TURNED = "rule turned: y * x * Transpose(x, perm=p) => y * Transpose(x, perm=p) * x for x[*s], y[*s]"
MASKED = 'rule masked: Cast(Where(c, 1, 0) - 1, to="float32") => Where(c, 0, -1) for c[*s]'
INDEXED = """rule indexed: Gather(x, axis=0, indices=[k], indices_shape=[1])
  => Gather(x, axis=0, indices=[k], indices_shape=[1]) * Fill(value=1 + k * (rank(s) // 3), shape=[])
  for x[n, *s]"""


def tensor(*shape: int, dtype: str = "float32") -> Mapping[str, Any]:
    return {"shape": list(shape), "dtype": dtype, "values": "bools" if dtype == "bool" else "ones"}


def typing(sides: Sides, left: Placed | None = None) -> Typing:
    """Both sides as they are typed at an instance."""
    builders = [Builder(sides.values, sides.binding, s, sides.dtype) for s in (sides.rule.left, sides.rule.right)]
    outputs = [tuple(map(b.output, b.side.outputs)) for b in builders]
    return Typing(
        sides.rule,
        builders[0].placed() if left is None else left,
        builders[1].placed(),
        sides.binding.tensors,
        tuple(zip(*outputs, strict=True)),
        sides.values.types.__getitem__,
        blocks=sides.binding.block_ranks(),
    )


def signature(law: str, **instance: object) -> str:
    return typing(build(parse_rule(law), instance)).signature()


def proved(law: str, **more: Any) -> Rule:
    """The law with what its proof claims."""
    rule = parse_rule(law)
    proof = prove_all_sizes(rule)
    assert isinstance(proof, Proved)
    return replace(rule, patterns=proof.patterns, types=proof.types, **more)


def claimed(rule: Rule, instance: Mapping[str, Any]) -> bool:
    """Whether a match at the instance is accepted, be the law true there or false."""
    return bool(list(matches(build(rule, instance))))


def test_channels_of_signals_are_no_rows_of_images() -> None:
    signals = {"x": tensor(2, 3, 5), "y": tensor(2, 4, 5), "k": [2], "u": [1]}
    images = {"x": tensor(2, 2, 3, 5), "y": tensor(2, 2, 4, 5), "k": [2, 2], "u": [1, 1]}
    assert signature(JOINED, **signals) != signature(JOINED, **images)
    assert claimed(proved(JOINED), signals)
    assert not claimed(proved(JOINED), images)


@pytest.mark.parametrize(("axis", "within"), [(0, True), (1, True), (2, False)])
def test_the_batch_and_the_channels_of_a_pool_are_alike(axis: int, within: bool) -> None:
    law = f"""rule cut: Slice(MaxPool(x, kernel_shape=k), axes=[{axis}], starts=[s], ends=[e], steps=[1])
      => MaxPool(Slice(x, axes=[{axis}], starts=[s], ends=[e], steps=[1]), kernel_shape=k)"""
    assert isinstance(prove_all_sizes(parse_rule(law)), Proved) == within


@pytest.mark.parametrize(
    ("left", "right"),
    [
        # rows and columns may matter or not; the batch in front of them is compared all the same
        ({"y": tensor(2, 1, 1, 1)}, {"y": tensor(1, 1, 1, 1)}),
        ({"y": tensor(2, 1, 1, 1)}, {"y": tensor(1, 1)}),
    ],
)
def test_a_batch_of_one_is_no_batch_of_many(left: Mapping[str, Any], right: Mapping[str, Any]) -> None:
    law = "rule batch: MatMul(x, y) * z => z * MatMul(x, y) for x[a, *b, m, k]"
    softmax = law.replace("MatMul(x, y) * z", "Softmax(MatMul(x, y), axis=0) * z").replace(
        "z * MatMul(x, y)", "z * Softmax(MatMul(x, y), axis=0)"
    )
    others = {"x": tensor(2, 1, 3, 1), "z": tensor(2, 1, 3, 1), "*b": [1]}
    assert signature(softmax, **others, **left) != signature(softmax, **others, **right)


def test_a_batch_that_no_proof_looked_at_is_not_claimed() -> None:
    many = {"x": tensor(2, 1, 1, 1), "y": tensor(2, 1, 1, 1), "z": tensor(2, 1, 1, 1)}
    assert claimed(proved(PICKED), many)
    assert not claimed(proved(PICKED), many | {"y": tensor(1, 1, 1, 1)})


@pytest.mark.parametrize(("a", "b", "within"), [(1, 1, True), (2, 1, True), (0, 2, True), (3, 0, False)])
def test_how_axes_fall_into_blocks_is_told(a: int, b: int, within: bool) -> None:
    sizes = [1] * (a + b)
    instance = {"x": tensor(*sizes), "z": tensor(4), "*a": sizes[:a], "*b": sizes[a:]}
    assert claimed(proved(SPLIT), instance) == within


def test_axes_of_one_block_are_left_out_together() -> None:
    law = "rule sums: ReduceSum(x, axes=[a]), Relu(y) => ReduceSum(x, axes=[a]), Relu(Relu(y)) for x[*s], y[*s]"
    found = typing(build(parse_rule(law), {"x": tensor(2, 3), "y": tensor(2, 3), "a": 1, "*s": [2, 3]}))
    axes, tensors = found.parallel(), found.tensors
    assert [axes.keeps(tensors[v], a) for v in "xy" for a in (0, 1)] == [False, True, False, True]


def test_a_copy_of_a_constant_is_the_variable() -> None:
    instance = {"x": tensor(2, 2, 2), "y": tensor(2, 2, 2), "p": [1, 2, 0], "*s": [2, 2, 2]}
    sides = build(parse_rule(TURNED), instance)
    found = typing(sides)
    x = sides.binding.tensors["x"]
    copy = sides.values.new(sides.values.types[x])

    def copied(term: Term, value: int, node: Node | None) -> tuple[int, Node | None]:
        turns = node is not None and node.operator.onnx == "Transpose"
        return value, Node(node.operator, (copy,)) if turns and node is not None else node

    other = typing(sides, {t: copied(t, *placed) for t, placed in found.left.items()})
    assert other.signature() == found.signature()
    assert "ddd" in found.signature()  # x and x turned are a diagonal, of which nothing is left out


@pytest.mark.parametrize(("dtype", "within"), [("float32", True), ("uint8", False), ("float16", False)])
def test_literals_are_of_the_types_that_were_proved(dtype: str, within: bool) -> None:
    lends = {"z": {"shape": [], "dtype": dtype, "values": 0}}  # the literals beside truths have the type of a number
    assert claimed(proved(MASKED), {"c": tensor(2, dtype="bool")} | lends) == within


def remembered(indices: Sequence[int]) -> list[int]:
    """At which indices of four axes one memory of proofs at sites accepts a law, asked in this order."""
    rule = proved(INDEXED, at_site=SiteProofs())
    return [k for k in indices if claimed(rule, {"x": tensor(2, 1, 1, 1), "k": k, "*s": [1, 1, 1]})]


def test_a_proof_at_a_site_is_remembered_with_all_that_it_was_given() -> None:
    assert remembered([0, 1]) == [0]
    assert remembered([1, 0]) == [0]


def test_volumes_are_proved_where_they_stand() -> None:
    law = """rule pools: Max(MaxPool(x, kernel_shape=k), MaxPool(y, kernel_shape=k))
      => MaxPool(Max(x, y), kernel_shape=k) for x[*s], y[*s]"""
    volumes = {"x": tensor(1, 2, 3, 3, 3), "y": tensor(1, 2, 3, 3, 3), "k": [2, 2, 2], "*s": [1, 2, 3, 3, 3]}
    assert not claimed(proved(law), volumes)
    assert claimed(proved(law, at_site=SiteProofs()), volumes)


@pytest.mark.parametrize("left", ["let u = Conv(x, x) in Relu(x)", "let u = Abs(x) in let v = Relu(u) in Relu(x)"])
def test_a_local_name_is_used(left: str) -> None:
    with pytest.raises(RuleError, match="is used by nothing; remove it"):
        parse_rule(f"rule unused: {left} => Relu(x)")
