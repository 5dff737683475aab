"""The exhaustive expansion: what it refutes, what it shows, what it refuses to claim."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from taso_py.ops.numeric import evaluate_meaning
from taso_py.prove.expansion import judge
from taso_py.prove.expansion.canonical import LeafFacts
from taso_py.prove.expansion.compare import Shown, Undecided, compare
from taso_py.prove.expansion.elements import Element, Forest, Meaning
from taso_py.prove.expansion.instances import Enumeration
from taso_py.prove.expansion.judge import Budget, Enumerated, NotEnumerated, bounded, exhaustive
from taso_py.prove.expansion.menus import SmallMenus
from taso_py.prove.expansion.points import Point, PointValues, difference
from taso_py.rules.parser import parse_rule, parse_rules
from taso_py.rules.rule import Rule

Array = npt.NDArray[np.float64]

RULES = Path(__file__).parents[2] / "rules"
SMALL = Budget(runs=1200, drawn=150, elements=12_000)

FALSE = """
rule abs-mse2: Abs(x - y) * Abs(x - y) => y * y for x[*s], y[*s]
rule abs-square-d: Abs(x + y) * Abs(x + y) => x * x for x[*s], y[*s]
rule abs-square-stealth: Abs(a + Relu(y - 100)) * Abs(a + Relu(y - 100)) => a * a for a[*s], y[*s]
rule axis-softmax: Softmax(x + 1, axis=k) => Softmax(x, axis=min(k, 3))
rule block-3d: AveragePool(Conv(x, w, b, group=g), kernel_shape=k, strides=s, pads=p)
  => Conv(AveragePool(x, kernel_shape=k, strides=s, pads=p), w, b, group=g) for w[o, *z, 1, 1]
