"""Slices with a start, an end and a step per axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from taso_py.arrays import Array
from taso_py.errors import RankError, TypingError
from taso_py.graph.ordering import at_least
from taso_py.graph.sizes import Size, floor_divide
from taso_py.graph.types import TensorType
from taso_py.ops.meaning import Index, Operand, Scalar
from taso_py.ops.operator import Constant, Given, OnnxCall, Operator, Reading, Writing
from taso_py.ops.reading import concrete, first_operand, integers, normal_axes

_FAR = 2**31 - 1
"""Exporters write this, or int64's largest value, for "to the end"; no dimension is that long."""
_LAST, _FIRST = 2**63 - 1, -(2**63)


@dataclass(frozen=True, slots=True)
class Range:
    """Positions start, start + step, ... of one axis, as far as ``end`` (not included).

    In normal form 0 <= start <= end <= dim for a positive step; a negative step ends at end >= 0, or at
    end - dim = -1 - dim to include position 0.
    """

    start: Size
    end: Size
    step: Size

    def count(self, dim: Size) -> Size:
        """Number of positions."""
        if at_least(self.step, 1) is not False:
            return floor_divide(self.end - self.start + self.step - 1, self.step)
        end = self.end + dim if at_least(self.end, 0) is False else self.end
        return floor_divide(self.start - end - self.step - 1, -self.step)


def resolve(given: Range, dim: Size) -> Range | None:
    """The range in normal form for an axis of size ``dim``; None when a symbolic size leaves it open.

    Ends beyond the axis are clamped as the ONNX specification of Slice says.
    """
    if not isinstance(given.step, int):
        return given if _is_normal(given, dim) else None
    if given.step == 0:
        raise TypingError("a slice has step 0")
    if given.step < 0 and isinstance(given.end, int) and given.end >= _FAR:
        # To the last position, says ONNX, so nothing is left; to the first, says ONNX Runtime.
        raise TypingError(f"a slice with step {given.step} ends at {given.end}")
    if isinstance(dim, int) and isinstance(given.start, int) and isinstance(given.end, int):
        return _resolve_concrete(given.start, given.end, given.step, dim)
    return _resolve_forward(given, dim) if given.step > 0 else _resolve_backward(given, dim)


def _is_normal(given: Range, dim: Size) -> bool:
    """Whether a range with a symbolic step above 1 is in normal form: behind its last position it ends."""
    inside = (at_least(given.start, 0), at_least(given.end, given.start), at_least(dim, given.end))
    whole = floor_divide(given.end - given.start - 1, given.step) * given.step == given.end - given.start - 1
    return whole and at_least(given.step, 2) is True and all(i is True for i in inside)


