"""What each axis is to an operator that tells axes apart by their place, and to a shape that is written entry by entry.

A signature numbers the axes that matter among themselves.  To say no more would make the rows of an image look like the
channels of a signal, and a block of three axes like one of two: what is left must say which axes it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from taso_py.graph.sizes import Size
from taso_py.graph.table import Node
from taso_py.ops.gather import ScatterND
from taso_py.ops.rows import GatherND
from taso_py.rules.axes import Axis as Place
from taso_py.rules.axes import Parallel
from taso_py.rules.term import Application, Axis, Block, Listing

_BY_PLACE: Mapping[str, tuple[str, ...]] = {
    "Conv": ("ncs", "ocs", "o", "nos"),
    "ConvTranspose": ("ncs", "cos", "o", "nos"),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), ("nns", "nns")),
    **dict.fromkeys(("BatchNormalization", "BatchNormalizationTraining"), ("ncn", "c", "c", "c", "c", "ncn")),
    "Gemm": ("01", "01", "01", "01"),
    "Flatten": ("n", "01"),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), ("0123", "0123")),
}
"""A letter for each axis of each operand, and of the result; the last one stands for all further axes.  Axes that an
operator treats alike have the same: the images of a pool's batch and its channels."""
_ENTRIES = frozenset({
    "pads", "repeats", "kernel_shape", "strides", "dilations", "output_padding", "scales", "sizes",
})  # fmt: skip
"""Lists with an entry, or two, for each axis."""
_CUTS = ("axes", "starts", "ends", "steps")
_SHAPED = frozenset({"Expand", "Fill", "Reshape"})
"""Operators whose result has the shape that they are given."""


def roles(term: Application, node: Node, ranks: Sequence[int], blocks: Mapping[str, int]) -> tuple[str, ...]:
    """For each operand, and for the result as the last of ``ranks``, a letter per axis; empty where axes are alike.

    A list that is written entry by entry tells every axis from every other.
    """
    given = dict(term.attributes)
    if any(isinstance(given.get(name), Listing) for name in _ENTRIES):
        return tuple(map(_numbered, ranks))
    shape = shape_of(term)
    if shape is not None:
        return (*("" for _ in ranks[:-1]), entries(shape, ranks[-1], blocks))
    match node.operator:
        case GatherND(batch_dims=batch):
            rows = "g" * batch + "j" * (ranks[1] - 1 - batch)
            return _spread(("g" * batch + "ib", rows + "k", rows + "b"), ranks)
        case ScatterND(indices_shape=(*batch, depth)):
            return _spread(("i" * depth + "s", "j" * len(batch) + "s", "i" * depth + "s"), ranks)
    if node.operator.onnx == "MatMul":
        return _product(*ranks)
    letters = _BY_PLACE.get(node.operator.onnx, ())
    if not letters:
        return ()
    result = "c" if node.operator.onnx == "BatchNormalizationTraining" and node.operator.port else letters[-1]
    return _spread((*letters[: len(ranks) - 1], result), ranks)


def _spread(letters: Sequence[str], ranks: Sequence[int]) -> tuple[str, ...]:
    return tuple((text + text[-1] * rank)[:rank] for text, rank in zip(letters, ranks, strict=True))


def _product(left: int, right: int, result: int) -> tuple[str, ...]:
    """Rows and columns; a vector is a matrix of which one row or column is looked at.

    What is summed always matters, and the batch is what `stretched` has marks for.
    """
    last = "m" * (left > 1) + "n" * (right > 1)
    return "", "", last.rjust(result)


def _numbered(rank: int) -> str:
    return "".join(_letter(k) for k in range(rank))


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def listed_cuts(term: Application) -> bool:
    """Whether a Slice's axes, or where it cuts them, are written entry by entry."""
    return any(isinstance(e, Listing) for name, e in term.attributes if name in _CUTS)


# ---- axes that are repeated -----------------------------------------------------------------------------------------


