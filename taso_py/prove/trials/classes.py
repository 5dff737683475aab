"""What kind of equation a proved rule is: its algebra, and whether both sides compute the same bits.

Both sides' meanings are unfolded at elements of concrete instances into trees of scalar operations.  Equal trees
everywhere that was looked at mean bitwise; anything else, a tree that is too large included, means reassociating.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from taso_py.arrays import Array
from taso_py.graph.sizes import Size, element_variables
from taso_py.graph.substitution import evaluate as evaluated
from taso_py.graph.types import TensorType
from taso_py.ops.algebra import Algebra, algebra
from taso_py.ops.meaning import Apply, Choose, Compare, Integer, Number, Operand, Read, Reduce, Scalar
from taso_py.ops.operator import Operator
from taso_py.prove.trials.runs import Drawn, Gap, Replay, Trial, leaves, with_values
from taso_py.rules.instances import Instance

_ELEMENTS = 24
"""Elements of each output that are unfolded."""
_NODES = 100_000
"""Most operations of one instance."""
_SYMMETRIC = frozenset({"add", "mul", "max", "min", "equal", "and", "or"})
_ORDER: tuple[Algebra, ...] = ("move", "ring", "real")
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0])


def kind_of(instances: Iterable[Instance]) -> Algebra:
    """The widest algebra of any operator, or literal, on either side."""
    kinds: list[Algebra] = ["move"]
    for instance in instances:
        kinds += [_algebra(n.operator, _types(instance, n.inputs)) for n in instance.nodes.values()]
        kinds += ["real" for v in _literals(instance).values() if v != int(v)]
    return max(kinds, key=_ORDER.index)


def _algebra(operator: Operator, types: tuple[TensorType, ...]) -> Algebra:
    """`algebra`, except that any number may stand where nothing is computed, as a padding does."""
    index = tuple(s.size for s in element_variables(operator.infer(*types).rank))
    meaning = operator.element(tuple(Operand(k, t) for k, t in enumerate(types)), index)
    return "move" if _copy(meaning) else algebra(operator, types)


def _types(instance: Instance, inputs: Iterable[int | None]) -> tuple[TensorType, ...]:
    return tuple(instance.values.types[i] for i in inputs if i is not None)


def _literals(instance: Instance) -> dict[int, float]:
    """Literal operands by id."""
    own = set(instance.binding.tensors.values())
    return {v: float(np.ravel(a)[0]) for v, a in instance.weights.items() if v not in own}


def bitwise(instances: Sequence[Instance]) -> bool:
    """Whether both sides of every instance are the same trees of operations."""
    try:
        return bool(instances) and all(_same_trees(instance) for instance in instances)
    except TooManyOperations:
        return False


class TooManyOperations(Exception):
    """More operations than are looked at."""


def _same_trees(instance: Instance) -> bool:
    trees = _Trees(instance)
    random = np.random.default_rng(0)
    for left, right in zip(instance.left, instance.right, strict=True):
        shape = _concrete(instance.values.types[left].dims)
        places = list(np.ndindex(shape))
        if len(places) > _ELEMENTS:
            places = [places[int(k)] for k in random.permutation(len(places))[:_ELEMENTS]]
        if any(trees.element(left, p) != trees.element(right, p) for p in places):
            return False
    return True


def _concrete(dims: Sequence[Size]) -> tuple[int, ...]:
    return tuple(d for d in dims if isinstance(d, int))


@dataclass(slots=True)
class _Trees:
    """Elements as trees: equal trees have equal numbers."""

    instance: Instance
    numbers: dict[Hashable, int] = field(default_factory=dict)
    known: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    literals: Mapping[int, float] = field(init=False)

    def __post_init__(self) -> None:
        self.literals = _literals(self.instance)

    def tree(self, *parts: Hashable) -> int:
        """The number of a tree with these parts."""
        if len(self.numbers) > _NODES:
            raise TooManyOperations
        return self.numbers.setdefault(parts, len(self.numbers))

    def element(self, value: int, index: tuple[int, ...]) -> int:
        """The tree of one element of a value."""
        key = (value, index)
        if key not in self.known:
            self.known[key] = self._element(value, index)
        return self.known[key]

    def _element(self, value: int, index: tuple[int, ...]) -> int:
        if value in self.literals:
            return self.tree("number", self.literals[value])
        node = self.instance.nodes.get(value)
        if node is None:
            return self.tree("element", value, index)
        operator: Operator = node.operator
        inputs = [i for i in node.inputs if i is not None]
        types = _types(self.instance, inputs)
        meaning = operator.element(tuple(Operand(k, t) for k, t in enumerate(types)), index)
        found = _Unfolding(self, inputs, types).tree(meaning, {})
        # How a runtime orders the steps of a composite operator is its own affair: only the same operator is equal.
        return found if _simple(meaning) else self.tree("operator", operator.onnx, found)


@dataclass(slots=True)
class _Unfolding:
    """One application's meaning, with its operands' elements in place of reads."""

    trees: _Trees
    inputs: Sequence[int]
    types: Sequence[TensorType]

    def tree(self, meaning: Scalar, env: Mapping[str, int]) -> int:
        """The tree of a value; what is read outside of an operand is zero."""
        found = self._present(meaning, env)
        return self.trees.tree("number", 0.0) if found is None else found

    def _present(self, meaning: Scalar, env: Mapping[str, int]) -> int | None:
        """`tree`, None for what is read outside of an operand."""
        match meaning:
            case Number(value):
                return self.trees.tree("number", float(value))
            case Integer(value):
                return self.trees.tree("number", float(_integer(value, env)))
            case Read(operand, index):
                place = tuple(_integer(i, env) for i in index)
                inside = all(0 <= i < d for i, d in zip(place, _concrete(self.types[operand].dims), strict=True))
                return self.trees.element(self.inputs[operand], place) if inside else None
            case Choose(conditions, then, otherwise):
                return self._present(then if all(_holds(c, env) for c in conditions) else otherwise, env)
            case Apply(function, arguments, given):
                parts = [self.tree(a, env) for a in arguments]
                return self._applied(function, sorted(parts) if function in _SYMMETRIC else parts, given)
            case Reduce(kind):
                return self.trees.tree(kind, *self._listed(meaning, kind, env))

    def _applied(self, function: str, parts: Sequence[int], given: tuple[float, ...]) -> int:
        if function == "neg":
            return self.trees.tree("mul", *sorted((self.trees.tree("number", -1.0), *parts)))
        return self.trees.tree(function, given, *parts) if given else self.trees.tree(function, *parts)

    def _listed(self, meaning: Scalar, kind: str, env: Mapping[str, int]) -> list[int]:
        """The operands of a reduction in order; one nested in another of its kind is the same reduction."""
        if not (isinstance(meaning, Reduce) and meaning.kind == kind):
            found = self._present(meaning, env) if kind == "max" else self.tree(meaning, env)
            return [] if found is None else [found]
        extent = _integer(meaning.extent, env)
        places = ({**env, meaning.variable: k} for k in range(extent))
        return list(itertools.chain.from_iterable(self._listed(meaning.body, kind, place) for place in places))


def _integer(size: Size, env: Mapping[str, int]) -> int:
    found = evaluated(size, lambda s: env.get(s.name, s.size))
    if not isinstance(found, int):
        raise TooManyOperations  # a size that an instance leaves open: nothing is claimed
    return found


def _holds(compare: Compare, env: Mapping[str, int]) -> bool:
    left, right = _integer(compare.left, env), _integer(compare.right, env)
    return {"<": left < right, "<=": left <= right, "==": left == right}[compare.relation]


def _simple(meaning: Scalar) -> bool:
    """A copy, one scalar operation, or one reduction of elements or of products of two."""
    match meaning:
        case Apply("add", (first, Apply("mul", (Number(-1.0) | Integer(-1), second)))):
            return _copy(first) and _copy(second)
        case Apply(_, arguments, _):
            return all(map(_copy, arguments))
        case Reduce(kind, _, _, body):
            while isinstance(body, Reduce) and body.kind == kind:
                body = body.body
            return _copy(body) or (isinstance(body, Apply) and body.function == "mul" and _simple(body))
        case _:
            return _copy(meaning)


def _copy(meaning: Scalar) -> bool:
    match meaning:
        case Choose(_, then, otherwise):
            return _copy(then) and _copy(otherwise)
        case _:
            return isinstance(meaning, (Read, Number, Integer))


def specials_change(trials: Sequence[Trial], replay: Replay) -> bool:
    """Whether NaN, Inf or zero in the inputs give a result that is finite, NaN or Inf on one side only."""
    random = np.random.default_rng(0)
    if any(t.gap in (Gap.UNDEFINED, Gap.LOST) for t in trials):
        return True
    drawn = [Drawn(_with_specials(t.instance, random), t.flipped) for t in trials]
    return any(_differ(a, b) for t in replay.trials(drawn) for a, b in zip(t.left, t.right, strict=True))


def _with_specials(instance: Instance, random: np.random.Generator) -> Instance:
    def strewn(array: Array) -> Array:
        if array.dtype.kind != "f" or not array.size:
            return array
        chosen = random.random(array.shape) < 0.2
        chosen.reshape(-1)[int(random.integers(array.size))] = True
        return np.where(chosen, random.choice(_SPECIAL, array.shape), array).astype(array.dtype)

    return with_values(instance, {v: strewn(a) for v, a in leaves(instance).items() if v in instance.feeds})


def _differ(left: Array, right: Array) -> bool:
    if left.shape != right.shape or left.dtype.kind != "f":
        return False
    a, b = left.astype(np.float64), right.astype(np.float64)
    return any(not np.array_equal(kind(a), kind(b)) for kind in (np.isnan, np.isposinf, np.isneginf))
