"""Chains of reshapes and transpositions are one, written and proved where they stand."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from taso_py.graph.sizes import Size, symbol
from taso_py.graph.types import TensorType
from taso_py.onnx_io.load import load
from taso_py.ops.reshape import Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search import rearrangement
from taso_py.search.rearrangement import REARRANGEMENT, Step, rearranged
from tests.helpers.bundles import after
from tests.helpers.certified import optimised
from tests.helpers.graphs import model, rewriter, running, sizes, view_of

Operation = Flatten | Reshape | Squeeze | Transpose | Unsqueeze

HEADS = """agraph (float[{n},14,12] x) => (float[{m},14,14] y) {{
    split = Constant<value_ints = [{n}, 14, 3, 4]>() joined = Constant<value_ints = [-1, 14, 4]>()
    one = Constant<value_ints = [1]>() three = Constant<value_ints = [3]>()
    q = MatMul(x, u) qs = Reshape(q, split) qb = Add(qs, b) qu = Unsqueeze(qb, three)
    qt = Transpose<perm = [0,2,1,3,4]>(qu) qr = Reshape(qt, joined)
    k = MatMul(x, w) ks = Reshape(k, split) kb = Add(ks, c) ku = Unsqueeze(kb, one)
    kt = Transpose<perm = [0,3,1,2,4]>(ku) kr = Reshape(kt, joined) kk = Transpose<perm = [0,2,1]>(kr)
    y = MatMul(qr, kk) }}"""
"""Scores as Keras writes them."""


def heads(batch: int) -> onnx.ModelProto:
    return model(HEADS.format(n=batch, m=3 * batch), u=(12, 12), w=(12, 12), b=(3, 4), c=(3, 4))


@pytest.mark.parametrize("batch", [1, 2])
def test_heads_are_split_and_turned_once(batch: int) -> None:
    table = after(heads(batch), "biases before heads")
    found = running(table)
    assert (found["Unsqueeze"], found["Squeeze"]) == (0, 0)
    assert found["Transpose"] == 3  # queries, keys, and the matrices of the keys, which a product reads either way
    assert sorted(sizes(table, "Add")) == [(batch, 14, 12)] * 2


def _drawn(seed: int) -> tuple[tuple[int, ...], list[Step]]:
    """An operand's sizes, and a chain of random operators."""
    draw = random.Random(seed)
    dims = tuple(draw.choice((1, 2, 4, 8) if seed % 2 else (1, 2, 3, 4, 6)) for _ in range(draw.randint(1, 4)))
    type_, steps = TensorType("float32", dims), list[Step]()
    for _ in range(draw.randint(2, 6)):
        operator = _operator(draw, tuple(d for d in type_.dims if isinstance(d, int)))
        type_ = operator.infer(type_)
        steps.append(Step(operator, type_.dims))
    return dims, steps


def _operator(draw: random.Random, dims: tuple[int, ...]) -> Operation:
    ones = [k for k, d in enumerate(dims) if d == 1]
    match draw.choice(("turn", "turn", "shape", "shape", "put in", "take out", "flat")):
        case "turn":
            return Transpose(tuple(draw.sample(range(len(dims)), len(dims))))
        case "put in" if len(dims) < 5:
            return Unsqueeze((draw.randint(0, len(dims)),))
        case "take out" if ones:
            return Squeeze((draw.choice(ones),))
        case "flat":
            return Flatten(draw.randint(0, len(dims)))
        case _:
            return Reshape(tuple(_split(draw, math.prod(dims))))


def _split(draw: random.Random, size: int) -> list[int]:
    """Factors of a size, some of them 1."""
    found = []
    while size > 1 and len(found) < 3:
        found.append(draw.choice([d for d in range(1, size + 1) if size % d == 0]))
        size //= found[-1]
    return [*found, size]


def _run(steps: Sequence[Step], x: np.ndarray) -> np.ndarray:
    for step in steps:
        operator = step.operator
        shape = [d for d in step.dims if isinstance(d, int)]
        x = x.transpose(operator.perm) if isinstance(operator, Transpose) else x.reshape(shape)
    return x


@pytest.mark.parametrize("seed", range(60))
def test_the_law_of_any_chain_is_proved_and_computes_the_same(seed: int) -> None:
    dims, steps = _drawn(seed)
    law = rearranged(dims, steps)
    if law is None:
        turns = sum(isinstance(step.operator, Transpose) for step in steps)
        assert turns <= 1 or seed % 2 == 0  # one at most is left where all sizes are powers of one prime
        return
    assert isinstance(verdict := prove(law), Proved)
    assert verdict.limit is None
    x = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
    np.testing.assert_array_equal(_made(law, x), _run(steps, x))


