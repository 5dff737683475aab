"""Models with one oddity each as text, for `exporter_models`; the first line names the opsets."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_TEXTS: Final = {
    "optional_inputs_left_out": """:18
g (float[2,3,8,8] x) => (float[2,3,4,4] y, float[2,3,8,8] z) <float[4] scales = {1.0, 1.0, 0.5, 0.5}, float top = {1.0}>
{ y = Resize <mode: string = "nearest"> (x, , scales)
  z = Clip (x, , top) }
""",
    "lstm_with_gaps": """:14
g (float[T,2,3] x) => (float[1,2,4] h) <float[2,2] u = {1, 2, 3, 4}>
{ shape_w = Constant <value_ints = [1, 16, 3]> ()
  shape_r = Constant <value_ints = [1, 16, 4]> ()
  w = ConstantOfShape <value = float[1] {0.1}> (shape_w)
  r = ConstantOfShape <value = float[1] {0.2}> (shape_r)
  all, h, c = LSTM <hidden_size = 4> (x, w, r, , , , , )
  unread = Neg (c) }
""",
    "if_of_other_shapes": """:18
g (bool c, float[N,3] x) => (float[M,3] y)
{ y = If (c) <then_branch = t () => (float[A,3] a) { a = Concat <axis = 0> (x, x) },
              else_branch = e () => (float[B,3] b) { b = Relu (x) }> }
""",
    "if_returns_captured": """:18
g (bool c, float[3] x) => (float[3] y)
{ h = Neg (x)
  k = Neg (h)
  y = If (c) <then_branch = t () => (float[3] a) { a = Identity (k) },
              else_branch = e () => (float[3] b) { k2 = Mul (k, k) b = Add (k2, x) }> }
""",
    "loop_over_size": """:18
g (float[N,3] x) => (float[N,3] y, float[S,N,3] all)
{ shape = Shape (x)
  zero = Constant <value_int = 1> ()
  n = Gather (shape, zero)
  y, all = Loop (n, , x) <body = b (int64 i, bool go, float[N,3] v) => (bool on, float[N,3] w, float[N,3] o)
    { on = Identity (go) s = Add (v, x) w = Mul (s, s) o = Relu (w) }> }
""",
    "loop_of_no_rounds": """:18
g (float[3] x) => (float[3] y, float[S,3] all)
{ n = Constant <value_int = 0> ()
  y, all = Loop (n, , x) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] o)
    { on = Identity (go) w = Neg (v) o = Relu (w) }> }
""",
    "loop_while": """:18
g (float[3] x) => (float[3] y)
{ n = Constant <value_int = 9223372036854775807> ()
  yes = Constant <value = bool {1}> ()
  top = Constant <value_float = 100.0> ()
  y = Loop (n, yes, x) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w)
    { one = Constant <value_float = 1.0> () a = Abs (v) w = Add (a, one)
      m = ReduceMax <keepdims = 0> (w) on = Less (m, top) }> }
""",
    "scan_reversed": """:18
g (float[5,3] x, float[3] s) => (float[3] y, float[5,3] all)
{ y, all = Scan (s, x) <num_scan_inputs = 1, scan_input_directions = [1],
    body = b (float[3] v, float[3] e) => (float[3] w, float[3] o) { w = Add (v, e) o = Mul (w, s) }> }
""",
    "function_with_references": """:18 local:1
g (float[N,4] x) => (float[N,4] y)
{ a = local.act <alpha = 0.3> (x)
  y = local.twice (a) }
<domain: "local", opset_import: ["" : 18]> act <alpha, beta: float = 0.5> (x) => (y)
{ l = LeakyRelu <alpha: float = @alpha> (x)
  e = Elu <alpha: float = @beta> (x)
  y = Add (l, e) }
<domain: "local", opset_import: ["" : 18, "local" : 1]> twice (x) => (y)
{ h = local.act <alpha = 0.1, beta = 2.0> (x)
  y = local.act <alpha = 0.2> (h) }
""",
    "function_of_other_opset": """:18 local:1
g (float[2,4] x) => (float[2,1] y)
{ y = local.sum (x) }
<domain: "local", opset_import: ["" : 11]> sum (x) => (y) { y = ReduceSum <axes = [1]> (x) }
""",
    "function_named_as_operator": """:18 local:1
