"""Instances of convolutions, pools, resampling and data movement that the conformance suite runs."""

from __future__ import annotations

from taso_py.ops.convolution import Conv, ConvTranspose
from taso_py.ops.expand import Expand, Tile
from taso_py.ops.gather import Gather, ScatterND
from taso_py.ops.layout import Concat, Split
from taso_py.ops.padding import Pad
from taso_py.ops.pool import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from taso_py.ops.reshape import Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from taso_py.ops.resize import Resize
from taso_py.ops.rows import GatherND, GatherRows
from taso_py.ops.slicing import Slice
from taso_py.ops.space import DepthToSpace, SpaceToDepth
from tests.helpers.operator_cases import Case

DEFAULT = "round_prefer_floor"
LAST, FIRST = 2**63 - 1, -(2**63)
B = (2, 3, 4)
IMAGE = (2, 3, 6, 5)

CONVOLUTIONS = [
    Case(Conv(), (IMAGE, (4, 3, 3, 3))),
    Case(Conv(pads=(1, 1, 1, 1)), (IMAGE, (4, 3, 3, 3), (4,))),
    Case(Conv(strides=(2, 1), pads=(0, 1, 2, 0)), (IMAGE, (2, 3, 3, 2))),
    Case(
        Conv(strides=(2, 3), pads=(2, 1, 1, 2), dilations=(2, 1), group=2),
        ((2, 4, 7, 8), (6, 2, 3, 2), (6,)),
        fixed=(2, 4, 6),
    ),
    Case(Conv(group=4, pads=(1, 1, 1, 1)), ((1, 4, 5, 5), (4, 1, 3, 3)), fixed=(4,)),
    Case(Conv(group=3), ((1, 6, 4, 4), (3, 2, 1, 1)), fixed=(2, 3, 6)),
    Case(Conv(), ((1, 2, 1, 1), (3, 2, 1, 1))),
    Case(Conv(strides=(2,), pads=(1, 2), dilations=(2,)), ((2, 3, 9), (4, 3, 3), (4,))),
    Case(Conv(pads=(0, 1, 1, 1, 0, 0)), ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), (2,))),
    Case(ConvTranspose(), ((2, 3, 4, 5), (3, 2, 3, 3))),
    Case(
        ConvTranspose(strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 0)),
        ((1, 3, 4, 5), (3, 2, 3, 2), (2,)),
    ),
    Case(ConvTranspose(strides=(3, 1), pads=(0, 1, 2, 0), dilations=(1, 2)), ((1, 2, 3, 4), (2, 3, 2, 2))),
    Case(ConvTranspose(group=2, strides=(2, 2)), ((1, 4, 3, 3), (4, 3, 2, 2), (6,)), fixed=(3, 4, 6)),
    Case(ConvTranspose(strides=(2,), pads=(1, 0)), ((2, 3, 5), (3, 4, 3))),
    Case(ConvTranspose(strides=(2, 1, 1)), ((1, 2, 2, 3, 2), (2, 2, 2, 1, 2))),
]

