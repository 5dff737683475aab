"""The conditions of ``--gate``: their names, which numbers they take, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from taso_py.gate import REL_ERROR, SIZE, SPEEDUP
from taso_py.options.field import Range
from taso_py.options.text import demand

CONDITIONS: Mapping[str, Range] = MappingProxyType(
    {SPEEDUP: Range(above=0), REL_ERROR: Range(least=0), SIZE: Range(above=0)}
)
_KNOWN = f"the conditions are {', '.join(CONDITIONS)}"


def parse_gate(texts: Iterable[str]) -> Mapping[str, float]:
    """``["min-speedup=1.05,max-size=1.1"]`` -> ``{"min-speedup": 1.05, "max-size": 1.1}``."""
    wanted: dict[str, float] = {}
    for text in texts:
        parts = [part for part in text.split(",") if part.strip()]
        demand(bool(parts), f"--gate '{text}' names no condition; {_KNOWN}")
        for part in parts:
            name, equals, number = (piece.strip() for piece in part.partition("="))
            demand(bool(name and equals), f"--gate '{text}': '{part}' is not of the form NAME=NUMBER; {_KNOWN}")
            demand(name in CONDITIONS, f"--gate '{text}': there is no condition '{name}'; {_KNOWN}")
            demand(name not in wanted, f"--gate names '{name}' twice: keep one; {_KNOWN}")
            wanted[name] = _number(number, f"--gate '{text}': {name}")
    require_conditions(wanted)
    return MappingProxyType(wanted)


def _number(text: str, called: str) -> float:
    try:
        return float(text)
    except ValueError:
        demand(False, f"{called} is '{text}', which is no number; {_KNOWN}")
        raise


def require_conditions(wanted: Mapping[str, float]) -> None:
    """UsageError for a name that no condition has, and for a number that cannot be meant."""
    for name, number in wanted.items():
        demand(name in CONDITIONS, f"gate: there is no condition '{name}'; {_KNOWN}")
        bound = CONDITIONS[name]
        fits = math.isfinite(number) and number in bound
        demand(fits, f"gate: {name}={number:g}: must be a finite number, {bound}; {_KNOWN}")


def merged(gate: Mapping[str, float], min_speedup: float | None) -> Mapping[str, float]:
    """The conditions of both options; UsageError where they contradict each other."""
    if min_speedup is None:
        return gate
    other = gate.get(SPEEDUP, min_speedup)
    demand(
        other == min_speedup,
        f"--min-speedup {min_speedup:g} and --gate {SPEEDUP}={other:g} are the same condition: keep one",
    )
    return MappingProxyType({SPEEDUP: min_speedup, **gate})
