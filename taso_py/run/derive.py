"""Which laws follow from others: the whole of `superopt rules derive`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from taso_py.errors import RuleError, UsageError
from taso_py.files import read_text
from taso_py.generate.kept.derive import Rules, derivable
from taso_py.options import DeriveOptions
from taso_py.options.spelling import spelled
from taso_py.report.derivation import Derivation
from taso_py.rules.library import load_file, load_library
from taso_py.rules.rule import Rule

if TYPE_CHECKING:
    from taso_py.rules.taso.declarations import Substitution


MAXIMAL_BYTES = 2**27
"""No file of substitutions is longer."""
_UNLIKE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What the reader meets in JSON that says something else."""


def derive(goals: Sequence[Path], options: DeriveOptions) -> Derivation:
    """Which laws of the files ``goals`` follow from the rules; `UsageError` for a file that holds none."""
    known = Rules.of(load_library(options.rules))
    found = [law for file in goals for law in laws(file)]
    names = Counter(law.name for law in set(found))  # files may call different laws alike
    called = {law: law.name if names[law.name] == 1 else f"{law.name} ({law.file})" for law in found}
    return Derivation({name: derivable(law, known, states=options.states) for law, name in called.items()})


def laws(path: Path) -> list[Rule]:
    """The laws of a rule file, or of TASO's substitutions; `UsageError` where it holds none."""
    if path.suffix != ".json":
        return list(load_file(path))

    from taso_py.rules.taso.reader import read

    try:
        substitutions = read(read_text(path, most=MAXIMAL_BYTES))
    except UsageError as error:
        raise UsageError(f"{spelled('goals', path)}: {error}") from None
    except _UNLIKE:
        raise UsageError(f"{spelled('goals', path)}: no substitutions of TASO's in JSON") from None
    return [_law(s, path) for s in substitutions]


def _law(substitution: Substitution, path: Path) -> Rule:
    from taso_py.rules.taso.declarations import DeclaredSizes
    from taso_py.rules.taso.reader import law

    try:
        return replace(law(substitution, DeclaredSizes.EXPLICIT), name=f"shipped-{substitution.id:03}")
    except (*_UNLIKE, RuleError) as error:
        why = str(error) if type(error) is ValueError else "its steps do not fit together"
        raise UsageError(f"{spelled('goals', path)}: substitution {substitution.id!r}: {why}") from None