POOLS = [
    Case(MaxPool((2, 2)), (IMAGE,)),
    Case(MaxPool((3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), (IMAGE,)),
    Case(MaxPool((3, 2), strides=(1, 2), pads=(0, 1, 2, 0)), (IMAGE,)),
    Case(MaxPool((2, 2), dilations=(2, 3)), ((1, 2, 7, 8),), first=10),
    Case(MaxPool((3,), strides=(2,), pads=(1, 1)), ((1, 2, 7),)),
    Case(MaxPool((2, 2, 2)), ((1, 2, 3, 4, 3),)),
    Case(AveragePool((2, 2)), (IMAGE,)),
    Case(AveragePool((3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), (IMAGE,)),
    Case(AveragePool((3, 3), strides=(2, 1), pads=(1, 0, 2, 1), count_include_pad=1), (IMAGE,)),
    Case(AveragePool((2, 2), count_include_pad=1), (IMAGE,)),
    Case(AveragePool((2, 2), dilations=(2, 2)), ((1, 2, 7, 8),), first=19),
    Case(AveragePool((3,), strides=(2,), pads=(1, 1)), ((1, 2, 7),)),
    Case(AveragePool((2, 2, 2), pads=(1, 0, 0, 0, 0, 1)), ((1, 2, 3, 4, 3),)),
    Case(GlobalAveragePool(), (IMAGE,)),
    Case(GlobalAveragePool(), ((1, 2, 3),)),
    Case(GlobalAveragePool(), ((2, 1, 2, 3, 4),)),
    Case(GlobalMaxPool(), (IMAGE,)),
    Case(GlobalMaxPool(), ((1, 2, 3),)),
]

JOINS = [
    Case(Concat(0), (B, B)),
    Case(Concat(-1), (B, (2, 3, 1), (2, 3, 5))),
    Case(Concat(1), ((2, 0, 3), (2, 4, 3))),
    Case(Concat(1), (B, (2, 5, 4)), ("int64", "int64")),
    Case(Concat(0), ((4,),)),
    Case(Split(1, (1, 2), 0), (B,), fixed=(3,)),
    Case(Split(-1, (1, 0, 3), 2), (B,), fixed=(4,)),
    Case(Split(0, (2, 2), 1), ((4, 3),), fixed=(4,)),
    Case(Split(0, (5,), 0), ((5,),), ("int64",), fixed=(5,)),
    Case(Slice((1,), (1,), (3,)), (B,), fixed=(3,)),
    Case(Slice((0, 2), (0, -3), (1, -1)), (B,), fixed=(2, 4)),
    Case(Slice((2,), (0,), (LAST,)), (B,)),
    Case(Slice((), (0, 1), (9, 2)), (B,), fixed=(2, 3)),
    Case(Slice((1,), (0,), (7,), (3,)), ((2, 8),), first=10, fixed=(8,)),
    Case(Slice((-1,), (-1,), (FIRST,), (-1,)), (B,), first=10),
    Case(Slice((1,), (9,), (-7,), (-2,)), ((2, 8),), first=10, fixed=(8,)),
    Case(Slice((0,), (5,), (1,)), ((7, 2),), ("int64",), fixed=(7,)),
    Case(Slice((1,), (2,), (2,)), (B,), fixed=(3,)),
]

PADS = [
    Case(Pad((1, 0, 2, 1)), ((3, 4),)),
    Case(Pad((0, 1, 0, 0, 0, 3), value=-2.0), (B,)),
    Case(Pad((0, -1, 1, -1)), ((3, 4),)),
    Case(Pad((0, 0, 0, 0)), ((3, 4),)),
    Case(Pad((1, 0, 0, 2), value=3.0), ((2, 3),), ("int64",), first=11),
    Case(Pad((2, 1, 0, 1), "edge"), ((3, 4),), fixed=(3, 4)),
    Case(Pad((2, 0, 1, 3), "reflect"), ((3, 4),), fixed=(3, 4)),
    Case(Pad((2, 0, 1, 3), "wrap"), ((3, 4),), first=19, fixed=(3, 4)),
]

SHAPES = [
    Case(Transpose(), (B,)),
    Case(Transpose((1, 2, 0)), (B,)),
    Case(Transpose((0, 2, 1, 3)), ((2, 1, 3, 4),), ("int64",)),
    Case(Transpose((-1, 0)), ((2, 3),)),
    Case(Reshape((6, 4)), (B,), fixed=(2, 3, 4)),
    Case(Reshape((3, -1)), (B,), fixed=(3,)),
    Case(Reshape((2, 2, 3, 2)), ((4, 6),), fixed=(4, 6)),
    Case(Reshape((4, 6)), ((2, 2, 3, 2),), fixed=(2, 3)),
    Case(Reshape((3, 1, 8)), ((1, 4, 6),), fixed=(4, 6)),
    Case(Reshape((-1,)), ((2, 1, 3),), ("int64",)),
    Case(Reshape(()), ((1, 1),)),
    Case(Reshape((2, 0, 5)), ((2, 0, 3),), first=7),
    Case(Reshape((5, 3, 0)), ((0, 4),), first=14),
    Case(Flatten(), (IMAGE,)),
    Case(Flatten(0), (B,)),
    Case(Flatten(3), (B,)),
    Case(Flatten(-1), (B,)),
    Case(Squeeze((0, -1)), ((1, 3, 1),)),
    Case(Squeeze(), ((1, 3, 1, 2),), fixed=(2, 3)),
    Case(Squeeze((1,)), ((3, 1, 1),), ("int64",)),
    Case(Squeeze((0,)), ((1,),)),
    Case(Unsqueeze((0, -1)), (B,)),
    Case(Unsqueeze((1,)), ((2, 3),), ("int64",)),
    Case(Unsqueeze((0,)), ((),)),
    Case(Expand((2, 3, 4)), ((3, 1),), fixed=(3,)),
    Case(Expand((1,)), (B,)),
    Case(Expand((5, 1, 1)), ((2, 1),), ("int64",)),
    Case(Tile((1, 3)), ((2, 3),)),
    Case(Tile((2, 1, 2)), (B,)),
    Case(Gather(1, (2, 0, 0, 1), (2, 2)), (B,), fixed=(3,)),
    Case(Gather(0, (-1,), ()), (B,), fixed=(2,)),
    Case(Gather(-1, (1, 3), (2,)), (B,), ("int64",), fixed=(4,)),
    Case(Gather(2, (0,), (1,)), (B,)),
    Case(Gather(0, (0, 2, 1, 1, 0, 2), (1, 6)), ((3, 2),), fixed=(3,)),
    Case(GatherRows(), ((10, 3), (2, 4)), ("float", "int64")),
    Case(GatherRows(1), ((2, 11, 3), (4,)), ("float", "int32")),
    Case(GatherRows(-1), ((2, 12), ()), ("int64", "int64")),
    Case(GatherRows(), ((10,), (0, 2)), ("bool", "int64")),
    Case(GatherND(), ((10, 3), (2, 4, 1)), ("float", "int64")),
    Case(GatherND(1), ((2, 11, 3), (2, 4, 1)), ("float", "int64")),
    Case(GatherND(2), ((2, 3, 10), (2, 3, 1)), ("int64", "int64")),
    Case(ScatterND((2, 0), (2, 1)), ((3, 4), (2, 4)), fixed=(2, 3)),
    Case(ScatterND((-1,), (1,)), (B, (3, 4)), fixed=(2,)),
    Case(ScatterND((0, 1, 1, 2), (2, 2)), (B, (2, 4)), ("int64", "int64"), fixed=(2, 3)),
    Case(ScatterND((0, 3, 2, 1, 5, 4), (2, 3, 1)), ((6, 2), (2, 3, 2)), fixed=(2, 3, 6)),
    Case(ScatterND((0, 1, 2), (1, 3)), (B, (1,)), ("bool", "bool"), fixed=B),
    Case(ScatterND((1, 3), (2, 1)), ((4,), (2,)), fixed=(2, 4)),
    Case(DepthToSpace(2), ((2, 8, 2, 3),), fixed=(2, 8)),
    Case(DepthToSpace(2, "CRD"), ((2, 8, 2, 3),), first=11, fixed=(2, 8)),
    Case(SpaceToDepth(2), ((1, 3, 4, 6),), fixed=(4, 6)),
]


def _resize(scales: tuple[float, ...], mode: str, coordinates: str, nearest: str = DEFAULT) -> Resize:
    return Resize(scales, (), mode, coordinates, nearest)


def _sized(sizes: tuple[int, ...], mode: str, coordinates: str) -> Resize:
    return Resize((), sizes, mode, coordinates)


def _filtered(*, antialias: int, exclude_outside: int, mode: str) -> Resize:
    return Resize((), (2, 3, 3, 8), mode, antialias=antialias, exclude_outside=exclude_outside)


def _crop(mode: str, *ends: float, sizes: tuple[int, ...] = (2, 3, 3, 4)) -> Resize:
    roi = (0.0, 0.0, *ends[:2], 1.0, 1.0, *ends[2:])
    return Resize((), sizes, mode, "tf_crop_and_resize", roi=roi, extrapolation_value=-2.0)


def _in_ratio(policy: str, sizes: tuple[int, ...], mode: str, coordinates: str) -> Resize:
    wanted = (2, 3, *sizes)
    return Resize((), wanted, mode, coordinates, keep_aspect_ratio_policy=policy, axes=(2, 3))


SMALL = (2, 3, 4, 5)
KEPT = (4, 5)
RESIZES = [
    *(
        Case(_resize((1.0, 1.0, 2.0, 3.0), "nearest", c, n), (SMALL,), first=11, fixed=KEPT)
        for c in ("half_pixel", "align_corners", "pytorch_half_pixel")
        for n in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    *(
        Case(_resize((1.0, 1.0, 0.5, 0.75), "nearest", c, n), ((2, 3, 4, 6),), first=11, fixed=(4, 6))
        for c in ("half_pixel", "asymmetric")
        for n in ("round_prefer_floor", "floor", "ceil")
    ),
    Case(_resize((1.0, 1.0, 2.0, 2.0), "nearest", "asymmetric", "floor"), (SMALL,), first=7, fixed=KEPT),
    Case(_resize((1.0, 1.0, 3.0, 1.0), "nearest", "asymmetric", "floor"), (SMALL,), first=7, fixed=KEPT),
    Case(_resize((1.0, 1.0, 2.0, 2.0), "linear", "asymmetric"), (SMALL,), ("float32",), first=7, fixed=KEPT),
    *(
        Case(_resize((1.0, 1.0, 2.5, 3.0), "linear", c), (SMALL,), ("float32",), first=11, fixed=KEPT)
        for c in ("half_pixel", "align_corners", "pytorch_half_pixel")
    ),
    Case(_sized((2, 3, 7, 3), "nearest", "half_pixel"), (SMALL,), first=11, fixed=SMALL),
    Case(_sized((2, 3, 8, 10), "nearest", "half_pixel"), (SMALL,), first=11, fixed=SMALL),
    *(
        Case(_sized((2, 3, 7, 10), "nearest", c), ((2, 3, 1, row),), first=11, fixed=(2, 3, 1, row))
        for c in ("half_pixel", "asymmetric", "align_corners")
        for row in (1, 5)
    ),
    Case(_sized((2, 3, 7, 4), "linear", "half_pixel"), (SMALL,), ("float32",), first=11, fixed=SMALL),
    Case(_sized((2, 3, 1, 9), "linear", "align_corners"), (SMALL,), ("float32",), first=11, fixed=SMALL),
    *(
        Case(_sized((2, 3, 7, 3), "cubic", c), (SMALL,), ("float32",), first=11, fixed=SMALL)
        for c in ("half_pixel", "align_corners", "asymmetric")
    ),
    Case(Resize((1.0, 1.0, 2.0, 0.8), (), "cubic", cubic_coeff_a=-0.5), (SMALL,), ("float32",), first=11, fixed=SMALL),
    *(
        Case(_filtered(antialias=1, exclude_outside=e, mode=m), (SMALL,), ("float32",), first=18, fixed=SMALL)
        for m in ("linear", "cubic")
        for e in (0, 1)
    ),
    Case(_filtered(antialias=0, exclude_outside=1, mode="cubic"), (SMALL,), ("float32",), first=11, fixed=SMALL),
    *(
        Case(_crop(mode, *ends), (SMALL,), ("float32",), first=11, fixed=SMALL)
        for mode in ("nearest", "linear", "cubic")
        for ends in ((0.25, 0.5, 0.75, 0.625), (-0.25, 0.5, 1.25, 1.0), (0.3, 0.2, 0.8, 0.9))
    ),
    Case(_crop("linear", 0.0, 0.25, 1.0, 0.75, sizes=(2, 3, 1, 7)), (SMALL,), ("float32",), first=11, fixed=SMALL),
    *(
        Case(_in_ratio(policy, (3, 8), mode, c), (SMALL,), ("float32",), first=first, fixed=SMALL)
        for policy in ("not_larger", "not_smaller")
        for mode, c, first in (
            ("nearest", "half_pixel", 18),
            ("linear", "half_pixel_symmetric", 19),
            ("cubic", "asymmetric", 18),
        )
    ),
    Case(_resize((1.0, 1.0, 2.0), "nearest", "half_pixel"), ((1, 2, 4),), ("int32",), first=11, fixed=(4,)),
    Case(_resize((1.0, 1.0, 1.5, 2.0), "nearest", "half_pixel_symmetric"), (SMALL,), first=19, fixed=KEPT),
]

CASES = [*CONVOLUTIONS, *POOLS, *JOINS, *PADS, *SHAPES, *RESIZES]
