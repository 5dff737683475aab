"""Convolutions in any number of spatial axes, grouped, strided, dilated, padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide
from taso_py.graph.types import FLOATS, TensorType
from taso_py.ops.meaning import Compare, Index, Number, Operand, Scalar, add, choose, mul, over, total
from taso_py.ops.operator import OnnxCall, Operator, Reading, Writing, same_dtype
from taso_py.ops.reading import first_operand, integers, text
from taso_py.ops.windows import Window, filled, pads_of, read_windows, windows

_ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _spatial_kernel(call: OnnxCall) -> tuple[Size, ...] | None:
    """Spatial sizes of the weight, which ``kernel_shape`` may repeat but not contradict."""
    weight = call.inputs[1] if call.present(1) else None
    if weight is None or not weight.known or weight.rank < 3:
        return None
    stated = integers(call.attributes.get("kernel_shape"))
    return None if stated and stated != weight.dims[2:] else weight.dims[2:]


def _arity(call: OnnxCall) -> tuple[int, ...] | None:
    """Positions of x, w and, where there is one, the bias."""
    if len(call.inputs) > 3 or not call.present(1):
        return None
    return (0, 1, 2) if call.present(2) else (0, 1)


def _spelled(operator: Operator, operands: Sequence[TensorType], opset: int) -> Writing | None:
    writing = Operator.write(operator, opset, operands)
    kernel = operands[1].dims[2:]
    if writing is None or not all(isinstance(k, int) for k in kernel):
        return writing
    stated = tuple(k for k in kernel if isinstance(k, int))
    return Writing(writing.op_type, writing.inputs, {**writing.attributes, "kernel_shape": stated})


def _groups_of(channels: Size, group: Size, what: str) -> Size:
    """channels / group, which must be a whole number."""
    if at_least(group, 1) is False:
        raise TypingError(f"group {group} must be positive")
    each = floor_divide(channels, group)
    if each * group != channels:
        raise TypingError(f"{what} {channels} is no multiple of group {group}")
    return each


def _check_operands(x: TensorType, w: TensorType) -> None:
    if x.rank < 3 or w.rank != x.rank:
        raise RankError(f"a convolution of {x} with {w}: ranks must be equal and at least 3")


def _check_bias(bias: Sequence[TensorType], channels: Size) -> None:
    if bias and bias[0].dims != (channels,):
        raise TypingError(f"bias {bias[0]} must have shape [{channels}]")


@dataclass(frozen=True)
class Conv(Operator):
    """out[n,o,*y] = b[o] + Σ_c Σ_*r x[n, g(o)·C + c, *(y·s + r·d - p)] · w[o,c,*r], g(o) = o // (O / group).

    Outside of x the summand is 0; w is [O, C, *kernel], x has group·C channels; ``pads``: (begin..., end...).
    """

    onnx: ClassVar[str] = "Conv"
    arity: ClassVar[tuple[int, int]] = (2, 3)
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    strides: tuple[Size, ...] = ()
    pads: tuple[Size, ...] = ()
    dilations: tuple[Size, ...] = ()
    group: Size = 1

    def windows(self, w: TensorType) -> tuple[Window, ...]:
        """One window per spatial axis."""
        return windows(w.dims[2:], self.strides, self.pads, self.dilations)

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        x, w, *_ = operands
        spans = zip(self.windows(w), x.dims[2:], strict=True)
        return (self.group - 1, *(size for k, d in spans for size in k.nonnegative(d)))

    def infer(self, *operands: TensorType) -> TensorType:
        x, w, *bias = operands
        _check_operands(x, w)
        if w.dims[1] * self.group != x.dims[1]:
            raise TypingError(f"{x.dims[1]} channels in, but {self.group} groups of {w.dims[1]}")
        _groups_of(w.dims[0], self.group, "output channels")
        _check_bias(bias, w.dims[0])
        spatial = tuple(k.result(d) for k, d in zip(self.windows(w), x.dims[2:], strict=True))
        return TensorType(same_dtype(*operands), (x.dims[0], w.dims[0], *spatial))

    @property
    def may_skip(self) -> Sequence[int]:
        """Weights that meet nothing but padding."""
        return (1,) if any(pad != 0 for pad in self.pads) else ()

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, w, *bias = operands
        n, o, *y = index
        spans = self.windows(w.type)
        per_group = floor_divide(w.dims[0], self.group)
        first = 0 if self.group == 1 or per_group == 0 else floor_divide(o, per_group) * w.dims[1]

        def tap(at: Index) -> Scalar:
            c, *r = at
            source = (k.source(i, j) for k, i, j in zip(spans, y, r, strict=True))
            return mul(x[(n, first + c, *source)], w[(o, c, *r)])

        convolved = over(total, w.dims[1:], tap)
        return add(convolved, bias[0][(o,)]) if bias else convolved

    def normal(self, *operands: TensorType) -> Self:
        n = operands[0].rank - 2
        return type(self)(
            filled(self.strides, n, 1), filled(self.pads, 2 * n, 0), filled(self.dilations, n, 1), self.group
        )

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x, kernel, positions = first_operand(call, *_ATTRIBUTES), _spatial_kernel(call), _arity(call)
        if x is None or kernel is None or positions is None or len(kernel) != x.rank - 2:
            return None
        try:
            spans = read_windows(call, x.dims[2:], kernel, clamped=True)
        except TypingError:
            return None
        if spans is None:
            return None
        strides, dilations = tuple(w.stride for w in spans), tuple(w.dilation for w in spans)
        group = int(call.attributes.get("group", 1))
        return Reading(cls(strides, pads_of(spans), dilations, group), positions)

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return _spelled(self, operands, opset)


@dataclass(frozen=True)
class ConvTranspose(Operator):
    """out[n,m,*y] = b[m] + Σ_c Σ_*r [s divides t] x[n, g·C + c, *(t / s)] · w[g·C + c, m - g·M, *r].

    Here t = y + p - r·d and g = m // M; x has group·C channels, w is [group·C, M, *kernel], the result's
    sizes are s·(dim - 1) + output_padding + (kernel - 1)·d + 1 - begin - end.
    """

    onnx: ClassVar[str] = "ConvTranspose"
    arity: ClassVar[tuple[int, int]] = (2, 3)
    dtypes: ClassVar[frozenset[str] | None] = FLOATS
    strides: tuple[Size, ...] = ()
    pads: tuple[Size, ...] = ()
    dilations: tuple[Size, ...] = ()
    output_padding: tuple[Size, ...] = ()
    group: Size = 1

    def windows(self, w: TensorType) -> tuple[Window, ...]:
        """One window per spatial axis."""
        return windows(w.dims[2:], self.strides, self.pads, self.dilations)

    def nonnegative(self, *operands: TensorType) -> Sequence[Size]:
        spans, extra = self.windows(operands[1]), self._extra(operands[0].rank - 2)
        found: list[Size] = [self.group - 1, *(d - 1 for d in self.infer(*operands).dims[2:])]
        for k, e in zip(spans, extra, strict=True):
            found += [k.kernel - 1, k.stride - 1, k.dilation - 1, k.begin, k.end, e, k.stride - 1 - e]
        return found

    def infer(self, *operands: TensorType) -> TensorType:
        x, w, *bias = operands
        _check_operands(x, w)
        _groups_of(x.dims[1], self.group, "input channels")
        channels = w.dims[1] * self.group
        if w.dims[0] != x.dims[1]:
            raise TypingError(f"{x.dims[1]} channels in, but weights for {w.dims[0]}")
        _check_bias(bias, channels)
        extra = self._extra(x.rank - 2)
        spans = self.windows(w)
        bounds = [at_least(e, 0) is False or at_least(e, k.stride) for e, k in zip(extra, spans, strict=True)]
        if True in bounds:
            raise TypingError(f"output_padding {extra} must be at least 0 and less than the stride")
        spatial = tuple(
            k.stride * (d - 1) + e + k.extent - k.begin - k.end
            for k, d, e in zip(spans, x.dims[2:], extra, strict=True)
        )
        if any(at_least(d, 1) is False for d in spatial):
            raise TypingError(f"a transposed convolution of {x} has no elements: {spatial}")
        return TensorType(same_dtype(*operands), (x.dims[0], channels, *spatial))

    @property
    def may_skip(self) -> Sequence[int]:
        """Weights that meet no element of x."""
        return (1,)

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        x, w, *bias = operands
        n, m, *y = index
        spans = self.windows(w.type)
        g = 0 if self.group == 1 or w.dims[1] == 0 else floor_divide(m, w.dims[1])
        per_group = floor_divide(w.dims[0], self.group)

        def tap(at: Index) -> Scalar:
            c, *r = at
            shifted = [i + k.begin - j * k.dilation for k, i, j in zip(spans, y, r, strict=True)]
            source = [floor_divide(t, k.stride) for k, t in zip(spans, shifted, strict=True)]
            hits = [
                Compare(t, "==", i * k.stride) for k, t, i in zip(spans, shifted, source, strict=True) if k.stride != 1
            ]
            channel = g * per_group + c
            term = mul(x[(n, channel, *source)], w[(channel, m - g * w.dims[1], *r)])
            return choose(hits, term, Number(0.0)) if hits else term

        spread = over(total, (per_group, *w.dims[2:]), tap)
        return add(spread, bias[0][(m,)]) if bias else spread

    def normal(self, *operands: TensorType) -> Self:
        n = operands[0].rank - 2
        strides, dilations = filled(self.strides, n, 1), filled(self.dilations, n, 1)
        return type(self)(strides, filled(self.pads, 2 * n, 0), dilations, self._extra(n), self.group)

    def _extra(self, spatial: int) -> tuple[Size, ...]:
        extra = filled(self.output_padding, spatial, 0)
        if len(extra) != spatial:
            raise RankError(f"output_padding {extra} for {spatial} spatial axes")
        return extra

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, *_ATTRIBUTES, "output_padding", "output_shape")
        kernel, positions = _spatial_kernel(call), _arity(call)
        if x is None or kernel is None or positions is None or len(kernel) != x.rank - 2:
            return None
        steps, spread = (integers(call.attributes.get(k)) for k in ("strides", "dilations"))
        extra = filled(integers(call.attributes.get("output_padding")), len(kernel), 0)
        group = int(call.attributes.get("group", 1))
        try:
            spans = windows(kernel, steps, (), spread)
            padding = _transposed_pads(call, x.dims[2:], spans, extra)
        except (TypingError, ValueError):
            return None
        if padding is None:
            return None
        strides, dilations = tuple(w.stride for w in spans), tuple(w.dilation for w in spans)
        return Reading(cls(strides, padding[0], dilations, padding[1], group), positions)

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        return _spelled(self, operands, opset)


def _transposed_pads(
    call: OnnxCall, dims: Sequence[Size], spans: Sequence[Window], extra: Sequence[Size]
) -> tuple[tuple[Size, ...], tuple[Size, ...]] | None:
    """Pads and output_padding of a ConvTranspose node with ``output_shape`` and ``auto_pad`` resolved.

    A result larger than without any padding is reached by more output_padding.  Source: ONNX specification.
    """
    mode = text(call.attributes.get("auto_pad", "NOTSET"))
    given, wanted = (integers(call.attributes.get(k)) for k in ("pads", "output_shape"))
    n = len(spans)
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or len(wanted) not in (0, n):
        return None
    if not wanted and mode in ("NOTSET", "VALID"):
        return None if mode == "VALID" and any(given) else (filled(given, 2 * n, 0), tuple(extra))
    if mode == "VALID" or any(given):
        return None
    halves: list[tuple[int, int]] = []
    larger: list[Size] = []
    for axis, (window, dim, more) in enumerate(zip(spans, dims, extra, strict=True)):
        result = wanted[axis] if wanted else dim * window.stride
        room = window.stride * (dim - 1) + more + window.extent - result
        if not isinstance(room, int) or (room < 0 and not wanted):
            # Without output_shape, runtimes disagree on a stride beyond the kernel.
            return None
        larger.append(more + max(-room, 0))
        small, large = max(room, 0) // 2, max(room, 0) - max(room, 0) // 2
        halves.append((small, large) if mode == "SAME_UPPER" else (large, small))
    return (*(b for b, _ in halves), *(e for _, e in halves)), tuple(larger)
