"""Rules that do not hold, each with a model in which it makes a difference, and certificates that rest on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from scripts.audit.certificates.subjects import Case, Document, fitted_to_nothing, model
from taso_py.certificate.record import Trail
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import Loaded, load
from taso_py.rules.coverage import DEFINED
from taso_py.rules.library import load as load_library
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.search.canonical import Canonicalizer
from taso_py.search.moves import Moved, Rewriter
from taso_py.search.view import View

Arrays = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True, slots=True)
class FalseLaw:
    """A law and a graph to which it applies; ``shows``: the two models then differ by more than a check admits."""

    text: str
    graph: str
    weights: Arrays = field(default_factory=dict)
    shows: bool = True

    @property
    def rule(self) -> Rule:
        """The law as it is parsed."""
        return parse_rule(self.text)

    def case(self) -> Case:
        """A certificate with the law's own id and text, consistent in all that it says; the model made by the law."""
        proto, rule = model(self.graph, **self.weights), self.rule
        library = load_library()
        canonical = Canonicalizer.of(library.canonical, library.cleanup)
        loaded = load(proto)
        outcome = _applied(loaded, replace(rule, patterns=DEFINED), canonical)
        if outcome is None:
            # The matcher knows better by now: then the certificate says that it matches.
            return Case(rule.name, proto, proto, _claim(rule, proto))
        exported = export(loaded, outcome.view.table)
        made = onnx.ModelProto.FromString(serialize(exported))
        trail = Trail(
            source=proto,
            loaded=loaded,
            canonical=canonical,
            applied=outcome.applied,
            table=outcome.view.table,
            exported=exported,
        )
        return Case(rule.name, proto, made, json.loads(trail.certificate(made)))


def _applied(loaded: Loaded, rule: Rule, canonical: Canonicalizer) -> Moved | None:
    view = View.of(loaded.table, canonical.expand, loaded.folder.value)
    rewriter = Rewriter.directed([rule], canonical)
    moves = (rewriter.apply(view, group) for group in rewriter.groups(view, rewriter.all_matches(view)))
    return next((move for move in moves if move is not None), None)


def _claim(rule: Rule, proto: onnx.ModelProto) -> Document:
    output = proto.graph.output[0].name
    place = {"outputs": [output], "inside": {}, "substitution": {"tensors": {}, "names": {}, "blocks": {}}}
    step = {"rule": rule.name, "id": rule.id, "backwards": False, "looks": [], "places": [place], "gives": {}}
    return fitted_to_nothing([{"id": rule.id, "name": rule.name, "text": rule.text()}], [step])


_TWO = "(float[3,4] x, float[3,4] y) => (float[3,4] z)"
_CHOICE = "agraph (bool[3,4] c, float[3,4] x, float[3,4] y, float[3,4] w) => (float[3,4] z)"
_GREATER = "agraph (float[3,4] x, float[3,4] y, float[3,4] a, float[3,4] b) => (float[3,4] z)"
_CUBE = "agraph (float[2,2,2,2] x) => (float[2,2,2,2] z)"
_SQUARE = "{ d = Sub(x, y) a = Abs(d) z = Mul(a, a) }"
_MATRICES = "agraph (float[4,4] x, float[4,4] y) => (float[4,4] z)"