def _made(law: Rule, x: np.ndarray) -> np.ndarray:
    """What the right side makes of x, by numpy."""
    text = law.text().partition("=>")[2].partition("\n")[0].strip()
    names = {
        "x": x,
        "Reshape": lambda t, shape: t.reshape(shape),
        "Transpose": lambda t, perm: t.transpose(perm),
    }
    found: np.ndarray = eval(text, {"__builtins__": {}}, names)
    return found


N, M = symbol("N"), symbol("M")


@pytest.mark.parametrize(
    ("dims", "steps", "right"),
    [
        (
            (N, 14, 12),
            [Reshape((N, 14, 3, 4)), Transpose((0, 2, 1, 3)), Reshape((3 * N, 14, 4)), Transpose((0, 2, 1))],
            "Reshape(Transpose(x, perm=[0, 2, 1]), shape=[3 * n0, 4, 14])",
        ),
        (
            (N, M, 4),
            [Transpose((0, 2, 1)), Unsqueeze((0,)), Transpose((0, 1, 3, 2))],
            "Reshape(x, shape=[1, n0, n1, 4])",
        ),
        ((N, 6), [Unsqueeze((1,)), Transpose((0, 2, 1)), Squeeze((2,))], "x"),
    ],
    ids=["heads", "turned twice", "one axis put in"],
)
def test_sizes_that_are_not_known_are_any(dims: Sequence[Size], steps: Sequence[Operation], right: str) -> None:
    law = _law(dims, steps)
    assert law is not None
    assert f"=> {right}\n" in law.text() + "\n"
    assert isinstance(verdict := prove(law), Proved)
    assert verdict.limit is None


def _law(dims: Sequence[Size], operators: Sequence[Operation]) -> Rule | None:
    type_, steps = TensorType("float32", tuple(dims)), list[Step]()
    for operator in operators:
        type_ = operator.infer(type_)
        steps.append(Step(operator, type_.dims))
    return rearranged(dims, steps)


@pytest.mark.parametrize(
    ("dims", "operators"),
    [
        ((2, 12), [Reshape((2, 3, 4)), Transpose((0, 2, 1))]),
        ((2, 12), [Reshape((2, 3, 4)), Transpose((0, 2, 1)), Reshape((2, 12))]),
        ((0, 4), [Transpose((1, 0)), Transpose((1, 0))]),
        ((N * M,), [Reshape((N, M)), Transpose((1, 0)), Transpose((1, 0))]),  # nothing says what N is
    ],
    ids=["two", "three", "empty", "factors"],
)
def test_there_is_no_law_of_what_is_short_or_not_known(dims: Sequence[Size], operators: Sequence[Operation]) -> None:
    assert _law(dims, operators) is None


def test_a_certificate_states_the_laws_of_chains(tmp_path: Path) -> None:
    case = optimised(tmp_path, heads(2), apply="all", only=[REARRANGEMENT, "bias-of-split-columns"])
    laws = [law for law in case.document()["rules"] if law["name"] == REARRANGEMENT]
    assert len(laws) == 2  # of queries and of keys
    assert case.certify(prover=prove).steps


def test_a_wrong_law_of_a_chain_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is proved where it matches: a mistake of whoever writes it loses a rewrite, not the model's meaning."""
    true = rearrangement.rearranged

    def wrong(dims: Sequence[Size], steps: Sequence[Step]) -> Rule | None:
        law = true(dims, steps)
        return None if law is None else parse_rule(law.text().replace("=> x", "=> Transpose(x, perm=[1, 0])"))

    twice = """agraph (float[3,3] x) => (float[3,3] y) {
        o = Constant<value_ints = [0]>() a = Transpose(x) b = Unsqueeze(a, o) c = Squeeze(b, o)
        d = Transpose(c) y = Relu(d) }"""
    rules, canonical = rewriter(None, REARRANGEMENT)
    view = view_of(load(model(twice)), canonical)
    monkeypatch.setattr(rearrangement, "rearranged", wrong)
    rearrangement._matcher.cache_clear()
    assert not rules.all_matches(view)
    monkeypatch.undo()
    rearrangement._matcher.cache_clear()
    assert rules.all_matches(view)


def test_a_users_law_of_this_name_is_one_law() -> None:
    own = f"rule {REARRANGEMENT}: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x for x[a, b]"
    rules, canonical = rewriter(own)
    view = view_of(load(heads(2)), canonical)
    assert not rules.all_matches(view)
