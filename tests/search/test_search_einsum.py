"""Sums of products that labels describe are products of matrices, to which all other laws apply."""

from __future__ import annotations

import onnx
import pytest

from taso_py.onnx_io.load import load
from taso_py.rules.location import rules_directory
from taso_py.rules.parser import parse_rules
from taso_py.search.bundles import BUNDLES
from tests.helpers.bundles import after
from tests.helpers.graphs import model, running, sizes

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
        (LINEAR, [(2, 3, 4, 6), (2, 3, 7, 1), (2, 3, 7, 6)]),
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


def test_the_bundle_has_all_equations_of_which_there_are_laws() -> None:
    laws = parse_rules((rules_directory() / "einsum.rules").read_text(encoding="utf-8"))
    assert set(BUNDLES["labels as products"].leading) == {law.name for law in laws}
