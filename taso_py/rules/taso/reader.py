"""TASO's shipped substitutions as laws, under two typings.

Each is written in the rule language and parsed.  Convolutions pad SAME at step 1, so a kernel of size 2·a + 1 pads
by a; a Split is the Slices at which it undoes a Concat; an activation is a Relu around its operator.

Source: jiazhihao/TASO, graph_subst.pb.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from taso_py.files import parse_json
from taso_py.rules.parser import parse_rule
from taso_py.rules.rule import Rule
from taso_py.rules.taso.declarations import (
    DeclaredSizes,
    Dim,
    Reference,
    Shape,
    SideName,
    Sizes,
    Substitution,
    SubstitutionStep,
    place,
)

_NAMES = {"ewadd": "Add", "ewmul": "Mul", "matmul": "MatMul"}
_LETTERS = "abcdefhijklmnopqrstvwyz"
"""Names of sizes; g and u begin those of group counts and flags, x those of tensors."""


def read(text: str) -> tuple[Substitution, ...]:
    """The substitutions of a decoded rule file: JSON with ``rules`` of ``src``, ``dst`` and ``outputs``."""
    return tuple(
        Substitution(
            rule["id"],
            _steps(rule["src"]),
            _steps(rule["dst"]),
            tuple((_reference(o["src"]), _reference(o["dst"])) for o in rule["outputs"]),
        )
        for rule in parse_json(text)["rules"]
    )


def _steps(steps: Sequence[Mapping[str, Any]]) -> tuple[SubstitutionStep, ...]:
    return tuple(SubstitutionStep(s["op"], tuple(map(_reference, s["inputs"])), s["params"]) for s in steps)


def _reference(pair: Sequence[int]) -> Reference:
    step, port = pair
    return step, port


def law(substitution: Substitution, typing: DeclaredSizes) -> Rule:
    """A substitution as a rule; ValueError where the sizes cannot be made to fit."""
    return parse_rule(_Text(substitution, typing, Sizes.of(substitution, typing)).rule())


@dataclass
class _Text:
    """The law in the rule language."""

    given: Substitution
    typing: DeclaredSizes
    sizes: Sizes
    names: dict[str, str] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)

    def rule(self) -> str:
        name = f"shipped-{self.given.id:03}-{self.typing.value}"
        declared = self._declarations()
        left, right = (self._side(s) for s in ("left", "right"))
        clauses = [f"\n  for {', '.join(declared)}"] if declared else []
        if self.flags:
            clauses.append(f"\n  choose {', '.join(f'{f} in [0, 1]' for f in self.flags.values())}")
        doc = f"TASO's rule {self.given.id}."
        return f'rule {name} "{doc}":\n  {left}\n  => {right}{"".join(clauses)}\n'

    # ---- sizes -------------------------------------------------------------------------------------------------------

    def _declarations(self) -> list[str]:
        found = []
        for tensor in self.given.inputs():
            dims = [self._declared(d) for d in self.sizes.shapes["", tensor]]
            if dims:
                found.append(f"x{-tensor}[{', '.join(dims)}]")
            elif self.typing is DeclaredSizes.EXPLICIT:
                found.append(f"x{-tensor}[*s]")
        return found

    def _declared(self, dim: Dim) -> str:
        ((size,),) = dim
        base = self.sizes.base(size)
        if base in self.sizes.products and not self.sizes.broadcasts(size):
            group, factor = self.sizes.products[base]
            return f"({group} {self._name(factor)})"
        return self._size(size)

    def _name(self, base: str) -> str:
        letters = (c for c in _LETTERS if c not in self.names.values())
        return self.names.get(base) or self.names.setdefault(base, next(letters))

    def _size(self, size: str) -> str:
        """One size: a kernel's is odd, and one that broadcasts is 1 when its flag is 0."""
        base = self.sizes.base(size)
        if base in self.sizes.kernels:
            return f"2 * {self._half(size)} + 1"
        if base in self.sizes.products:
            group, factor = self.sizes.products[base]
            whole = f"{group} * {self._name(factor)}"
        else:
            whole = self._name(base)
        flag = self._flag(size)
        return f"{flag} * {whole} + 1 - {flag}" if flag else whole

    def _half(self, size: str) -> str:
        """The padding in front of and behind a kernel of this size."""
        return " * ".join(filter(None, (self._flag(size), self._name(self.sizes.base(size)))))

    def _flag(self, size: str) -> str:
        root = self.sizes.root(size)
        if not self.sizes.broadcasts(size):
            return ""
        return self.flags.setdefault(root, f"u{len(self.flags) + 1}")

    def dim(self, dim: Dim) -> str:
        return " + ".join(_largest([self._size(s) for s in sorted(part)]) for part in dim)

    def padding(self, dim: Dim) -> str:
        (part,) = dim
        return _largest([self._half(s) for s in sorted(part)])

    def group(self, channels: Dim, inner: Dim) -> str:
        """The quotient of channels and kernel channels."""
        wholes, factors = ([self.dim((part,)) for part in d] for d in (channels, inner))
        if wholes == factors:
            return ""
        if len(factors) == 1 and set(wholes) == set(factors):
            return f", group={len(wholes)}"
        counts = [self._count(part, factors) for part in channels]
        if all(counts):
            return f", group={' + '.join(counts)}"
        return f", group=({self.dim(channels)}) // ({self.dim(inner)})"

    def _count(self, part: frozenset[str], factors: Sequence[str]) -> str:
        """How often channels hold a kernel's, where they are a product of just that; else empty."""
        size, *others = part
        count, factor = self.sizes.products.get(self.sizes.base(size), ("", ""))
        plain = not others and not self.sizes.broadcasts(size)
        return count if plain and count and [self._name(factor)] == list(factors) else ""

    # ---- terms -------------------------------------------------------------------------------------------------------

    def _side(self, side: SideName) -> str:
        steps = self.given.left if side == "left" else self.given.right
        outputs = [pair[side == "right"] for pair in self.given.outputs]
        return _Side(self, side, steps, outputs).text()


