"""The most general attributes of the operators of a left side, and the sizes that its operators make equal."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taso_py.graph.ordering import equal
from taso_py.graph.sizes import Expression, Role, Size, Symbol, as_symbol, floor_divide, product, symbols
from taso_py.graph.types import TensorType
from taso_py.ops.operator import Operator
from taso_py.prove.kernel.arithmetic import Guard, replaced
from taso_py.prove.typings.declared import Declared
from taso_py.prove.typings.shapes import POSITIVE, Refine, Undetermined, Unsupported
from taso_py.rules.term import (
    Application,
    AttributeExpression,
    Block,
    Listing,
    Name,
    Quantity,
)

RESULT = -1
"""In `Operator.axis_fields`: the axes are those of the result, which has so many more."""
FIRST = ("group", "transA", "transB", "blocksize", "flatten")
"""Attributes that the shapes of operands depend on."""


@dataclass(slots=True)
class Attributes(Declared):
    """Attributes become symbols or choices; `Refine` says what a symbol must become for an operator to be typed."""

    # ---- attributes ------------------------------------------------------------------------------------------------

    def _attribute(
        self, term: Application, name: str, attributes: Mapping[str, AttributeExpression], types: Sequence[TensorType]
    ) -> None:
        expression = attributes.get(name)
        if expression is None or (not types and name not in FIRST) or self._value(expression) is not None:
            return
        if name == "shape" and term.operator.onnx in ("Reshape", "Expand"):
            self._shape(term, expression, types[0])
            return
        if isinstance(expression, Listing):
            self._entries(term, name, expression, types)
            return
        if not isinstance(expression, Name):
            raise Unsupported(f"the attribute {name} of {term.operator.onnx} as an expression")
        known = {n: self._value(e) for n, e in attributes.items()}
        shapes = [t.dims for t in types]
        self.binding.names[expression.name] = self.shapes.attribute(term.operator, name, expression.name, shapes, known)

    def _shape(self, term: Application, expression: AttributeExpression, x: TensorType) -> None:
        """The most general new shape: for Reshape every size becomes a product with one factor per new axis."""
        if term.operator.onnx == "Expand":
            if isinstance(expression, Name):
                self.binding.names[expression.name] = self._expanded(expression.name, x)
            else:
                assert isinstance(expression, Listing)
                self._entries(term, "shape", expression, [x])
            return
        items: list[tuple[str, str]] = []
        known: Size = 1
        for item in expression.items if isinstance(expression, Listing) else (expression,):
            if isinstance(item, Block) and item.name not in self.binding.blocks:
                items += [("block", item.name)] * self._block_rank(item.name)
            elif isinstance(item, Name) and item.name not in self.binding.names:
                least = 0 if x.elements == 1 else 1
                count = 1 if isinstance(expression, Listing) else self._length(item.name, range(least, 4))
                items += [("name", item.name)] * count
            elif not isinstance(item, Block):
                known = known * self.binding.value(item)
            else:
                known = known * product(self.binding.blocks[item.name])
        total = floor_divide(x.elements, known)
        if total == 1 and known == x.elements:
            self._reshaped(expression, items, [])
            return
        if total * known != x.elements or isinstance(total, int) or len(total.terms) != 1 or total.terms[0][1] != 1:
            raise Unsupported(f"a Reshape of {x} to a shape with {known}")
        parts = [a for a in total.terms[0][0] if isinstance(a, Symbol)]
        if len(parts) < len(total.terms[0][0]):
            raise Unsupported(f"a Reshape of {x}")
        self._reshaped(expression, items, parts)

    def _length(self, name: str, options: Sequence[int]) -> int:
        """How many axes a shape of a name has."""
        there = None if self.shapes.site is None else self.shapes.site.lengths.get(name)
        return self.shapes.choices.pick(options) if there is None else there

    def _block_rank(self, name: str) -> int:
        there = None if self.shapes.site is None else self.shapes.site.blocks.get(name)
        count = self.shapes.choices.pick((1, 2, 0)) if there is None else there
        if count == 0:
            self.binding.blocks[name] = ()
        return count

    def _reshaped(
        self, expression: AttributeExpression, items: Sequence[tuple[str, str]], parts: Sequence[Symbol]
    ) -> None:
        """Every symbol of ``parts`` becomes a product of as many as there are items; each item takes its share."""
        count = len(items)
        if count > 1 and len(set(parts)) < len(parts):
            raise Unsupported("a Reshape of a size that counts twice, which may be divided in more than one way")
        shares = {p: tuple(self.shapes.size(f"{p}/{k}") for k in range(count)) for p in dict.fromkeys(parts)}
        sizes = [product(shares[p][k] for p in parts) for k in range(count)]
        if not isinstance(expression, Listing):
            assert isinstance(expression, Name)
            self.binding.names[expression.name] = tuple(sizes)
        else:
            blocks: dict[str, list[Size]] = {}
            for (kind, name), size in zip(items, sizes, strict=True):
                if kind == "name":
                    self.binding.names[name] = size
                else:
                    blocks.setdefault(name, []).append(size)
            self.binding.blocks.update({n: tuple(b) for n, b in blocks.items()})
        if shares:
            raise Refine({p: product(s) for p, s in shares.items()})

    def _expanded(self, name: str, x: TensorType) -> tuple[Size, ...]:
        """x's own shape with sizes of 1 enlarged, which any size may be, and at most one more axis before."""
        for d in x.dims:
            if isinstance(d, int) or d in self.shapes.enlarged:
                continue
            whole = as_symbol(d)
            if whole is None:
                raise Unsupported(f"an expansion of {x}")
            if self.shapes.choices.pick((False, True)):
                raise Refine({whole: 1})
        more = self.shapes.choices.pick(((), (self.shapes.size_or_1(f"{name}.more"),)))
        return (*more, *(self.shapes.size_or_1(f"{name}.{k}") if d == 1 else d for k, d in enumerate(x.dims)))

    def _entries(self, term: Application, name: str, expression: Listing, types: Sequence[TensorType]) -> None:
        if name == "ends":
            return
        for item in expression.items:
            if isinstance(item, Block):
                if item.name not in self.binding.blocks:
                    raise Unsupported(f"the block {item.name} in {name}")
            elif isinstance(item, Name) and item.name not in self.binding.names:
                if name in ("axes", "axis"):
                    new = len(expression.items) if term.operator.axis_fields.get(name) == RESULT else 0
                    self.binding.names[item.name] = self.shapes.choices.pick(range(types[0].rank + new))
                elif name == "indices_shape":
                    self.binding.names[item.name] = len(self._value(dict(term.attributes)["indices"]))
                elif name == "perm":
                    taken = {self._value(i) for i in expression.items if not isinstance(i, Block)}
                    self.binding.names[item.name] = self.shapes.choices.pick(
                        [k for k in range(len(expression.items)) if k not in taken]
                    )
                elif name == "steps":
                    self.binding.names[item.name] = self.shapes.step(item.name)
                else:
                    self.binding.names[item.name] = self.shapes.entry(term.operator, name, item.name)

    def _cuts(
        self, term: Application, attributes: Mapping[str, AttributeExpression], types: Sequence[TensorType]
    ) -> None:
        """The ends of a Slice with listed bounds, and what makes it a cut in normal form."""
        ends = attributes.get("ends")
        if term.operator.onnx != "Slice" or not isinstance(ends, Listing):
            return
        axes, starts = (self._value(attributes[n]) for n in ("axes", "starts"))
        steps = self._value(attributes["steps"]) if "steps" in attributes else (1,) * len(ends.items)
        for axis, start, step, end in zip(axes, starts, steps, ends.items, strict=True):
            dim = types[0].dims[axis]
            if isinstance(step, int) and step < -1:
                raise Unsupported(f"a Slice by steps of {step}")
            if isinstance(end, Name) and end.name not in self.binding.names:
                self.binding.names[end.name] = self.shapes.end(end.name, start, step, dim)
                continue
            assert not isinstance(end, Block)
            value = self.binding.value(end)
            if all(isinstance(v, (int, Expression)) for v in (value, start)) and step != -1:
                self.shapes.assumptions += [Guard(value - start, ">="), Guard(dim - value, ">="), Guard(start, ">=")]

    def _positive(self, attributes: Mapping[str, AttributeExpression]) -> None:
        """Strides, dilations and their like are positive where they are computed, too: there is the operator."""
        for name, expression in attributes.items():
            if name in POSITIVE:
                value = self._value(expression)
                entries = value if isinstance(value, tuple) else (value,)
                self.shapes.assumptions += [Guard(v - 1, ">=") for v in entries if isinstance(v, Expression)]

    def _operator(self, term: Application, types: Sequence[TensorType]) -> Operator:
        values = {n: self.binding.value(e) for n, e in term.attributes}
        return term.operator(**values).normal(*types)

    # ---- sizes that an operator makes equal ------------------------------------------------------------------------

    def _unified(self, term: Application, types: Sequence[TensorType]) -> None:
        """Raises `Refine` with what must replace a symbol so that the operator is typed."""
        match term.operator.onnx:
            case "Conv" | "ConvTranspose":
                self._convolved(term, types)
            case "MatMul" if len(types) == 2 and types[0].rank and types[1].rank:
                self._equal(types[0].dims[-1], types[1].dims[-2:][0])
            case "Gemm":
                swap_a, swap_b = (self._value(dict(term.attributes).get(n, Quantity(0))) for n in ("transA", "transB"))
                self._equal(types[0].dims[0 if swap_a else 1], types[1].dims[1 if swap_b else 0])
            case "Concat" if len({t.rank for t in types}) == 1:
                axis = self._value(dict(term.attributes).get("axis", Quantity(0)))
                rows = zip(*(t.dims for t in types), strict=True)
                others = [row for k, row in enumerate(rows) if k != axis % max(types[0].rank, 1)]
                for a, b in (pair for row in others for pair in itertools.pairwise(row)):
                    self._equal(a, b)
            case "BatchNormalization":
                for t in types[1:]:
                    self._equal(t.dims[0], types[0].dims[1])
            case _ if term.operator.pointwise:
                self._aligned(types)

    def _convolved(self, term: Application, types: Sequence[TensorType]) -> None:
        group = self._value(dict(term.attributes).get("group", Quantity(1)))
        x, w, *bias = types
        if term.operator.onnx == "Conv":
            self._equal(x.dims[1], self.shapes.product(group, w.dims[1]))
            self._multiple_of(w.dims[0], group)
            outer = w.dims[0]
        else:
            self._equal(w.dims[0], x.dims[1])
            self._multiple_of(x.dims[1], group)
            outer = self.shapes.product(group, w.dims[1])
        if bias:
            self._equal(bias[0].dims[0], outer)

    def _multiple_of(self, size: Size, group: Size) -> None:
        if floor_divide(size, group) * group == size:
            return
        channels = as_symbol(size)
        if channels is None:
            raise Unsupported(f"{size} channels in {group} groups")
        raise Refine({channels: self.shapes.product(group, self.shapes.size(f"{size}/"))})

    def _equal(self, a: Size, b: Size) -> None:
        """Makes two sizes equal by replacing a symbol."""
        if equal(a, b):
            return
        for this, other in ((a, b), (b, a)):
            replaceable = as_symbol(this)
            if replaceable is not None and replaceable not in symbols(other):
                raise Refine({replaceable: other})
        for this, other in ((a, b), (b, a)):
            inner = self._factor(this, other)
            if inner is not None:
                raise Refine(inner)
        solved = self._solved(a, b)
        if solved is not None:
            raise Refine(solved)
        raise Undetermined(f"{a} and {b} cannot be made equal")

    def _factor(self, product: Size, whole: Size) -> dict[Symbol, Size] | None:
        """g·c == g·d with a symbol c: c becomes d, or g becomes 0 where it may be."""
        if isinstance(product, int) or len(product.terms) != 1:
            return None
        for atom in product.terms[0][0]:
            rest = floor_divide(product, Expression((((atom,), 1),)))
            share = floor_divide(whole, rest)
            if rest != 1 and share * rest == whole and isinstance(atom, Symbol):
                if Guard(rest - 1, ">=") in self.shapes.assumptions:
                    return {atom: share}
                other = as_symbol(rest)
                if other is not None:
                    options: list[dict[Symbol, Size]] = [{atom: share}, {other: 0}]
                    return self.shapes.choices.pick(options)
        return None

    def _solved(self, a: Size, b: Size) -> dict[Symbol, Size] | None:
        """The symbol, of a sum that must be 0, that is another symbol or a number for it."""
        difference = a - b
        if isinstance(difference, int):
            return None
        for monomial, coefficient in difference.terms:
            if len(monomial) != 1 or not isinstance(monomial[0], Symbol) or abs(coefficient) != 1:
                continue
            symbol = monomial[0]
            rest = (symbol.size * coefficient - difference) * coefficient
            if symbol in symbols(rest):
                continue
            if symbol.role is Role.INTEGER and (as_symbol(rest) is not None or isinstance(rest, int)):
                return {symbol: rest}  # it may be negative, and so may what it is equal to
            if as_symbol(rest) is not None or (isinstance(rest, int) and rest >= 0):
                self.shapes.assumptions.append(Guard(rest, ">="))
                return {symbol: rest}
        return None

    def _aligned(self, types: Sequence[TensorType]) -> None:
        """Sizes that meet in a broadcast and differ: they are equal, or one of them is 1."""
        rank = max(t.rank for t in types)
        for axis in range(1, rank + 1):
            sizes = [t.dims[-axis] for t in types if t.rank >= axis and t.dims[-axis] != 1]
            for a, b in itertools.pairwise(sizes):
                if equal(a, b):
                    continue
                options: list[dict[Symbol, Size] | None] = [None]
                options += [one for s in (a, b) for one in self._being_1(s)]
                chosen = self.shapes.choices.pick(options)
                if chosen is not None:
                    raise Refine(chosen)
                self._equal(a, b)

    def _being_1(self, size: Size) -> Sequence[dict[Symbol, Size]]:
        """How a size can be 1, in which case it is repeated."""
        if isinstance(size, int) or not self.context.possible((Guard(size - 1, "=="),)):
            return ()
        if len(size.terms) == 1 and size.terms[0][1] == 1 and all(isinstance(a, Symbol) for a in size.terms[0][0]):
            return ({a: 1 for a in size.terms[0][0] if isinstance(a, Symbol)},)
        solved = self._solved(size, 1)
        if solved is None:
            raise Undetermined(f"{size} may be 1")
        return (solved,)

    def _squeezed(
        self, term: Application, attributes: Mapping[str, AttributeExpression], types: Sequence[TensorType]
    ) -> None:
        axes = self._value(attributes["axes"]) if term.operator.onnx == "Squeeze" and "axes" in attributes else ()
        for axis in axes or ():
            dim = types[0].dims[axis]
            if dim != 1 and (whole := as_symbol(dim)) is not None:
                raise Refine({whole: 1})

    def _replace(self, values: Mapping[Symbol, Size]) -> None:
        """Replaces symbols everywhere."""
        sizes = [d for t in self.types.values() for d in t.dims] + list(self.binding.names.values())
        in_use = {n for d in sizes for n in _symbols(d)}
        if not in_use & values.keys():
            raise Unsupported(", ".join(f"{k} should be {v}" for k, v in values.items()))
        b = self.binding
        b.names = {k: _renamed(v, values) for k, v in b.names.items()}
        b.blocks = {k: tuple(replaced(d, values) for d in v) for k, v in b.blocks.items()}
        self.types = {k: TensorType(t.dtype, tuple(replaced(d, values) for d in t.dims)) for k, t in self.types.items()}
        self.shapes.assumptions = [g.map(values) for g in self.shapes.assumptions]
        self.digits = {k: tuple(replaced(d, values) for d in v) for k, v in self.digits.items()}
        products = self.shapes.products
        self.shapes.products = {replaced(k, values): tuple(replaced(d, values) for d in v) for k, v in products.items()}
        self.done.clear()


def _symbols(value: Any) -> frozenset[Symbol]:
    """The symbols of a size, or of a list of sizes."""
    if isinstance(value, tuple):
        return frozenset[Symbol]().union(*map(_symbols, value))
    return symbols(value) if isinstance(value, Expression) else frozenset()


def _renamed(value: Any, values: Mapping[Symbol, Size]) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(v, values) for v in value)
    return replaced(value, values) if isinstance(value, Expression) else value
