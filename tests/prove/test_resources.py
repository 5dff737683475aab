"""What a question to Z3 may cost is counted in units of Z3, not in seconds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import z3

from taso_py.graph.sizes import Size, symbol
from taso_py.prove.kernel import reals
from taso_py.prove.kernel.arithmetic import RESOURCES, Context, Guard
from taso_py.prove.kernel.attempt import Attempt, current
from taso_py.prove.kernel.places import solver_for
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved, Unknown
from taso_py.rules.parser import parse_rule


def spent() -> int:
    """The units that Z3 has used so far in this attempt."""
    solver = z3.Solver(ctx=current().z3)
    solver.check()
    return int(solver.statistics().get_key_value("rlimit count"))


def market_split(equations: int = 5, markets: int = 40) -> Context:
    """Whether some of the markets hold half of every product (Cornuéjols and Dawande, IPCO 1998).

    At these sizes such systems over 0 and 1 take solvers days, in whatever order the unknowns come.
    """
    rng = np.random.default_rng(1998)
    chosen = [symbol(f"n{k}") for k in range(markets)]
    guards = [Guard(1 - one, ">=") for one in chosen]
    for _ in range(equations):
        sales = [int(sold) for sold in rng.integers(100, size=markets)]
        excess: Size = -(sum(sales) // 2)
        for sold, one in zip(sales, chosen, strict=True):
            excess = excess + sold * one
        guards.append(Guard(excess, "=="))
    return Context(tuple(guards))


def of_a_context() -> bool:
    current().possible.clear()
    return market_split().possible(())


def of_places() -> bool:
    encoder, solver = solver_for(market_split())
    solver.add(*encoder.facts())
    return bool(solver.check() != z3.unsat)


@pytest.mark.parametrize("ask", [of_a_context, of_places])
def test_a_hard_question_ends_at_its_units_and_proves_nothing(ask: Callable[[], bool]) -> None:
    for _ in range(2):
        before = spent()
        assert ask()
        assert RESOURCES <= spent() - before <= 1.01 * RESOURCES


def test_a_question_about_reals_ends_at_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    law = parse_rule(
        "rule leaks: LeakyRelu(LeakyRelu(x, alpha=a), alpha=b) => LeakyRelu(x, alpha=a * b) for x[*s] when a >= 0"
    )
    assert isinstance(prove(law), Proved)
    monkeypatch.setattr(reals, "_RESOURCES", 1)
    assert not isinstance(prove(law), Proved)


@pytest.mark.parametrize(
    "law",
    [
        "Pad(Exp(x), pads=[p, q], value=0.0) => Exp(Pad(x, pads=[p, q], value=-1e30)) for x[n]",
        "Exp(Mul(x, 1e30)) => Mul(Exp(x), Exp(x))",
        "Exp(Log(Exp(x)) * 1e9) => Exp(Exp(x))",
        "Exp(Where(c, x, -1e9)) => Where(c, Exp(x), Exp(x))",
        "let a = x * x in let b = a * a in let c = b * b in let d = c * c in let e = d * d in e * e * e * e => x",
    ],
)
def test_a_literal_never_becomes_a_product_of_as_many_factors(law: str) -> None:
    with Attempt().working():
        verdict = prove(parse_rule(f"rule law: {law}"))
    assert isinstance(verdict, Unknown)
