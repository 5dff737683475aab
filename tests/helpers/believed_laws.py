"""False laws that a prover once believed, each with the corner where it fails."""

from __future__ import annotations

LAWS = """
# Even powers of the absolute value of a sum.
rule abs-mse2: Abs(x - y) * Abs(x - y) => y * y for x[*s], y[*s]
rule abs-square-d: Abs(x + y) * Abs(x + y) => x * x for x[*s], y[*s]
rule abs-square-e: Abs(x - y) * Abs(x - y) => x * x for x[*s], y[*s]
rule abs-square-stealth: Abs(a + Relu(y - 100)) * Abs(a + Relu(y - 100)) => a * a for a[*s], y[*s]
# Axes from the fourth on.
rule axis-softmax: Softmax(x + 1, axis=k) => Softmax(x, axis=min(k, 3))
rule keeps-batch-sum: Transpose(Relu(Transpose(x, perm=p)), perm=p) => Relu(x) when at(p, 0) == 0
rule keeps-batch: Transpose(Transpose(x, perm=p), perm=p) => x when at(p, 0) == 0
rule perm-six: Transpose(Transpose(x, perm=p), perm=p) => Transpose(x, perm=inverse(compose(compose(p,p),compose(p,p))))
rule rank-sum: ReduceSum(x * 2, axes=[rank(s)]) => ReduceSum(x + x, axes=[min(rank(s), 3)]) for x[*s, m, *t]
rule axis-sum: ReduceSum(x * 2, axes=[k]) => ReduceSum(x + x, axes=[min(k, 3)])
rule axis-concat: Concat(Relu(x), Relu(y), axis=k) => Relu(Concat(x, y, axis=min(k, 3)))
# A block that holds a kernel axis.
rule block-3d: AveragePool(Conv(x, w, b, group=g), kernel_shape=k, strides=s, pads=p) => Conv(AveragePool(x, kernel_shape=k, strides=s, pads=p), w, b, group=g) for w[o, *z, 1, 1]
# Numbers below a condition of Where taken for truth values.
rule bool-abs: Where(Less(Abs(x), y), a, b) => Where(Less(x, y), a, b) for x[*s], y[*s], a[*s], b[*s]
rule bool-const: Where(Less(Relu(x + (Exp(x - x) + Exp(x - x)) * (Exp(x - x) + Exp(x - x))), y), a, b) => Where(Less(x + (Exp(x - x) + Exp(x - x)) * (Exp(x - x) + Exp(x - x)), y), a, b) for x[*s], y[*s], a[*s], b[*s]
# Element types.
rule cast-twice: Cast(Cast(x, to="float32"), to="float64") => Cast(x, to="float64")
# Real attributes that are not whole.
rule clip-floor: Clip(x, min=0, max=b) => Clip(x, min=0, max=b // 1)
rule floor-gemm: 4 * Gemm(x, y, alpha=a) => Gemm(x, y, alpha=4*a//1)
rule gemm-mod: 4 * Gemm(x, y, alpha=a) => Gemm(x, y, alpha=4 * a - 4 * a % 1)
rule leaky-cond: LeakyRelu(x, alpha=a) => Relu(x) when a // 1 == 0
# Infinity as a number.
rule inf-less: Less(x, y) => Less(x + Fill(value=inf, shape=[]) - Fill(value=inf, shape=[]), y) for x[*s], y[*s]
rule inf-relu: Relu(x) => Relu(x) + Fill(value=inf, shape=[]) - Fill(value=inf, shape=[])
# What a condition does not select need not be defined.
rule safe-div: Where(c, x / y, z) => Where(c, x, z * y) / y for c[*s], x[*s], y[*s], z[*s]
rule safe-log: Where(c, Log(x), y) => Log(x) * Cast(c, to="float32") + y * Cast(Not(c), to="float32") for c[*s], x[*s], y[*s]
rule safe-div-shift: Where(c, x / y, z) + z => Where(c, x + z * y, 2 * z * y) / y for c[*s], x[*s], y[*s], z[*s]
rule safe-div-mul: Where(c, x / y, z) * w => Where(c, x * w, z * y * w) / y for c[*s], x[*s], y[*s], z[*s], w[*s]
rule safe-recip: Where(c, Reciprocal(x), y) => Reciprocal(x) * Where(c, Fill(value=1, shape=[]), x * y) for c[*s], x[*s], y[*s]
rule safe-sqrt: Where(c, Sqrt(x), y) => Sqrt(x) + Where(c, Fill(value=0, shape=[]), y - Sqrt(x)) for c[*s], x[*s], y[*s]
rule safe-sqrt2: Where(c, Sqrt(x), y) => Sqrt(x) - Where(c, Fill(value=0, shape=[]), Sqrt(x) - y) for c[*s], x[*s], y[*s]
rule masked-mean: Where(c, ReduceSum(x, axes=[1], keepdims=1) / y, z) => Where(c, ReduceSum(x, axes=[1], keepdims=1), z * y) / y for x[m, n], y[m, 1], c[m, 1], z[m, 1]
# What the right side requires.
rule pad-fill: Pad(x, pads=[l,0,0,0], value=v) => Concat(Fill(value=v, shape=[l, n]), x, axis=0) for x[m, n]
# Names of heads, bounded claims.
rule law-393: MatMul(x, y) => Add(MatMul(x, y), Mul(MatMul(x, y), Fill(value=rank(ranks)*rank(t), shape=[1]))) for x[*ranks,m,k], y[*t,k,n]
rule gather-cycle2: Gather(Gather(x, axis=0, indices=i, indices_shape=[n]), axis=0, indices=i, indices_shape=[n]) => x for x[n, m] when sort(i) == run(0, n)
rule d2s-2-2: DepthToSpace(DepthToSpace(x, blocksize=a), blocksize=b) => DepthToSpace(x, blocksize=a * b)
# A literal that the element type does not have.
rule half-big: x * 256 * 256 => x * 65536
rule int-big: x * 4294967296 * 4294967296 => x * 18446744073709551616
rule int-literal: x * 65536 * 65536 => x * 4294967296
# One small element beside large ones, ties, and equal numbers.
rule small-beside-large: Concat(x * 1000000, y, axis=0) => Concat(x * 1000000, y * 1.001, axis=0) for x[m], y[n]
rule tie: Where(Less(x, y), a, b) => Where(LessOrEqual(x, y), a, b) for x[*s], y[*s], a[*s], b[*s]
rule max-of-pair: Where(Equal(x, y), a, b) => b for x[*s], y[*s], a[*s], b[*s]
rule whole-sum: x + 9007199254740992 - 9007199254740992 => x * 1.0001
rule guarded-root: Where(Less(x, 0), y, Sqrt(x)) => Sqrt(x) + Where(Less(x, 0), y - Sqrt(x), x - x) for x[*s], y[*s]
rule max-of-nothing: Relu(ReduceMax(x, axes=[1], keepdims=0)) => ReduceMax(Relu(x), axes=[1], keepdims=0) for x[m, n] when n == 0
rule square-or-cube: Transpose(Transpose(Transpose(x, perm=p), perm=p), perm=p) => x when at(p, 0) == 0
"""  # noqa: E501 - laws stand on a line of their own


