"""The most general shapes and attributes under which an operator is typed, with symbols for all sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, TypeAlias

from taso_py.errors import RankError, TypingError
from taso_py.graph.sizes import Role, Size, Symbol, as_symbol, floor_divide, symbol
from taso_py.ops.operator import Operator
from taso_py.prove.kernel.arithmetic import Guard
from taso_py.prove.typings.choices import Choices
from taso_py.prove.typings.site import Site
from taso_py.rules.signs import is_real

Shape: TypeAlias = tuple[Size, ...]

POOLS = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
POSITIVE = frozenset({"strides", "dilations", "kernel_shape", "group", "blocksize"})
_OPTIONS: Mapping[str, Sequence[Any]] = {
    "transA": (0, 1), "transB": (0, 1), "keepdims": (1, 0), "count_include_pad": (0, 1), "flatten": (0, 1),
    "approximate": ("none", "tanh"),
}  # fmt: skip


class AnyMode(str):
    """A mode that stands for all of its kind."""

    __slots__ = ()


MODES = ("coordinate_transformation_mode", "nearest_mode")
"""Names of maps of axes: one that is no real one stands for all, and what it does is an unknown function."""
SPATIAL = (1, 2)
"""Numbers of spatial axes of windows in proofs: every further one behaves like the second."""
RANKS = (1, 2, 3)
"""Numbers of axes of tensors about which a rule says nothing, where they matter."""


class Excluded(TypingError):
    """The rule's conditions leave out this typing, whatever the sizes are."""


class Undetermined(TypingError):
    """Whether this can be typed depends on sizes or attributes in a way that is not known."""


class Unsupported(Exception):
    """There is no most general form of this that the prover knows."""


class Refine(Exception):
    """A symbol must become something else for an operator to be typed."""

    def __init__(self, values: Mapping[Symbol, Size]) -> None:
        super().__init__(", ".join(f"{k} = {v}" for k, v in values.items()))
        self.values = values


