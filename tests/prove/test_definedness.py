"""What the right side needs is shown from what surely holds where the left side is evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest

from taso_py.prove.prover import prove_all_sizes
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.parser import parse_rule, parse_rules
from taso_py.rules.rule import Rule

DATA = Path(__file__).parents[1] / "data"

TRUE = {
    "sizes that are summed are not 0": """
        Softmax(ReduceMean(Sub(a, Sub(b, x)), axes=[0], keepdims=0), axis=0)
        => Softmax(ReduceMean(Add(x, Sub(a, b)), axes=[0], keepdims=0), axis=0) for a[m, n], b[m, n], x[m, n]""",
    "nor are those in a maximum": """
        Relu(ReduceMax(ReduceMax(x, axes=[0]), axes=[2])) => Relu(ReduceMax(x, axes=[0, 2])) for x[a, b, c]""",
    "nor is their sum": """
        Relu(ReduceMean(Concat(Add(x, y), Add(u, v)), axes=[0], keepdims=0))
        => Relu(ReduceMean(Add(Concat(x, u), Concat(y, v)), axes=[0], keepdims=0)) for u[t], v[t], x[s], y[s]""",
    "a condition on the divisor": """
        Softmax(Add(Div(x, z), Div(y, z)), axis=0) => Softmax(Div(Add(x, y), z), axis=0)
        for x[s], y[s], z[s] when nonzero(z)""",
    "the same for one number": "HardSwish(Div(x, c)) => HardSwish(Mul(x, Div(1.0, c))) for c[], x[] when nonzero(c)",
    "a root of something and a positive number": """
        Softmax(BatchNormalization(Mul(x, 2.0), t, u, m, Relu(v), epsilon=0.125), axis=0)
        => Softmax(BatchNormalization(x, Mul(t, 2.0), u, Mul(m, 0.5), Relu(v), epsilon=0.125), axis=0)
        for m[c], t[c], u[c], v[c], x[n, c]""",
    "a variance": """
        Softmax(Mul(LayerNormalization(x, t, u, axis=1, epsilon=0.125), c), axis=1)
        => Softmax(LayerNormalization(x, Mul(t, c), Mul(u, c), axis=1, epsilon=0.125), axis=1)
        for c[1], u[k], x[n, k], t[k]""",
    "a mean of squares": """
        Softmax(Mul(RMSNormalization(x, t, axis=1, epsilon=0.125), c), axis=1)
        => Softmax(RMSNormalization(x, Mul(t, c), axis=1, epsilon=0.125), axis=1) for c[1], x[n, k], t[k]""",
    "a maximum with a positive number": """
        Sigmoid(Div(x, Max(y, 0.125))) => Sigmoid(Mul(x, Reciprocal(Max(y, 0.125)))) for x[n], y[n]""",
    "exponentials where they are read": """
        Softmax(Concat(Mul(Abs(x), Abs(a)), Softmax(y, axis=1), axis=1), axis=0)
        => Softmax(Concat(Abs(Mul(x, a)), Softmax(y, axis=1), axis=1), axis=0) for x[n, k], a[n, k], y[n, j]""",
    "what both sides do alike hides no difference": """
        Softmax(Concat(Div(x, y), Concat(LeakyRelu(z, alpha=0.5), LeakyRelu(w, alpha=0.5), axis=1), axis=1), axis=1)
        => Softmax(Concat(Div(x, y), LeakyRelu(Concat(z, w, axis=1), alpha=0.5), axis=1), axis=1)
        for x[n, j], y[n, j], z[n, k], w[n, l]""",
    "one of two parts has an element": """
        Softmax(Tanh(Concat(Neg(x), y)), axis=0) => Softmax(Concat(Tanh(Neg(x)), Tanh(y)), axis=0) for x[a], y[b]""",
}
FALSE = {
    # At z = 0 one of the left side's two quotients may be infinite and the other none.
    "no condition on the divisor": """
        Softmax(Add(Div(x, z), Div(y, z)), axis=0) => Softmax(Div(Add(x, y), z), axis=0) for x[s], y[s], z[s]""",
    "a condition on another tensor": """
        Softmax(Add(Div(x, z), Div(y, z)), axis=0) => Softmax(Div(Add(x, y), z), axis=0)
        for x[s], y[s], z[s] when nonzero(x)""",
    # Both are quotients by what may be 0, and not the same infinity.
    "what is computed alike from what may differ": """
        Softmax(Concat(Div(x, y), Add(Div(z, y), Div(w, y)), axis=1), axis=1)
        => Softmax(Concat(Div(x, y), Div(Add(z, w), y), axis=1), axis=1) for x[n, k], y[n, k], z[n, k], w[n, k]""",
    # At v = -0.125 the left side is infinite or 0 divided by 0.
    "a root that may be 0": """
        Softmax(BatchNormalization(Mul(x, 2.0), t, u, m, v, epsilon=0.125), axis=0)
        => Softmax(BatchNormalization(x, Mul(t, 2.0), u, Mul(m, 0.5), v, epsilon=0.125), axis=0)
        for m[c], t[c], u[c], v[c], x[n, c]""",
    "a root of nothing beside it": """
        Softmax(BatchNormalization(Mul(x, 2.0), t, u, m, Relu(v), epsilon=0.0), axis=0)
        => Softmax(BatchNormalization(x, Mul(t, 2.0), u, Mul(m, 0.5), Relu(v), epsilon=0.0), axis=0)
        for m[c], t[c], u[c], v[c], x[n, c]""",
    "a number that is taken off": """
        Softmax(BatchNormalization(Mul(x, 2.0), t, u, m, Relu(v), epsilon=-0.125), axis=0)
        => Softmax(BatchNormalization(x, Mul(t, 2.0), u, Mul(m, 0.5), Relu(v), epsilon=-0.125), axis=0)
        for m[c], t[c], u[c], v[c], x[n, c]""",
    "a variance alone": """
        Softmax(Mul(LayerNormalization(x, t, u, axis=1, epsilon=0.0), c), axis=1)
        => Softmax(LayerNormalization(x, Mul(t, c), Mul(u, c), axis=1, epsilon=0.0), axis=1)
        for c[1], u[k], x[n, k], t[k]""",
    "a product that is no square": """
        Sigmoid(Div(x, Sqrt(Add(Mul(y, z), 0.125)))) => Sigmoid(Mul(x, Reciprocal(Sqrt(Add(Mul(y, z), 0.125)))))
        for x[n], y[n], z[n]""",
    "a maximum with 0": "Sigmoid(Div(x, Max(y, 0.0))) => Sigmoid(Mul(x, Reciprocal(Max(y, 0.0)))) for x[n], y[n]",
    "a minimum with a positive number": """
        Sigmoid(Div(x, Min(y, 0.125))) => Sigmoid(Mul(x, Reciprocal(Min(y, 0.125)))) for x[n], y[n]""",
    "a size that nothing sums": """
        Sigmoid(x), Neg(y) => Sigmoid(Div(Mul(x, Fill(value=n, shape=[m])), Fill(value=n, shape=[m]))), Neg(y)
        for x[m], y[n, m]""",
}


@pytest.mark.parametrize("name", TRUE)
def test_it_is_shown(name: str) -> None:
    verdict = prove_all_sizes(parse_rule(f"rule law: {TRUE[name]}"))
    assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize("law", parse_rules((DATA / "true_definedness.rules").read_text()), ids=lambda law: law.name)
def test_it_is_shown_of_more(law: Rule) -> None:
    verdict = prove_all_sizes(law)
    assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize("name", FALSE)
def test_it_is_not_taken_for_granted(name: str) -> None:
    verdict = prove_all_sizes(parse_rule(f"rule law: {FALSE[name]}"))
    assert isinstance(verdict, Unknown)
    assert "defined" in verdict.why
