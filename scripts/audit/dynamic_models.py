"""Small models whose inputs are sizes, states, masks, positions or indices, as networks have them that are deployed.

Each is one text of `onnx.parser`; weights are named with their sizes only.  A size that the interface leaves open is
mostly fixed somewhere inside, and most inputs take few of the values that their types allow.
"""

from __future__ import annotations

import math
import re

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

# name: (inputs, outputs, weights, nodes)
MODELS: dict[str, tuple[str, str, str, str]] = {
    # ---- sizes that weights fix further down
    "linear": ("float[n, d] x", "float[n, 10] y", "w[64, 10]", "y = MatMul(x, w)"),
    "linear behind relu": ("float[a, b, c] x", "float[a, b, 7] y", "w[48, 7]", "t = Relu(x) y = MatMul(t, w)"),
    "two layers": ("float[n, d] x", "float y", "w[20, 30] v[30, 5]", "t = MatMul(x, w) u = Relu(t) y = MatMul(u, v)"),
    "bias": ("float[n, d] x", "float[n, d] y", "b[77]", "y = Add(x, b)"),
    "gemm": ("float[n, d] x", "float[n, 4] y", "w[4, 19] b[4]", "y = Gemm<transB = 1>(x, w, b)"),
    "channels": ("float[n, c, h, w] x", "float[n, 8, p, q] y", "k[8, 5, 3, 3]", "y = Conv(x, k)"),
    "grouped channels": ("float[n, c, l] x", "float[n, 12, p] y", "k[12, 2, 3]", "y = Conv<group = 6>(x, k)"),
    "batch norm": (
        "float[n, c, l] x",
        "float[n, c, l] y",
        "s[9] b[9] m[9] v[9]",
        "a = Abs(v) y = BatchNormalization(x, s, b, m, a)",
    ),
    "layer norm": ("float[n, t, d] x", "float[n, t, d] y", "s[33] b[33]", "y = LayerNormalization(x, s, b)"),
    "flattened": (
        "float[n, c, h, w] x",
        "float[n, 10] y",
        "k[4, 3, 3, 3] w[144, 10]",
        "a = Conv(x, k) b = Relu(a) f = Flatten(b) y = MatMul(f, w)",
    ),
    "pooled and flattened": (
        "float[n, 1, h, w] x",
        "float[n, 10] y",
        "k[6, 1, 5, 5] w[96, 10]",
        "a = Conv(x, k) b = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a) f = Flatten(b) y = MatMul(f, w)",
    ),
    "heads": (
        "float[n, t, d] x",
        "float y",
        "",
        "s = Constant<value_ints = [0, 0, 8, 12]>() r = Reshape(x, s) y = Transpose<perm = [0, 2, 1, 3]>(r)",
    ),
    "fixed reshape": ("float[n, d] x", "float y", "", "s = Constant<value_ints = [7, 9]>() y = Reshape(x, s)"),
    "divisible": ("float[n, d] x", "float y", "", "s = Constant<value_ints = [-1, 3, 25]>() y = Reshape(x, s)"),
    "fixed split": (
        "float[n, d] x",
        "float a, float b",
        "",
        "s = Constant<value_ints = [5, 6]>() a, b = Split<axis = 1>(x, s)",
    ),
    "learned positions": ("float[n, t, 16] x", "float[n, t, 16] y", "p[1, 50, 16]", "y = Add(x, p)"),
    "patches": (
        "float[n, 3, h, w] x",
        "float y",
        "k[8, 3, 4, 4] p[1, 8, 49]",
        "a = Conv<strides = [4, 4]>(x, k) s = Constant<value_ints = [0, 0, -1]>() b = Reshape(a, s) y = Add(b, p)",
    ),
    "skip connection": (
        "float[n, 2, h, w] x",
        "float y",
        "",
        "a = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) f = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>()"
        " b = Resize(a, , f) y = Concat<axis = 1>(x, b)",
    ),
    # ---- inputs that belong together under different names
    "two names": ("float[n, d] x, float[m, e] z", "float y", "", "y = Add(x, z)"),
    "inner product": ("float[n, d] x, float[e, m] z", "float[n, m] y", "", "y = MatMul(x, z)"),
    "joined": ("float[n, d] x, float[m, e] z", "float y", "w[24, 3]", "t = Concat<axis = 1>(x, z) y = MatMul(t, w)"),
    "joined unlike": (
        "float[n, 3, a] x, float[n, 3, b] z, float[n, 3, c] m",
        "float y",
        "",
        "t = Concat<axis = 2>(x, z) y = Mul(t, m)",
    ),
    "key-value cache": (
        "float[n, 2, past, 8] k, float[n, 2, new, 8] q, float[n, 1, new, total] mask",
        "float y",
        "",
        "a = Concat<axis = 2>(k, q) b = Transpose<perm = [0, 1, 3, 2]>(a) s = MatMul(q, b) m = Add(s, mask)"
        " p = Softmax(m) y = MatMul(p, a)",
    ),
    "two caches": (
        "float[n, 2, p1, 8] k, float[n, 2, p2, 8] v, float[n, 2, 1, 8] q",
        "float y",
        "",
        "b = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, b) p = Softmax(s) y = MatMul(p, v)",
    ),
    "positions of a cache": (
        "float[n, past, 8] k, int64[n, new] ids, int64[n, total] mask",
        "float y",
        "e[30, 8]",
        "x = Gather(e, ids) a = Concat<axis = 1>(k, x) f = Cast<to = 1>(mask) l = Constant<value_ints = [2]>()"
        " m = Unsqueeze(f, l) y = Mul(a, m)",
    ),
    "states": (
        "float[t, n, d] x, float[one, m, h] s",
        "float y, float z",
        "w[1, 18, 5] r[1, 18, 6] b[1, 36]",
        "y, z = GRU<hidden_size = 6>(x, w, r, b, , s)",
    ),
    "two states": (
        "float[t, n, d] x, float[a, b, c] h, float[e, f, g] s",
        "float y, float z, float u",
        "w[2, 16, 3] r[2, 16, 4] v[2, 32]",
        'y, z, u = LSTM<hidden_size = 4, direction = "bidirectional">(x, w, r, v, , h, s)',
    ),
    "condition": ("bool[n, d] c, float[m, e] x, float[k, l] z", "float y", "w[13]", "a = Add(x, w) y = Where(c, a, z)"),
    "encoder and decoder": (
        "float[n, s, d] x, float[m, t, e] z",
        "float y",
        "w[12, 12]",
        "a = MatMul(x, w) b = Transpose<perm = [0, 2, 1]>(a) p = MatMul(z, b) q = Softmax(p) y = MatMul(q, a)",
    ),
    "equation": ("float[a, b, c] x, float[d, e, f] z", "float y", "", 'y = Einsum<equation = "bij,bjk->bik">(x, z)'),
    # ---- inputs that are sizes, counts or axes
    "size behind arithmetic": (
        "float[2, 12] x, int64[1] k",
        "float y",
        "w[4, 3]",
        "r = Constant<value_ints = [-1]>() s = Concat<axis = 0>(r, k) t = Reshape(x, s) y = MatMul(t, w)",
    ),
    "half of a size": (
        "float[2, 12] x, int64[1] k",
        "float y",
        "",
        "two = Constant<value_ints = [2]>() h = Div(k, two) r = Constant<value_ints = [-1]>()"
        " s = Concat<axis = 0>(r, h) t = Reshape(x, s) c = Constant<value_ints = [4, 6]>() y = Reshape(t, c)",
    ),
    "image size": (
        "float[1, 3, 8, 8] x, int64[2] size",
        "float y",
        "m[1, 3, 20, 24]",
        "s = Shape<start = 0, end = 2>(x) t = Concat<axis = 0>(s, size)"
        ' r = Resize<mode = "linear">(x, , , t) y = Add(r, m)',
    ),
    "scale factors": (
        "float[1, 2, 4, 4] x, float[4] f",
        "float y",
        "m[1, 2, 12, 8]",
        "r = Resize(x, , f) y = Mul(r, m)",
    ),
    "pads": ("float[2, 3] x, int64[4] p", "float y", "w[7, 2]", "t = Pad(x, p) y = MatMul(t, w)"),
    "tiles": ("float[2, 3] x, int64[2] r", "float y", "w[12, 2]", "t = Tile(x, r) y = MatMul(t, w)"),
    "expanded": ("float[1, 3] x, int64[2] s", "float y", "w[6, 6]", "t = Expand(x, s) y = MatMul(w, t)"),
    "filled": ("int64[2] s", "float y", "w[9, 2]", "t = ConstantOfShape(s) y = MatMul(t, w)"),
    "range": (
        "int64 n",
        "float y",
        "w[1, 21]",
        "a = Constant<value_int = 0>() b = Constant<value_int = 1>()"
        " r = Range(a, n, b) f = Cast<to = 1>(r) y = Mul(f, w)",
    ),
    "range between": ("float a, float b, float c", "float y", "w[11]", "r = Range(a, b, c) y = Mul(r, w)"),
    "depth": (
        "int64[5] i, int64 d",
        "float y",
        "w[17, 2]",
        "v = Constant<value_floats = [0.0, 1.0]>() h = OneHot(i, d, v) y = MatMul(h, w)",
    ),
    "best k": ("float[2, 30] x, int64[1] k", "float y", "w[13, 2]", "t, i = TopK(x, k) y = MatMul(t, w)"),
    "slice": (
        "float[4, 20] x, int64[1] a, int64[1] b",
        "float y",
        "w[9, 2]",
        "c = Constant<value_ints = [1]>() t = Slice(x, a, b, c) y = MatMul(t, w)",
    ),
    "slice of a table": (
        "float[n, t, 8] x, int64[1] a, int64[1] b",
        "float y",
        "p[64, 8]",
        "c = Constant<value_ints = [0]>() s = Slice(p, a, b, c) y = Add(x, s)",
    ),
    "parts": (
        "float[2, 10] x, int64[3] s",
        "float y",
        "w[5, 2]",
        "a, b, c = Split<axis = 1>(x, s) t = MatMul(b, w) y = Add(t, a)",
    ),
    "sum along": ("float[3, 5] x, int64[1] a", "float y", "w[1, 2]", "t = ReduceSum(x, a) y = MatMul(t, w)"),
    "running sum": ("float[3, 5] x, int64 a", "float y", "", "y = CumSum(x, a)"),
    "crop": ("float[1, 3, 9, 9] x, int64[4] s", "float y", "w[1, 3, 5, 7]", "t = CenterCropPad(x, s) y = Add(t, w)"),
    "squeezed": ("float[1, 3, 1] x, int64[1] a", "float y", "w[1, 2]", "t = Squeeze(x, a) y = MatMul(t, w)"),
    "window": ("int64 n, float[16] x", "float y", "", "w = HannWindow(n) y = Mul(w, x)"),
    # ---- indices
    "tokens": (
        "int64[n, t] ids, int64[n, s] pos",
        "float y",
        "e[40, 8] p[20, 8]",
        "a = Gather(e, ids) b = Gather(p, pos) y = Add(a, b)",
    ),
    "shifted tokens": (
        "int64[n, t] ids",
        "float y",
        "e[40, 8]",
        "o = Constant<value_int = 30>() a = Sub(ids, o) b = Abs(a) y = Gather(e, b)",
    ),
    "gathered": ("float[3, 5] x, int64[m, k] i", "float y", "w[4, 2]", "t = GatherND(x, i) y = MatMul(t, w)"),
    "scattered": ("float[6, 4] x, int64[m, 1] i, float[p, q] u", "float y", "", "y = ScatterND(x, i, u)"),
    "along an axis": (
        "float[6, 4] x, int64[m, k] i",
        "float y",
        "w[2, 3]",
        "t = GatherElements<axis = 1>(x, i) y = MatMul(t, w)",
    ),
    "boxes": (
        "float[n, b, k] boxes, float[m, c, d] scores, int64[1] most",
        "int64[p, 3] y",
        "",
        "y = NonMaxSuppression(boxes, scores, most)",
    ),
    "regions": (
        "float[1, 2, 8, 8] x, float[r, k] boxes, int64[s] which",
        "float y",
        "",
        "y = RoiAlign<output_height = 2, output_width = 2>(x, boxes, which)",
    ),
    "lengths": (
        "float[t, n, 3] x, int32[m] l",
        "float y, float z",
        "w[1, 16, 3] r[1, 16, 4] b[1, 32]",
        "y, z = LSTM<hidden_size = 4>(x, w, r, b, l)",
    ),
    "reversed": ("float[t, n] x, int64[m] l", "float y", "w[5]", "a = Add(x, w) y = ReverseSequence(a, l)"),
    # ---- control flow, and types that are none of these
    "steps": (
        "int64 n, float[d] x",
        "float y",
        "w[9]",
        "c = Constant<value = bool {1}>() a = Add(x, w) y = Loop(n, c, a) <body = b (int64 i, bool k, float[] s)"
        " => (bool j, float[] r) { j = Identity(k) r = Mul(s, s) }>",
    ),
    "branch": (
        "bool c, float[n, d] x",
        "float y",
        "w[6, 2] v[4, 2]",
        "y = If(c) <then_branch = a () => (float p) { p = MatMul(x, w) },"
        " else_branch = b () => (float q) { q = MatMul(x, w) }>",
    ),
    "words": ("string[n] s, float[m, d] x", "float y", "w[3]", "y = Add(x, w)"),
    "sequence": (
        "seq(float[n, d]) s, float[m, e] x",
        "float y",
        "w[14, 2]",
        "a = ConcatFromSequence<axis = 0>(s) b = MatMul(x, w) c = ReduceMax<keepdims = 0>(a) y = Add(b, c)",
    ),
    "optional": ("optional(float[n]) o, float[m, e] x", "float y", "w[14, 2]", "y = MatMul(x, w)"),
    "unknown rank": ("float x, int64[2] s", "float y", "w[2, 3]", "a = Reshape(x, s) y = MatMul(a, w)"),
}
_WEIGHT = re.compile(r"(\w+)\[([\d, ]*)\]")


def dynamic_model(name: str) -> onnx.ModelProto:
    """The model of that name, with random weights."""
    inputs, outputs, weights, nodes = MODELS[name]
    # A bare "float" states a scalar for an input; of an output nothing is said.
    text = f'<ir_version: 10, opset_import: ["" : 20]>\ng ({inputs}) => ({outputs}) {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    random = np.random.default_rng(len(name))
    for weight, dims in _WEIGHT.findall(weights):
        sizes = [int(size) for size in dims.split(",")]
        array = random.normal(size=sizes) / math.sqrt(sizes[-1])
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), weight))
    for output in model.graph.output:
        if not output.type.tensor_type.shape.dim:
            output.type.tensor_type.ClearField("shape")
    if name == "unknown rank":
        model.graph.input[0].type.tensor_type.ClearField("shape")
    return model
