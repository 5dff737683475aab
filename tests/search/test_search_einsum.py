"""Sums of products that labels describe are products of matrices, to which all other laws apply."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from taso_py.onnx_io.load import load
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search import contraction
from taso_py.search.contraction import EINSUM, Labelled, einsum_law
from tests.helpers.bundles import after
from tests.helpers.certified import optimised
from tests.helpers.graphs import model, rewriter, running, sizes, view_of

ATTENTION = """agraph (float[2,3,7,4] q, float[2,3,5,4] k, float[2,3,5,6] v) => (float[2,3,7,6] y) {
    s = Einsum<equation = "b h i d, b h j d -> b h i j">(q, k) a = Softmax<axis = -1>(s)
    y = Einsum<equation = "bhij,bhjd->bhid">(a, v) }"""
LINEAR = """agraph (float[2,7,3,4] q, float[2,7,3,4] k, float[2,7,3,6] v) => (float[2,7,3,6] y) {
    o = Constant<value_ints = [1]>() t = ReduceSum<keepdims = 0>(k, o)
    w = Einsum<equation = "nshd,nshm->nhmd">(k, v) n = Einsum<equation = "nlhd,nhd->nlh">(q, t) z = Sigmoid(n)
    y = Einsum<equation = "nlhd,nhmd,nlh->nlhm">(q, w, z) }"""
JOINTS = """agraph (float[2,3,4,5,6] q, float[3,6,6] k) => (float[2,4,5,6] y) {
    y = Einsum<equation = "nkctv,kvw->nctw">(q, k) }"""
LEADING = """agraph (float[2,3,7,4] q, float[2,3,4,5] k) => (float[2,3,7,5] y) {
    y = Einsum<equation = "...ij,...jk->...ik">(q, k) }"""


@pytest.mark.parametrize(
    ("text", "products"),
    [
        (ATTENTION, [(2, 3, 7, 5), (2, 3, 7, 6)]),
        (LINEAR, [(2, 3, 6, 4), (2, 3, 7, 1), (2, 3, 7, 6)]),
        (JOINTS, [(2, 4, 5, 6)]),
        (LEADING, [(2, 3, 7, 5)]),
    ],
    ids=["attention", "linear", "joints", "leading"],
)
def test_labels_become_products(text: str, products: list[tuple[int, ...]]) -> None:
    table = after(model(text), "labels as products")
    assert "Einsum" not in running(table)
    assert sorted(sizes(table, "MatMul")) == sorted(products)


@pytest.mark.parametrize(
    ("equation", "operands"),
    [("ii->i", "q"), ("ij,jk->ik", "q, k"), ("...i,...j->...ij", "q, r")],
    ids=["a diagonal", "a size that is broadcast", "ellipses of different lengths"],
)
def test_what_is_not_defined_stays_as_it_is(equation: str, operands: str) -> None:
    text = f"""agraph (float[4,4] q, float[1,4] k, float[2,4,4] r) => (float[s,t] y) {{
        y = Einsum<equation = "{equation}">({operands}) }}"""
    loaded = load(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>' + text))
    assert loaded.opaque == {"Einsum": 1}


def _drawn(seed: int) -> tuple[list[Labelled], str]:
    """Operands of random labels in normal form, and labels of a result."""
    draw = random.Random(seed)
    pool = draw.sample("abcdef", draw.randint(2, 6))
    drawn = [draw.sample(pool, draw.randint(1, min(4, len(pool)))) for _ in range(draw.choice((1, 2, 2, 2, 3, 4)))]
    names = {c: "abcdef"[k] for k, c in enumerate(dict.fromkeys(c for t in drawn for c in t))}
    sizes = {c: draw.choice((1, 2, 3)) for c in names.values()}
    terms = ["".join(names[c] for c in t) for t in drawn]
    operands = [Labelled(t, tuple(sizes[c] for c in t), draw.random() < 0.3) for t in terms]
    return operands, "".join(draw.sample(list(sizes), draw.randint(1, len(sizes))))


@pytest.mark.parametrize("seed", range(60))
def test_the_law_of_any_equation_is_proved_for_all_sizes_and_computes_the_same(seed: int) -> None:
    operands, result = _drawn(seed)
    law = einsum_law(operands, result)
    assert isinstance(verdict := prove(law), Proved)
    assert verdict.limit is None
    equation = f"{','.join(t.labels for t in operands)}->{result}"
    given = ", ".join(f"float[{','.join(map(str, t.sizes))}] x{k}" for k, t in enumerate(operands))
    dims = ",".join(str({c: s for t in operands for c, s in zip(t.labels, t.sizes, strict=True)}[c]) for c in result)
    table = after(
        model(f"""agraph ({given}) => (float[{dims}] y) {{
            y = Einsum<equation = "{equation}">({", ".join(f"x{k}" for k in range(len(operands)))}) }}"""),
        "labels as products",
    )
    assert "Einsum" not in running(table)


@pytest.mark.parametrize(
    ("equation", "right"),
    [
        ("ab,bc->ac", "MatMul(x0, x1)"),
        ("abcd,ed->abce", "MatMul(x0, Transpose(x1, perm=[1, 0]))"),
        ("abcd,bed->abce", "MatMul(x0, Transpose(x1, perm=[0, 2, 1]))"),
        ("abcd,ade->abce", "Reshape(MatMul(Reshape(x0, shape=[na, nb * nc, nd]), x1), shape=[na, nb, nc, ne])"),
    ],
)
def test_products_are_made_with_few_moves(equation: str, right: str) -> None:
    given, _, result = equation.partition("->")
    law = einsum_law([Labelled(t, tuple(7 for _ in t)) for t in given.split(",")], result)
    assert f"=> {right}" in law.text()


def test_a_certificate_states_the_laws_of_einsum(tmp_path: Path) -> None:
    case = optimised(tmp_path, model(JOINTS), apply="all")
    assert EINSUM in case.certificate.read_text(encoding="utf-8")
    assert case.certify(prover=prove).steps


def test_a_wrong_law_of_an_equation_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is proved where it matches: a mistake of whoever writes it loses a rewrite, not the model's meaning."""
    true = contraction.einsum_law

    def wrong(operands: Sequence[Labelled], result: str) -> Rule:
        text = true(operands, result).text()
        product = "MatMul({}, Transpose({}, perm=[0, 1, 3, 2]))"
        assert product.format("x0", "x1") in text
        return parse_rule(text.replace(product.format("x0", "x1"), product.format("x1", "x0")))

    square = """agraph (float[1,2,5,5] q, float[1,2,5,5] k) => (float[1,2,5,5] y) {
        y = Einsum<equation = "bhid,bhjd->bhij">(q, k) }"""
    monkeypatch.setattr(contraction, "einsum_law", wrong)
    contraction._matcher.cache_clear()
    assert running(after(model(square), "labels as products")) == {"Einsum": 1}
    monkeypatch.undo()
    contraction._matcher.cache_clear()
    assert "Einsum" not in running(after(model(square), "labels as products"))


def test_equations_that_differ_are_steps_of_their_own(tmp_path: Path) -> None:
    """Their laws have one name, and a certificate's step has one law."""
    case = optimised(tmp_path, model(ATTENTION), apply="all", only=[EINSUM])
    laws = [law for law in case.document()["rules"] if law["name"] == EINSUM]
    assert len(laws) == 2
    assert case.certify(prover=prove).steps == 2


def test_a_users_law_of_this_name_is_one_law() -> None:
    """Who gives rules of their own is given no others."""
    own = f'rule {EINSUM}: Einsum(x, y, equation="abc,acd->abd") => MatMul(x, y) for x[a, b, c], y[a, c, d]'
    rules, canonical = rewriter(own)
    view = view_of(load(model(LINEAR)), canonical)
    assert not rules.all_matches(view)