FALSE_LAWS = (
    # Algebra.
    FalseLaw("rule less-is-more: Sub(x, y) => Sub(y, x)", f"agraph {_TWO} {{ z = Sub(x, y) }}"),
    FalseLaw("rule sum-is-product: Add(x, y) => Mul(x, y)", f"agraph {_TWO} {{ z = Add(x, y) }}"),
    FalseLaw("rule max-is-min: Max(x, y) => Min(x, y)", f"agraph {_TWO} {{ z = Max(x, y) }}"),
    FalseLaw("rule a-bit-more: x * 2 => x * 2.00001", f"agraph {_TWO} {{ a = Mul(x, two) z = Add(a, y) }}",
             {"two": np.full((1,), 2, np.float32)}, shows=False),
    FalseLaw("rule division-commutes: x / y => y / x", f"agraph {_TWO} {{ z = Div(x, y) }}"),
    FalseLaw("rule square-of-abs: Abs(x - y) * Abs(x - y) => x * x for x[*s], y[*s]", f"agraph {_TWO} {_SQUARE}"),
    FalseLaw("rule square-of-late-sum: Abs(a + Relu(y - 5)) * Abs(a + Relu(y - 5)) => a * a for a[*s], y[*s]",
             f"agraph {_TWO} {{ f = Sub(y, five) r = Relu(f) s = Add(x, r) a = Abs(s) z = Mul(a, a) }}",
             {"five": np.full((1,), 5, np.float32)}),
    FalseLaw("rule ones-nearly: x * v => x for x[*s], v[*s] when positive(v)",
             f"agraph {_TWO} {{ a = Mul(x, v) z = Add(a, y) }}",
             {"v": np.arange(1, 13, dtype=np.float32).reshape(3, 4)}),
    # Activations.
    FalseLaw("rule always-positive: Relu(x) => x", f"agraph {_TWO} {{ r = Relu(x) z = Sub(r, y) }}"),
    FalseLaw("rule sigmoid-tanh: Sigmoid(x) => Tanh(x)", f"agraph {_TWO} {{ s = Sigmoid(x) z = Sub(s, y) }}"),
    FalseLaw("rule leaky-enough: LeakyRelu(x, alpha=a) => Relu(x) when a // 1 == 0",
             f"agraph {_TWO} {{ r = LeakyRelu<alpha = 0.3>(x) z = Sub(r, y) }}"),
    FalseLaw("rule whole-bound: Clip(x, min=0, max=b) => Clip(x, min=0, max=b // 1)",
             f"agraph {_TWO} {{ r = Clip(x, low, high) z = Sub(r, y) }}",
             {"low": np.zeros((), np.float32), "high": np.full((), 0.5, np.float32)}),
    FalseLaw("rule nothing-left: Relu(x) => Relu(x) + Fill(value=inf, shape=[]) - Fill(value=inf, shape=[])",
             f"agraph {_TWO} {{ r = Relu(x) z = Sub(r, y) }}"),
    # What a condition selects.
    FalseLaw("rule bool-abs: Where(Less(Abs(x), y), a, b) => Where(Less(x, y), a, b) for x[*s], y[*s], a[*s], b[*s]",
             f"{_GREATER} {{ p = Abs(x) c = Less(p, y) z = Where(c, a, b) }}"),
    FalseLaw("rule safe-division: Where(c, x / y, z) => Where(c, x, z * y) / y for c[*s], x[*s], y[*s], z[*s]",
             f"{_CHOICE} {{ q = Div(x, y) z = Where(c, q, w) }}"),
    FalseLaw("rule safe-root: Where(c, Sqrt(x), y) => Sqrt(x) + Where(c, Fill(value=0, shape=[]), y - Sqrt(x)) "
             "for c[*s], x[*s], y[*s]", f"{_CHOICE} {{ q = Sqrt(x) s = Where(c, q, y) z = Add(s, w) }}"),
    FalseLaw("rule safe-inverse: Where(c, Reciprocal(x), y) "
             "=> Reciprocal(x) * Where(c, Fill(value=1, shape=[]), x * y) for c[*s], x[*s], y[*s]",
             f"{_CHOICE} {{ q = Reciprocal(x) s = Where(c, q, y) z = Add(s, w) }}"),
    FalseLaw("rule masked-mean: Where(c, ReduceSum(x, axes=[1], keepdims=1) / y, z) "
             "=> Where(c, ReduceSum(x, axes=[1], keepdims=1), z * y) / y for x[m, n], y[m, 1], c[m, 1], z[m, 1]",
             "agraph (float[3,4] x, float[3,1] y, bool[3,1] c, float[3,1] w) => (float[3,1] z) "
             "{ s = ReduceSum<keepdims = 1>(x, axes) q = Div(s, y) z = Where(c, q, w) }", {"axes": np.array([1])}),
    # Axes.
    FalseLaw("rule batch-stays: Transpose(Transpose(x, perm=p), perm=p) => x when at(p, 0) == 0",
             f"{_CUBE} {{ a = Transpose<perm = [0, 2, 3, 1]>(x) b = Transpose<perm = [0, 2, 3, 1]>(a) z = Relu(b) }}"),
    FalseLaw("rule six-is-enough: Transpose(Transpose(x, perm=p), perm=p) "
             "=> Transpose(x, perm=inverse(compose(compose(p, p), compose(p, p))))",
             f"{_CUBE} {{ a = Transpose<perm = [1, 2, 3, 0]>(x) b = Transpose<perm = [1, 2, 3, 0]>(a) z = Relu(b) }}"),
    FalseLaw("rule few-axes: Softmax(x + 1, axis=k) => Softmax(x, axis=min(k, 3))",
             "agraph (float[2,2,2,2,2] x) => (float[2,2,2,2,2] z) { a = Add(x, one) z = Softmax<axis = 4>(a) }",
             {"one": np.ones((1,), np.float32)}),
    FalseLaw("rule halves-swapped: Concat(x, y, axis=k) => Concat(y, x, axis=k)",
             "agraph (float[3,4] x, float[3,4] y) => (float[6,4] z) { z = Concat<axis = 0>(x, y) }"),
    FalseLaw("rule symmetric: Transpose(x, perm=[1, 0]) => x",
             f"{_MATRICES} {{ t = Transpose<perm = [1, 0]>(x) z = Sub(t, y) }}"),
    # Products.
    FalseLaw("rule products-commute: MatMul(x, y) => MatMul(y, x)", f"{_MATRICES} {{ z = MatMul(x, y) }}"),
    FalseLaw("rule whole-alpha: 4 * Gemm(x, y, alpha=a) => Gemm(x, y, alpha=4*a//1)",
             f"{_MATRICES} {{ g = Gemm<alpha = 0.3>(x, y) z = Mul(four, g) }}", {"four": np.full((), 4, np.float32)}),
    # Types.
    FalseLaw('rule cast-twice: Cast(Cast(x, to="float32"), to="float64") => Cast(x, to="float64")',
             "agraph (double[3,4] x) => (double[3,4] z) "
             "{ a = Cast<to = 1>(x) b = Cast<to = 11>(a) g = Greater(b, x) z = Cast<to = 11>(g) }"),
)  # fmt: skip

BOUNDED_LAWS = (
    FalseLaw("rule maximum-of-copies: ReduceMax(Expand(x, shape=[m, n]), axes=[0], keepdims=0) => x "
             "for x[n] when m >= 1",
             "agraph (float[4] x) => (float[4] z) "
             "{ e = Expand(x, shape) m = ReduceMax<axes = [0], keepdims = 0>(e) z = Neg(m) }",
             {"shape": np.array([3, 4])}, shows=False),
    FalseLaw("rule cycle-of-two: "
             "Gather(Gather(x, axis=0, indices=i, indices_shape=[n]), axis=0, indices=i, indices_shape=[n]) "
             "=> x for x[n, m] when sort(i) == run(0, n)",
             "agraph (float[3,2] x) => (float[3,2] z) "
             "{ a = Gather<axis = 0>(x, i) b = Gather<axis = 0>(a, i) z = Neg(b) }",
             {"i": np.array([1, 2, 0])}),
)  # fmt: skip
"""Proved up to some size only; the first of them is true."""
