"""Hand-built models for every corner of the border's contract, and ONNX Runtime without its optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from taso_py.arrays import Array

FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[int | str | None] | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name: str, array: object, dtype: type[np.generic] = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(array, dtype=dtype), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    ir_version: int = 8,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(d, v) for d, v in (domains or {}).items()),
    ]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=functions)


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """A node from space-separated names; ``-`` is an absent input."""
    names = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


def session(proto: onnx.ModelProto | bytes) -> Callable[[Mapping[str, Array]], list[Array]]:
    """The model in ONNX Runtime with its optimiser off, as a function from feeds to outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    content = proto if isinstance(proto, bytes) else proto.SerializeToString()
    opened = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(opened.run(None, dict(feeds)))


def run(proto: onnx.ModelProto | bytes, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs of ONNX Runtime with its optimiser off."""
    return session(proto)(feeds)


def documented() -> onnx.ModelProto:
    """Metadata, documentation and denotations in every place that has them."""
    x, y = value("x", ["batch", 4]), value("y", ["batch", 4])
    x.doc_string, x.type.denotation = "the input", "TENSOR"
    x.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    x.metadata_props.add(key="origin", value="camera")
    y.doc_string = "the output"
    y.metadata_props.add(key="unit", value="m/s")
    relu = node("Relu", "x", "r", name="first", doc_string="clamps")
    relu.metadata_props.add(key="layer", value="1")
    neg = node("Neg", "r", "y", name="second")
    neg.metadata_props.add(key="a", value="1")
    neg.metadata_props.add(key="b", value="2")
    proto = model([relu, neg], [x], [y], ir_version=10)
    inner = value("r", ["batch", 4])
    inner.doc_string = "in between"
    inner.metadata_props.add(key="seen", value="yes")
    proto.graph.value_info.append(inner)
    proto.graph.doc_string = "a graph"
    proto.graph.metadata_props.add(key="graph", value="meta")
    proto.doc_string, proto.producer_name, proto.producer_version = "a model", "tests", "1.2"
    proto.domain, proto.model_version = "org.example", 7
    proto.metadata_props.add(key="author", value="somebody")
    annotation = proto.graph.quantization_annotation.add(tensor_name="r")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="x")
    return proto


def loose_ends() -> onnx.ModelProto:
    """Unused and overridable things, duplicates, dead nodes, outputs without a name, constants."""
    scale = weight("scale", [2.0, 3.0])
    stored = helper.make_tensor("stored", FLOAT, [2], [1.0, -1.0])  # in float_data, not raw
    nodes = [
        node("Constant", "", "half", value=weight("", [0.5, 0.5])),
        node("Constant", "", "never", value_float=1.0),
        node("Mul", "x scale", "m", name="same"),
        node("Mul", "x scale", "m2", name="same"),
        node("Add", "m m2", "s"),
        node("Add", "s half", "t", name="sum"),
        node("Exp", "s", "dead"),
        node("Neg", "dead", "deader"),
        node("Dropout", "t", "d mask"),
        node("Clip", "d - top", "y"),
        node("Add", "y stored", "z"),
    ]
    return model(
        nodes,
        [value("x", [None, 2]), value("unused", ["n", "n", 3]), value("scale", [2])],
        [value("y", None), value("z", [None, 2])],
        [scale, stored, weight("top", 4.0), weight("spare", [1.0])],
    )


def with_functions() -> onnx.ModelProto:
    """Model-local functions, one of a custom domain and with attributes, one that shadows a standard name."""
    leaky = helper.make_function(
        "local", "Leak", ["a"], ["b"], [node("LeakyRelu", "a", "b")], [helper.make_opsetid("", 17)], ["slope"]
    )
    reference = leaky.node[0].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT)
    reference.ref_attr_name = "slope"
    leaky.doc_string = "leaks"
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 17)]
    )
    nodes = [
        node("Leak", "x", "l", domain="local", slope=0.25, name="leak"),
        node("Twice", "l", "y", domain="local"),
    ]
    return model(
        nodes,
        [value("x", [3])],
        [value("y", [3])],
        domains={"local": 1},
        functions=[leaky, twice],
        ir_version=9,
    )


def with_custom_domain() -> onnx.ModelProto:
    """Nodes of domains and operators that nobody here knows."""
    nodes = [
        node("Relu", "x", "r"),
        node("Strange", "r", "s t", domain="com.example", levels=[1, 2], mode="odd", name="strange"),
        node("NotAnOperator", "s", "u", weight=weight("w", [1.0])),
        node("Add", "u t", "y"),
    ]
    return model(nodes, [value("x", [2, 2])], [value("y", [2, 2])], domains={"com.example": 3})


def with_if() -> onnx.ModelProto:
    """Branches that capture outer values, one of them an initializer, and have values of their own."""
    then_branch = helper.make_graph([node("Add", "a w", "then_out")], "then", [], [value("then_out", [3])])
    other = [node("Mul", "a inner", "product"), node("Neg", "product", "else_out")]
    else_branch = helper.make_graph(other, "else", [], [value("else_out", [3])], [weight("inner", [1, 2, 3])])
    else_branch.doc_string = "otherwise"
    nodes = [
        node("Relu", "x", "a", name="captured"),
        node("If", "flag", "y", then_branch=then_branch, else_branch=else_branch, name="branch"),
        node("Neg", "y", "z"),
    ]
    inputs = [value("x", [3]), value("flag", [], TensorProto.BOOL)]
    return model(nodes, inputs, [value("z", [3])], [weight("w", [1, 1, 1])])


def unsorted() -> onnx.ModelProto:
    """Each node stands before the one it reads."""
    nodes = [node("Neg", "b", "y"), node("Exp", "a", "b"), node("Relu", "x", "a")]
    return model(nodes, [value("x", [2])], [value("y", [2])])


def old_ir() -> onnx.ModelProto:
    """IR version 3: every initializer is also a graph input."""
    nodes = [node("Mul", "x w", "m"), node("Add", "m b", "y")]
    inputs = [value("x", [2]), value("w", [2]), value("b", [2])]
    return model(nodes, inputs, [value("y", [2])], [weight("w", [1, 2]), weight("b", [3, 4])], opset=9, ir_version=3)


def same_in_and_out() -> onnx.ModelProto:
    """Outputs that are an input, an initializer, and one value twice."""
    nodes = [node("Relu", "x", "y")]
    outputs = [value("x", [2]), value("w", [2]), value("y", [2]), value("y", [2])]
    return model(nodes, [value("x", [2])], outputs, [weight("w", [1, 2])])


def with_sequences() -> onnx.ModelProto:
    """Sequences, optionals and strings."""
    sequence = helper.make_tensor_sequence_value_info("seq", FLOAT, ["n"])
    words = value("words", [2], TensorProto.STRING)
    nodes = [
        node("SequenceConstruct", "x x", "seq"),
        node("SequenceAt", "seq zero", "first"),
        node("Identity", "words", "again"),
        node("Relu", "first", "y"),
    ]
    outputs = [sequence, value("y", None), value("again", [2], TensorProto.STRING)]
    return model(nodes, [value("x", ["n"]), words], outputs, [weight("zero", 0, np.int64)])


def half_precision(element: int = TensorProto.FLOAT16) -> onnx.ModelProto:
    """float16, or another type, in the middle of float32."""
    nodes = [
        node("Cast", "x", "h", to=element),
        node("Add", "h h", "s"),
        node("Cast", "s", "f", to=FLOAT),
        node("Relu", "f", "y"),
    ]
    return model(nodes, [value("x", ["n", 2])], [value("y", ["n", 2])])


MODELS = {
    f.__name__: f
    for f in (
        documented,
        loose_ends,
        with_functions,
        with_custom_domain,
        with_if,
        unsorted,
        old_ir,
        same_in_and_out,
        with_sequences,
        half_precision,
    )
}