g (float[4] x) => (float[4] y, float[4] z)
{ y = local.Relu (x)
  z = Relu (x) }
<domain: "local", opset_import: ["" : 18]> Relu (x) => (y) { y = Neg (x) }
""",
    "sequence_there_and_back": """:18
g (float[N,6] x) => (float[N,6] y, int64 n)
{ parts = SplitToSequence <axis = 1, keepdims = 1> (x)
  n = SequenceLength (parts)
  y = ConcatFromSequence <axis = 1> (parts) }
""",
    "sequence_border": """:18
g (seq(float[N,2]) s) => (seq(float[N,2]) t, float[A,B] y)
{ zero = Constant <value_int = 0> ()
  y = SequenceAt (s, zero)
  r = Relu (y)
  t = SequenceInsert (s, r) }
""",
    "optional_border": """:18
g (optional(float[3]) o) => (bool has)
{ has = OptionalHasElement (o) }
""",
    "strings": """:20
g (string[N] s) => (string[N] y, bool[N] e)
{ one = Constant <value_strings = ["a"]> ()
  y = StringConcat (s, one)
  e = Equal (s, y) }
""",
    "string_weights_only": """:18
g (int64 i) => (string y)
{ words = Constant <value_strings = ["", "b", "c"]> ()
  y = Gather (words, i) }
""",
    "quantise_dequantise": """:13
g (float[1,3,8,8] x) => (float[1,4,6,6] y)
<float s = {0.02}, uint8 z = {128}, float sw = {0.1}, int8 zw = {0}>
{ qx = QuantizeLinear (x, s, z)
  dx = DequantizeLinear (qx, s, z)
  shape = Constant <value_ints = [4, 3, 3, 3]> ()
  q = ConstantOfShape <value = int8[1] {3}> (shape)
  w = DequantizeLinear (q, sw, zw)
  c = Conv (dx, w)
  r = Relu (c)
  qr = QuantizeLinear (r, s, z)
  y = DequantizeLinear (qr, s, z) }
""",
    "unknown_domain": """:18 org.nobody:3
g (float[4] x) => (float[4] y)
{ y = org.nobody.Magic <how = "well"> (x) }
""",
    "contrib_fused": """:18 com.microsoft:1
g (float[2,8] x) => (float[2,8] y) <float[8] b = {0,1,2,3,4,5,6,7}>
{ a = com.microsoft.BiasGelu (x, b)
  c = com.microsoft.FastGelu (a, b)
  d = com.microsoft.QuickGelu (c)
  y = Add (d, d) }
""",
    "opset_7": """:7
g (float[2,4] x) => (float[2,4] y, float[2,4] z) <float[4] w = {1,2,3,4}>
{ a = Mul (x, w)
  b = Dropout <ratio = 0.5> (a)
  c = Upsample <mode = "nearest", scales = [1.0, 1.0]> (b)
  y = Softmax <axis = 1> (c)
  z = Sum (a, b, c) }
""",
    "opset_24": """:24
g (float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v) => (float[1,2,4,8] y)
{ a = Attention (q, k, v)
  s = Swish <alpha = 1.5> (a)
  y = Identity (s) }
""",
    "training_dropout": """:13
g (float[64,64] x) => (float[64,64] y, bool[64,64] m) <float r = {0.3}, bool t = {1}>
{ y, m = Dropout <seed = 7> (x, r, t) }
""",
    "random_everywhere": """:18
g (float[N,4] x) => (float[N,4] y, float[3] z, float[N,2] i)
{ n = RandomNormalLike (x)
  y = Add (x, n)
  z = RandomUniform <shape = [3], seed = 1.0> ()
  p = Softmax (x)
  k = Multinomial <sample_size = 2, dtype = 6> (p)
  i = Cast <to = 1> (k) }
""",
    "huge_constant_of_shape": """:18
g (float[3] x) => (float[3] y)
{ shape = Constant <value_ints = [40000, 40000]> ()
  big = ConstantOfShape <value = float[1] {1.0}> (shape)
  s = ReduceMax <keepdims = 0> (big)
  y = Mul (x, s) }
""",
    "size_of_input_values": """:18
