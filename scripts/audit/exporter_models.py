"""Valid models with one oddity each, as exporters, converters and hands leave them: names, borders, types, bodies.

`wild_models` draws what a grammar has; here each model is written down, most of them as text of onnx's own language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from scripts.audit.exporter_texts import TEXTS

Maker = Callable[[], onnx.ModelProto]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
_MAKERS: dict[str, Maker] = {}
_RANDOM = np.random.default_rng


def _model(maker: Maker) -> Maker:
    _MAKERS[maker.__name__] = maker
    return maker


def _parsed(text: str) -> onnx.ModelProto:
    """A model of a text whose first line names its opsets, as in ``:18 com.microsoft:1``."""
    head, _, body = text.partition("\n")
    opsets = ", ".join(f'"{domain}" : {version}' for domain, version in (part.split(":") for part in head.split()))
    return parser.parse_model(f"<ir_version: {IR}, opset_import: [{opsets}]>\n{body}")


IR = 10


def exporter_model(name: str) -> onnx.ModelProto:
    """The model of that name."""
    return MODELS[name]()


def _info(name: str, *dims: int | str | None, element: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, list(dims))


def _made(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: Mapping[str, Any] | None = None,
    *,
    opset: int = 18,
    others: tuple[tuple[str, int], ...] = (),
    **more: Any,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "main_graph", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*one) for one in others)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR, **more)


def _weight(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    return (scale * _RANDOM(seed).normal(size=shape)).astype(np.float32)


_node = helper.make_node

# Names ---------------------------------------------------------------------------------------------------------------


@_model
def dynamo_names() -> onnx.ModelProto:
    """Names with dots, slashes, colons, brackets and spaces, metadata on everything."""
    nodes = [
        _node("MatMul", ["x:0", "layers.0.fc/weight"], ["val_0/a.b"], name="node_MatMul_1"),
        _node("Add", ["val_0/a.b", "layers.0.fc/bias"], ["add::1"], name="node/Add"),
        _node("MatMul", ["x:0", "layers.1.fc/weight"], ["getitem[0]"], name=""),
        _node("Add", ["add::1", "getitem[0]"], ["out put"], name=""),
    ]
    weights = {"layers.0.fc/weight": _weight(8, 8), "layers.0.fc/bias": _weight(8), "layers.1.fc/weight": _weight(8, 8)}
    model = _made(nodes, [_info("x:0", "s77", 8)], [_info("out put", "s77", 8)], weights)
    for node in model.graph.node:
        entry = node.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.fx_node", "%s : [num_users=1]\n" + node.name
    return model


@_model
def equal_node_names() -> onnx.ModelProto:
    """ONNX allows them, ONNX Runtime does not."""
    nodes = [_node("Relu", ["x"], ["a"], name="n"), _node("Neg", ["a"], ["y"], name="n")]
    return _made(nodes, [_info("x", 3)], [_info("y", 3)])


@_model
def names_like_ours() -> onnx.ModelProto:
    """Values that are called as rewriters call what they make."""
    chain = ["x", "superopt_0", "superopt_1", "v1", "v2", "t0", "_1", "1", "y"]
    nodes = [_node("Mul", [a, "superopt"], [b]) for a, b in pairwise(chain)]
    return _made(nodes, [_info("x", 4)], [_info("y", 4)], {"superopt": np.float32(1.5)})


@_model
def unicode_and_control_names() -> onnx.ModelProto:
    nodes = [_node("Relu", ["\u5165\n"], ["\u00e9\t%s{}"]), _node("Relu", ["\u00e9\t%s{}"], ["\U0001f600\x01\\"])]
    return _made(nodes, [_info("\u5165\n", 3)], [_info("\U0001f600\x01\\", 3)])


@_model
def long_names() -> onnx.ModelProto:
    long = "n" * 50_000
    return _made([_node("Mul", [long, "one"], [long + "y"])], [_info(long, 3)], [_info(long + "y", 3)],
                 {"one": np.float32(1)})  # fmt: skip


@_model
def symbols_that_are_expressions() -> onnx.ModelProto:
    """Symbols as exporters print them, equal, absent, empty and negative ones."""
    nodes = [_node("Concat", ["x", "x"], ["d"], axis=0), _node("Relu", ["d"], ["y"]), _node("Relu", ["z"], ["w"])]
    return _made(
        nodes,
        [_info("x", "batch", "past + 1"), _info("z", -1, "", None, "2*batch")],
        [_info("y", "2*batch", "past + 1"), _info("w", None, None, None, None)],
    )


@_model
def symbols_like_inputs() -> onnx.ModelProto:
    """A symbol, an input and a weight of one name."""
    nodes = [_node("Add", ["x", "w"], ["y"])]
    return _made(nodes, [_info("x", "x", "w")], [_info("y", "x", "w")], {"w": _weight(1)})


# Borders -------------------------------------------------------------------------------------------------------------


@_model
def initializers_among_inputs() -> onnx.ModelProto:
    """As ir_version 3 demands it."""
    nodes = [_node("MatMul", ["x", "w"], ["a"]), _node("Add", ["a", "b"], ["c"]), _node("Add", ["c", "b"], ["y"])]
    inputs = [_info("w", 4, 4), _info("x", 2, 4), _info("b", 4)]
    model = _made(nodes, inputs, [_info("y", 2, 4)], {"w": _weight(4, 4), "b": _weight(4)}, opset=8)
    model.ir_version = 3
    return model


@_model
def outputs_that_are_borders() -> onnx.ModelProto:
    """An input, a weight, an unread weight and a scalar as outputs."""
    nodes = [_node("Mul", ["x", "one"], ["y"]), _node("Neg", ["s"], ["n"])]
    outputs = [_info("x", "N", 3), _info("w", 2), _info("y", "N", 3), _info("s"), _info("n")]
    return _made(nodes, [_info("x", "N", 3), _info("s")], outputs, {"one": np.float32(1), "w": _weight(2)})


@_model
def only_borders() -> onnx.ModelProto:
    """No node at all."""
    return _made([], [_info("x", "N", 3)], [_info("x", "N", 3)])


@_model
def nothing_read() -> onnx.ModelProto:
    """No input, all constant, outputs of every kind of number."""
    nodes = [
        _node("Constant", [], ["a"], value_float=2.0), _node("Constant", [], ["i"], value_ints=[1, 2]),
        _node("Constant", [], ["s"], value_strings=[b"a", b"\xc3\xa9"]), _node("Add", ["a", "a"], ["y"]),
    ]  # fmt: skip
    outputs = [_info("y"), _info("i", 2, element=INT64), _info("s", 2, element=TensorProto.STRING)]
    return _made(nodes, [], outputs)


@_model
def one_value_many_names() -> onnx.ModelProto:
    nodes = [_node("Identity", ["x"], [f"y{i}"]) for i in range(20)]
    return _made(nodes, [_info("x", 2)], [_info(f"y{i}", 2) for i in range(20)])


@_model
def zero_sizes() -> onnx.ModelProto:
    nodes = [
        _node("Concat", ["x", "e"], ["c"], axis=0),
        _node("MatMul", ["z", "w"], ["m"]),
        _node("Relu", ["c"], ["y"]),
    ]
    weights = {"e": np.zeros((0, 3), np.float32), "w": np.zeros((0, 4), np.float32)}
    return _made(nodes, [_info("x", "N", 3), _info("z", 2, 0)], [_info("y", None, 3), _info("m", 2, 4)], weights)


@_model
def value_infos_that_lie_little() -> onnx.ModelProto:
    """Facts about inner values: for ones that are nowhere, and with other symbols."""
    model = _made(
        [_node("Relu", ["x"], ["a"]), _node("Relu", ["a"], ["y"])], [_info("x", "N", 3)], [_info("y", "M", 3)]
    )
    model.graph.value_info.extend([_info("absent", 3), _info("a", "K", None), _info("a", "K", None)])
    return model


# Numbers -------------------------------------------------------------------------------------------------------------


@_model
def odd_weights() -> onnx.ModelProto:
    """NaN, infinities, denormals, huge numbers, negative zero."""
    odd = np.array([np.nan, np.inf, -np.inf, 1e-44, 3e38, -0.0, 1.0, -1e-40], np.float32)
    nodes = [_node("Mul", ["x", "odd"], ["m"]), _node("Add", ["m", "odd"], ["a"]), _node("Div", ["a", "odd"], ["y"]),
             _node("MatMul", ["x", "w"], ["h"]), _node("Mul", ["h", "big"], ["z"])]  # fmt: skip
    weights = {"odd": odd, "w": _weight(8, 4, scale=1e-20), "big": np.float32(1e30)}
    return _made(nodes, [_info("x", 2, 8)], [_info("y", 2, 8), _info("z", 2, 4)], weights)


@_model
def batch_norm_of_nan() -> onnx.ModelProto:
    """Statistics with NaN, a negative and a zero variance, after a convolution."""
    nodes = [_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             _node("BatchNormalization", ["c", "g", "b", "mean", "var"], ["y"])]  # fmt: skip
    weights = {"w": _weight(4, 3, 3, 3), "g": _weight(4), "b": _weight(4),
               "mean": np.array([0, np.nan, 1, 2], np.float32), "var": np.array([1, 1, -1, 0], np.float32)}  # fmt: skip
    return _made(nodes, [_info("x", "N", 3, 8, 8)], [_info("y", "N", 4, 8, 8)], weights)


@_model
def training_batch_norm() -> onnx.ModelProto:
    nodes = [_node("BatchNormalization", ["x", "g", "b", "mean", "var"], ["y", "m", "v"], training_mode=1)]
    weights = {name: np.abs(_weight(3, seed=i)) for i, name in enumerate(("g", "b", "mean", "var"))}
    return _made(nodes, [_info("x", 2, 3, 4)], [_info("y", 2, 3, 4), _info("m", 3), _info("v", 3)], weights)


@_model
def bfloat16_network() -> onnx.ModelProto:
    """Cast to bfloat16 and back, with weights of that type."""
    nodes = [_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16), _node("Add", ["h", "w"], ["a"]),
             _node("Cast", ["a"], ["f"], to=FLOAT), _node("Mul", ["f", "one"], ["y"])]  # fmt: skip
    model = _made(nodes, [_info("x", 2, 4)], [_info("y", 2, 4)], {"one": np.float32(1)})
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.BFLOAT16, [4], [0.5, 1, 2, 3]))
    return model


@_model
def bfloat16_borders() -> onnx.ModelProto:
    dims = [2, 4]
    borders = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, dims) for name in ("x", "y")]
    nodes = [_node("Identity", ["x"], ["a"]), _node("Reshape", ["a", "to"], ["y"])]
    return _made(nodes, borders[:1], borders[1:], {"to": np.array([2, 4], np.int64)})


@_model
def narrow_weights() -> onnx.ModelProto:
    """int4, uint4 and float8 weights through DequantizeLinear, blocked too."""
    nodes = [
        _node("DequantizeLinear", ["q4", "s", "z4"], ["a"], axis=1), _node("MatMul", ["x", "a"], ["b"]),
        _node("DequantizeLinear", ["u4", "sb"], ["c"], axis=0, block_size=4), _node("MatMul", ["b", "c"], ["d"]),
        _node("DequantizeLinear", ["f8", "one"], ["e"]), _node("MatMul", ["d", "e"], ["y"]),
    ]  # fmt: skip
    weights = {"s": np.full(8, 0.1, np.float32), "sb": np.full((2, 8), 0.1, np.float32), "one": np.float32(1)}
    model = _made(nodes, [_info("x", "N", 8)], [_info("y", "N", 8)], weights, opset=21)
    tensors = (
        ("q4", TensorProto.INT4, [8, 8], 1.0),
        ("z4", TensorProto.INT4, [8], 0.0),
        ("u4", TensorProto.UINT4, [8, 8], 3.0),
        ("f8", TensorProto.FLOAT8E4M3FN, [8, 8], 0.5),
    )
    for name, element, dims, value in tensors:
        model.graph.initializer.append(helper.make_tensor(name, element, dims, [value] * int(np.prod(dims))))
    return model


@_model
def weight_fields_of_every_kind() -> onnx.ModelProto:
    """Weights in float_data, int32_data (float16, bool), raw_data, double_data and a sparse one."""
    model = _made(
        [
            *(_node("Cast", [name], [f"{name}f"], to=FLOAT) for name in "hdt"),
            _node("Sum", ["x", "f", "hf", "df", "tf"], ["a"]),
            _node("Add", ["a", "sparse"], ["y"]),
        ],
        [_info("x", 4)],
        [_info("y", 4)],
    )
    elements = {"f": FLOAT, "h": TensorProto.FLOAT16, "d": TensorProto.DOUBLE, "t": TensorProto.BOOL}
    for name, element in elements.items():
        values = [1, 0, 1, 1] if element == TensorProto.BOOL else [1, 2, 3, 4]
        model.graph.initializer.append(helper.make_tensor(name, element, [4], values))
    few = helper.make_tensor("sparse", FLOAT, [2], [5.0, 6.0])
    indices = helper.make_tensor("sparse_indices", INT64, [2], [1, 3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(few, indices, [4]))
    return model


# Sizes ---------------------------------------------------------------------------------------------------------------


@_model
def deep_chain() -> onnx.ModelProto:
    names = ["x", *(f"v{i}" for i in range(2999)), "y"]
    kinds = ("Relu", "Neg", "Tanh", "Identity")
    nodes = [_node(kinds[i % 4], [names[i]], [names[i + 1]]) for i in range(3000)]
    return _made(nodes, [_info("x", 2, 3)], [_info("y", 2, 3)])


@_model
def wide_graph() -> onnx.ModelProto:
    """A thousand siblings of one input, one Concat, one Sum."""
    nodes = [_node("Mul", ["x", f"w{i}"], [f"v{i}"]) for i in range(1000)]
    names = [f"v{i}" for i in range(1000)]
    nodes += [_node("Concat", names, ["c"], axis=-1), _node("Sum", names, ["s"])]
    return _made(nodes, [_info("x", "N", 4)], [_info("c", "N", 4000), _info("s", "N", 4)],
                 {f"w{i}": np.float32(i) for i in range(1000)})  # fmt: skip


@_model
def diamonds() -> onnx.ModelProto:
    """Two to the 60th paths from input to output."""
    nodes = [_node("Add", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(60)]
    return _made([_node("Mul", ["x", "tiny"], ["v0"]), *nodes], [_info("x", 2)], [_info("v60", 2)],
                 {"tiny": np.float32(1e-18)})  # fmt: skip


@_model
def nested_branches() -> onnx.ModelProto:
    """If within If, twelve deep, each capturing the value outside."""
    inner = helper.make_graph([_node("Neg", ["x"], ["leaf"])], "leaf", [], [_info("leaf", 3)])
    for depth in range(12):
        other = helper.make_graph(
            [_node("Add", ["x", "x"], [f"o{depth}"])], f"else{depth}", [], [_info(f"o{depth}", 3)]
        )
        node = _node("If", ["flag"], [f"r{depth}"], then_branch=inner, else_branch=other)
        inner = helper.make_graph([node], f"then{depth}", [], [_info(f"r{depth}", 3)])
    nodes = [*inner.node, _node("Relu", ["r11"], ["y"])]
    return _made(nodes, [_info("x", 3), _info("flag", element=TensorProto.BOOL)], [_info("y", 3)])


@_model
def rank_eight() -> onnx.ModelProto:
    nodes = [_node("Transpose", ["x"], ["t"], perm=[7, 6, 5, 4, 3, 2, 1, 0]), _node("Transpose", ["t"], ["u"]),
             _node("ReduceSum", ["u", "axes"], ["y"], keepdims=0)]  # fmt: skip
    return _made(nodes, [_info("x", *([2] * 8))], [_info("y", *([2] * 6))], {"axes": np.array([-1, 0], np.int64)})


MODELS: Mapping[str, Maker] = MappingProxyType(_MAKERS | {name: partial(_parsed, text) for name, text in TEXTS.items()})
