"""Laws of rows that are looked up at run time: what is proved, and false neighbours of it that are not."""

from __future__ import annotations

import pytest

from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule

TRUE = {
    "projection": "MatMul(GatherRows(t, i), w) == GatherRows(MatMul(t, w), i) for t[n, k], i[*s, m], w[k, p]",
    "function": "Exp(GatherRows(t, i)) == GatherRows(Exp(t), i) for t[n, *b], i[*s]",
    "other axis": "Relu(GatherRows(t, i, axis=1)) == GatherRows(Relu(t), i, axis=1) for t[n, k], i[m]",
    "transpose": "Transpose(GatherRows(t, i), perm=[1, 0]) == GatherRows(Transpose(t, perm=[1, 0]), i, axis=1)"
    " for t[n, k], i[m]",
    "reshaped indices": "Reshape(GatherRows(t, i), shape=[p, q, k]) => GatherRows(t, Reshape(i, shape=[p, q]))"
    " for t[n, k], i[(p q)]",
    "needed rows": "Slice(GatherRows(t, i), axes=[0], starts=[s], ends=[e], steps=[1])"
    " => GatherRows(t, Slice(i, axes=[0], starts=[s], ends=[e], steps=[1])) for t[n, k], i[m]",
    "indices in any order": "GatherRows(t, Concat(i, j, axis=0))"
    " => Concat(GatherRows(t, i), GatherRows(t, j), axis=0) for t[n, k], i[m], j[p]",
    "chosen columns": "GatherRows(t, Gather(c, axis=1, indices=[p], indices_shape=[]))"
    " => Squeeze(GatherRows(t, Slice(c, axes=[1], starts=[p], ends=[p + 1], steps=[1])), axes=[1])"
    " for t[n, k], c[b, m]",
    "rows of one table, twice": "Add(GatherRows(t, i), GatherRows(u, i)) => GatherRows(Add(t, u), i)"
    " for t[n, k], u[n, k], i[m]",
    "batch of one": "GatherRows(t, i) => Squeeze(GatherND(Unsqueeze(t, axes=[0]), Unsqueeze(i, axes=[0, 2]),"
    " batch_dims=1), axes=[0]) for t[n, k], i[m]",
    "no batch": "GatherRows(t, i) == GatherND(t, Unsqueeze(i, axes=[1])) for t[n, k], i[m]",
}
OUT_OF_RANGE = {
    "longer table": "GatherRows(t, i) => GatherRows(Concat(t, t, axis=0), i) for t[n, k], i[m]",
    "shorter table": "GatherRows(Concat(t, t, axis=0), i) => GatherRows(t, i) for t[n, k], i[m]",
    "first half": "GatherRows(Slice(t, axes=[0], starts=[0], ends=[m], steps=[1]), i) => GatherRows(t, i)"
    " for t[n, k], i[p]",
    "all but the last row": "GatherRows(t, i) => GatherRows(Slice(t, axes=[0], starts=[0], ends=[n - 1], steps=[1]), i)"
    " for t[n, k], i[m] when n >= 2",
    "two tables joined": "Concat(GatherRows(t, i), GatherRows(u, j), axis=0)"
    " => GatherRows(Concat(t, u, axis=0), Concat(i, j, axis=0)) for t[n, k], u[m, k], i[p], j[q]",
    "rows cut later": "GatherRows(t, Slice(i, axes=[0], starts=[0], ends=[e], steps=[1]))"
    " => Slice(GatherRows(t, i), axes=[0], starts=[0], ends=[e], steps=[1]) for t[n, k], i[m]",
    "an index of another tensor": "Add(GatherRows(t, i), Concat(y, GatherRows(u, j), axis=0))"
    " => Add(GatherRows(t, i), Slice(Concat(y, GatherRows(t, Concat(j, j, axis=0)), axis=0), axes=[0], starts=[0],"
    " ends=[p + q], steps=[1])) for t[n, k], u[m, k], i[p + q], j[q], y[p, k]",
    "other axis": "GatherRows(t, i) => Transpose(GatherRows(Transpose(t, perm=[1, 0]), i), perm=[1, 0])"
    " for t[n, k], i[m]",
    "hidden by a choice": "Where(c, GatherRows(t, i), GatherRows(u, j)) => Where(c, GatherRows(t, i), GatherRows(u, i))"
    " for c[p, k], t[n, k], u[m, k], i[p], j[p] when true(c)",
    "cut off later": "Concat(GatherRows(t, i), GatherRows(u, j), axis=0)"
    " => Concat(GatherRows(t, i), Slice(GatherRows(u, Concat(j, i, axis=0)), axes=[0], starts=[0], ends=[q],"
    " steps=[1]), axis=0) for t[n, k], u[m, k], i[p], j[q]",
}
"""The right side could read where the left side does not: ONNX would refuse to run."""
COMPUTED = {
    "sum": "GatherRows(t, Add(i, j)) => GatherRows(t, Add(j, i)) for t[n, k], i[m], j[m]",
    "rows added": "Add(GatherRows(t, i), GatherRows(t, j)) => GatherRows(t, Add(i, j)) for t[n, k], i[m], j[m]",
    "filled": "GatherRows(t, Pad(i, pads=[0, 1])) => Concat(GatherRows(t, i), Slice(t, axes=[0], starts=[0], ends=[1],"
    " steps=[1]), axis=0) for t[n, k], i[m] when n >= 1",
    "sign": "GatherRows(t, Neg(Neg(i))) => GatherRows(t, i) for t[n, k], i[m]",
    "maximum": "GatherRows(t, Max(i, i)) => GatherRows(t, i) for t[n, k], i[m]",
    "looked up": "GatherRows(t, GatherRows(i, j)) => GatherRows(GatherRows(t, i), j) for t[n, k], i[m], j[p]",
}
"""True in part, but indices are moved only."""
FALSE = {
    "swapped tables": "GatherRows(t, i), GatherRows(u, j) => GatherRows(u, i), GatherRows(t, j)"
    " for t[n, k], u[n, k], i[m], j[m]",
    "swapped indices": "Add(GatherRows(t, i), GatherRows(u, j)) => Add(GatherRows(t, j), GatherRows(u, i))"
    " for t[n, k], u[n, k], i[m], j[m]",
    "swapped batch": "GatherND(Concat(t, u, axis=0), Concat(i, j, axis=0), batch_dims=1)"
    " => GatherND(Concat(u, t, axis=0), Concat(i, j, axis=0), batch_dims=1)"
    " for t[a, n, k], u[a, n, k], i[a, m, 1], j[a, m, 1]",
    "function that is none": "Softmax(GatherRows(t, i), axis=0) => GatherRows(Softmax(t, axis=0), i) for t[n, k], i[n]",
    "sum over the table": "ReduceSum(GatherRows(t, i), axes=[0], keepdims=1) => ReduceSum(t, axes=[0], keepdims=1)"
    " for t[n, k], i[n]",
    "backwards": "Concat(GatherRows(t, i), GatherRows(t, j), axis=0) => GatherRows(t, Concat(j, i, axis=0))"
    " for t[n, k], i[m], j[m]",
    "wrong product": "MatMul(w, GatherRows(t, i)) => GatherRows(MatMul(w, t), i) for t[n, k], i[n], w[n, n]",
    "next column": "GatherRows(t, Gather(c, axis=1, indices=[p], indices_shape=[]))"
    " => Squeeze(GatherRows(t, Slice(c, axes=[1], starts=[p + 1], ends=[p + 2], steps=[1])), axes=[1])"
    " for t[n, k], c[b, m] when p + 2 <= m",
    "transposed indices": "GatherRows(t, i) => GatherRows(t, Transpose(i, perm=[1, 0])) for t[n, k], i[m, m]",
    "no lookup": "GatherRows(t, i) => t for t[n, k], i[n]",
    "one row": "GatherRows(t, i) => GatherRows(t, Expand(Slice(i, axes=[0], starts=[0], ends=[1], steps=[1]),"
    " shape=[m])) for t[n, k], i[m] when m >= 1",
}


