"""Sliding windows, as convolutions and pools share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide
from taso_py.ops.operator import OnnxCall
from taso_py.ops.reading import integers, text


@dataclass(frozen=True, slots=True)
class Window:
    """One spatial axis: tap r of output position y lies at y·stride + r·dilation - begin."""

    kernel: Size
    stride: Size
    dilation: Size
    begin: Size
    end: Size

    @property
    def extent(self) -> Size:
        """Positions from the first tap to the last."""
        return (self.kernel - 1) * self.dilation + 1

    def nonnegative(self, dim: Size) -> tuple[Size, ...]:
        """What must be >= 0 for the window to be one that fits into its axis."""
        room = dim + self.begin + self.end - self.extent
        return (room, self.kernel - 1, self.stride - 1, self.dilation - 1, self.begin, self.end)

    def source(self, y: Size, r: Size) -> Size:
        """Input position of tap r of output position y."""
        return y * self.stride + r * self.dilation - self.begin

    def result(self, dim: Size) -> Size:
        """Number of positions: floor((dim + begin + end - extent) / stride) + 1."""
        room = dim + self.begin + self.end - self.extent
        if at_least(room, 0) is False:
            raise TypingError(f"a window over {self.extent} exceeds {dim} + {self.begin} + {self.end}")
        return floor_divide(room, self.stride) + 1


def filled(values: tuple[Size, ...], count: int, default: int) -> tuple[Size, ...]:
    """An attribute with ONNX's default written out."""
    return values or (default,) * count


def windows(
    kernel: Sequence[Size], strides: tuple[Size, ...], pads: tuple[Size, ...], dilations: tuple[Size, ...]
) -> tuple[Window, ...]:
    """One window per spatial axis; ``pads`` is (begin..., end...); () stands for ONNX's default."""
    n = len(kernel)
    strides, dilations, pads = filled(strides, n, 1), filled(dilations, n, 1), filled(pads, 2 * n, 0)
    stated = f"kernel {tuple(kernel)}, strides {strides}, dilations {dilations}"
    if not n or len(strides) != n or len(dilations) != n or len(pads) != 2 * n:
        raise RankError(f"{stated}, pads {pads} differ in length")
    if any(at_least(v, 1) is False for v in (*kernel, *strides, *dilations)):
        raise TypingError(f"{stated} must be positive")
    if any(at_least(v, 0) is False for v in pads):
        raise TypingError(f"pads {pads} must not be negative")
    return tuple(map(Window, kernel, strides, dilations, pads[:n], pads[n:]))


def pads_of(spans: Sequence[Window]) -> tuple[Size, ...]:
    """ONNX's pads: begins, then ends."""
    return (*(w.begin for w in spans), *(w.end for w in spans))


def read_windows(
    call: OnnxCall, dims: Sequence[Size], kernel: Sequence[Size], *, clamped: bool
) -> tuple[Window, ...] | None:
    """The windows of a Conv or pool node with ``auto_pad`` resolved into pads; None when that cannot be.

    SAME: the result has ceil(dim / stride) positions and the padding is split evenly, the odd one at the end
    (SAME_UPPER) or at the beginning (SAME_LOWER).  Source: ONNX operator specification, Conv.  A stride
    beyond the kernel can need less than no padding: taken as none when ``clamped``, else it is not defined.
    """
    strides, dilations, pads = (integers(call.attributes.get(k)) for k in ("strides", "dilations", "pads"))
    mode = text(call.attributes.get("auto_pad", "NOTSET"))
    if mode == "NOTSET":
        return windows(kernel, strides, pads, dilations)
    if any(pads) or mode not in ("VALID", "SAME_UPPER", "SAME_LOWER"):
        return None
    spans = windows(kernel, strides, (), dilations)
    if mode == "VALID":
        return spans
    if any(w.dilation != 1 for w in spans):
        # Runtimes refuse it for convolutions and leave the dilation out for pools.
        return None
    found: list[Window] = []
    for window, dim in zip(spans, dims, strict=True):
        total = _same(window, dim)
        if total is None or (total < 0 and not clamped):
            return None
        total = max(total, 0)
        small, large = total // 2, total - total // 2
        begin, end = (small, large) if mode == "SAME_UPPER" else (large, small)
        found.append(Window(window.kernel, window.stride, window.dilation, begin, end))
    return tuple(found)


def _same(window: Window, dim: Size) -> int | None:
    if not isinstance(window.extent, int) or not isinstance(window.stride, int):
        return None
    if window.stride == 1:
        return window.extent - 1
    if not isinstance(dim, int):
        return None
    positions = -(-dim // window.stride)
    return (positions - 1) * window.stride + window.extent - dim
