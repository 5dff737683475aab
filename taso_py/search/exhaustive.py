"""Every rule at least once, whatever it costs: for testing rules."""

from __future__ import annotations

from dataclasses import dataclass

from taso_py.cost.roofline import Roofline
from taso_py.search.moves import Rewriter
from taso_py.search.state import Found, State, StopReason, TraceStep
from taso_py.search.strategy import Report, Stop
from taso_py.search.view import View
from taso_py.search.watch import OutOfTime


@dataclass(slots=True)
class Exhaustive:
    """Every rule wherever it still matches, one rule after the other."""

    rewriter: Rewriter
    roofline: Roofline

    def run(self, start: View, start_cost: float, stop: Stop, report: Report) -> Found:
        """One state: the table after all rules had their turn once."""
        state = State(start, self.rewriter.later(start), start_cost, self.roofline.total(start.table))
        built = 0
        for name in self.rewriter.index.names():
            try:
                found = [m for matches in state.matches().values() for m in matches if m.rule.name == name]
                outcome = self.rewriter.apply(state.view, found) if found else None
            except OutOfTime:
                return Found((state,) if state.trace else (), StopReason.INTERRUPTED, built)
            if outcome is None:
                continue
            after = outcome.view
            cost = state.cost + self.roofline.difference(state.table, after.table)
            step = TraceStep.of(outcome, found[0], state.cost, cost)
            state = State(
                after,
                self.rewriter.later(after, (state.view, state.matches)),
                cost,
                cost,
                (*state.trace, step),
            )
            built += 1
            report(built, cost)
            if stop():
                return Found((state,) if state.trace else (), StopReason.INTERRUPTED, built)
        return Found((state,) if state.trace else (), StopReason.SATURATED, built)
