"""Kinds of operators, by which pictures are coloured; kernels of ONNX Runtime count as what they were made from."""

from __future__ import annotations

from functools import lru_cache

FAMILIES = {
    "product": "convolutions and products",
    "arithmetic": "arithmetic",
    "activation": "activations",
    "statistic": "normalisations, sums over axes",
    "pool": "pooling, resizing",
    "movement": "shapes and copies",
    "other": "others",
}
"""Name of the colour -> what it stands for, in the order in which legends show them."""

_MEMBERS = {
    "product": "Conv ConvTranspose ConvInteger QLinearConv MatMul MatMulInteger QLinearMatMul MatMulNBits Gemm Einsum "
    "Attention MultiHeadAttention GroupQueryAttention LSTM GRU RNN",
    "arithmetic": "Add Sub Mul Div Pow Sqrt Neg Abs Exp Log Reciprocal Sum Max Min Mean Mod Erf Sin Cos Floor Ceil "
    "Round Sign Where Equal Less Greater LessOrEqual GreaterOrEqual And Or Not Xor IsNaN IsInf CumSum",
    "activation": "Relu LeakyRelu PRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Tanh Gelu BiasGelu FastGelu Swish "
    "Mish Softplus Softsign Clip ThresholdedRelu Silu",
    "statistic": "BatchNormalization LayerNormalization SkipLayerNormalization SimplifiedLayerNormalization "
    "InstanceNormalization GroupNormalization RMSNormalization LRN LpNormalization Softmax LogSoftmax ReduceSum "
    "ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp ArgMax ArgMin TopK "
    "Dropout",
    "pool": "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool Resize Upsample GridSample RoiAlign",
    "movement": "Reshape Transpose Concat Split Slice Gather GatherElements GatherND ScatterND ScatterElements Pad "
    "Expand Squeeze Unsqueeze Flatten Tile Identity Cast Shape Size Range Constant ConstantOfShape DepthToSpace "
    "SpaceToDepth ReorderInput ReorderOutput MemcpyToHost MemcpyFromHost EyeLike OneHot",
}
_OF = {member: family for family, members in _MEMBERS.items() for member in members.split()}
_PREFIXES = ("Fused", "Nhwc", "Quick", "QLinear", "Dynamic")
"""What ONNX Runtime writes before the name of an operator that it changed."""


@lru_cache(maxsize=4096)
def family(operator: str) -> str:
    """The family of an operator (``domain::type``) or of a kernel."""
    name = operator.rpartition("::")[2]
    for prefix in _PREFIXES:
        if name not in _OF:
            name = name.removeprefix(prefix)
    return _OF.get(name, "other")
