"""Models that fool optimisers: each was seen to be broken by at least one tool that people use.

``TRAPS`` maps names to `Trap`; a trap's feeds bring out the difference (signed values, NaN, zeros).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from taso_py.arrays import Array
from tests.helpers.onnx_io_models import FLOAT, model, node, value, weight

INT64 = np.int64


@dataclass(frozen=True, slots=True)
class Trap:
    """A model, inputs that spring the trap, and how it behaves in ONNX Runtime."""

    build: Callable[[], onnx.ModelProto]
    feeds: Callable[[], Mapping[str, Array]]
    runs: bool = True
    """Whether ONNX Runtime loads it."""
    random: bool = False
    """Whether two runs differ."""
    opaque: frozenset[str] = field(default_factory=frozenset)
    """Operator types that must not be taken for something we understand."""


TRAPS: dict[str, Trap] = {}


def trap(
    *, runs: bool = True, random: bool = False, opaque: str = "", **shapes: tuple[int, ...] | Array
) -> Callable[[Callable[[], onnx.ModelProto]], Callable[[], onnx.ModelProto]]:
    """Register a builder; inputs given as shapes get signed random values."""

    def feeds() -> Mapping[str, Array]:
        generator = np.random.default_rng(0)
        return {
            name: generator.standard_normal(given).astype(np.float32) if isinstance(given, tuple) else given
            for name, given in shapes.items()
        }

    def register(build: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
        TRAPS[build.__name__] = Trap(build, feeds, runs, random, frozenset(opaque.split()))
        return build

    return register


# --- shapes and slices


@trap(x=(6, 2, 2))
def reshape_of_reshape() -> onnx.ModelProto:
    """The 0 of the second Reshape means the 6 of the first one's result."""
    nodes = [node("Reshape", "x first", "a"), node("Reshape", "a second", "y")]
    shapes = [weight("first", [6, 4], INT64), weight("second", [0, 2, -1], INT64)]
    return model(nodes, [value("x", [6, 2, 2])], [value("y", [6, 2, 2])], shapes)


@trap(x=(2, 1, 3, 1))
def squeeze_of_squeeze_with_negative_axes() -> onnx.ModelProto:
    """The second -2 counts from the end of the first result."""
    nodes = [node("Squeeze", "x last", "a"), node("Squeeze", "a middle", "y")]
    axes = [weight("last", [-1], INT64), weight("middle", [-2], INT64)]
    return model(nodes, [value("x", [2, 1, 3, 1])], [value("y", [2, 3])], axes)


@trap(x=(7, 3))
def slice_of_slice_with_negative_steps() -> onnx.ModelProto:
    """x[5:0:-2] and of that [-1:-9:-1]."""
    nodes = [node("Slice", "x s1 e1 axis t1", "a"), node("Slice", "a s2 e2 axis t2", "y")]
    numbers = {"s1": 5, "e1": 0, "t1": -2, "s2": -1, "e2": -9, "t2": -1, "axis": 0}
    bounds = [weight(name, [n], INT64) for name, n in numbers.items()]
    return model(nodes, [value("x", [7, 3])], [value("y", [3, 3])], bounds)


# --- pooling and padding


@trap(x=-np.abs(np.random.default_rng(1).standard_normal((1, 2, 6, 6))).astype(np.float32) - 0.1)
def zero_pad_before_max_pool() -> onnx.ModelProto:
    """On negative input the zeros win; MaxPool's own padding is -inf."""
    nodes = [
        node("Pad", "x pads", "p"),
        node("MaxPool", "p", "y", kernel_shape=[3, 3], strides=[2, 2]),
    ]
    pads = weight("pads", [0, 0, 1, 1, 0, 0, 1, 1], INT64)
    return model(nodes, [value("x", [1, 2, 6, 6])], [value("y", [1, 2, 3, 3])], [pads])


@trap(x=(1, 2, 6, 6))
def zero_pad_before_average_pool() -> onnx.ModelProto:
    """The padded zeros count; AveragePool's own padding does not, unless it says so."""
    nodes = [node("Pad", "x pads", "p"), node("AveragePool", "p", "y", kernel_shape=[3, 3])]
    pads = weight("pads", [0, 0, 1, 1, 0, 0, 1, 1], INT64)
    return model(nodes, [value("x", [1, 2, 6, 6])], [value("y", [1, 2, 6, 6])], [pads])


# --- things that look like no-ops


@trap(x=np.float32([-2.7, -0.5, 0.5, 2.7]))
def lossy_casts() -> onnx.ModelProto:
    """float -> int -> float cuts the fraction off."""
    nodes = [node("Cast", "x", "i", to=TensorProto.INT32), node("Cast", "i", "y", to=FLOAT)]
    return model(nodes, [value("x", [4])], [value("y", [4])])


