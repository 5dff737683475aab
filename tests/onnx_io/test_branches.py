"""Branches of If nodes are lifted, rewritten with everything else, and put back where they are evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from taso_py.onnx_io import export as exporting
from taso_py.onnx_io.branches import lifted
from taso_py.onnx_io.contract import check_contract
from taso_py.onnx_io.export import export, node_count, serialize
from taso_py.onnx_io.load import load
from tests.helpers.graphs import searched

CASES = {
    "captured values and names that both branches have": """
        a = Relu(x)
        y = If(c) <then_branch = t () => (float[2,3] r) { b = Sigmoid(a) r = Mul(b, x) },
                   else_branch = e () => (float[2,3] r) { b = Neg(a) r = Sub(b, x) }>""",
    "a result that the branch reads itself": """
        y, z = If(c) <then_branch = t () => (float[2,3] r, float[2,3] s) { r = Relu(x) s = Exp(r) },
                   else_branch = e () => (float[2,3] r, float[2,3] s) { s = Abs(x) r = Sqrt(s) }>""",
    "branches within branches": """
        y = If(c) <then_branch = t () => (float[2,3] r) { b = Neg(x)
              i = If(d) <then_branch = u () => (float[2,3] q) { q = Add(b, x) },
                         else_branch = v () => (float[2,3] q) { k = Exp(b) q = Mul(k, b) }>
              r = Relu(i) },
                   else_branch = e () => (float[2,3] r) { r = Abs(x) }>""",
    "weights of its own": """
        y = If(c) <then_branch = t () => (float[2,3] r) <float[3] w = {1, 2, 3}> { r = Mul(x, w) },
                   else_branch = e () => (float[2,3] r) <float[3] w = {4, 5, 6}> { r = Mul(x, w) }>""",
    "a constant result and a node that nothing reads": """
        y = If(c) <then_branch = t () => (float[2,3] r) <float[2,3] r = {1, 2, 3, 4, 5, 6}> { n = Neg(x) },
                   else_branch = e () => (float[2,3] r) { n = Neg(x) r = Identity(n) }>""",
    "what one branch alone reads": """
        a = Exp(x) y = If(c) <then_branch = t () => (float[2,3] r) { r = Neg(a) },
                              else_branch = e () => (float[2,3] r) { r = Abs(x) }>""",
    "a loop in a branch": """
        y = If(c) <then_branch = t () => (float[2,3] r) { h = Neg(x) n = Constant<value_int = 3>()
              r = Loop(n, , h) <body = b (int64 k, bool go, float[2,3] s) => (bool more, float[2,3] o) {
                more = Identity(go) o = Add(s, h) }> },
                   else_branch = e () => (float[2,3] r) { r = Relu(x) }>""",
    "names that many branches have": """
        y = If(c) <then_branch = t () => (float[2,3] v) { n = Neg(x)
              i = If(d) <then_branch = u () => (float[2,3] q) { k = Abs(n) q = Neg(k) },
                         else_branch = w () => (float[2,3] k) { q = Neg(n) k = Neg(q) }>
              v = Add(i, n) },
                   else_branch = e () => (float[2,3] k) { q = Exp(x) k = Neg(q) }>""",
    "branches that one deeper down reads": """
        y = If(c) <then_branch = t () => (float[2,3] r) {
              i = If(d) <then_branch = u () => (float[2,3] q) { b = Neg(x) q = Relu(b) },
                         else_branch = v () => (float[2,3] q) { q = Abs(x) }>
              j = If(c) <then_branch = f () => (float[2,3] o) {
                    l = If(d) <then_branch = g () => (float[2,3] s) { s = Exp(i) },
                               else_branch = h () => (float[2,3] s) { s = Neg(x) }>
                    o = Relu(l) },
                         else_branch = w () => (float[2,3] o) { o = Neg(x) }>
              r = Abs(j) },
                   else_branch = e () => (float[2,3] r) { r = Relu(x) }>""",
    "branches that two others may read": """
        y = If(c) <then_branch = t () => (float[2,3] r) {
              i = If(d) <then_branch = u () => (float[2,3] q) { q = Relu(x) },
                         else_branch = v () => (float[2,3] q) { q = Abs(x) }>
              j = If(d) <then_branch = f () => (float[2,3] o) { o = Exp(i) },
                         else_branch = w () => (float[2,3] o) { o = Neg(x) }>
              l = If(d) <then_branch = g () => (float[2,3] s) { s = Neg(i) },
                         else_branch = h () => (float[2,3] s) { s = Exp(x) }>
              r = Add(j, l) },
                   else_branch = e () => (float[2,3] r) { r = Relu(x) }>""",
    "one after another": """
        p = If(c) <then_branch = t () => (float[2,3] r) { r = Neg(x) },
                   else_branch = e () => (float[2,3] r) { r = Relu(x) }>
        y = If(d) <then_branch = u () => (float[2,3] r) { r = Neg(p) },
                   else_branch = v () => (float[2,3] r) { r = Exp(p) }>""",
}


def _model(body: str, extra: str = "", outputs: str = "float[2,3] y") -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, bool c, bool d{extra}) => ({outputs}) {{{body}}}'
    return onnx.parser.parse_model(text)


def _ways(model: onnx.ModelProto) -> Iterator[list[np.ndarray]]:
    """What it computes each way."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    names = {value.name for value in session.get_inputs()}
    for c, d in ((True, True), (True, False), (False, True), (False, False)):
        feeds = {"x": x, "c": np.array(c), "d": np.array(d), "i": np.array([99], np.int64)}
        yield session.run(None, {name: value for name, value in feeds.items() if name in names})


