"""Which laws follow from others: the whole of `superopt rules derive`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from taso_py.errors import UsageError
from taso_py.generate.kept.derive import Rules, derivable
from taso_py.options import DeriveOptions
from taso_py.options.spelling import spelled
from taso_py.report.derivation import Derivation
from taso_py.rules.library import load_file, load_library
from taso_py.rules.rule import Rule


def derive(goals: Sequence[Path], options: DeriveOptions) -> Derivation:
    """Which laws of the files ``goals`` follow from the rules; `UsageError` for a file that holds none."""
    known = Rules.of(load_library(options.rules))
    laws = [law for file in goals for law in _laws(file)]
    return Derivation({law.name: derivable(law, known, states=options.states) for law in laws})


def _laws(path: Path) -> list[Rule]:
    """The laws of a rule file, or of TASO's substitutions."""
    if path.suffix != ".json":
        return list(load_file(path))

    from taso_py.rules.taso.declarations import DeclaredSizes
    from taso_py.rules.taso.reader import law, read

    try:
        substitutions = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{spelled('goals', path)}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{spelled('goals', path)}: no substitutions of TASO's in JSON") from None
    return [replace(law(s, DeclaredSizes.EXPLICIT), name=f"shipped-{s.id:03}") for s in substitutions]