@trap(x=(64,), random=True, opaque="Dropout")
def dropout_in_training_mode() -> onnx.ModelProto:
    """Not the identity."""
    constants = [weight("ratio", 0.5), weight("training", True, np.bool_)]
    return model([node("Dropout", "x ratio training", "y")], [value("x", [64])], [value("y", [64])], constants)


@trap(random=True, opaque="RandomNormalLike RandomUniformLike")
def random_values_shaped_like_constants() -> onnx.ModelProto:
    """All inputs are constant, the outputs are not; two equal nodes differ."""
    nodes = [
        node("RandomNormalLike", "w", "a"),
        node("RandomNormalLike", "w", "b"),
        node("RandomUniformLike", "w", "c"),
        node("Sum", "a b c", "y"),
    ]
    return model(nodes, [], [value("y", [8])], [weight("w", np.ones(8))])


@trap(x=(3,), opaque="SequenceConstruct SequenceAt")
def first_of_a_sequence_of_inputs() -> onnx.ModelProto:
    """The output is the input, under another name."""
    nodes = [node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s zero", "y")]
    return model(nodes, [value("x", [3])], [value("y", [3])], [weight("zero", 0, INT64)])


# --- inputs, outputs, initializers


@trap(x=(2, 4))
def three_products_of_an_input() -> onnx.ModelProto:
    """The shared operand of a merge is a graph input."""
    nodes = [node("MatMul", f"x w{k}", f"y{k}") for k in range(3)]
    weights = [weight(f"w{k}", np.random.default_rng(k).standard_normal((4, 3))) for k in range(3)]
    return model(nodes, [value("x", [2, 4])], [value(f"y{k}", [2, 3]) for k in range(3)], weights)


@trap(x=(2,), w=np.float32([10, 20]))
def initializer_that_is_an_input() -> onnx.ModelProto:
    """The caller may override it: nothing may be folded."""
    nodes = [node("Mul", "w w", "w2"), node("Add", "x w2", "y")]
    return model(nodes, [value("x", [2]), value("w", [2])], [value("y", [2])], [weight("w", [1, 2])])


@trap(x=(2,), nobody=(5,))
def unused_input() -> onnx.ModelProto:
    """Callers feed it all the same."""
    inputs = [value("nobody", [5]), value("x", [2])]
    return model([node("Neg", "x", "a"), node("Neg", "a", "y")], inputs, [value("y", [2])])


@trap(runs=False, x=(2,), opaque="MyOwnOperator")
def custom_operator_in_the_default_domain() -> onnx.ModelProto:
    """Registered by a plug-in of the user's."""
    nodes = [node("MyOwnOperator", "x", "a", strength=2.0), node("Relu", "a", "y")]
    return model(nodes, [value("x", [2])], [value("y", [2])])


def _if(branches: dict[str, onnx.GraphProto]) -> onnx.ModelProto:
    nodes = [node("Neg", "x", "a"), node("If", "flag", "y", **branches)]
    inputs = [value("x", [3]), value("flag", [], TensorProto.BOOL)]
    return model(nodes, inputs, [value("y", [3])])


@trap(x=(3,), flag=np.array(True), opaque="If")
def branch_that_returns_an_outer_value() -> onnx.ModelProto:
    """Its only node is an Identity of a captured value."""
    then_branch = helper.make_graph([node("Identity", "a", "t")], "then", [], [value("t", [3])])
    else_branch = helper.make_graph([node("Identity", "x", "e")], "else", [], [value("e", [3])])
    return _if({"then_branch": then_branch, "else_branch": else_branch})


@trap(runs=False, x=(3,), flag=np.array(True), opaque="If")
def branch_without_nodes() -> onnx.ModelProto:
    """A captured value is the branch's output directly; ONNX Runtime refuses it, we keep it."""
    then_branch = helper.make_graph([], "then", [], [value("a", [3])])
    else_branch = helper.make_graph([node("Identity", "x", "e")], "else", [], [value("e", [3])])
    return _if({"then_branch": then_branch, "else_branch": else_branch})


@trap(x=(2,))
def equal_initializers() -> onnx.ModelProto:
    """Equal today, trained apart tomorrow."""
    nodes = [node("Mul", "x a", "p"), node("Mul", "x b", "q"), node("Add", "p q", "y")]
    return model(nodes, [value("x", [2])], [value("y", [2])], [weight("a", [1, 2]), weight("b", [1, 2])])


@trap(x=(2,))
def output_that_is_an_input() -> onnx.ModelProto:
    """x is passed through."""
    nodes = [node("Neg", "x", "y")]
    return model(nodes, [value("x", [2])], [value("x", [2]), value("y", [2])])


@trap(x=(2,))
def output_that_is_an_initializer() -> onnx.ModelProto:
    """w is returned as it is."""
    nodes = [node("Add", "x w", "y")]
    return model(nodes, [value("x", [2])], [value("w", [2]), value("y", [2])], [weight("w", [1, 2])])


@trap(x=(2,))
def old_ir_version() -> onnx.ModelProto:
    """IR version 3 wants every initializer among the inputs, and no tool may add one."""
    nodes = [node("Mul", "x w", "p"), node("Mul", "p v", "y")]
    inputs = [value(n, [2]) for n in "xwv"]
    weights = [weight("w", [1, 2]), weight("v", [3, 4])]
    return model(nodes, inputs, [value("y", [2])], weights, opset=9, ir_version=3)


@trap(runs=False, x=(2,))
def newest_opset() -> onnx.ModelProto:
    """Newer than ONNX Runtime: may be read, never lowered or raised."""
    nodes = [node("Neg", "x", "a"), node("Neg", "a", "y")]
    return model(nodes, [value("x", [2])], [value("y", [2])], opset=28, ir_version=14)


# --- sizes


@trap(x=(1,))
def constant_of_shape_blow_up() -> onnx.ModelProto:
    """16 MB of ones that are two integers in the file."""
    nodes = [
        node("ConstantOfShape", "shape", "ones", value=weight("", [1.0])),
        node("ReduceSum", "ones", "sum", keepdims=0),
        node("Mul", "x sum", "y"),
    ]
    return model(nodes, [value("x", [1])], [value("y", [1])], [weight("shape", [2048, 2048], INT64)])


@trap(x=(1,))
def tile_blow_up() -> onnx.ModelProto:
    """16 MB that are four numbers in the file."""
    nodes = [node("Tile", "w repeats", "t"), node("ReduceMax", "t", "m", keepdims=0), node("Mul", "x m", "y")]
    constants = [weight("w", [[1, 2, 3, 4]]), weight("repeats", [1024, 1024], INT64)]
    return model(nodes, [value("x", [1])], [value("y", [1])], constants)


@trap(x=(1,))
def expand_blow_up() -> onnx.ModelProto:
    """16 MB that are one row in the file."""
    nodes = [node("Expand", "w shape", "e"), node("ReduceMax", "e", "m", keepdims=0), node("Mul", "x m", "y")]
    constants = [weight("w", np.arange(2048)), weight("shape", [2048, 2048], INT64)]
    return model(nodes, [value("x", [1])], [value("y", [1])], constants)


# --- element types


@trap(x=(4,), opaque="DequantizeLinear")
def eight_bit_floats() -> onnx.ModelProto:
    """float8 initializers."""
    data = helper.make_tensor("w", TensorProto.FLOAT8E4M3FN, [4], [0.5, 1.0, -1.5, 2.0])
    nodes = [node("DequantizeLinear", "w scale", "f"), node("Mul", "x f", "y")]
    return model(nodes, [value("x", [4])], [value("y", [4])], [data, weight("scale", 0.5)], opset=19, ir_version=9)


@trap(x=(4,), opaque="DequantizeLinear")
def four_bit_integers() -> onnx.ModelProto:
    """int4 initializers, two to a byte."""
    data = helper.make_tensor("w", TensorProto.INT4, [4], [1, -2, 3, -8])
    nodes = [node("DequantizeLinear", "w scale", "f"), node("Mul", "x f", "y")]
    return model(nodes, [value("x", [4])], [value("y", [4])], [data, weight("scale", 0.5)], opset=21, ir_version=10)


# --- NaN and infinity


@trap(x=np.float32([np.nan, 1.0, -1.0]))
def smallest_of_nan() -> onnx.ModelProto:
    """Which index ArgMin gives is the kernel's affair."""
    nodes = [node("ArgMin", "x", "y", axis=0, keepdims=0)]
    return model(nodes, [value("x", [3])], [value("y", [], TensorProto.INT64)])


@trap(x=np.float32([1.0, 0.0, -2.0]))
def reciprocal_of_a_constant_zero() -> onnx.ModelProto:
    """inf in a weights-only computation, NaN after it."""
    nodes = [node("Reciprocal", "w", "r"), node("Mul", "x r", "y")]
    return model(nodes, [value("x", [3])], [value("y", [3])], [weight("w", [2.0, 0.0, 0.0])])


@trap(x=np.float32([-1.0, 0.0, 1.0, np.inf]))
def legitimate_nan() -> onnx.ModelProto:
    """NaN and -inf belong in the result; x - x and x * 0 are not zero."""
    nodes = [
        node("Log", "x", "l"),
        node("Sub", "x x", "d"),
        node("Mul", "x zero", "z"),
        node("Add", "d z", "s"),
    ]
    return model(nodes, [value("x", [4])], [value("l", [4]), value("s", [4])], [weight("zero", 0.0)])