g (int64[2] size, float v) => (float[A,B] y)
{ e = Expand (v, size)
  y = Add (e, v) }
""",
    "reshape_by_input": """:18
g (float[2,6] x, int64[3] shape) => (float[A,B,C] y)
{ r = Reshape (x, shape)
  y = Relu (r) }
""",
    "topk_of_input": """:18
g (float[N,10] x, int64[1] k) => (float[N,K] v, int64[N,K] i)
{ v, i = TopK (x, k) }
""",
    "slices_by_input": """:18
g (float[10,4] x, int64[1] from, int64[1] to) => (float[A,4] y)
{ axis = Constant <value_ints = [0]> ()
  a = Slice (x, from, to, axis)
  y = Concat <axis = 0> (a, a) }
""",
    "nonzero": """:18
g (float[N,4] x) => (int64[2,K] y, float[K] v)
{ y = NonZero (x)
  t = Transpose (y)
  v = GatherND (x, t) }
""",
    "unique_and_where": """:18
g (int64[N] x) => (int64[K] y, int64[N] w)
{ y, first, back, count = Unique (x)
  zero = Constant <value_ints = [0]> ()
  c = Greater (x, zero)
  w = Where (c, x, back) }
""",
    "non_max_suppression": """:18
g (float[1,B,4] boxes, float[1,C,B] scores) => (int64[K,3] y)
{ n = Constant <value_ints = [3]> ()
  y = NonMaxSuppression (boxes, scores, n) }
""",
    "einsum_of_ellipses": """:18
g (float[N,2,3] x, float[N,3,4] y) => (float[2,N] z)
{ a = Einsum <equation = "...ij,...jk->...ik"> (x, y)
  z = Einsum <equation = "bik->ib"> (a) }
""",
    "doubles_and_integers": """:18
g (double[2,3] d, int32[2,3] i, uint8[2,3] u) => (double[2,3] y, int32[2,3] j, uint8[2,3] v)
{ s = Add (d, d) y = Mul (s, d)
  k = Mul (i, i) j = Sub (k, i)
  v = Add (u, u) }
""",
    "half_overflows": """:18
g (float16[4,64] x) => (float16[4,64] y) <float f = {60000.0}, float t = {0.00001}>
{ big = Cast <to = 10> (f) tiny = Cast <to = 10> (t)
  a = Mul (x, big)
  b = Mul (a, tiny)
  c = Exp (b)
  y = Softmax (c) }
""",
    "same_weight_twice": """:18
g (float[2,2] x) => (float[2,2] y) <float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}>
{ p = MatMul (x, a) q = MatMul (x, b) r = Add (p, q) s = MatMul (r, a) y = Transpose <perm = [1, 0]> (s) }
""",
    "output_read_on": """:18
g (float[N,3] x) => (float[N,3] a, float[N,3] b, float[N,3] c)
{ a = Neg (x)
  b = Neg (a)
  c = Add (a, b) }
""",
    "spatial_by_symbols": """:11
g (float[B,3,H,W] x) => (float[B,3,H2,W2] y)
{ shape = Shape (x)
  two = Constant <value = int64[1] {2}> ()
  four = Constant <value = int64[1] {4}> ()
  zero = Constant <value = int64[1] {0}> ()
  hw = Slice (shape, two, four)
  bc = Slice (shape, zero, two)
  twice = Mul (hw, two)
  size = Concat <axis = 0> (bc, twice)
  none = Constant <value = float[0] {}> ()
  y = Resize <mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"> (x, none, none, size) }
""",
    "gemm_without_bias": """:13
g (float[3,2] x, float[4,3] w) => (float[2,4] y)
{ y = Gemm <transA = 1, transB = 1, alpha = 0.5> (x, w) }
""",
    "division_by_zero": """:18
g (float[4] x, int64[4] i) => (float[4] y, float[4] l)
{ z = Sub (x, x) y = Div (x, z)
  a = Abs (x) n = Neg (a) l = Log (n) }
""",
    "bad_condition": """:18
g (float[1000] x) => (float y)
{ e = Exp (x) s = ReduceSum <keepdims = 0> (e) big = Exp (s) t = Tan (big) y = Sin (t) }
""",
}
TEXTS: Final = MappingProxyType(_TEXTS)
