"""True laws applied where they make values of each other in a circle: nobody would be computed by anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scripts.audit.certificates.subjects import Case, Document, fitted_to_nothing, model
from taso_py.rules.parser import parse_rule

ABS = "rule abs-max: Abs(Add(Add(x, y), z)) => Max(Add(Add(x, y), z), Neg(Add(Add(x, y), z))) for x[*s], y[*s], z[*s]"
SWAP = "rule swap: Add(Add(x, y), z) => Add(Add(x, z), y) for x[*s], y[*s], z[*s]"
TURN = "rule turn: Add(Add(x, y), z) => Add(Add(y, z), x) for x[*s], y[*s], z[*s]"
ORDERS: Mapping[str, tuple[str, ...]] = {SWAP: ("xyw", "xwy"), TURN: ("xyw", "ywx", "wxy")}
"""Laws, and sums of the same three inputs that each makes of each other."""


def circle(law: str) -> Case:
    """First the sums are made anew, so that one id stands for each; then the law makes them of each other."""
    orders = ORDERS[law]
    count = len(orders)
    sums = [f"a{k} = Add({a}, {b}) b{k} = Add(a{k}, {c}) p{k} = Abs(b{k})" for k, (a, b, c) in enumerate(orders)]
    outputs = ", ".join(f"float[2,3] p{k}" for k in range(count))
    proto = model(f"agraph (float[2,3] x, float[2,3] y, float[2,3] w) => ({outputs}) {{ {' '.join(sums)} }}")
    gives = {f"p{k}": f"Max()(#{2 * k + 1}, #{2 * k + 2})" for k in range(count)}
    for k, (a, b, c) in enumerate(orders):
        inner = f"#{2 * count + k + 1}"
        gives |= {inner: f"Add()({a}, {b})", f"#{2 * k + 1}": f"Add()({inner}, {c})"}
        gives[f"#{2 * k + 2}"] = f"Neg()(#{2 * k + 1})"
    named = [dict(zip("xyz", order, strict=True)) for order in orders]
    first = step(ABS, [place(f"p{k}", **tensors) for k, tensors in enumerate(named)], gives)
    second = step(law, [place(f"#{2 * k + 1}", **tensors) for k, tensors in enumerate(named)], {})
    return Case(f"{count} values", proto, proto, fitted_to_nothing([stated(ABS), stated(law)], [first, second]))


def circles() -> list[Case]:
    """Two values, and three."""
    return [circle(law) for law in ORDERS]


def stated(text: str) -> Document:
    """A law as a certificate has it."""
    rule = parse_rule(text)
    return {"id": rule.id, "name": rule.name, "text": rule.text()}


def place(output: str, **tensors: str) -> Document:
    """Where a law of tensors of shape [2, 3] applies."""
    substitution = {"tensors": tensors, "names": {}, "blocks": {"s": [2, 3]}}
    return {"outputs": [output], "inside": {}, "substitution": substitution}


def step(law: str, places: Sequence[Document], gives: Mapping[str, str]) -> Document:
    """A step that looks through nothing."""
    rule = parse_rule(law)
    return {"rule": rule.name, "id": rule.id, "backwards": False, "looks": [], "places": places, "gives": gives}