def _resolve_concrete(start: int, end: int, step: int, dim: int) -> Range:
    start = start + dim if start < 0 else start
    end = end + dim if end < 0 else end
    start = min(max(start, 0), dim if step > 0 else dim - 1)
    end = min(max(end, 0 if step > 0 else -1), dim if step > 0 else dim - 1)
    count = max(0, -((start - end) // step)) if step > 0 else max(0, -((end - start) // -step))
    if count == 0:
        return Range(0, 0, 1)
    if count == 1:
        return Range(start, start + 1, 1)
    last = start + (count - 1) * step
    if step > 0:
        return Range(start, last + 1, step)
    return Range(start, last - 1 if last > 0 else -1 - dim, step)


def _from_front(value: Size, dim: Size) -> Size | None:
    """A start or end counted from the front; None when its sign is open."""
    if isinstance(value, int) and value >= _FAR:
        return dim
    sign = at_least(value, 0)
    return None if sign is None else value if sign else value + dim


def _resolve_forward(given: Range, dim: Size) -> Range | None:
    start, end = _from_front(given.start, dim), _from_front(given.end, dim)
    if start is None or end is None:
        return None
    if at_least(start, end) is True and start != end:
        return Range(0, 0, 1)
    end = dim if at_least(end, dim) is True else end
    decided = (at_least(start, 0), at_least(end, start), at_least(dim, end))
    return Range(start, end, given.step) if all(d is True for d in decided) else None


def _resolve_backward(given: Range, dim: Size) -> Range | None:
    """Only from the very end to the very beginning: everything else is open for a symbolic size."""
    start, end = given.start, given.end
    from_end = start == -1 or at_least(start, dim - 1) is True or (isinstance(start, int) and start >= _FAR)
    to_front = at_least(-1 - dim, end) is True or (isinstance(end, int) and end <= -_FAR)
    return Range(dim - 1, -1 - dim, given.step) if from_end and to_front else None


@dataclass(frozen=True)
class Slice(Operator):
    """out[.., i, ..] = x[.., start + i·step, ..] along each of ``axes`` (none given: the first ones)."""

    onnx: ClassVar[str] = "Slice"
    axis_fields: ClassVar[Mapping[str, int]] = {"axes": 0}
    axes: tuple[int, ...] = ()
    starts: tuple[Size, ...] = ()
    ends: tuple[Size, ...] = ()
    steps: tuple[Size, ...] = ()

    def ranges(self, dims: Sequence[Size]) -> dict[int, Range]:
        """The range of each sliced axis, in normal form where that is decided."""
        found: dict[int, Range] = {}
        for axis, given in self._given(len(dims)).items():
            found[axis] = resolve(given, dims[axis]) or given
        return found

    def _given(self, rank: int) -> dict[int, Range]:
        n = len(self.starts)
        axes = normal_axes(self.axes or range(n), rank)
        steps = self.steps or (1,) * n
        if len(axes) != n or len(self.ends) != n or len(steps) != n:
            raise RankError(f"{self}: axes, starts, ends and steps differ in length")
        if axes and not rank:  # an axis 0 of rank 0 is one only to operators that look at all elements
            raise RankError(f"{self} of a scalar")
        return {a: Range(*r) for a, *r in zip(axes, self.starts, self.ends, steps, strict=True)}

    def infer(self, *operands: TensorType) -> TensorType:
        (x,) = operands
        dims = list(x.dims)
        for axis, range_ in self.ranges(x.dims).items():
            dims[axis] = range_.count(x.dims[axis])
            if at_least(dims[axis], 0) is False or at_least(x.dims[axis], dims[axis]) is False:
                raise TypingError(f"{self} of {x}: axis {axis} would have size {dims[axis]}")
        return TensorType(x.dtype, tuple(dims))

    def element(self, operands: Sequence[Operand], index: Index) -> Scalar:
        (x,) = operands
        place = list(index)
        for axis, range_ in self.ranges(x.dims).items():
            place[axis] = range_.start + index[axis] * range_.step
        return x[place]

    def kernel(self, *operands: Array) -> Array | None:
        (x,) = operands
        cuts: list[slice] = [slice(None)] * x.ndim
        for axis, r in self.ranges(x.shape).items():
            if not (isinstance(r.start, int) and isinstance(r.end, int) and isinstance(r.step, int)):
                return None
            cuts[axis] = slice(r.start, None if r.end < 0 else r.end, r.step)
        return x[tuple(cuts)].copy()

    def normal(self, *operands: TensorType) -> Self:
        (x,) = operands
        kept: list[tuple[int, Range]] = []
        for axis, given in sorted(self._given(x.rank).items()):
            dim = x.dims[axis]
            found = resolve(given, dim)
            if found is None:
                raise TypingError(f"Slice [{given.start}:{given.end}:{given.step}] of size {dim} is open")
            if found != Range(0, dim, 1):
                kept.append((axis, found))
        ranges = [r for _, r in kept]
        starts, ends = tuple(r.start for r in ranges), tuple(r.end for r in ranges)
        return type(self)(tuple(a for a, _ in kept), starts, ends, tuple(r.step for r in ranges))

    @classmethod
    def read(cls, call: OnnxCall) -> Reading | None:
        if call.opset < 10:
            return cls._read_attributes(call)
        x = first_operand(call)
        starts, ends = call.integers(1), call.integers(2)
        if x is None or starts is None or ends is None:
            return None
        axes = call.integers(3) if call.present(3) else ()
        steps = call.integers(4) if call.present(4) else ()
        numbers = None if axes is None else concrete(axes)
        if numbers is None or steps is None or (call.present(3) and len(numbers) != len(starts)):
            return None
        return Reading(cls(numbers, starts, ends, steps), (0,))

    @classmethod
    def _read_attributes(cls, call: OnnxCall) -> Reading | None:
        x = first_operand(call, "axes", "starts", "ends")
        if x is None or len(call.inputs) != 1 or not {"starts", "ends"} <= set(call.attributes):
            return None
        axes, starts, ends = (integers(call.attributes.get(k)) for k in ("axes", "starts", "ends"))
        if "axes" in call.attributes and len(axes) != len(starts):
            return None
        return Reading(cls(axes, starts, ends), (0,))

    def write(self, opset: int, operands: Sequence[TensorType]) -> Writing | None:
        steps = concrete(self.steps or (1,) * len(self.starts))
        bounds: list[list[int]] = []
        for axis, given in self._given(operands[0].rank).items():
            pair = [_spelled(v, operands[0].dims[axis]) for v in (given.start, given.end)]
            known = [v for v in pair if v is not None]
            if len(known) != 2:
                return None
            bounds.append(known)
        starts, ends = tuple(b[0] for b in bounds), tuple(b[1] for b in bounds)
        axes = self.axes or tuple(range(len(starts)))
        if not axes:
            axes, starts, ends, steps = (0,), (0,), (_LAST,), (1,)
        if steps is None or (opset < 10 and any(s != 1 for s in steps)):
            return None
        if opset < 10:
            return Writing(self.onnx, (Given(0),), {"axes": axes, "starts": starts, "ends": ends})
        lists = (Constant.integers(v) for v in (starts, ends, axes, steps))
        return Writing(self.onnx, (Given(0), *lists), {})


def _spelled(value: Size, dim: Size) -> int | None:
    """A start or end as the number that ONNX wants, which for a symbolic size counts from the back."""
    if isinstance(value, int):
        return value
    if value == dim:
        return _LAST
    if value == -1 - dim:
        return _FIRST
    back = value - dim
    return back if isinstance(back, int) and back < 0 else None
