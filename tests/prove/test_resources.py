"""What a question to Z3 may cost is counted in units of Z3, not in seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import z3

from taso_py.graph.sizes import Size, symbol
from taso_py.prove.kernel import reals
from taso_py.prove.kernel.arithmetic import RESOURCES, Context, Guard
from taso_py.prove.kernel.attempt import current
from taso_py.prove.kernel.places import solver_for
from taso_py.prove.prover import prove
from taso_py.prove.verdict import Proved
from taso_py.rules.parser import parse_rule

WEIGHTS = (12223, 12224, 36674, 61119, 85569, 36671, 48893, 97789)
"""A knapsack that Z3 does not fill in a minute."""
FILLED = 89643481


def spent() -> int:
    """The units that Z3 has used so far in this attempt."""
    solver = z3.Solver(ctx=current().z3)
    solver.check()
    return int(solver.statistics().get_key_value("rlimit count"))


def knapsack() -> Guard:
    total: Size = -FILLED
    for k, weight in enumerate(WEIGHTS):
        total = total + weight * symbol(f"n{k}")
    return Guard(total, "==")


def of_a_context() -> bool:
    current().possible.clear()
    return Context((knapsack(),)).possible(())


def of_places() -> bool:
    encoder, solver = solver_for(Context((knapsack(),)))
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