def law(sides: str) -> Rule:
    return parse_rule(f"rule law: {sides}")


@pytest.mark.parametrize("sides", TRUE.values(), ids=TRUE)
def test_proved_for_all_sizes(sides: str) -> None:
    verdict = prove(law(sides))
    assert isinstance(verdict, Proved), verdict
    assert verdict.limit is None
    assert not verdict.facts or "Relu" in sides


def test_rows_may_be_of_any_element_type() -> None:
    verdict = prove(law(TRUE["needed rows"]))
    assert isinstance(verdict, Proved)
    assert verdict.types is None


@pytest.mark.parametrize("sides", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE)
def test_an_index_that_may_be_out_of_range_is_not_proved(sides: str) -> None:
    verdict = prove(law(sides))
    assert isinstance(verdict, Unknown)
    assert "an index in range" in verdict.why


@pytest.mark.parametrize("sides", COMPUTED.values(), ids=COMPUTED)
def test_indices_that_are_computed_are_beyond_the_prover(sides: str) -> None:
    verdict = prove(law(sides))
    assert isinstance(verdict, Unknown)
    assert verdict.why.startswith("an index is")


@pytest.mark.parametrize("sides", FALSE.values(), ids=FALSE)
def test_a_false_law_is_not_proved(sides: str) -> None:
    assert isinstance(prove(law(sides)), Unknown)


@pytest.mark.parametrize(
    "law",
    [
        "GatherRows(t, i), GatherRows(t, j) => GatherRows(t, j), GatherRows(t, i)",
        # Beside a part that differs and is equal, so that both sides are compared from there on.
        "GatherRows(t, i) + (x - y), Neg(GatherRows(t, j)) => GatherRows(t, j) + -(y - x), Neg(GatherRows(t, j))",
    ],
)
def test_lookups_by_other_indices_are_no_same_computation(law: str) -> None:
    shapes = "for t[n, k], i[m], j[m]" + (", x[m, k], y[m, k]" if "x" in law else "")
    assert isinstance(prove(parse_rule(f"rule r: {law} {shapes}")), Unknown)
