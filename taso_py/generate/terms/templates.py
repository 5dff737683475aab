"""What is enumerated: inputs, constants and operators with menus of attributes, in named sets.

A template says which attributes an operator gets for operands of given shapes; it states no meaning and no shape rule
of its own.  `taso` has the 26 templates and 20 inputs of TASO's generator; `default` covers more of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, TypeAlias

from taso_py.errors import UsageError
from taso_py.generate.terms.atoms import BLOCKS, EYE, MEAN3, ONES, UNIT3, Kind, Shape, Source
from taso_py.graph.types import TensorType
from taso_py.ops import OPERATORS
from taso_py.ops.operator import Operator
from taso_py.options.spelling import spelled

Attributes: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """An operator with attributes that may depend on the operands' shapes; ``relu``: fused with a Relu."""

    name: str
    operator: type[Operator]
    arity: int
    _: KW_ONLY
    attributes: Callable[..., Attributes | None] = field(default=lambda *shapes: {})
    """Attributes for the operands' shapes; None where the template does not apply."""
    weights: tuple[bool | None, ...] = ()
    """Of each operand whether it must be computed from weights alone (True), must not be (False), or may (None)."""
    relu: bool = False
    constants: bool = True
    """Whether its operands may be constants."""
    given: tuple[str, ...] = ()
    """Sources that are its further operands, always."""
    whole: str = ""
    """Templates of the same ``whole`` cut disjoint parts out of one value."""

    def is_named(self, name: str) -> bool:
        """Whether a user who writes this name means it, among others perhaps."""
        return name in (self.name, self.operator.onnx)

    def at(self, types: Sequence[TensorType]) -> Operator | None:
        """The operator for operands of these concrete types, in normal form; `TypingError` where it refuses them."""
        found = self.attributes(*(t.dims for t in types))
        return None if found is None else self.operator(**found).normal(*types)


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """Inputs and templates of one enumeration."""

    name: str
    sources: tuple[Source, ...]
    templates: tuple[Template, ...]

    def given(self, template: Template) -> list[int]:
        """Which sources are a template's further operands."""
        number = {source.name: k for k, source in enumerate(self.sources)}
        return [number[name] for name in template.given]

    def only(self, names: Iterable[str]) -> TemplateSet:
        """The set with the templates of these names or operators.

        An operator of one or two operands that has no template is added with its default attributes.
        """
        kept: list[Template] = []
        for name in names:
            found = [t for t in self.templates if t.is_named(name)]
            if not found and name not in OPERATORS:
                known = ", ".join(sorted({t.operator.onnx for t in self.templates}))
                raise UsageError(
                    f"{spelled('ops', name)}: neither a template nor an operator; templates are of {known}"
                )
            kept += found or _added(OPERATORS[name])
        return TemplateSet(self.name, self.sources, tuple(dict.fromkeys(kept)))


def _added(operator: type[Operator]) -> list[Template]:
    """Of activations and not of constants, as functions are in the default set.

    Terms are enumerated with one or two operands: one that needs another number has no template.
    """
    fewest, most = operator.arity
    count = min(most, 2)
    if not max(fewest, 1) <= count:
        return []
    weights = (False,) if count == 1 else ()
    return [Template(operator.onnx.lower(), operator, count, weights=weights, constants=False)]


# ---- menus -----------------------------------------------------------------------------------------------------


