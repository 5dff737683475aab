"""Random models of If nodes, some within others, whose branches compute alike, capture, and share what they read."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import onnx
import onnx.parser

UNARY = ("Relu", "Neg", "Exp", "Abs", "Sigmoid", "Tanh")
BINARY = ("Add", "Mul", "Sub")
DEEPEST = 2
"""Branches within branches at most."""
WHOLE, HALF = (2, 3), (1, 3)
Value = tuple[str, tuple[int, int]]
"""Its name and shape."""


@dataclass(slots=True)
class _Text:
    random: random.Random
    count: int = 0
    weights: list[str] = field(default_factory=list)

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def any_of(self, scope: list[Value], shape: tuple[int, int]) -> str:
        return self.random.choice([name for name, of in scope if of == shape])

    def block(self, outer: list[Value], nodes: int, depth: int) -> tuple[list[str], list[Value]]:
        """So many nodes in a scope, and the scope with what they make."""
        lines, scope = list[str](), list(outer)
        for _ in range(nodes):
            line, made = self.node(scope, depth)
            lines.append(line)
            scope += made
        return lines, scope

    def node(self, scope: list[Value], depth: int) -> tuple[str, list[Value]]:
        """One node that reads values of the scope, and its results."""
        (first, shape), kind, result = self.random.choice(scope), self.random.random(), self.name()
        if kind < 0.35:
            return f"{result} = {self.random.choice(UNARY)}({first})", [(result, shape)]
        if kind < 0.55:
            second = self.any_of(scope, shape)
            return f"{result} = {self.random.choice(BINARY)}({first}, {second})", [(result, shape)]
        if kind < 0.65:
            parts = result, self.name()
            return f"{', '.join(parts)} = Split<axis = 0>({self.any_of(scope, WHOLE)}, kk)", [(p, HALF) for p in parts]
        if kind < 0.7 and any(of == HALF for _, of in scope):
            one, other = self.any_of(scope, HALF), self.any_of(scope, HALF)
            return f"{result} = Concat<axis = 0>({one}, {other})", [(result, WHOLE)]
        if kind < 0.75:
            return f"{result} = {self.loop(first, self.any_of(scope, shape), shape)}", [(result, shape)]
        if kind < 0.8 or depth >= DEEPEST:
            return f"{result} = Mul({first}, w{self.random.randrange(2)})", [(result, shape)]
        return self.branches(scope, depth)

    def loop(self, start: str, captured: str, shape: tuple[int, int]) -> str:
        """A Loop whose body reads a value from outside."""
        type_ = f"float[{shape[0]},{shape[1]}]"
        state, result, number, go, more = (self.name(prefix) for prefix in ("s", "o", "i", "g", "m"))
        body = f"{more} = Identity({go}) {result} = Add({state}, {captured})"
        inputs = f"int64 {number}, bool {go}, {type_} {state}"
        return (
            f"Loop(two, , {start}) <body = {self.name('b')} ({inputs}) => (bool {more}, {type_} {result}) {{ {body} }}>"
        )

    def branches(self, scope: list[Value], depth: int) -> tuple[str, list[Value]]:
        """An If of one or two results."""
        made = [(self.name(), self.random.choice(scope)[1]) for _ in range(self.random.choice((1, 1, 2)))]
        shapes = [shape for _, shape in made]
        texts = [
            f"{which} = {self.name('t')} {self.branch(scope, shapes, depth)}"
            for which in ("then_branch", "else_branch")
        ]
        return f"{', '.join(name for name, _ in made)} = If({self.random.choice('cd')}) <{', '.join(texts)}>", made

    def branch(self, scope: list[Value], shapes: list[tuple[int, int]], depth: int) -> str:
        """A branch whose results are new, or captured."""
        lines, inner = self.block(scope, self.random.randint(1, 4), depth + 1)
        results = []
        for shape in shapes:
            fit = [name for name, of in inner if of == shape]
            source = fit[-1] if self.random.random() < 0.6 else self.random.choice(fit)
            operator = self.random.choice(UNARY[:3]) if self.random.random() < 0.6 else "Identity"
            result = self.name("r")
            lines.append(f"{result} = {operator}({source})")
            results.append(f"float[{shape[0]},{shape[1]}] {result}")
        return f"() => ({', '.join(results)}) {{ {' '.join(lines)} }}"


def branched_model(seed: int) -> onnx.ModelProto:
    """The model of a seed: inputs ``x`` float[2, 3] and the conditions ``c`` and ``d``, output ``y`` float[2, 3]."""
    text = _Text(random.Random(seed))
    lines, scope = text.block([("x", WHOLE)], text.random.randint(4, 9), 0)
    last = [name for name, shape in scope if shape == WHOLE][-3:]
    constants = "kk = Constant<value_ints = [1, 1]>() two = Constant<value_int = 2>()"
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> branched{seed} (float[2,3] x, bool c, bool d) => (float[2,3] y)
            <float[3] w0 = {{1.0, -0.5, 2.0}}, float[1] w1 = {{0.5}}>
            {{ {constants} {" ".join(lines)} y = Add({last[-1]}, {last[0]}) }}"""
    )
