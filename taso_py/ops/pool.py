"""Pools: the maximum or the mean of a window, or of everything."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least, proving
from taso_py.graph.sizes import Size, product
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.meaning import (
    Index,
    Integer,
    Number,
    Operand,
    Scalar,
    choose,
    div,
    inside,
    maximum,
    mul,
    over,
    total,
)
from taso_py.ops.operator import OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import first_operand, integers, text
from taso_py.ops.windows import Window, filled, pads_of, read_windows, windows

_ATTRIBUTES = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


@dataclass(frozen=True)
class _Pool(Operator):
    """Windows over the spatial axes of x [n, c, *dims]; ``ceil_mode`` is written as padding at the end."""

    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    dilations_since: ClassVar[int] = 10
    kernel_shape: tuple[Size, ...] = ()
    strides: tuple[Size, ...] = ()
    pads: tuple[Size, ...] = ()
    dilations: tuple[Size, ...] = ()

    def windows(self) -> tuple[Window, ...]:
        """One window per spatial axis."""
        return windows(self.kernel_shape, self.strides, self.pads, self.dilations)

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        spans = self.windows()
        if x.rank != len(spans) + 2:
            raise RankError(f"{self.onnx} with kernel {self.kernel_shape} of {x}")
        for window, dim in zip(spans, x.dims[2:], strict=True):
            _check_window(window, dim)
        spatial = (w.result(d) for w, d in zip(spans, x.dims[2:], strict=True))
        return TensorType(x.dtype, (*x.dims[:2], *spatial))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        (x,) = operands
        found: list[Size] = []
        for w, dim in zip(self.windows(), x.dims[2:], strict=True):
            found += [*w.nonnegative(dim), dim - 1, w.kernel - 1 - w.begin, w.kernel - 1 - w.end]
        return found

    def assumed(self, *operands: TensorType) -> frozenset[Hashable]:
        """That no window steps over its whole axis, where one could."""
        (x,) = operands
        return frozenset((w, d) for w, d in zip(self.windows(), x.dims[2:], strict=True) if _may_step_over(w))

    def taps(self, index: Index, at: Index) -> Index:
        """Index into x of the window's tap ``at`` at the result's ``index``."""
        spatial = zip(self.windows(), index[2:], at, strict=True)
        return (*index[:2], *(w.source(y, r) for w, y, r in spatial))

    def filled_in(self, x: TensorType) -> dict[str, Any]:
        """The window's attributes with ONNX's defaults written out."""
        n = x.rank - 2
        return {
            "kernel_shape": self.kernel_shape,
            "strides": filled(self.strides, n, 1),
            "pads": filled(self.pads, 2 * n, 0),
            "dilations": filled(self.dilations, n, 1),
        }

    def normal(self, *operands: TensorType) -> Self:
        return type(self)(**{**self.attributes(), **self.filled_in(operands[0])})

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        writing = super().write(opset, operands)
        dilated = any(d != 1 for d in self.dilations)
        if writing is None or (dilated and opset < self.dilations_since):
            return None
        kept = {k: v for k, v in writing.attributes.items() if k != "dilations" or dilated}
        return Writing(writing.op_type, writing.inputs, kept)


def _check_window(window: Window, dim: Size) -> None:
    """Every window must hold an element: less padding than kernel does it, unless taps can step over x."""
    if at_least(window.begin, window.kernel) is True or at_least(window.end, window.kernel) is True:
        raise TypingError(f"pads {window.begin}, {window.end} must be less than the kernel {window.kernel}")
    if dim == 0:
        raise TypingError("a window over an axis of size 0")
    if proving() or not _may_step_over(window):
        return
    count, given = window.result(dim), (window.kernel, window.stride, window.dilation, window.begin, dim)
    concrete = [i for i in given if isinstance(i, int)]
    if not isinstance(count, int) or len(concrete) < len(given):
        raise TypingError("a dilated and padded window needs concrete sizes")
    kernel, stride, dilation, begin, size = concrete
    # Between those that begin in the padding and the last one all windows have an element where the last one has.
    for y in {*range(min(-(-begin // stride), count)), count - 1}:
        start = y * stride - begin
        tap = max(0, -(start // dilation))
        if tap >= kernel or start + tap * dilation >= size:
            raise TypingError(f"a dilated window steps over the whole axis of size {dim}")


def _may_step_over(window: Window) -> bool:
    """Whether taps are so far apart that all of a window may lie in the padding on both sides."""
    return window.dilation != 1 and not (window.begin == 0 and window.end == 0)


def _rounded_up(window: Window, dim: Size) -> Window | None:
    """The window of ``ceil_mode``: as much more padding at the end as one further position needs.

    A position that would begin in the padding at the end is not taken (ONNX specification, MaxPool).
    """
    free = dim + window.begin + window.end - window.extent
    stride, extent, end = window.stride, window.extent, window.end
    if not (isinstance(stride, int) and isinstance(extent, int) and isinstance(end, int)):
        return None
    if isinstance(free, int) and isinstance(dim, int) and isinstance(window.begin, int):
        last = -(-free // stride) * stride
        more = last - free if last < dim + window.begin else 0
    elif stride + end <= extent:
        more = stride - 1
    else:
        return None
    return Window(window.kernel, stride, window.dilation, window.begin, end + max(more, 0))


# ONNX Runtime's pools shift by a negative padding where its convolutions clamp it, hence ``clamped=False``.
def _read_pool(call: OnnxCall, *more: str) -> tuple[Window, ...] | None:
    """The windows of a pool node with ``auto_pad`` and ``ceil_mode`` resolved; None when that cannot be."""
    x = first_operand(call, *_ATTRIBUTES, *more)
    kernel = integers(call.attributes.get("kernel_shape"))
    if x is None or len(call.inputs) != 1 or any(call.used_outputs[1:]) or x.rank != len(kernel) + 2:
        return None
    try:
        spans = read_windows(call, x.dims[2:], kernel, clamped=False)
    except TypingError:
        return None
    if spans is None or not call.attributes.get("ceil_mode", 0):
        return spans
    if call.opset < 10 or text(call.attributes.get("auto_pad", "NOTSET")) != "NOTSET":
        return None
    wider = [_rounded_up(w, d) for w, d in zip(spans, x.dims[2:], strict=True)]
    padded = any(integers(call.attributes.get("pads")))
    if call.attributes.get("count_include_pad", 0) and padded and wider != list(spans):
        # Whether what is added counts as padding is not agreed upon.
        return None
    found = tuple(w for w in wider if w is not None)
    return found if len(found) == len(wider) else None


def _fields(spans: Sequence[Window]) -> dict[str, tuple[Size, ...]]:
    return {
        "kernel_shape": tuple(w.kernel for w in spans),
        "strides": tuple(w.stride for w in spans),
        "pads": pads_of(spans),
        "dilations": tuple(w.dilation for w in spans),
    }


@dataclass(frozen=True)
class MaxPool(_Pool):
    """out[n,c,*y] = max_*r x[n, c, *(y·s + r·d - p)] over the taps that lie in x."""

    onnx: ClassVar[str] = "MaxPool"

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        return over(maximum, self.kernel_shape, lambda r: x[self.taps(index, r)])

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        if call.attributes.get("storage_order", 0) or ("dilations" in call.attributes and call.opset < 10):
            return None
        spans = _read_pool(call, "storage_order")
        return None if spans is None else Reading(cls(**_fields(spans)), (0,))


@dataclass(frozen=True)
class AveragePool(_Pool):
    """out[n,c,*y] = Σ_*r x[n, c, *(y·s + r·d - p)] / count; outside of x the summand is 0.

    count is the number of taps that lie in x, or of all taps with ``count_include_pad``.
    """

    onnx: ClassVar[str] = "AveragePool"
    since: ClassVar[int] = 7
    dilations_since: ClassVar[int] = 19
    count_include_pad: int = 0

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        summed = over(total, self.kernel_shape, lambda r: x[self.taps(index, r)])
        return div(summed, self._count(x, index))

    def _count(self, x: Operand, index: Index) -> Scalar:
        if self.count_include_pad or not any(p != 0 for p in self.pads):
            return Integer(product(self.kernel_shape))
        count: Scalar | None = None
        for window, y, dim in zip(self.windows(), index[2:], x.dims[2:], strict=True):
            taps = _taps_inside(window, y, dim)
            count = taps if count is None else mul(count, taps)
        return Number(1.0) if count is None else count

    def normal(self, *operands: TensorType) -> Self:
        padded = any(p != 0 for p in self.pads)
        include = int(self.count_include_pad and padded)
        return type(self)(**self.filled_in(operands[0]), count_include_pad=include)

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        if "dilations" in call.attributes and call.opset < cls.dilations_since:
            return None
        spans = _read_pool(call, "count_include_pad")
        include = int(bool(call.attributes.get("count_include_pad", 0)))
        if call.attributes.get("ceil_mode", 0) and not any(integers(call.attributes.get("pads"))):
            include = 0
        return None if spans is None else Reading(cls(**_fields(spans), count_include_pad=include), (0,))


def _taps_inside(window: Window, y: Size, dim: Size) -> Scalar:
    if window.begin == 0 and window.end == 0:
        return Integer(window.kernel)
    return total(
        window.kernel,
        lambda r: choose(inside([window.source(y, r)], [dim]), Number(1.0), Number(0.0)),
    )


@dataclass(frozen=True)
class _GlobalPool(Operator):
    dtypes: ClassVar[frozenset[str] | None] = FLOATS

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        if x.rank < 3:
            raise RankError(f"{self.onnx} needs spatial axes, got {x}")
        if any(d == 0 for d in x.dims[2:]):
            raise TypingError(f"{self.onnx} of nothing: {x}")
        return TensorType(x.dtype, (*x.dims[:2], *(1 for _ in x.dims[2:])))

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        return tuple(d - 1 for d in operands[0].dims[2:])

    def everything(self, reduce: Callable[..., Scalar], x: Operand, index: Index) -> Scalar:
        """``reduce`` over all spatial positions of x."""
        return over(reduce, x.dims[2:], lambda r: x[(*index[:2], *r)])


@dataclass(frozen=True)
class GlobalAveragePool(_GlobalPool):
    """out[n,c,0..] = Σ_*y x[n,c,*y] / (number of positions)."""

    onnx: ClassVar[str] = "GlobalAveragePool"

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        return div(self.everything(total, x, index), Integer(product(x.dims[2:])))


@dataclass(frozen=True)
class GlobalMaxPool(_GlobalPool):
    """out[n,c,0..] = max_*y x[n,c,*y]."""

    onnx: ClassVar[str] = "GlobalMaxPool"

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        return self.everything(maximum, x, index)