def _same(one: onnx.ModelProto, other: onnx.ModelProto) -> None:
    for a, b in zip(_ways(one), _ways(other), strict=True):
        for left, right in zip(a, b, strict=True):
            np.testing.assert_array_equal(left, right)


def _held(graph: onnx.GraphProto) -> list[object]:
    """Operators and numbers of initializers of a graph and of the branches in it."""
    inner = [(n.op_type, *(_held(a.g) for a in n.attribute if n.op_type == "If")) for n in graph.node]
    return [len(graph.initializer), *inner]


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_what_is_lifted_goes_back(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_unchanged", lambda *_: False)  # else the original itself is written
    model = _model(body)
    loaded = load(model)
    assert loaded.scopes
    exported = export(loaded, loaded.table)
    assert check_contract(loaded.proto, exported) == []
    made = onnx.ModelProto.FromString(serialize(exported))
    onnx.checker.check_model(made, full_check=True)
    _same(model, made)
    outside = {name for node in made.graph.node for name in node.output}
    assert outside == {name for node in model.graph.node for name in node.output}
    if "n = Neg(x)" not in body or "r = {" not in body:  # what nothing reads is gone, and a result is no weight
        assert _held(made.graph) == _held(model.graph)
    assert lifted(made).scopes.keys() == loaded.scopes.keys()
    assert node_count(loaded, exported) == len(loaded.proto.graph.node)


@pytest.mark.parametrize(
    "body",
    [
        """y = If(c) <then_branch = t () => (float[2,3] x) { n = Neg(x) },
                      else_branch = e () => (float[2,3] r) { r = Relu(x) }>""",
        """y = If(c) <then_branch = t () => (float[2,3] r) { r = Identity(x) },
                      else_branch = e () => (float[2,3] r) { r = Identity(x) }>""",
    ],
    ids=["an outer value as the result", "nothing but names"],
)
def test_other_branches_stay(body: str) -> None:
    assert not lifted(_model(body)).scopes


def test_weights_in_branches_stay_where_inputs_would_be_needed() -> None:
    model = _model(CASES["weights of its own"])
    model.ir_version = 3
    assert not lifted(model).scopes


def test_deep_branches_stay() -> None:
    body = "r0 = Neg(x)"
    for k in range(5):
        body = f"""r{k + 1} = If(c) <then_branch = t () => (float[2,3] q) {{ {body} q = Abs(r{k}) }},
                                     else_branch = e () => (float[2,3] q) {{ q = Exp(x) }}>"""
    assert not lifted(_model(f"{body} y = Relu(r5)")).scopes


def test_rules_reach_into_branches() -> None:
    body = """y = If(c) <then_branch = t () => (float[2,3] r) { b = Relu(x) k = Relu(b) r = Neg(k) },
                         else_branch = e () => (float[2,3] r) { b = Neg(x) k = Neg(b) r = Exp(k) }>"""
    model = _model(body)
    loaded, found = searched(model)
    exported = export(loaded, found.states[0].table)
    assert check_contract(loaded.proto, exported) == []
    made = onnx.ModelProto.FromString(serialize(exported))
    _same(model, made)
    (node,) = made.graph.node
    inside = {a.name: [n.op_type for n in a.g.node] for a in node.attribute}
    assert inside == {"then_branch": ["Relu", "Neg"], "else_branch": ["Exp"]}


@pytest.mark.parametrize("place", ["outside", "in the other branch", "beside it"])
def test_products_are_put_together_in_one_branch_only(place: str) -> None:
    one, two = "p = MatMul(x, v)", "q = MatMul(x, w)"
    outside = two if place == "outside" else ""
    inside = f"{one} {two} r = Add(p, q)" if place == "beside it" else f"{one} r = Exp(p)"
    other = f"{two} r = Neg(q)" if place == "in the other branch" else "r = Neg(x)"
    body = f"""{outside} b = If(c) <then_branch = t () => (float[2,3] r) {{ {inside} }},
                                    else_branch = e () => (float[2,3] r) {{ {other} }}>
               y = Add(b, {"q" if outside else "x"})"""
    model = _model(body)
    for name in "vw":
        array = np.random.default_rng(ord(name)).standard_normal((3, 3)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    loaded, found = searched(model, None, "matmul-shared-input", alpha=100.0)
    made = [onnx.ModelProto.FromString(serialize(export(loaded, state.table))) for state in found.states]
    counts = {sum(n.op_type == "MatMul" for n in lifted(one).proto.graph.node) for one in made}
    assert (1 in counts) == (place == "beside it")


def test_nothing_is_computed_that_was_not_before() -> None:
    """Both branches look the same thing up, which fails where neither is taken."""
    look = "a = Gather(x, i) b = Relu(a) k = Relu(b)"
    body = f"""p = If(c) <then_branch = t () => (float[2,3] r) {{ {look} r = Add(x, k) }},
                          else_branch = e () => (float[2,3] r) {{ r = Neg(x) }}>
               y = If(d) <then_branch = u () => (float[2,3] r) {{ {look} r = Add(p, k) }},
                          else_branch = v () => (float[2,3] r) {{ r = Neg(p) }}>"""
    model = _model(body, extra=", int64[1] i")
    loaded = load(model)
    # As if a rewrite had let the second branch read what the first one computes.
    names = {name: value for value, name in loaded.values.names.items()}
    one, other = names["k/p/then_branch"], names["k/y/then_branch"]
    reader = names["r/y/then_branch"]
    nodes = dict(loaded.table.nodes)
    nodes[reader] = replace(nodes[reader], inputs=tuple(one if i == other else i for i in nodes[reader].inputs))
    del nodes[other]
    made = onnx.ModelProto.FromString(serialize(export(loaded, replace(loaded.table, nodes=nodes))))
    assert [node.op_type for node in made.graph.node] == ["If", "If"]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    x, far = np.ones((2, 3), np.float32), np.array([99], np.int64)
    (y,) = session.run(None, {"x": x, "c": np.array(False), "d": np.array(False), "i": far})
    np.testing.assert_array_equal(y, x)
    (y,) = session.run(None, {"x": x, "c": np.array(False), "d": np.array(True), "i": np.array([1], np.int64)})
    np.testing.assert_array_equal(y, 0 * x)


_HALVES = """
    k = Constant <value_ints = [1, 1]>()
    s, t = Split <axis = 0>(x, k)
    p = If(c) <then_branch = a () => (float[1,3] r) { r = Relu(s) },
               else_branch = b () => (float[1,3] q) { q = Neg(s) }>
    z = If(d) <then_branch = e () => (float[1,3] u) { u = Relu(t) },
               else_branch = f () => (float[1,3] v) { v = Neg(t) }>
    y = Concat <axis = 0>(p, z)"""


def test_one_node_makes_results_of_two_branches() -> None:
    model = _model(_HALVES)
    for node in model.graph.node:
        for attribute in node.attribute:
            for inner in attribute.g.node:
                inner.name = f"the {inner.op_type} of {inner.output[0]}"
    loaded, found = searched(model, None, "relu-slice", alpha=100.0)
    (state,) = [state for state in found.states if [step.rule for step in state.trace] == ["relu-slice"]]
    exported = export(loaded, state.table)
    assert check_contract(loaded.proto, exported) == []
    made = onnx.ModelProto.FromString(serialize(exported))
    onnx.checker.check_model(made, full_check=True)
    _same(model, made)
    nodes = [one for node in lifted(made).proto.graph.node if (one := node.name)]
    assert len(nodes) == len(set(nodes))


_RELU = "p = If(c) <then_branch = a () => (float[2,3] r) { r = Relu(x) }, else_branch = b () => (float[2,3] q) { %s }>"
_NESTED = """m = If(c) <then_branch = g () => (float[2,3] h) { h = Relu(x) },
                     else_branch = i () => (float[2,3] j) { j = Neg(x) }>"""


@pytest.mark.parametrize(
    ("first", "then", "other", "last"),
    [
        ("q = Neg(x)", "g = Relu(x) u = Exp(g)", "v = Neg(p)", "y = Abs(w)"),
        ("q = Neg(x)", "u = Relu(x)", "v = Neg(p)", "y = Abs(w)"),
        ("q = Neg(x)", f"{_NESTED} u = Exp(m)", "v = Neg(p)", "y = Abs(w)"),
        ("q = Neg(x)", "u = Exp(p)", "v = Neg(p)", "g = Relu(x) y = Add(w, g)"),
    ],
    ids=["a value within another", "a result of another", "a branch in another", "the main graph"],
)
@pytest.mark.parametrize("kept", [0, 1])
def test_a_branch_and_another_place_compute_the_same(first: str, then: str, other: str, last: str, kept: int) -> None:
    """As if a rewrite had made one node of two: its names are those of one place, and it may be needed in both."""
    model = _model(
        f"""{_RELU % first}
            w = If(d) <then_branch = e () => (float[2,3] u) {{ {then} }},
                       else_branch = f () => (float[2,3] v) {{ {other} }}>
            {last}"""
    )
    loaded = load(model)
    relus = [value for value, node in loaded.table.nodes.items() if str(node.operator).startswith("Relu")]
    assert len(relus) == 2
    one, gone = relus[kept], relus[1 - kept]
    nodes = {
        value: replace(node, inputs=tuple(one if i == gone else i for i in node.inputs))
        for value, node in loaded.table.nodes.items()
        if value != gone
    }
    exported = export(loaded, replace(loaded.table, nodes=nodes))
    assert check_contract(loaded.proto, exported) == []
    _same(model, onnx.ModelProto.FromString(serialize(exported)))


SIZES = "axes = Constant<value_ints = [0]>() "


@pytest.mark.parametrize(
    ("then", "other", "type_"),
    [
        ("a = Neg(x) r = Exp(a)", "r = Abs(x)", "float32[2,3]"),
        ("r = Concat<axis = 0>(x, x)", "a = Neg(x) r = Exp(a)", "float32[p.0,3]"),
        ("r = Unsqueeze(x, axes)", "a = Neg(x) r = Exp(a)", "float32[?]"),
        ("h = Relu(n) r = Exp(h)", "r = Abs(n)", "float32[N,M]"),
        ("h = Relu(n) r = Exp(h)", "r = Transpose<perm = [1, 0]>(n)", "float32[p.0,p.1]"),
    ],
)
def test_a_result_has_the_sizes_that_both_branches_give_it(then: str, other: str, type_: str) -> None:
    body = f"""{SIZES} p = If(c) <then_branch = t () => (r) {{ {then} }}, else_branch = e () => (r) {{ {other} }}>
               y = Relu(p)"""
    loaded = load(_model(body, extra=", float[N,M] n", outputs="float y"))
    (value,) = (value for value, name in loaded.values.names.items() if name == "p")
    assert str(loaded.values.types[value]) == type_
    assert ("Relu" in loaded.opaque) == (type_ == "float32[?]")


def test_sizes_that_branches_only_state_are_not_believed() -> None:
    body = """p = If(c) <then_branch = t () => (int64[2,5] r) { r = NonZero(x) },
                         else_branch = e () => (int64[2,5] r) { a = NonZero(x) r = Identity(a) }> y = Neg(p)"""
    loaded = load(_model(body, outputs="int64 y"))
    (value,) = (value for value, name in loaded.values.names.items() if name == "p")
    assert str(loaded.values.types[value]) == "int64[2,p.1]"