rule bool-abs: Where(Less(Abs(x), y), a, b) => Where(Less(x, y), a, b) for x[*s], y[*s], a[*s], b[*s]
rule cast-twice: Cast(Cast(x, to="float32"), to="float64") => Cast(x, to="float64")
rule clip-floor: Clip(x, min=0, max=b) => Clip(x, min=0, max=b // 1)
rule floor-gemm: 4 * Gemm(x, y, alpha=a) => Gemm(x, y, alpha=4*a//1)
rule inf-relu: Relu(x) => Relu(x) + Fill(value=inf, shape=[]) - Fill(value=inf, shape=[])
rule keeps-batch-sum: Transpose(Relu(Transpose(x, perm=p)), perm=p) => Relu(x) when at(p, 0) == 0
rule keeps-batch: Transpose(Transpose(x, perm=p), perm=p) => x when at(p, 0) == 0
rule leaky-cond: LeakyRelu(x, alpha=a) => Relu(x) when a // 1 == 0
rule perm-six: Transpose(Transpose(x, perm=p), perm=p) => Transpose(x, perm=inverse(compose(compose(p,p),compose(p,p))))
rule safe-div: Where(c, x / y, z) => Where(c, x, z * y) / y for c[*s], x[*s], y[*s], z[*s]
rule safe-log: Where(c, Log(x), y) => Log(x) * Cast(c, to="float32") + y * Cast(Not(c), to="float32")
  for c[*s], x[*s], y[*s]
rule true-float2: x * v => x for x[*s], v[*s] when true(v)
rule safe-div-shift: Where(c, x / y, z) + z => Where(c, x + z * y, 2 * z * y) / y for c[*s], x[*s], y[*s], z[*s]
rule safe-div-mul: Where(c, x / y, z) * w => Where(c, x * w, z * y * w) / y for c[*s], x[*s], y[*s], z[*s], w[*s]
rule safe-recip: Where(c, Reciprocal(x), y) => Reciprocal(x) * Where(c, Fill(value=1, shape=[]), x * y)
  for c[*s], x[*s], y[*s]
rule safe-sqrt: Where(c, Sqrt(x), y) => Sqrt(x) + Where(c, Fill(value=0, shape=[]), y - Sqrt(x)) for c[*s], x[*s], y[*s]
rule safe-sqrt2: Where(c, Sqrt(x), y) => Sqrt(x) - Where(c, Fill(value=0, shape=[]), Sqrt(x) - y)
  for c[*s], x[*s], y[*s]
rule law-393: MatMul(x, y) => Add(MatMul(x, y), Mul(MatMul(x, y), Fill(value=rank(ranks)*rank(t), shape=[1])))
  for x[*ranks,m,k], y[*t,k,n]
rule bool-const: Where(Less(Relu(x + (Exp(x - x) + Exp(x - x)) * (Exp(x - x) + Exp(x - x))), y), a, b)
  => Where(Less(x + (Exp(x - x) + Exp(x - x)) * (Exp(x - x) + Exp(x - x)), y), a, b) for x[*s], y[*s], a[*s], b[*s]
rule masked-mean: Where(c, ReduceSum(x, axes=[1], keepdims=1) / y, z)
  => Where(c, ReduceSum(x, axes=[1], keepdims=1), z * y) / y for x[m, n], y[m, 1], c[m, 1], z[m, 1]
rule gemm-mod: 4 * Gemm(x, y, alpha=a) => Gemm(x, y, alpha=4 * a - 4 * a % 1)
rule gather-cycle2: Gather(Gather(x, axis=0, indices=i, indices_shape=[n]), axis=0, indices=i, indices_shape=[n]) => x
  for x[n, m] when sort(i) == run(0, n)
rule d2s-2-2: DepthToSpace(DepthToSpace(x, blocksize=a), blocksize=b) => DepthToSpace(x, blocksize=a * b)
"""
"""Laws that a review found proved or believed although they are false: an instance must be found at which they fail."""

MISTYPED = """
rule inf-less: Less(x, y) => Less(x + Fill(value=inf, shape=[]) - Fill(value=inf, shape=[]), y) for x[*s], y[*s]
rule pad-fill: Pad(x, pads=[l,0,0,0], value=v) => Concat(Fill(value=v, shape=[l, n]), x, axis=0) for x[m, n]
rule rank-sum: ReduceSum(x * 2, axes=[rank(s)]) => ReduceSum(x + x, axes=[min(rank(s), 3)]) for x[*s, m, *t]
rule axis-concat: Concat(Relu(x), Relu(y), axis=k) => Relu(Concat(x, y, axis=min(k, 3)))
rule axis-sum: ReduceSum(x * 2, axes=[k]) => ReduceSum(x + x, axes=[min(k, 3)])
"""
"""False only where the right side has another type or none: a match refuses those instances."""

TRUE = """
rule square-of-modulus: Abs(x - y) * Abs(x - y) => (x - y) * (x - y) for x[*s], y[*s]
rule stable-softmax:
  Exp(x - ReduceMax(x, axes=[1], keepdims=1))
  / ReduceSum(Exp(x - ReduceMax(x, axes=[1], keepdims=1)), axes=[1], keepdims=1)
  => Softmax(x, axis=1) for x[m, n]
rule chosen-divisor: Where(c, x / y, z) => Where(c, x * Reciprocal(y), z) for c[*s], x[*s], y[*s], z[*s]
rule kernel-of-ones: AveragePool(x, kernel_shape=[2, 2]) => AveragePool(x, kernel_shape=[2, 2], strides=[1, 1])
  for x[n, c, h, w]
rule mean-as-sum: ReduceMean(x, axes=[1]) => ReduceSum(x * Fill(value=1/3, shape=[]), axes=[1]) for x[m, 3]
"""


@pytest.mark.parametrize("rule", parse_rules(FALSE), ids=lambda r: r.name)
def test_a_false_law_is_refuted_by_an_instance_with_values(rule: Rule) -> None:
    found = exhaustive(rule)
    assert found.refuted, str(found)
    assert not found.shown
    first = found.contradictions[0]
    assert first.kind in ("values", "undefined")
    assert "float" in first.instance
    assert "left" in first.what


@pytest.mark.parametrize("rule", parse_rules(MISTYPED), ids=lambda r: r.name)
def test_a_right_side_of_another_type_is_told_apart(rule: Rule) -> None:
    found = exhaustive(rule)
    assert {c.kind for c in found.contradictions} == {"types"}
    assert not found.refuted
    assert not found.shown


@pytest.mark.parametrize("rule", parse_rules(TRUE), ids=lambda r: r.name)
def test_a_true_law_is_shown_by_form(rule: Rule) -> None:
    found = exhaustive(rule)
    assert not found.contradictions
    assert found.undecided == 0, found.why
    assert found.proved == found.instances > 0


def test_right_side_that_needs_more_than_the_left_side_is_undefined() -> None:
    found = exhaustive(parse_rule("rule a: x => x * y / y for x[*s], y[*s]".replace("x =>", "x + 0 * y =>")))
    assert found.contradictions[0].kind == "undefined"


# ---- claims ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gather-of-gather", "gather-neighbours"])
def test_picks_of_the_library_are_shown_with_cycles_of_three(name: str) -> None:
    (rule,) = (r for r in parse_rules((RULES / "layout.rules").read_text()) if r.name == name)
    claim = bounded(rule, 2)
    assert isinstance(claim, Enumerated), claim.why
    assert claim.menus.positions == 3
    assert "up to 3 positions" in claim.menus.text()


@pytest.mark.parametrize("name", ["gather-cycle2", "d2s-2-2"])
def test_no_bounded_claim_for_a_false_law(name: str) -> None:
    (rule,) = (r for r in parse_rules(FALSE) if r.name == name)
    claim = bounded(rule, 2)
    assert isinstance(claim, NotEnumerated)
    assert claim.expansion.refuted


def test_a_spent_budget_claims_nothing() -> None:
    (rule,) = (r for r in parse_rules(TRUE) if r.name == "stable-softmax")
    assert exhaustive(rule).shown
    found = exhaustive(rule, budget=Budget(runs=3, drawn=3))
    assert not found.complete
    assert not found.shown
    assert isinstance(bounded(rule, 2, budget=Budget(runs=3, drawn=3)), NotEnumerated)


def test_no_instance_is_no_proof() -> None:
    rule = parse_rule("rule a: Relu(x) => Abs(x) for x[n] when n % 2 == 1, n % 4 == 0")
    found = exhaustive(rule)
    assert found.instances == found.filled == 0
    assert not found.shown
    assert isinstance(bounded(rule, 2), NotEnumerated)


def test_all_instances_of_a_small_rule_are_counted() -> None:
    rule = parse_rule("rule a: Transpose(x, perm=p) => Transpose(x, perm=p) for x[m, n]")
    enumeration = Enumeration(rule, SmallMenus(size=2))
    names = {(i.binding.names["m"], i.binding.names["n"], i.binding.names["p"]) for i in enumeration.every(1000)}
    assert enumeration.whole
    assert names == {(m, n, p) for m in range(3) for n in range(3) for p in ((0, 1), (1, 0))}


# ---- names and independence ------------------------------------------------------------------------------------------


def test_the_verdict_does_not_depend_on_names() -> None:
    plain = (
        "rule a: Where(c, x / y, z) * exp => Where(c, x * exp, z * y * exp) / y for c[*s], x[*s], y[*s], z[*s], exp[*s]"
    )
    renamed = plain.replace("exp", "w").replace("z", "abs").replace("rule a", "rule a-reversed")
    one, other = (exhaustive(parse_rule(text)) for text in (plain, renamed))
    assert (one.instances, one.proved, one.refuted) == (other.instances, other.proved, other.refuted)


def test_it_shares_no_code_with_the_prover() -> None:
    files = sorted(Path(judge.__file__).parent.glob("*.py"))
    imported = {
        node.module
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    prover = {m for m in imported if m.startswith("taso_py.prove") and not m.startswith("taso_py.prove.expansion")}
    assert len(files) > 5
    assert not prover
    assert not any("z3" in m or "instances" in m for m in imported - {"taso_py.prove.expansion.instances"})


# ---- the library -----------------------------------------------------------------------------------------------------

_EVERY = 6
_TRUE_FILES = (
    "activation",
    "affine",
    "attention",
    "canonical",
    "convolution",
    "elementwise",
    "layout",
    "linear",
    "pool",
)
# An axis of no elements has no mean, and a product with it is 0: both sizes m and k are 0.
_EXPLAINED = {"projected-mean-reversed"}


@pytest.mark.parametrize("file", _TRUE_FILES)
def test_the_library_is_not_contradicted(file: str) -> None:
    rules = parse_rules((RULES / f"{file}.rules").read_text(), file)[::_EVERY]
    found = {d.name: exhaustive(d, budget=SMALL) for rule in rules for d in rule.directions()}
    assert not {n: str(e) for n, e in found.items() if e.refuted and n not in _EXPLAINED}
    assert sum(e.proved for e in found.values()) > len(found)


def test_refuted_laws_are_refuted() -> None:
    rules = [r for r in parse_rules((RULES / "refuted.rules").read_text()) if r.name.startswith("refuted-")][::_EVERY]
    found = [exhaustive(rule, budget=SMALL).refuted for rule in rules]
    assert sum(found) >= 0.85 * len(found)


# ---- the parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "rule a: Conv(x, w, b, strides=s, pads=p) => x for x[2, 2, h, v], w[2, 2, k, 2]",
        "rule a: MaxPool(x, kernel_shape=k, strides=s) => x for x[1, 2, h, v]",
        "rule a: LayerNormalization(x, t, u, axis=1) => x for x[m, n], t[n], u[n]",
        "rule a: Gather(x, axis=a, indices=i, indices_shape=[n]) => x for x[2, m]",
        "rule a: Softmax(x, axis=a) => x for x[m, n]",
        "rule a: Where(Less(x, y), HardSwish(x), Gelu(y)) => x for x[m], y[m]",
    ],
)
def test_elements_have_the_values_of_the_operators(text: str) -> None:
    rule = parse_rule(text)
    looked = 0
    for instance in list(Enumeration(rule, SmallMenus()).drawn(60)):
        forest = Forest()
        values, arrays, point = {}, {}, {}
        draw = random.Random(looked)
        for value, (name, _) in instance.leaves.items():
            shape = instance.values.types[value].dims
            values[value] = [forest.element("leaf", (), (name, k)) for k in range(math.prod(shape))]
            point.update({(name, k): Fraction(draw.randint(-16, 16), 8) for k in range(math.prod(shape))})
            arrays[value] = _array([point[name, k] for k in range(math.prod(shape))], shape)
        for value, node in sorted(instance.nodes.items()):
            if value > max(instance.left):
                continue
            inputs = [i for i in node.inputs if i is not None]
            types = [instance.values.types[i] for i in inputs]
            shape = instance.values.types[value].dims
            values[value] = Meaning(forest, [values[i] for i in inputs], types).result(node.operator, shape)
            arrays[value] = evaluate_meaning(node.operator, [arrays[i] for i in inputs], types)
        looked += _same_values(values[instance.left[0]], arrays[instance.left[0]], point)
    assert looked > 0


def _array(values: Sequence[Fraction], shape: tuple[int, ...]) -> Array:
    return np.array([float(v) for v in values], dtype=np.float64).reshape(shape)


def _same_values(elements: Sequence[Element], array: Array, point: Point) -> int:
    evaluation = PointValues(point)
    for element, expected in zip(elements, array.reshape(-1), strict=True):
        assert float(evaluation.value(element)) == pytest.approx(float(expected), abs=1e-12)
    return len(elements)


LEAVES = {"x": LeafFacts("float32"), "p": LeafFacts("float32", frozenset({"positive"})), "c": LeafFacts("bool")}
_UNARY = ("neg", "abs", "relu", "exp", "log", "sqrt", "reciprocal", "sigmoid", "tanh", "softplus", "erf", "sin", "cos")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_shown_differs_at_no_point(seed: int) -> None:
    shown = 0
    for k in range(20):
        draw = random.Random(1000 * seed + k)
        forest = Forest()
        left = _tree(forest, draw, draw.choice((1, 2, 3)))
        right = _rewritten(forest, draw, left)
        if isinstance(compare(left, right, LEAVES), Shown):
            shown += 1
            assert difference(left, right, LEAVES) is None
    assert shown > 0


def test_a_difference_is_found_where_forms_differ() -> None:
    forest = Forest()
    x = forest.element("leaf", (), ("x", 0))
    assert isinstance(compare(x, forest.element("abs", [x]), LEAVES), Undecided)
    found = difference(x, forest.element("abs", [x]), LEAVES)
    assert found is not None
    assert found.left != found.right


def _tree(forest: Forest, draw: random.Random, depth: int) -> Element:
    if depth == 0 or draw.random() < 0.2:
        return forest.element("leaf", (), (draw.choice("xxp"), draw.randrange(2)))
    kind = draw.random()
    parts = [_tree(forest, draw, depth - 1) for _ in range(3)]
    if kind < 0.4:
        return forest.element(draw.choice(("add", "mul", "div", "max", "min", "sum")), parts[:2])
    if kind < 0.55:
        return forest.element("where", [forest.element("less", [parts[0], parts[1]]), parts[1], parts[2]])
    return forest.element(draw.choice(_UNARY), parts[:1])


def _rewritten(forest: Forest, draw: random.Random, element: Element) -> Element:
    """The element with a part replaced, truly or falsely."""
    if element.arguments and element.function not in ("less",) and draw.random() < 0.7:
        at = draw.randrange(len(element.arguments))
        parts = list(element.arguments)
        if parts[at].function != "less":
            parts[at] = _rewritten(forest, draw, parts[at])
        return forest.element(element.function, parts, element.attributes)
    make, zero = forest.element, forest.number(0)
    choices: list[Callable[[Element], Element]] = [
        lambda x: make("add", [x, zero]),
        lambda x: make("sqrt", [make("mul", [x, x])]),
        lambda x: make("mul", [make("sqrt", [x]), make("sqrt", [x])]),
        lambda x: make("log", [make("exp", [x])]),
        lambda x: make("exp", [make("log", [x])]),
        lambda x: make("div", [make("mul", [x, x]), x]),
        lambda x: make("add", [make("relu", [x]), make("min", [x, zero])]),
        lambda x: make("where", [make("less", [x, zero]), make("neg", [x]), x]),
        lambda x: make("max", [x, make("relu", [x])]),
    ]
    return draw.choice(choices)(element)


def test_a_maximum_of_nothing_is_not_finite() -> None:
    kept = parse_rule("rule a: ReduceMax(Relu(x), axes=[1]) => Relu(ReduceMax(x, axes=[1])) for x[m, n]")
    lost = parse_rule("rule a: Relu(ReduceMax(x, axes=[1])) => ReduceMax(Relu(x), axes=[1]) for x[m, n]")
    assert exhaustive(kept).shown
    assert exhaustive(lost).refuted
