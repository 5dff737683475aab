"""States with prices that a test chooses."""

from __future__ import annotations

from taso_py.onnx_io.load import load
from taso_py.search.moves import AppliedSite
from taso_py.search.state import Found, State, StopReason, TraceStep
from tests.helpers.graphs import model, rewriter, view_of

START = 0.010
"""Seconds of the original."""


def state(*moves: tuple[str, float], after: State | None = None) -> State:
    """A state some moves further on, each with its rule and what it is priced to gain: a share of the original's time.

    States of as many moves are one graph.
    """
    rules, canonical = rewriter("rule r: Relu(Relu(x)) => Relu(x)")
    trace = list[TraceStep]() if after is None else list(after.trace)
    cost = START if after is None else after.cost
    for rule, gain in moves:
        nodes = " ".join(f"t{k + 1} = Tanh(t{k})" for k in range(len(trace)))
        graph = f"agraph (float[4] t0) => (float[4] y) {{ {nodes} y = Tanh(t{len(trace)}) }}"
        view = view_of(load(model(graph)), canonical)
        site = AppliedSite(rule, (1,))
        after_s = cost - gain * START
        trace.append(TraceStep(rule=rule, sites=(site,), tidied=(), before=cost, after=after_s, table=view.table))
        cost = after_s
    return State(view, rules.later(view), cost, 0.0, tuple(trace))


def found(*states: State, simplest: State | None = None) -> Found:
    """What a search brings home."""
    return Found(states, StopReason.TIME, len(states), simplest=simplest)
