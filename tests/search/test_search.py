"""Matching, rewriting and searching on small graphs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from taso_py.cost.model import RooflineCost
from taso_py.cost.regions import regions
from taso_py.cost.roofline import Roofline
from taso_py.graph.table import Node
from taso_py.onnx_io.export import export, serialize
from taso_py.onnx_io.load import load
from taso_py.search.moves import Rewriter
from taso_py.search.rewriter import rewrite
from taso_py.search.state import Found, State, StopReason
from taso_py.search.strategy import Backtracking, Limits
from taso_py.search.view import View
from tests.helpers.graphs import model, rewriter, running, searched, view_of

SIBLINGS = """agraph (float[1,8] x) => (float[1,4] p, float[1,6] q, float[1,2] r) {
  p = MatMul(x, A) q = MatMul(x, B) r = MatMul(x, C)}"""


def matches(proto: onnx.ModelProto, rules: str | None, *names: str) -> tuple[Rewriter, View, dict[int, tuple]]:
    loaded = load(proto)
    rules_, canonical = rewriter(rules, *names)
    view = view_of(loaded, canonical)
    return rules_, view, rules_.all_matches(view)


def test_siblings_merge_in_one_move() -> None:
    proto = model(SIBLINGS, A=(8, 4), B=(8, 6), C=(8, 2))
    rules, view, found = matches(proto, None, "matmul-shared-input")
    (group,) = rules.groups(view, found)
    outcome = rules.apply(view, group)
    assert outcome is not None
    assert running(outcome.view.table) == {"MatMul": 1, "Split": 3}
    assert len(outcome.sites) == 2


def test_a_match_whose_inputs_depend_on_its_outputs_is_refused() -> None:
    chain = "agraph (float[1,8] x) => (float[1,8] q) {p = MatMul(x, A) t = Tanh(p) q = MatMul(t, A)}"
    rules, view, found = matches(model(chain, A=(8, 8)), None, "matmul-shared-weight")
    pairs = [m for ms in found.values() for m in ms]
    assert pairs, "both products share their weight"
    assert all(rewrite(view, m) is None for m in pairs)
    assert rules.apply(view, pairs) is None


def test_shared_weights_are_batched_across_independent_inputs() -> None:
    text = "agraph (float[2,8] x, float[3,8] y) => (float[2,8] p, float[3,8] q) {p = MatMul(x, A) q = MatMul(y, A)}"
    _, found = searched(model(text, A=(8, 8)), None, "matmul-shared-weight", alpha=10.0)
    assert {"MatMul": 1, "Concat": 1, "Split": 2} in [running(s.table) for s in found.states]


def test_same_rewrites_in_another_order_give_the_same_table() -> None:
    text = "agraph (float[4] x, float[4] y) => (float[4] p, float[4] q) {a = Neg(x) p = Neg(a) b = Neg(y) q = Neg(b)}"
    rule = "rule double-negation: Neg(Neg(x)) => Abs(x)"
    rules, view, found = matches(model(text), rule)
    first, second = (m for ms in found.values() for m in ms)

    def both(one: object, other: object) -> dict[int, Node]:
        step = rewrite(view, one)
        assert step is not None
        after = view.after(step.table)
        again = next(m for ms in rules.all_matches(after).values() for m in ms if m.outputs == other.outputs)
        last = rewrite(after, again)
        assert last is not None
        return dict(last.table.nodes)

    assert both(first, second) == both(second, first)


def test_incremental_matches_are_the_matches_from_scratch() -> None:
    text = """agraph (float[1,8] x, float[1,8] y) => (float[1,8] r) {
      a = MatMul(x, A) b = MatMul(x, B) c = MatMul(y, A) d = MatMul(y, B)
      e = Add(a, b) f = Add(c, d) g = Relu(e) h = Relu(g) r = Add(h, f)}"""
    rules, view, found = matches(model(text, A=(8, 8), B=(8, 8)), None)
    checked = 0
    for group in rules.groups(view, found):
        outcome = rules.apply(view, group)
        if outcome is None:
            continue
        incremental = rules.matches_after(view, found, outcome.view)
        scratch = rules.all_matches(View.of(outcome.view.table, view.expander, view.read_constant))
        assert {k: {(m.rule.name, m.outputs) for m in ms} for k, ms in incremental.items()} == {
            k: {(m.rule.name, m.outputs) for m in ms} for k, ms in scratch.items()
        }
        checked += 1
    assert checked >= 2


def test_a_composite_is_looked_through_and_only_the_site_changes() -> None:
    text = "agraph (float[1,8] x) => (float[1,4] p, float[1,6] q) {p = Gemm(x, A, a) q = Gemm(x, B, b)}"
    rules, view, found = matches(model(text, A=(8, 4), B=(8, 6), a=(4,), b=(6,)), None, "matmul-shared-input")
    outcome = rules.apply(view, [m for ms in found.values() for m in ms])
    assert outcome is not None
    assert running(outcome.view.table)["Gemm"] + running(outcome.view.table)["MatMul"] == 1


def test_an_overridable_initializer_is_not_a_constant() -> None:
    proto = model("agraph (float[4] x, float[4] c) => (float[4] y) {y = Mul(x, c)}", c=(4,))
    rule = "rule use-constant: Mul(x, c) => Mul(c, x) when constant(c)"
    _, _, found = matches(proto, rule)
    assert not found
    fixed = model("agraph (float[4] x) => (float[4] y) {y = Mul(x, c)}", c=(4,))
    assert matches(fixed, rule)[2]


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e31])
def test_constants_that_stand_for_infinity_do_not_match(bad: float) -> None:
    proto = model("agraph (float[4] x) => (float[4] y) {a = Add(x, c) y = Add(a, d)}", c=(4,), d=(4,))
    rule = "rule regroup: Add(Add(x, a), b) => Add(x, Add(a, b)) when constant(a), constant(b)"
    assert matches(proto, rule)[2]
    array = np.ones(4, np.float32)
    array[2] = bad
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(array, "c"))
    assert not matches(proto, rule)[2]


def test_real_laws_do_not_match_integers() -> None:
    text = "agraph (int64[4] x) => (int64[4] y) {a = Relu(x) y = Relu(a)}"
    proto = model(text)
    assert not matches(proto, "rule relu-twice: Relu(Relu(x)) => Relu(x)")[2]


def test_unmentioned_attributes_mean_the_default() -> None:
    text = "agraph (float[4] x) => (float[4] y) {a = LeakyRelu<alpha = 0.3>(x) y = Neg(a)}"
    assert not matches(model(text), "rule r: Neg(LeakyRelu(x)) => Relu(x)")[2]
    assert matches(model(text), "rule r: Neg(LeakyRelu(x, alpha=a)) => Relu(x)")[2]


def test_undecided_conditions_do_not_match() -> None:
    text = "agraph (float[N] x) => (float[N] y) {a = Neg(x) y = Neg(a)}"
    assert not matches(model(text), "rule r: Neg(Neg(x)) => Abs(x) for x[n] when n >= 2")[2]
    assert matches(model(text), "rule r: Neg(Neg(x)) => Abs(x) for x[n] when n >= 0")[2]


def test_two_symbols_are_never_taken_to_be_equal() -> None:
    rule = "rule r: Add(MatMul(x, a), MatMul(y, a)) => MatMul(Add(x, y), a) for x[m, k], y[m, k]"
    same = "agraph (float[N,8] x, float[N,8] y) => (float[N,8] z) {a = MatMul(x, A) b = MatMul(y, A) z = Add(a, b)}"
    assert matches(model(same, A=(8, 8)), rule)[2]
    other = same.replace("float[N,8] y", "float[1,8] y")
    assert not matches(model(other, A=(8, 8)), rule)[2]


def test_a_graph_output_that_becomes_an_input_is_written_through_identity() -> None:
    proto = model("agraph (float[4] x) => (float[4] y) {a = Neg(x) y = Neg(a)}")
    loaded = load(proto)
    rules, canonical = rewriter("rule r: Neg(Neg(x)) => x")
    view = view_of(loaded, canonical)
    outcome = rules.apply(view, [m for ms in rules.all_matches(view).values() for m in ms])
    assert outcome is not None
    made = onnx.load_from_string(serialize(export(loaded, outcome.view.table)))
    assert [(n.op_type, list(n.input), list(n.output)) for n in made.graph.node] == [("Identity", ["x"], ["y"])]


def test_search_stops_for_a_reason_and_at_its_limits() -> None:
    proto = model(SIBLINGS, A=(8, 4), B=(8, 6), C=(8, 2))
    assert searched(proto)[1].reason is StopReason.SATURATED
    assert searched(proto, seconds=-1.0)[1].reason is StopReason.TIME


def test_the_search_is_deterministic() -> None:
    text = """agraph (float[1,8] x) => (float[1,8] r) {
      a = MatMul(x, A) b = MatMul(x, B) e = Add(a, b) g = Relu(e) r = Relu(g)}"""
    runs = [searched(model(text, A=(8, 8), B=(8, 8))) for _ in range(2)]
    first, second = ([serialize(export(loaded, s.table)) for s in found.states[:5]] for loaded, found in runs)
    assert first == second


def test_moves_of_a_seed_are_told_apart() -> None:
    """What another search found comes with one price for all its moves; the report has a gain for each.

    It counts even when no time is left to seek more.
    """
    text = "agraph (float[4] x, float[4] y) => (float[4] p, float[4] q) {a = Neg(x) p = Neg(a) b = Relu(y) q = Relu(b)}"
    loaded = load(model(text))
    rules, canonical = rewriter("rule negs: Neg(Neg(x)) => Identity(x)\nrule relus: Relu(Relu(x)) => Relu(x)")
    view, roofline = view_of(loaded, canonical), Roofline({})
    start = roofline.total(loaded.table)

    def search(seconds: float = 60) -> Backtracking:
        return Backtracking(rules, RooflineCost(roofline), roofline, Limits(time.monotonic() + seconds))

    def run(seeds: Sequence[State], seconds: float = 60) -> Found:
        return search(seconds).run(view, start, lambda: False, lambda count, best: None, seeds)

    sought = search().seek(view, start, lambda: False, lambda count, best: None)
    assert sought.simplest is None
    (seed, *_) = sought.states
    assert {step.rule for step in seed.trace} == {"negs", "relus"}
    late = run([seed], seconds=-1)
    assert late.reason is StopReason.TIME
    assert [state.table.nodes for state in late.states] == [seed.table.nodes]
    simplest = run([seed]).simplest
    assert simplest is not None
    assert simplest.table.nodes == seed.table.nodes
    assert all(step.before > step.after for step in simplest.trace)
    assert simplest.trace[0].before - simplest.trace[-1].after == pytest.approx(start - simplest.cost)


ENDLESS = """
rule longer: Neg(x) => Neg(Neg(Neg(x)))
rule shorter: Neg(Neg(x)) => Identity(x)
"""


def _endless(limits: Limits) -> Found:
    """A search that always finds another state and none that is better than the first ones."""
    loaded = load(model("agraph (float[4] x) => (float[4] y) {a = Neg(x) b = Neg(a) c = Exp(b) y = Neg(c)}"))
    rules, canonical = rewriter(ENDLESS)
    roofline = Roofline({})
    search = Backtracking(rules, RooflineCost(roofline), roofline, limits)
    start = roofline.total(loaded.table)
    return search.seek(view_of(loaded, canonical), start, lambda: False, lambda count, best: None)


def test_a_search_without_gains_gives_up() -> None:
    found = _endless(Limits(time.monotonic() + 600, alpha=100.0, patience_s=0.01, nodes=100.0))
    assert found.reason is StopReason.STALLED
    assert found.explored < 400


def test_a_gain_puts_the_deadline_off_but_not_the_last_moment() -> None:
    past = time.monotonic() - 1
    assert _endless(Limits(past, alpha=100.0)).explored == 0
    granted = _endless(Limits(past, grace=600, states=20, alpha=100.0, nodes=100.0))
    assert (granted.reason, granted.explored) == (StopReason.STATES, 20)
    assert _endless(Limits(past, grace=600, last=past, alpha=100.0)).explored == 0


@pytest.mark.parametrize(("shape", "around"), [("1,4", ["Tanh"]), ("1,1,4,4", ["MatMul", "Tanh"])])
def test_regions_hold_the_change_and_neighbours_as_far_as_blocks_reach(shape: str, around: list[str]) -> None:
    text = f"""agraph (float[{shape}] x) => (float[{shape}] y) {{
      o = Exp(x) a = MatMul(o, A) b = Tanh(a) c = Neg(b) d = Neg(c) e = Tanh(d) f = MatMul(e, A) y = Exp(f)}}"""
    rules, view, found = matches(model(text, A=(4, 4)), "rule r: Neg(Neg(x)) => Abs(x)")
    outcome = rules.apply(view, [m for ms in found.values() for m in ms])
    assert outcome is not None
    (region,) = regions(view.table, outcome.view.table)
    assert [n.operator.onnx for _, n in region.before.nodes] == [*around, "Neg", "Neg", *around[::-1]]
    assert [n.operator.onnx for _, n in region.after.nodes] == [*around, "Abs", *around[::-1]]


def test_a_constant_too_large_to_fold_matches_no_value_condition() -> None:
    text = """agraph (float[1] x) => (float[1] y) {
      shape = Constant<value = int64[2] {2048, 2048}>() ones = ConstantOfShape<value = float[1] {1.0}>(shape)
      sum = ReduceSum<keepdims = 0>(ones) y = Mul(x, sum)}"""
    _, view, found = matches(model(text), "rule r: Mul(x, c) => Mul(c, x) when positive(c)")
    assert not found
    assert any(view.constant(v) is None for v in view.values.constant)


def test_places_where_work_would_be_done_twice_are_a_move_of_their_own() -> None:
    """Of two like places one holds a value that is read elsewhere too: it would stay beside what replaces it."""
    text = """agraph (float[4] x) => (float[4] p, float[4] q, float[4] r) {
      a = Exp(x) p = Neg(a) b = Tanh(x) q = Neg(b) r = Relu(b) }"""
    rules, view, found = matches(model(text), "rule exp: Neg(Exp(x)) => Abs(x)\nrule tanh: Neg(Tanh(x)) => Abs(x)")
    assert len(rules.groups(view, found)) == 2
    text = """agraph (float[4] x, float[4] y) => (float[4] p, float[4] q, float[4] r) {
      a = Exp(x) p = Neg(a) b = Exp(y) q = Neg(b) r = Relu(b) }"""
    rules, view, found = matches(model(text), "rule exp: Neg(Exp(x)) => Abs(x)")
    alone, shared = rules.groups(view, found)
    ids = load(model(text)).ids
    assert {frozenset(o for m in group for o in m.outputs) for group in (alone, shared)} == {
        frozenset([ids["p"]]), frozenset([ids["q"]]),
    }  # fmt: skip
