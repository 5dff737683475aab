"""The pieces of `wild_models`: subgraphs, functions, other types of values, quantisation, names."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper

from scripts.audit import wild_inputs, wild_operators
from scripts.audit.wild_models import FLOAT, INT64, Wild, body, info, piece, tensor

assert wild_inputs.__doc__, "importing it registers its pieces"
assert wild_operators.__doc__, "likewise"
make = helper.make_node


@piece()
def plain(g: Wild) -> None:
    x, shape = g.pick()
    g.add(shape, g.any_of("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Identity", "Softplus", "Selu"), x)


@piece()
def sum_of_two(g: Wild) -> None:
    (x, shape), (y, other) = g.pick(), g.pick()
    g.add(shape, g.any_of("Add", "Mul", "Sub"), x, y if shape == other else g.weight(*shape[-1:]))


@piece()
def square(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) >= 2:
        g.add(shape, "MatMul", x, g.weight(shape[-1], shape[-1]))


@piece()
def siblings(g: Wild) -> None:
    """Two products of one value with weights, joined: what rules like to merge."""
    x, shape = g.pick()
    if len(shape) >= 2:
        a, b = (g.one("MatMul", x, g.weight(shape[-1], 3)) for _ in range(2))
        g.add((*shape[:-1], 6), "Concat", a, b, axis=len(shape) - 1)


@piece(11)
def if_capturing(g: Wild) -> None:
    """Nested branches capture values of all graphs around; both have weights of one name."""
    x, shape = g.pick()
    outer, _ = g.pick()
    weight = tensor(g.random.normal(size=shape[-1:]).astype(np.float32), "inner_w")
    deep = [body([make("Mul", [x, "inner_a"], [n])], [], [info(n)]) for n in ("deep_t", "deep_e")]
    chosen = g.one("Greater", g.one("ReduceSum", outer, keepdims=0), g.const(0.0))
    then = body(
        [make("Add", [x, "inner_w"], ["inner_a"]),
         make("If", [chosen], ["inner_o"], then_branch=deep[0], else_branch=deep[1])],
        [], [info("inner_o")], [weight],
    )  # fmt: skip
    other = body([make("Sub", [x, "inner_w"], ["inner_o2"])], [], [info("inner_o2")], [weight])
    g.add(shape, "If", chosen, then_branch=then, else_branch=other)


@piece(11)
def loop_capturing(g: Wild) -> None:
    """A carried value, one that is stacked, and an outer one; the count is a constant, computed, or an input."""
    x, shape = g.pick()
    trips = g.any_of(
        lambda: g.ints(2), lambda: g.one("Squeeze" if g.opset < 13 else "Identity", g.one("Size", x)),
        lambda: g.given(3, np.int64),
    )()  # fmt: skip
    if math.prod(shape) > 128:
        trips = g.const(2, np.int64)
    names = [g.name("b") for _ in range(6)]
    i, c, v, c2, v2, s = names
    nodes = [make("Identity", [c], [c2]), make("Mul", [v, x], [s]), make("Tanh", [s], [v2])]
    inner = body(nodes, [info(i, INT64, []), info(c, TensorProto.BOOL, []), info(v)],
                 [info(c2, TensorProto.BOOL), info(v2), info(s)])  # fmt: skip
    last, stacked = g.node("Loop", [trips, "", x], 2, body=inner)
    g.values[last] = shape
    g.output(stacked)


@piece(11)
def scan_capturing(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) < 2:
        return
    names = [g.name("s") for _ in range(4)]
    carried, row, after, out = names
    weight = g.weight(*shape[1:])
    nodes = [make("Add", [carried, row], [after]), make("Mul", [after, weight], [out])]
    inner = body(nodes, [info(carried), info(row)], [info(after), info(out)])
    zero = g.const(np.zeros(shape[1:]))
    last, rows = g.node("Scan", [zero, x], 2, body=inner, num_scan_inputs=1)
    g.values.update({last: shape[1:], rows: shape})


@piece(13)
def function(g: Wild) -> None:
    """Called twice, with an attribute that it hands on, and one function within another."""
    x, shape = g.pick()
    opsets = [helper.make_opsetid("", g.opset), helper.make_opsetid("wild", 1)]
    if not g.functions:
        inner = make("LeakyRelu", ["a"], ["b"])
        inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
        g.functions.append(helper.make_function("wild", "Inner", ["a"], ["b"], [inner], opsets, ["slope"]))
        nodes = [make("Inner", ["a"], ["m"], domain="wild", slope=0.3), make("Add", ["m", "a"], ["b"])]
        g.functions.append(helper.make_function("wild", "Outer", ["a"], ["b"], nodes, opsets))
    y = g.one("Inner", x, domain="wild", slope=g.any_of(0.1, 0.2))
    g.add(shape, "Outer", y, domain="wild")


@piece(11)
def sequence(g: Wild) -> None:
    x, shape = g.pick()
    y = g.one("Relu", x)
    listed = g.one("SequenceConstruct", x, y, x)
    if g.number(0, 2):
        listed = g.one("SequenceInsert", listed, y, g.const(0, np.int64))
    g.add(shape, "SequenceAt", listed, g.const(-1, np.int64))
    if g.number(0, 2):
        g.outputs.append(helper.make_tensor_sequence_value_info(listed, FLOAT, None))
    g.output(g.one("SequenceLength", listed), INT64)
    g.output(g.one("ConcatFromSequence", listed, axis=0))


@piece(11)
def split_sequence(g: Wild) -> None:
    x, shape = g.pick()
    parts = g.one("SplitToSequence", x, axis=len(shape) - 1, keepdims=1)
    g.add(shape, "ConcatFromSequence", parts, axis=len(shape) - 1)


@piece(17)
def sequence_map(g: Wild) -> None:
    x, shape = g.pick()
    e, r = g.name("e"), g.name("r")
    inner = body([make("Mul", [e, x], [r])], [info(e)], [info(r)])
    listed = g.one("SequenceConstruct", x, g.one("Neg", x))
    g.add(shape, "SequenceAt", g.one("SequenceMap", listed, body=inner), g.const(1, np.int64))


@piece(18)
def optional(g: Wild) -> None:
    x, shape = g.pick()
    maybe = g.one("Optional", x)
    g.output(g.one("OptionalHasElement", maybe), TensorProto.BOOL)
    g.add(shape, "OptionalGetElement", maybe)


@piece(18)
def optional_input(g: Wild) -> None:
    name = g.name("opt")
    inner = helper.make_tensor_type_proto(FLOAT, [2, 3])
    g.inputs.append(helper.make_value_info(name, helper.make_optional_type_proto(inner)))
    g.feeds[name] = np.ones((2, 3), np.float32)
    g.values[g.one("OptionalGetElement", name)] = (2, 3)


@piece(11)
def sequence_input(g: Wild) -> None:
    name = g.name("seq")
    g.inputs.append(helper.make_tensor_sequence_value_info(name, FLOAT, [2, 3]))
    g.feeds[name] = [np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)]
    g.values[g.one("SequenceAt", name, g.const(0, np.int64))] = (2, 3)


@piece(10)
def strings(g: Wild) -> None:
    name = g.name("words")
    g.inputs.append(info(name, TensorProto.STRING, ["k"]))
    g.feeds[name] = np.array(["a", "Bé", "c"], dtype=object)
    lower = g.one("StringNormalizer", name, case_change_action="LOWER", stopwords=["c"], locale="C")
    g.output(lower, TensorProto.STRING)
    weight = g.name("w")
    g.weights.append(helper.make_tensor(weight, TensorProto.STRING, [2], [b"x", b"y"]))
    both = g.one("Concat", name, weight, axis=0)
    g.output(g.one("Identity", both) if g.opset >= 13 else both, TensorProto.STRING)


@piece(11)
def sparse_weight(g: Wild) -> None:
    x, shape = g.pick()
    n = shape[-1]
    name = g.name("sparse")
    values = helper.make_tensor(name, FLOAT, [1], [2.0])
    indices = helper.make_tensor(f"{name}_i", INT64, [1], [n - 1])
    g.sparse.append(helper.make_sparse_tensor(values, indices, [n]))
    g.add(shape, "Add", x, name)


@piece(21)
def narrow_weight(g: Wild) -> None:
    """int4, uint4 and 8 bit floats, dequantised."""
    x, shape = g.pick()
    types = TensorProto
    element = g.any_of(types.INT4, types.UINT4, types.FLOAT8E4M3FN, types.FLOAT8E5M2, types.INT8, types.UINT8)
    name = g.name("narrow")
    n = shape[-1]
    g.weights.append(helper.make_tensor(name, element, [n], [k % 5 for k in range(n)]))
    g.add(shape, "Mul", x, g.one("DequantizeLinear", name, g.const(0.5)))


@piece(19)
def through_float8(g: Wild) -> None:
    x, shape = g.pick()
    types = TensorProto
    element = g.any_of(types.FLOAT8E4M3FN, types.FLOAT8E5M2, types.BFLOAT16, types.FLOAT16, types.DOUBLE)
    g.add(shape, "Cast", g.one("Cast", x, to=element), to=FLOAT)


@piece(13)
def quantised(g: Wild) -> None:
    x, shape = g.pick()
    scale, zero = g.const(0.05), g.const(g.number(0, 5), g.any_of(np.uint8, np.int8))
    y = g.one("DequantizeLinear", g.one("QuantizeLinear", x, scale, zero), scale, zero)
    if len(shape) >= 2:
        n = shape[-1]
        w = g.const(g.random.integers(-5, 5, (n, n)), np.int8)
        wide = g.one("DequantizeLinear", w, g.const(np.full(n, 0.1)), g.const(np.zeros(n), np.int8), axis=1)
        y = g.one("MatMul", y, wide)
    g.add(shape, "DequantizeLinear", g.one("QuantizeLinear", y, scale, zero), scale, zero)


@piece(11)
def dynamically_quantised(g: Wild) -> None:
    x, shape = g.pick()
    if len(shape) < 2:
        return
    q, scale, zero = g.node("DynamicQuantizeLinear", [x], 3)
    whole = g.one("MatMulInteger", q, g.const(g.random.integers(0, 9, (shape[-1], 4)), np.uint8), zero)
    g.add((*shape[:-1], 4), "Mul", g.one("Cast", whole, to=FLOAT), scale)


@piece()
def input_as_output(g: Wild) -> None:
    """Rank 0, and read besides."""
    name = g.given(0.5, dims=[])
    if name not in {o.name for o in g.outputs}:
        g.output(name, FLOAT, [])
    x, shape = g.pick()
    g.add(shape, "Mul", x, name)


@piece()
def weight_as_output(g: Wild) -> None:
    g.output(g.weight(2, 3), FLOAT, [2, 3])


@piece(9)
def overridable(g: Wild) -> None:
    """A weight that is an input too."""
    x, shape = g.pick()
    name = g.weight(*shape[-1:])
    g.inputs.append(info(name, FLOAT, list(shape[-1:])))
    g.add(shape, "Add", x, name)


@piece()
def untyped_output(g: Wild) -> None:
    x, _ = g.pick()
    g.outputs.append(onnx.ValueInfoProto(name=g.one("Relu", x)))


@piece()
def names_that_need_care(g: Wild) -> None:
    """Values with odd names, which are the names of nodes too."""
    x, shape = g.pick()
    odd = g.any_of("/layer.1/conv 2:0", "ünï", "v;DROP", "%d{}", "a\tb", "🙂", "x" * 300, "0", "-1", "[x]") + g.name("")
    g.nodes.append(make("Relu", [x], [odd], name=f"{odd}'"))
    g.nodes.append(make("Neg", [odd], [f"{odd}'"]))
    g.values[f"{odd}'"] = shape


@piece()
def unread(g: Wild) -> None:
    """Nodes, weights and inputs that nothing needs."""
    x, _ = g.pick()
    g.one("Exp", x)
    g.weight(3)
    g.given(np.zeros(2))


@piece()
def twice(g: Wild) -> None:
    """One computation written out twice, both results outputs."""
    x, _ = g.pick()
    for _ in range(2):
        g.output(g.one("Sigmoid", g.one("Neg", x)))


@piece()
def odd_numbers(g: Wild) -> None:
    """Weights that are infinite, no number, denormal, or the largest."""
    x, shape = g.pick()
    number = g.any_of(np.inf, -np.inf, np.nan, 1e-40, 3e38, -0.0)
    g.output(g.one(g.any_of("Add", "Mul"), x, g.const(np.full(shape[-1:], number))))
