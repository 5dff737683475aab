"""A model's own functions are read as ONNX Runtime runs them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from taso_py.arrays import Array
from taso_py.onnx_io.functions import inlined, rewritable

X = np.array([[-2.0, -1.0, -0.5, 2.0]], np.float32)
ELU = '<domain: "own", opset_import: ["" : 18]> elu <{}>(x) => (y) {{ y = Elu<alpha: float = @beta>(x) }}'
AROUND = '<domain: "own", opset_import: ["" : 18, "own" : 1]> around {}(x) => (y) {{ {} }}'


def model(body: str, *functions: str) -> onnx.ModelProto:
    head = '<ir_version: 10, opset_import: ["" : 18, "own" : 1]> g (float[N,4] x) => (float[N,4] y)'
    return onnx.parser.parse_model(f"{head} {{ {body} }} {' '.join(functions)}")


def run(model: onnx.ModelProto) -> Array:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": X})[0])


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        ("y = own.elu(x)", [ELU.format("beta: float = 3.0")]),
        ("y = own.elu<beta: float = 2.0>(x)", [ELU.format("beta: float = 3.0")]),
        ("y = own.elu(x)", [ELU.format("beta")]),
        ("y = own.around(x)", [ELU.format("beta: float = 3.0"), AROUND.format("", "y = own.elu(x)")]),
        (
            "y = own.around(x)",
            [
                ELU.format("beta: float = 3.0"),
                AROUND.format("<beta: float = 0.5>", "a = own.elu<beta: float = @beta>(x) y = own.elu(a)"),
            ],
        ),
        (
            """c = Constant<value = bool {1}>() y = If(c) <then_branch = t () => (float[N,4] r) { r = own.elu(x) },
                                                         else_branch = e () => (float[N,4] r) { r = Neg(x) }>""",
            [ELU.format("beta: float = 3.0")],
        ),
    ],
)
def test_attributes_that_a_call_leaves_out_have_their_defaults(body: str, functions: list[str]) -> None:
    given = model(body, *functions)
    before = given.SerializeToString()
    expected = run(given)
    for made in (inlined(given), rewritable(given)):
        assert not made.functions
        np.testing.assert_array_equal(run(made), expected)
    assert given.SerializeToString() == before


def test_a_function_that_reads_attributes_which_it_does_not_declare_stays() -> None:
    """ONNX does not say what it means, and ONNX Runtime takes another value than ONNX's own tool."""
    given = model("y = own.elu<alpha: float = 2.0>(x)", ELU.format("alpha"))
    assert rewritable(given) is given


@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx.ml", "com.ms.internal.nhwc", "ai.onnx"])
def test_a_function_in_a_domain_of_the_runtime_stays(domain: str) -> None:
    """ONNX Runtime may have an operator of that name, which it takes instead."""
    given = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18, "{domain}" : 1]> g (float[N,4] x) => (float[N,4] y)
            {{ y = {domain}.Gelu(x) }} <domain: "{domain}", opset_import: ["" : 18]> Gelu (x) => (y) {{ y = Neg(x) }}"""
    )
    assert rewritable(given) is given