def _largest(texts: Sequence[str]) -> str:
    first, *others = dict.fromkeys(texts)
    for other in others:
        first = f"max({first}, {other})"
    return first


@dataclass
class _Side:
    """One side; what is read more than once gets a name."""

    law: _Text
    side: SideName
    steps: Sequence[SubstitutionStep]
    outputs: Sequence[Reference]

    def text(self) -> str:
        lets = "".join(f"let y{k} = {self._step(k)} in " for k in range(len(self.steps)) if self._named(k))
        return lets + ", ".join(self._term(r) for r in self.outputs)

    @cached_property
    def _uses(self) -> Counter[int]:
        """How often each step is read; what a Split reads, as often as the Split."""
        uses = Counter(k for k, _ in self.outputs)
        for k in reversed(range(len(self.steps))):
            step = self.steps[k]
            times = uses[k] if step.op == "split" else 1 if uses[k] else 0
            for read, _ in step.inputs:
                uses[read] += times
        return uses

    def _named(self, k: int) -> bool:
        return self.steps[k].op != "split" and self._uses[k] > 1

    def _term(self, reference: Reference) -> str:
        k, port = reference
        if k < 0:
            return f"x{-k}"
        if self.steps[k].op == "split":
            return self._part(self.steps[k], port)
        return f"y{k}" if self._named(k) else self._step(k)

    def _step(self, k: int) -> str:
        step = self.steps[k]
        operands = ", ".join(self._term(r) for r in step.inputs)
        match step.op:
            case "relu":
                return f"Relu({operands})"
            case "concat":
                return f"Concat({operands}, axis={step.params['axis']})"
            case "conv2d":
                conv = f"Conv({operands}{self._window(step)})"
                return f"Relu({conv})" if step.params["acti"] == "relu" else conv
        if step.params.get("acti", "none") != "none":
            raise ValueError(f"{step.op} with the activation {step.params['acti']} is not known")
        return f"{_NAMES[step.op]}({operands})"

    def _shape(self, reference: Reference) -> Shape:
        return self.law.sizes.shapes[place(self.side, reference[0])]

    def _window(self, step: SubstitutionStep) -> str:
        x, kernel = (self._shape(r) for r in step.inputs)
        pads = [self.law.padding(d) for d in kernel[2:]]
        return f", pads=[{', '.join(pads + pads)}]{self.law.group(x[1], kernel[1])}"

    def _part(self, step: SubstitutionStep, port: int) -> str:
        """A Split undoes the Concat that made its operand's axis."""
        (whole,), axis = step.inputs, step.params["axis"]
        parts = self._shape(whole)[axis]
        if len(parts) != step.params["num_outputs"]:
            raise ValueError(f"a Split into {step.params['num_outputs']} of {len(parts)} parts has no known positions")
        start, end = (self.law.dim(parts[:k]) or "0" for k in (port, port + 1))
        return f"Slice({self._term(whole)}, axes=[{axis}], starts=[{start}], ends=[{end}], steps=[1])"
