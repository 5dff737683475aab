"""One concrete size for every symbolic dimension, and a second one for the check."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from taso_py.check.facts import Dim, InputSpec
from taso_py.errors import UsageError
from taso_py.options.spelling import spelled

Shape = tuple[int, ...]

DEFAULT_BYTES = 2**26
"""Most memory that all inputs together take at sizes that nobody chose."""

_LONGEST = 200
"""Characters of an expression that is read."""
_DOUBLINGS = 20

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


class ArrayShape(tuple[int, ...]):
    """The shape of an array that is given for an input: what is wrong with it is wrong with the array."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """Sizes of all symbols, and with them the shape of every input (of each element, for a sequence)."""

    sizes: Mapping[str, int]
    shapes: Mapping[str, Shape]
    shrunk: bool = False
    """Whether defaults were made smaller to stay below `DEFAULT_BYTES`."""

    def describe(self) -> str:
        """E.g. "x=1,3,224,224; ids=1,128"."""
        return "; ".join(f"{name}={','.join(map(str, shape))}" for name, shape in self.shapes.items())


def resolve_shapes(
    inputs: Sequence[InputSpec], options: Mapping[str, Shape], found: Mapping[str, int] | None = None
) -> Assignment:
    """Concrete shapes from options (an input's shape, or a 1-tuple for a symbol) and defaults.

    ``found``: sizes of symbols with which the model is known to run, where the options do not say others.
    Default: a symbolic first axis is 1, the last two axes of rank 4 are 224, others 128; the same symbol has
    the same size everywhere. The largest defaults are halved until all inputs fit into `DEFAULT_BYTES`.
    UsageError for an unknown name, a wrong rank, a fixed dimension contradicted, sizes at which there is no such input.
    """
    specs = {spec.name: spec for spec in inputs}
    symbols = dict.fromkeys(symbol for spec in inputs for symbol in symbols_of(spec))
    sizes: dict[str, int] = {}
    shapes: dict[str, Shape] = {}
    for name, shape in options.items():
        if name in specs:
            _bind_input(specs[name], shape, sizes)
            shapes[name] = shape
        elif name in symbols and len(shape) == 1:
            _bind(name, shape[0], sizes, spelled("shapes", key=name))
        else:
            known = ", ".join([*specs, *(symbol for symbol in symbols if "[" not in symbol)])
            what = "input" if isinstance(shape, ArrayShape) else "input or symbol"
            raise UsageError(f"{_option(name, shape)}: the model has no such {what}: use one of {known}")
    for name in shapes:
        _bind_computed(specs[name], shapes[name], sizes)
    given = set(sizes)
    for spec in inputs:
        for axis, dim in enumerate(spec.dims or ()):
            for symbol in _names(dim):
                default = _default(spec, axis) if symbol == dim else 128
                sizes.setdefault(symbol, (found or {}).get(symbol, default))
    _settle(inputs, sizes, sizes.keys() - given)
    shrunk = _shrink(inputs, sizes, sizes.keys() - given, shapes)
    assigned = {spec.name: _shape(spec, sizes, shapes) for spec in inputs}
    for name, shape in shapes.items():
        if assigned[name] != shape:
            raise UsageError(f"{_option(name, shape)}: its symbols make it {_text(assigned[name])}: choose these")
    return Assignment(sizes, assigned, shrunk)


def _settle(inputs: Sequence[InputSpec], sizes: dict[str, int], free: Set[str]) -> None:
    """Larger ``free`` sizes, else smaller ones, for dimensions that have none, as "n - 1000" has not at 128."""
    for dim in (dim for spec in inputs for dim in spec.dims or ()):
        symbols = [symbol for symbol in _names(dim) if symbol in free]
        larger = ({symbol: sizes[symbol] << k for symbol in symbols} for k in range(_DOUBLINGS))
        smaller = ({symbol: sizes[symbol] >> k for symbol in symbols} for k in range(_DOUBLINGS))
        # Of "t - p - 1" no size of both makes anything.
        single = ({symbol: sizes[symbol] << k} for k in range(2, _DOUBLINGS) for symbol in symbols)
        sizes.update(next((tried for tried in chain(larger, smaller, single) if _is_size(dim, {**sizes, **tried})), {}))


def _are_sizes(inputs: Sequence[InputSpec], sizes: Mapping[str, int]) -> bool:
    """Whether every dimension of every input has a size."""
    return all(_is_size(dim, sizes) for spec in inputs for dim in spec.dims or ())


def _is_size(dim: Dim, sizes: Mapping[str, int]) -> bool:
    try:
        return dim_size(dim, sizes) >= 0
    except UsageError:
        return False


def _shrink(inputs: Sequence[InputSpec], sizes: dict[str, int], free: Set[str], given: Mapping[str, Shape]) -> bool:
    """Halve the largest of the ``free`` sizes until the inputs fit into `DEFAULT_BYTES`; whether that was needed."""
    shrunk = False
    while (largest := max((sizes[s] for s in free), default=1)) > 1:
        if sum(math.prod(_shape(spec, sizes, given)) * item_bytes(spec) for spec in inputs) <= DEFAULT_BYTES:
            break
        halved = {symbol: largest // 2 for symbol in free if sizes[symbol] == largest}
        if not _are_sizes(inputs, {**sizes, **halved}):
            break
        sizes.update(halved)
        shrunk = True
    return shrunk


def item_bytes(spec: InputSpec) -> int:
    """Bytes of one element of an input; a pointer's for strings."""
    import onnx

    try:
        return max(1, int(onnx.helper.tensor_dtype_to_np_dtype(spec.element).itemsize))
    except KeyError:
        return 1


def second_sizes(inputs: Sequence[InputSpec], first: Assignment, fixed: Sequence[str] = ()) -> tuple[Assignment, ...]:
    """Other sizes to try, best first: all symbols changed, then only those of first axes.

    Inputs named in ``fixed`` (given as arrays) keep their shapes. The caller takes the first assignment at
    which the original model runs, or none.
    """
    kept = {symbol for spec in inputs if spec.name in fixed for symbol in symbols_of(spec)}
    free = [symbol for symbol in first.sizes if symbol not in kept]
    batch = {spec.dims[0] for spec in inputs if spec.dims and isinstance(spec.dims[0], str)}
    found: list[Assignment] = []
    for changed in (free, [symbol for symbol in free if symbol in batch]):
        sizes = {s: _other(size) if s in changed else size for s, size in first.sizes.items()}
        if not _are_sizes(inputs, sizes):
            continue
        given = {spec.name: first.shapes[spec.name] for spec in inputs if spec.dims is None}
        shapes = {spec.name: _shape(spec, sizes, given) for spec in inputs}
        candidate = Assignment(sizes, shapes)
        if shapes != dict(first.shapes) and candidate not in found:
            found.append(candidate)
    return tuple(found)


def dim_size(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The size of a dimension: a number, a symbol, or an expression such as "past + 1" over symbols.

    UsageError where it has none at these sizes.
    """
    if isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    try:
        size = _evaluate(ast.parse(dim, mode="eval").body, sizes)
    except (ArithmeticError, RecursionError, MemoryError, ValueError):  # by 0, too long a sum, a NUL in it
        size = None
    if size is None or size < 0:
        at = ", ".join(f"{name} = {sizes[name]}" for name in dict.fromkeys(_names(dim))) or "all sizes"
        raise UsageError(f"dimension '{dim}' has no size at {at}: choose others with {spelled('shapes')}")
    return size


def _default(spec: InputSpec, axis: int) -> int:
    if axis == 0:
        return 1
    return 224 if len(spec.dims or ()) == 4 and axis >= 2 else 128


def _other(size: int) -> int:
    """A second size that real networks accept too: multiples of 32 stay multiples of 32."""
    if size <= 1:
        return 2
    if size > 32 and size % 32 == 0:
        return size - 32
    return size // 2 if size % 2 == 0 else size + 1


def _shape(spec: InputSpec, sizes: Mapping[str, int], given: Mapping[str, Shape]) -> Shape:
    if spec.dims is None:
        return given.get(spec.name, (1,))
    return tuple(dim_size(dim, sizes) for dim in spec.dims)


def _bind_input(spec: InputSpec, shape: Shape, sizes: dict[str, int]) -> None:
    if spec.dims is None:
        return
    said = _option(spec.name, shape)
    if len(shape) != len(spec.dims):
        raise UsageError(f"{said}: the input has {len(spec.dims)} axes ({_text(spec.dims)})")
    for axis, (dim, size) in enumerate(zip(spec.dims, shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            remedy = f"give an array of size {dim} there" if isinstance(shape, ArrayShape) else f"write {dim}"
            raise UsageError(f"{said}: axis {axis} is fixed to {dim} in the model: {remedy}")
        if isinstance(dim, str) and _names(dim) == [dim]:
            _bind(dim, size, sizes, said)


def _bind_computed(spec: InputSpec, shape: Shape, sizes: dict[str, int]) -> None:
    """Bind the one symbol that is not known yet of an affine dimension: of "past + 1" it is 4 where that is 5."""
    for dim, size in zip(spec.dims or (), shape, strict=False):
        unknown = [name for name in dict.fromkeys(_names(dim)) if name not in sizes]
        if isinstance(dim, int) or len(unknown) != 1 or unknown == [dim]:
            continue
        try:
            tree = ast.parse(dim, mode="eval").body
            none, one = (_evaluate(tree, {**sizes, unknown[0]: count}) for count in (0, 1))
        except (UsageError, ZeroDivisionError):
            continue
        if one != none and (size - none) % (one - none) == 0 and (size - none) // (one - none) >= 0:
            sizes[unknown[0]] = (size - none) // (one - none)


def _option(name: str, shape: Shape) -> str:
    """What gave an input its shape, as it is said in a message."""
    if isinstance(shape, ArrayShape):
        return f"{spelled('inputs', key=name, metavar='...')}, an array of shape {_text(shape)}"
    return spelled("shapes", _text(shape), key=name)


def _bind(symbol: str, size: int, sizes: dict[str, int], option: str) -> None:
    if sizes.setdefault(symbol, size) != size:
        raise UsageError(f"{option}: symbol '{symbol}' is {size} here and {sizes[symbol]} elsewhere: choose one")


def symbols_of(spec: InputSpec) -> Iterator[str]:
    """The symbols that the sizes of an input hang on."""
    for dim in spec.dims or ():
        yield from _names(dim)


def _names(dim: Dim) -> list[str]:
    """The symbols of a dimension; exporters write expressions ("past_length + 1") where they know one."""
    if isinstance(dim, int):
        return []
    if len(dim) > _LONGEST:  # Python's parser gives up on some of them, each time in another way
        return [dim]
    try:
        tree = ast.parse(dim, mode="eval").body
    except (SyntaxError, ValueError):  # ValueError: a NUL
        return [dim]
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    # What holds numbers alone is no expression, or its exporter would have computed it: "2021-2022" is a name.
    return names if names and isinstance(tree, ast.BinOp) and _is_arithmetic(tree) else [dim]


def _is_arithmetic(tree: ast.expr) -> bool:
    if isinstance(tree, ast.BinOp):
        return type(tree.op) in _ARITHMETIC and _is_arithmetic(tree.left) and _is_arithmetic(tree.right)
    return isinstance(tree, ast.Name) or (isinstance(tree, ast.Constant) and isinstance(tree.value, int))


def _evaluate(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    match tree:
        case ast.BinOp(left, op, right):
            return int(_ARITHMETIC[type(op)](_evaluate(left, sizes), _evaluate(right, sizes)))
        case ast.Name(name):
            return sizes[name]
        case ast.Constant(int(value)):
            return value
    raise UsageError(f"dimension '{ast.unparse(tree)}' cannot be evaluated: give the input's {spelled('shapes')}")


def _text(dims: Sequence[Dim]) -> str:
    return ",".join(map(str, dims))