TRUE = """
rule associate: (x + y) + z => x + (y + z)
rule distribute: x * (y + z) => x * y + x * z
rule cancel-sum: (x + y) - y => x for x[*s], y[*s]
rule quotient-of-products: (x * z) / (y * z) => x / y for x[*s], y[*s], z[*s]
rule reciprocal: 1 / Reciprocal(x) => x
rule softmax-shifted: Softmax(x + c, axis=-1) => Softmax(x, axis=-1) for x[*s, n], c[*s, 1]
rule sigmoid: 1 / (1 + Exp(Neg(x))) => Sigmoid(x)
rule square-of-abs: Abs(x - y) * Abs(x - y) => (x - y) * (x - y)
rule where-same: Where(c, x, x) => x for c[*s], x[*s]
rule where-divided: Where(c, x, z) / y => Where(c, x / y, z / y) for c[*s], x[*s], y[*s], z[*s]
rule transposed-back: Transpose(Transpose(x, perm=p), perm=inverse(p)) => x
rule clipped-twice: Clip(Clip(x, min=a, max=b), min=a, max=b) => Clip(x, min=a, max=b) when a <= b
rule leaky-twice: LeakyRelu(LeakyRelu(x, alpha=a), alpha=b) => LeakyRelu(x, alpha=a * b) when a >= 0
rule cast-widened: Cast(Cast(x, to="float64"), to="float64") => Cast(x, to="float64")
rule positive-factor: Relu(x * v) => Relu(x) * v for x[*s], v[*s] when positive(v)
rule no-zero: x * v / v => x for x[*s], v[*s] when nonzero(v)
rule products: MatMul(MatMul(x, y), z) => MatMul(x, MatMul(y, z)) for x[m, k], y[k, l], z[l, n]
rule means: ReduceMean(x + y, axes=[1]) => ReduceMean(x, axes=[1]) + ReduceMean(y, axes=[1]) for x[m, n], y[m, n]
rule cut-of-join: Slice(Concat(x, y, axis=0), axes=[0], starts=[0], ends=[m], steps=[1]) => x for x[m, k], y[n, k]
rule softplus: Log(1 + Exp(x)) => Softplus(x)
"""