def _conv(kernel: Shape, stride: int = 1, padding: str = "same") -> Callable[..., Attributes | None]:
    """A convolution with this kernel; the groups are those that fit the channels."""
    pads = tuple(k // 2 if padding == "same" else 0 for k in kernel) * 2

    def attributes(x: Shape, w: Shape) -> Attributes | None:
        if len(x) != 4 or len(w) != 4 or w[2:] != kernel or w[1] == 0 or x[1] % w[1] or w[0] % (x[1] // w[1]):
            return None
        return {"strides": (stride, stride), "pads": pads, "group": x[1] // w[1]}

    return attributes


def _pool(kernel: int, stride: int = 1, padding: str = "same", **more: Any) -> Callable[..., Attributes | None]:
    pad = kernel // 2 if padding == "same" else 0
    fixed = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (pad,) * 4, **more}
    return lambda x: fixed if len(x) == 4 and min(x[2:]) >= kernel - 2 * pad else None


def _enlarge(x: Shape) -> Attributes | None:
    """Zeros around a kernel up to 3x3."""
    if len(x) != 4 or max(x[2:]) > 3 or x[2:] == (3, 3) or any(k % 2 == 0 for k in x[2:]):
        return None
    around = tuple((3 - k) // 2 for k in x[2:])
    return {"pads": (0, 0, *around, 0, 0, *around)}


def _concat(rank: int, axis: int, most: int) -> Callable[..., Attributes | None]:
    def attributes(x: Shape, y: Shape) -> Attributes | None:
        fits = len(x) == len(y) == rank and x[axis] + y[axis] <= most
        return {"axis": axis} if fits and x[:axis] + x[axis + 1 :] == y[:axis] + y[axis + 1 :] else None

    return attributes


def _half(axis: int, second: bool, least: int) -> Callable[..., Attributes | None]:
    def attributes(x: Shape) -> Attributes | None:
        if len(x) <= axis or x[axis] < least or x[axis] % 2:
            return None
        half = x[axis] // 2
        start, end = (half, x[axis]) if second else (0, half)
        return {"axes": (axis,), "starts": (start,), "ends": (end,), "steps": (1,)}

    return attributes


def _same(x: Shape, y: Shape) -> Attributes | None:
    return {} if x == y and x else None


def _tensor(x: Shape) -> Attributes | None:
    """Not for single numbers: a relu of one residue is too often the residue itself."""
    return {} if x else None


def _scaled(_x: Shape, s: Shape) -> Attributes | None:
    return {} if s == () else None


def _per_channel(x: Shape, b: Shape) -> Attributes | None:
    return {} if (len(x), len(b)) in ((4, 3), (2, 1)) and x[1] == b[0] else None


def _matrices(a: Shape, b: Shape) -> Attributes | None:
    return {} if len(a) == len(b) == 2 and a[1] == b[0] else None


def _ranked(rank: int, **attributes: Any) -> Callable[..., Attributes | None]:
    return lambda x: attributes if len(x) == rank else None


def _per_output(k: Shape, c: Shape) -> Attributes | None:
    return {} if len(k) == len(c) > 1 and k[0] == c[0] and set(c[1:]) == {1} and k != c else None


def _column(rank: int) -> Callable[..., Attributes | None]:
    """One number per channel, as one per output of a kernel of this rank."""

    def attributes(c: Shape) -> Attributes | None:
        fits = len(c) == rank - 1 and set(c[1:]) <= {1}
        return {"shape": (c[0], *(1,) * (rank - 1))} if fits else None

    return attributes


def _masked(k: Shape, blocks: Shape) -> Attributes | None:
    return {} if len(k) == 4 and k[:2] == blocks[:2] and k[2:] != (1, 1) else None


def _per_row(x: Shape, r: Shape) -> Attributes | None:
    return {} if len(x) == 2 and x[1] > 1 and r == (x[0], 1) else None


def _normalised(x: Shape, *parameters: Shape) -> Attributes | None:
    return {} if len(x) == 4 and all(p == (x[1],) for p in parameters) else None


def _heads(x: Shape) -> Attributes | None:
    return {"shape": (x[0], 2, x[1] // 2)} if len(x) == 2 and x[1] == 4 else None


def _template(name: str, op: str, arity: int, attributes: Callable[..., Attributes | None], **more: Any) -> Template:
    return Template(name, OPERATORS[op], arity, attributes=attributes, **more)


_CONV_KINDS = (False, True)


def _convolutions() -> list[Template]:
    kernels = {"3x3": (3, 3), "1x1": (1, 1), "1x3": (1, 3)}
    return [
        _template(f"conv{text}{'relu' if relu else ''}", "Conv", 2, _conv(kernel), weights=_CONV_KINDS, relu=relu)
        for text, kernel in kernels.items()
        for relu in (False, True)
    ]


def _joins(most: int) -> list[Template]:
    return [
        _template(f"concat{rank}d{axis}", "Concat", 2, _concat(rank, axis, most)) for rank in (2, 4) for axis in (0, 1)
    ]


def _cuts(least: int) -> list[Template]:
    return [
        _template(f"split{axis}{port}", "Slice", 1, _half(axis, port == 1, least), whole=f"split{axis}")
        for axis in (0, 1)
        for port in (0, 1)
    ]


def _inputs(family: str, kind: Kind, shape: Shape, count: int) -> list[Source]:
    return [Source(f"{family}{k}", family, kind, shape) for k in range(1, count + 1)]


def _taso() -> TemplateSet:
    sources = [
        *_inputs("x", "activation", (2, 4), 3),
        *_inputs("w", "weight", (4, 4), 3),
        *_inputs("i", "activation", (2, 4, 5, 5), 3),
        *_inputs("k", "weight", (4, 4, 3, 3), 3),
        *_inputs("h", "weight", (4, 4, 1, 3), 3),
        *_inputs("v", "weight", (4, 4, 3, 1), 3),
        *_inputs("d", "weight", (4, 1, 3, 3), 1),
        *_inputs("s", "scalar", (), 1),
        *(MEAN3, UNIT3, EYE, ONES),
    ]
    templates = [
        _template("matmul", "MatMul", 2, _matrices),
        _template("ewadd", "Add", 2, _same),
        _template("ewmul", "Mul", 2, _same),
        _template("scale", "Mul", 2, _scaled),
        *_convolutions(),
        _template("avgpool3", "AveragePool", 1, _pool(3)),
        _template("maxpool3", "MaxPool", 1, _pool(3)),
        _template("relu", "Relu", 1, _tensor),
        _template("enlarge3", "Pad", 1, _enlarge, weights=(True,)),
        *_joins(8),
        *_cuts(8),
        _template("transpose", "Transpose", 1, _ranked(2, perm=(1, 0))),
    ]
    return TemplateSet("taso", tuple(sources), tuple(templates))


_STATISTICS = ("scale", "shift", "mean", "variance")
_NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _default_inputs() -> list[Source]:
    """Matrices, images, kernels and what is added to or scales them."""
    return [
        *_inputs("x", "activation", (2, 4), 2),
        *_inputs("w", "weight", (4, 4), 2),
        *_inputs("i", "activation", (2, 4, 6, 6), 2),
        *_inputs("y", "activation", (2, 8), 2),
        *_inputs("j", "activation", (2, 8, 6, 6), 1),
        *_inputs("k", "weight", (4, 4, 3, 3), 2),
        *_inputs("p", "weight", (4, 4, 1, 1), 2),
        *_inputs("h", "weight", (4, 4, 1, 3), 1),
        *_inputs("f", "weight", (4, 4, 5, 5), 1),
        *_inputs("d", "weight", (4, 1, 3, 3), 1),
        *_inputs("c", "weight", (4, 1, 1), 2),
        *_inputs("b", "weight", (4,), 2),
        *_inputs("s", "scalar", (), 1),
        *(Source(name, name, "parameter", (4,)) for name in _STATISTICS),
        *(MEAN3, UNIT3, EYE, BLOCKS),
    ]


def _strided() -> list[Template]:
    """Convolutions of every kernel by stride and padding."""
    return [
        _template(f"conv{h}x{w}s{stride}{padding[0]}", "Conv", 2, _conv((h, w), stride, padding), weights=_CONV_KINDS)
        for h, w in ((1, 1), (3, 3), (1, 3), (5, 5))
        for stride in (1, 2)
        for padding in ("same", "valid")
        if (h, w) == (3, 3) or padding == "same"
    ]


def _linear() -> list[Template]:
    """Matrix products, sums and products, with vectors per channel too."""
    return [
        _template("matmul", "MatMul", 2, _matrices),
        _template("add", "Add", 2, _same),
        _template("mul", "Mul", 2, _same),
        _template("scale", "Mul", 2, _scaled),
        _template("bias", "Add", 2, _per_channel),
        _template("gain", "Mul", 2, _per_channel),
    ]


def _moves() -> list[Template]:
    """What moves, joins or cuts, and what is made of weights alone."""
    return [
        _template("shift", "Add", 2, _per_row),
        _template("outer", "Mul", 2, _per_output, weights=(True, True)),
        _template("masked", "Mul", 1, _masked, weights=(True,), given=("blocks",)),
        _template("column4", "Reshape", 1, _column(4), weights=(True,)),
        _template("column2", "Reshape", 1, _column(2), weights=(True,)),
        *_joins(8),
        *_cuts(8),
        _template("transpose", "Transpose", 1, _ranked(2, perm=(1, 0))),
        _template("enlarge3", "Pad", 1, _enlarge, weights=(True,)),
    ]


def _functions() -> list[Template]:
    """What is only applied to activations."""
    return [
        _template("batchnorm", "BatchNormalization", 1, _normalised, given=_STATISTICS),
        *(_template(name.lower(), name, 1, _tensor) for name in ("Relu", "Sigmoid", "Tanh", "Gelu", "Exp", "Neg")),
        _template("avgpool3", "AveragePool", 1, _pool(3)),
        _template("avgpool2s2", "AveragePool", 1, _pool(2, 2, "valid")),
        _template("avgpool3c", "AveragePool", 1, _pool(3, count_include_pad=1)),
        _template("maxpool3", "MaxPool", 1, _pool(3)),
        _template("maxpool5", "MaxPool", 1, _pool(5)),
        _template("maxpool2s2", "MaxPool", 1, _pool(2, 2, "valid")),
        _template("globalavgpool", "GlobalAveragePool", 1, _ranked(4)),
        _template("resize2", "Resize", 1, _ranked(4, scales=(1.0, 1.0, 2.0, 2.0), **_NEAREST)),
        _template("nhwc", "Transpose", 1, _ranked(4, perm=(0, 2, 3, 1))),
        _template("nchw", "Transpose", 1, _ranked(4, perm=(0, 3, 1, 2))),
        _template("softmax", "Softmax", 1, _ranked(2, axis=1)),
        _template("reducesum", "ReduceSum", 1, _ranked(2, axes=(1,), keepdims=1)),
        _template("reducemean", "ReduceMean", 1, _ranked(4, axes=(2, 3), keepdims=1)),
        _template("pad1", "Pad", 1, _ranked(4, pads=(0, 0, 1, 1, 0, 0, 1, 1))),
        _template("heads", "Reshape", 1, _heads),
        _template("unheads", "Reshape", 1, lambda x: {"shape": (x[0], x[1] * x[2])} if len(x) == 3 else None),
    ]


def _default() -> TemplateSet:
    with_constants = {"matmul", "conv3x3s1s", "add", "gain"}
    templates = [
        *(replace(t, constants=t.name in with_constants) for t in [*_linear(), *_strided()]),
        *(replace(t, constants=False) for t in _moves()),
        *(replace(t, constants=False, weights=(False,)) for t in _functions()),
    ]
    return TemplateSet("default", tuple(_default_inputs()), tuple(templates))


SETS: Mapping[str, Callable[[], TemplateSet]] = {"default": _default, "taso": _taso}
"""Template sets by name."""
