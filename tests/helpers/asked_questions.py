"""Prove the named laws of rules/ and print a digest of all questions to Z3: python asked_questions.py NAMES."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import z3

from taso_py.prove.prover import prove_all_sizes
from taso_py.rules.library import load_file, load_library

GENERATED = Path(__file__).parents[2] / "rules" / "generated.rules"


def main(names: list[str]) -> None:
    """Prints a line of each law: its name, the verdict, how many questions and their digest."""
    asked: list[str] = []
    check = z3.Solver.check

    def watched(solver: z3.Solver, *assumptions: Any) -> z3.CheckSatResult:
        answer = check(solver, *assumptions)
        asked.append(f"{solver.sexpr()} {assumptions} {answer}")
        return answer

    z3.Solver.check = watched
    laws = {law.name: law for law in (*load_library(), *load_file(GENERATED))}
    for name in names:
        asked.clear()
        verdict = prove_all_sizes(laws[name])
        digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()
        print(name, type(verdict).__name__, len(asked), digest)


if __name__ == "__main__":
    main(sys.argv[1:])