@dataclass(slots=True)
class Shapes:
    """Fresh symbols and choices; ``assumptions`` collects what the symbols satisfy, ``digits`` product axes."""

    choices: Choices
    limit: int | None = None
    """Sizes are all numbers up to the limit instead of symbols."""
    site: Site | None = None
    """Numbers of axes are the site's alone."""
    wide: bool = False
    """Numbers of axes are those beyond the ones that proofs look at."""
    _: KW_ONLY
    assumptions: list[Guard] = field(default_factory=list)
    products: dict[Size, tuple[Size, ...]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    signed: bool = False
    """Whether there are symbols for integers that may be negative."""
    enlarged: set[Size] = field(default_factory=set)
    """Sizes beside which the case of 1 is looked at."""

    def size(self, name: str, least: int = 0) -> Size:
        """A new size."""
        if self.limit is not None:
            return self.choices.pick(range(self.limit, least - 1, -1))
        while name in self.used:
            name += "'"
        self.used.add(name)
        found = symbol(name)
        if least:
            self.assumptions.append(Guard(found - least, ">="))
        return found

    def integer(self, name: str) -> Size:
        """A new number that may be negative."""
        self.signed = True
        return symbol(name, Role.INTEGER)

    def size_or_1(self, name: str) -> Size:
        """A new size, and in another case 1."""
        found = self.choices.pick((self.size(name), 1))
        self.enlarged.add(found)
        return found

    def sizes(self, name: str, count: int, least: int = 0) -> tuple[Size, ...]:
        """Several new sizes."""
        return tuple(self.size(f"{name}.{k}", least) for k in range(count))

    def product(self, *factors: Size) -> Size:
        """The size of a product axis, whose digits are remembered."""
        whole: Size = 1
        for f in factors:
            whole = whole * f
        wide = tuple(f for f in factors if f != 1)
        if len(wide) > 1:
            self.products.setdefault(whole, wide)
        return whole

    def rank(self, name: str, options: Sequence[int], more: int = 0) -> int:
        """A number of axes, or of those beyond ``more``, of a variable."""
        if self.wide:
            options = (max(options) + 1,)
        if self.site is not None and name in self.site.ones:
            there = len(self.site.ones[name]) - more
            options = (there,) if there >= 0 else ()
        return self.choices.pick(options)

    def narrowed(self, shape: Shape, name: str = "", place: int = 0, behind: int = 0) -> Shape:
        """A shape that broadcasts to ``shape`` without enlarging it, of the axes of ``name`` from ``place`` on."""
        if self.site is not None and name in self.site.ones:
            ones = self.site.ones[name]
            return self._narrowed_there(shape, ones[place : len(ones) - behind])
        dropped = self.choices.pick(range(len(shape) + 1))
        return tuple(1 if d == 1 else self.choices.pick((d, 1)) for d in shape[dropped:])

    def _narrowed_there(self, shape: Shape, ones: Sequence[bool]) -> Shape:
        if len(ones) > len(shape):
            return self.choices.pick(())
        return tuple(1 if one else d for d, one in zip(shape[len(shape) - len(ones) :], ones, strict=True))

    # ---- operands --------------------------------------------------------------------------------------------------

    def operand(
        self, operator: type[Operator], k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]
    ) -> Shape:
        """A shape of operand ``k``, a variable called ``name``, beside the ``known`` ones."""
        special: Mapping[str, Callable[..., Shape]] = {
            "Conv": self._conv, "ConvTranspose": self._conv_transpose, "BatchNormalization": self._norm,
            "MatMul": self._matmul, "Gemm": self._gemm, "Concat": self._concat,
        }  # fmt: skip
        onnx = operator.onnx
        if onnx in special:
            return special[onnx](k, name, known, given)
        if onnx in ("LayerNormalization", "RMSNormalization") and k and known[0]:
            return self.narrowed(known[0][given.get("axis", -1) :], name)
        if onnx in POOLS:
            return self._image(name, self.rank(name, SPATIAL, 2), least=1)
        if onnx == "DepthToSpace":
            n, c, h, w = self.sizes(name, 4)
            b = given["blocksize"]
            return (n, self.product(b, b, c), h, w)
        if onnx == "SpaceToDepth":
            n, c, h, w = self.sizes(name, 4)
            b = given["blocksize"]
            return (n, c, self.product(h, b), self.product(w, b))
        others = [s for s in known if s is not None]
        if operator.pointwise and others:
            return self.narrowed(max(others, key=len), name)
        count = self.rank(name, RANKS)
        if onnx == "Expand":
            return tuple(self.size_or_1(f"{name}.{k}") for k in range(count))
        return self.sizes(name, count)

    def _image(self, name: str, spatial: int, channels: Size | None = None, least: int = 0) -> Shape:
        n = self.size(f"{name}.n")
        c = self.size(f"{name}.c") if channels is None else channels
        return (n, c, *self.sizes(f"{name}.s", spatial, least))

    def _conv(self, k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        group = given.get("group", 1)
        x, w = known[0], known[1]
        if k == 0:
            channels = self.product(group, w[1] if w else self.size(f"{name}.c"))
            return self._image(name, len(w) - 2 if w else self.rank(name, SPATIAL, 2), channels)
        if k == 1:
            assert x is not None
            _require_spatial(x)
            inner = floor_divide(x[1], group)
            if inner * group != x[1]:
                inputs = as_symbol(x[1])
                if inputs is None:
                    raise Unsupported(f"{x[1]} channels in {group} groups")
                raise Refine({inputs: self.product(group, self.size(f"{name}.c"))})
            outer = self.product(group, self.size(f"{name}.o"))
            return (outer, inner, *self.sizes(f"{name}.k", len(x) - 2, 1))
        assert w is not None
        return (w[0],)

    def _conv_transpose(self, k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        group = given.get("group", 1)
        x, w = known[0], known[1]
        if k == 0:
            channels = w[0] if w else self.product(group, self.size(f"{name}.c"))
            return self._image(name, len(w) - 2 if w else self.rank(name, SPATIAL, 2), channels)
        if k == 1:
            assert x is not None
            _require_spatial(x)
            return (x[1], self.size(f"{name}.o"), *self.sizes(f"{name}.k", len(x) - 2, 1))
        assert w is not None
        return (self.product(group, w[1]),)

    def _norm(self, k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        vectors = [s for s in known[1:] if s]
        if k == 0:
            return self._image(name, self.rank(name, (0, 1, 2), 2), vectors[0][0] if vectors else None)
        x = known[0]
        return (x[1],) if x and len(x) > 1 else vectors[0] if vectors else (self.size(f"{name}.c"),)

    def _matmul(self, k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        a, b = known
        other = a if k else b
        inner = self.size(f"{name}.k") if other is None else other[-1] if k else other[-2:][0]
        if self.rank(name, (2, 1)) == 1:
            return (inner,)
        free = self.size(f"{name}.m")
        batch = self._batch(name, () if other is None else other[:-2])
        return (*batch, inner, free) if k else (*batch, free, inner)

    def _batch(self, name: str, other: Shape) -> Shape:
        """Batch axes: none, one that is broadcast, one or two that are not; every further one behaves the same.

        Of two axes the first may be absent from the other operand; what is broadcast is looked at with one axis.
        """
        if self.site is not None and name in self.site.ones:
            more = len(self.site.ones[name]) - 2 - len(other)
            wider = (*self.sizes(f"{name}.b", max(more, 0)), *other[max(-more, 0) :])
            return self._narrowed_there(wider, self.site.ones[name][:-2])
        if not other:
            return self.choices.pick(((), (1,), self.sizes(f"{name}.b", 1), self.sizes(f"{name}.b", 2)))
        options: list[Shape] = [other[k:] for k in range(len(other) + 1)]
        if len(other) == 1 and other != (1,):
            options.append((1,))
        if other == (1,):
            options.append((self.size(f"{name}.b"),))
        return self.choices.pick(options)

    def _gemm(self, k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        swap_a, swap_b = bool(given.get("transA")), bool(given.get("transB"))
        a, b = known[0], known[1]
        if k == 0:
            inner = b[1 if swap_b else 0] if b else self.size(f"{name}.k")
            shape = (self.size(f"{name}.m"), inner)
            return shape[::-1] if swap_a else shape
        if k == 1:
            inner = a[0 if swap_a else 1] if a else self.size(f"{name}.k")
            columns = self.size(f"{name}.n")
            return (columns, inner) if swap_b else (inner, columns)
        assert a is not None
        assert b is not None
        return self.narrowed((a[1 if swap_a else 0], b[0 if swap_b else 1]), name)

    def _concat(self, k: int, name: str, known: Sequence[Shape | None], given: Mapping[str, Any]) -> Shape:
        other = next((s for s in known if s), None)
        if other is None:
            return self.sizes(name, self.rank(name, RANKS))
        axis = given.get("axis")
        if axis is None:
            raise Unsupported("the axis of a Concat")
        return tuple(self.size(f"{name}.j") if a == axis % len(other) else d for a, d in enumerate(other))

    # ---- attributes ------------------------------------------------------------------------------------------------

    def attribute(
        self, operator: type[Operator], field_name: str, name: str, shapes: Sequence[Shape], known: Mapping[str, Any]
    ) -> Any:
        """The most general value of an attribute that the rule calls ``name``."""
        rank = len(shapes[0]) if shapes else 0
        spatial = max(rank - 2, 0)
        if field_name in _OPTIONS:
            return self.choices.pick(_OPTIONS[field_name])
        if field_name != "scales" and is_real(operator, field_name):
            if "tuple" in str(next(f.type for f in fields(operator) if f.name == field_name)):
                raise Unsupported(f"the attribute {field_name} of {operator.onnx}")
            return symbol(name, Role.REAL)
        lists: Mapping[str, Callable[[], Any]] = {
            "scales": lambda: tuple(symbol(f"{name}.{k}", Role.REAL) for k in range(rank)),
            "indices_shape": lambda: (len(known.get("indices") or ()),),
            "indices": lambda: self._indices(shapes[0], known),
            "group": lambda: self.size(name, 1),
            "blocksize": lambda: self.size(name, 1),
            "size": lambda: self.size(name, 1 if operator.onnx == "LRN" else 0),
            "output_padding": lambda: self.sizes(name, spatial),
            "pads": lambda: self._pads(operator, name, rank),
            "axis": lambda: self.choices.pick(range(rank + (operator.onnx == "Flatten"))),
            "perm": lambda: self.choices.pick(list(itertools.permutations(range(rank)))),
            "axes": lambda: self._axes(operator, rank),
            **{n: lambda: self.sizes(name, spatial, 1) for n in ("strides", "dilations", "kernel_shape")},
            **{n: lambda: self._cut(field_name, name, shapes[0], known) for n in ("starts", "ends", "steps")},
            **{n: lambda: AnyMode(f"any {name}") for n in MODES},
        }
        if field_name not in lists:
            raise Unsupported(f"the attribute {field_name} of {operator.onnx}")
        return lists[field_name]()

    def _pads(self, operator: type[Operator], name: str, rank: int) -> tuple[Size, ...]:
        if operator.onnx == "Pad":
            return tuple(self.integer(f"{name}.{k}") for k in range(2 * rank))
        return self.sizes(name, 2 * max(rank - 2, 0))

    def entry(self, operator: type[Operator], field_name: str, name: str) -> Size:
        """The most general entry, called ``name``, of a list attribute."""
        if field_name == "pads" and operator.onnx == "Pad":
            return self.integer(name)
        if field_name in ("shape", "sizes", "pads", "split", "starts", "ends", "output_padding", "indices", "repeats"):
            return self.size(name)
        if field_name in POSITIVE or field_name == "steps":
            return self.size(name, 1)
        if field_name == "scales":
            return symbol(name, Role.REAL)
        if field_name == "indices_shape":
            raise Unsupported("the shape of a Gather's positions")
        raise Unsupported(f"an entry of {field_name} of {operator.onnx}")

    def _indices(self, dims: Shape, known: Mapping[str, Any]) -> tuple[int, ...]:
        """Up to two positions on the axis of a Gather."""
        axis = known.get("axis")
        dim = dims[axis] if isinstance(axis, int) else None
        if not isinstance(dim, int):
            raise Unsupported("the positions of a Gather")
        options = [i for n in (1, 2) for i in itertools.product(range(dim), repeat=n)]
        return self.choices.pick(options)

    def _axes(self, operator: type[Operator], rank: int) -> tuple[int, ...]:
        if operator.onnx == "Unsqueeze":
            return self.choices.pick([s for n in (1, 2) for s in itertools.combinations(range(rank + n), n)])
        return self.choices.pick([s for n in range(1, rank + 1) for s in itertools.combinations(range(rank), n)])

    def _cut(self, field_name: str, name: str, dims: Shape, known: Mapping[str, Any]) -> tuple[Size, ...]:
        """Starts, ends and steps in normal form: 0 <= start <= end <= dim; a step above 1 ends behind an element."""
        axes = known.get("axes")
        if not isinstance(axes, tuple):
            raise Unsupported("a Slice whose axes are not known")
        starts, steps = known.get("starts"), known.get("steps")
        if field_name == "starts":
            return self.sizes(name, len(axes))
        if field_name == "steps":
            return tuple(self.step(f"{name}.{k}") for k in range(len(axes)))
        if not isinstance(starts, tuple) or not isinstance(steps, tuple):
            raise Unsupported("a Slice whose starts and steps are not known")
        rows = enumerate(zip(axes, starts, steps, strict=True))
        return tuple(self.end(f"{name}.{k}", s, t, dims[a]) for k, (a, s, t) in rows)

    def step(self, name: str) -> Size:
        """A step of a cut."""
        return self.choices.pick((1, None)) or self.size(name, 2)

    def end(self, name: str, start: Size, step: Size, dim: Size) -> Size:
        """The end of a cut of an axis of size ``dim``."""
        count = self.size(f"{name}.n")
        end = start + count if step == 1 else start + count * step + 1
        self.assumptions.append(Guard(dim - end, ">="))
        return end


def _require_spatial(image: Shape) -> None:
    if len(image) < 3:
        raise RankError(f"a convolution of an image with {len(image)} axes")