def stretched(node: Node, value: int, axes: Parallel) -> list[str]:
    """Which axes an operator that is not point-wise repeats: for each operand that may be, a mark per axis."""
    inputs = [i for i in node.inputs if i is not None]
    match node.operator.onnx:
        case "MatMul":
            # Rows and columns stand behind the batch, whether they matter or not.
            ranks = [axes.types(i).rank for i in inputs]
            wide = axes.dims(value, sum(r > 1 for r in ranks))
            return [repeated(axes.dims(i, min(r, 2)), wide) for i, r in zip(inputs, ranks, strict=True)]
        case "Gemm":
            return [_along(axes, i, value) for i in inputs[2:]]
        case "Expand":
            return [_along(axes, inputs[0], value)]
        case "LayerNormalization" | "RMSNormalization":
            operands = [axes.dims(i) for i in inputs]
            return [repeated(d, operands[0][max(len(operands[0]) - len(d), 0) :]) for d in operands[1:]]
        case _:
            return []


def _along(axes: Parallel, operand: int, result: int) -> str:
    """`repeated` where an operand's axis may matter although the result's does not: ``0`` is one that is repeated."""
    own, dims = axes.types(operand).dims, axes.types(result).dims
    found = ""
    for b, d in enumerate(dims):
        a = b - len(dims) + len(own)
        if axes.keeps(result, b):
            found += "." if a < 0 else "?" if own[a] == d == 1 else "=" if own[a] == d else "1"
        elif a >= 0 and axes.keeps(operand, a):
            found += "0"
    return found


def repeated(operand: tuple[Size, ...], result: tuple[Size, ...]) -> str:
    """Per axis of the result ``.`` absent, ``1`` repeated, ``=`` the same, ``?`` 1 on both sides."""
    absent = max(len(result) - len(operand), 0)
    own = operand[len(operand) - (len(result) - absent) :] if len(result) > absent else ()
    marks = ["?" if d == r == 1 else "=" if d == r else "1" for d, r in zip(own, result[absent:], strict=True)]
    return "." * absent + "".join(marks)


# ---- shapes that are written entry by entry ------------------------------------------------------------------------


def shape_of(term: Application) -> tuple[Axis, ...] | None:
    """The shape that an operator is given for its result, where it is written entry by entry."""
    shape = dict(term.attributes).get("shape")
    return shape.items if isinstance(shape, Listing) and term.operator.onnx in _SHAPED else None


def entries(axes: Sequence[Axis], rank: int, blocks: Mapping[str, int]) -> str:
    """A letter per axis: of which entry of a written shape it is; ``x`` for those before the first.

    Where that is not known each axis has one of its own.
    """
    found = "".join(_letter(k) * width for k, width in enumerate(_widths(axes, rank, blocks)))
    return found.rjust(rank, "x") if len(found) <= rank else _numbered(rank)


def parts(axes: Sequence[Axis], rank: int, kept: Collection[int], blocks: Mapping[str, int]) -> str:
    """Of which entries of a declared shape the axes are that matter; empty where they could be of no others."""
    if len(axes) < 2 or (len(kept) == rank and not any(isinstance(a, Block) for a in axes)):
        return ""
    letters = entries(axes, rank, blocks)
    return "/" + "".join(letters[k] for k in kept)


def _widths(axes: Sequence[Axis], rank: int, blocks: Mapping[str, int]) -> list[int]:
    """How many axes each entry stands for: one, those of its block, or what is left for what broadcasts to it."""
    known = [1 if not isinstance(a, Block) else None if a.broadcast else blocks.get(a.name) for a in axes]
    if known.count(None) > 1:
        return [rank + 1]
    left = rank - sum(w for w in known if w is not None)
    return [left if w is None else w for w in known]


def shared(
    blocks: Mapping[str, int], shapes: Iterable[tuple[Sequence[Axis], int, int]]
) -> Iterator[tuple[Place, Place]]:
    """Axes of values that stand for one axis of a block: ``shapes`` are written ones with their values and ranks.

    The sizes of these are equal whatever the operators say, and so none of them is left out without the others.  The
    axes of a block are written as those of values that there are not.
    """
    numbers = {name: -1 - k for k, name in enumerate(sorted(blocks))}
    for axes, value, rank in shapes:
        widths = _widths(axes, rank, blocks)
        at = max(rank - sum(widths), 0)
        if len(widths) < len(axes):
            continue
        for axis, width in zip(axes, widths, strict=True):
            if isinstance(axis, Block) and axis.name in blocks:
                skipped = blocks[axis.name] - width
                yield from (((value, at + k), (numbers[axis.name], skipped + k)) for k in range(width))
            at += width
