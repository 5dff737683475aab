"""The rule library: which files are what, and reading them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

from taso_py.errors import RuleError, UsageError
from taso_py.files import read_text
from taso_py.rules.location import rules_directory
from taso_py.rules.lock import Lock, load_lock, usable
from taso_py.rules.parser import parse_rules
from taso_py.rules.promises import with_promises
from taso_py.rules.rule import Rule, RuleSet
from taso_py.rules.term import (
    Application,
    Binary,
    Call,
    Comparison,
    Declaration,
    Listing,
    Membership,
    Product,
    Side,
    Variable,
)

MAXIMAL_BYTES = 64 << 20
"""The most that a file of rules may hold: thousands of times the library."""
DEEPEST = 200
"""Levels of a term: a law of 64 operands has 64, and Python's stack is spent at about 290."""
MOST_PICKS = 1024
"""Values that the choices of a rule may have together: each is tried wherever the left side matches."""
_TOO_DEEP = f"it is nested too deeply: at most {DEEPEST} levels are read"
CANONICAL = "canonical.rules"
CLEANUP = "cleanup.rules"
GENERATED = "generated.rules"
"""What `superopt generate` finds: an alternative to the library, for ``--rules``."""
GROWING = "growing.rules"
"""Moves that multiply weights, for runs that allow it."""
RECEDING = "receding.rules"
"""Moves that take cuts back through what they cut from, made where nothing else reads that."""
NEVER = frozenset({"refuted.rules", "taso_axioms.rules", "compiler.rules", "open.rules"})
"""Files with expected verdicts, for the prover; they are never used to rewrite."""


@dataclass(frozen=True, slots=True)
class Library:
    """Rules by their use: ``search`` are the moves, ``canonical`` look through, ``cleanup`` tidies after them."""

    search: RuleSet
    canonical: RuleSet
    cleanup: RuleSet

    def all(self) -> RuleSet:
        """Every rule."""
        return _union(self)

    def map(self, change: Callable[[RuleSet], RuleSet]) -> Library:
        """The library with each of its parts changed."""
        return Library(change(self.search), change(self.canonical), change(self.cleanup))

    def growing(self) -> frozenset[str]:
        """The names of the moves that multiply weights."""
        return frozenset(rule.name for rule in self.search if Path(rule.file).name == GROWING)

    def usable(self, allow_bounded: bool, allow_overflow: bool = False) -> Library:
        """The rules that may rewrite, by their status; with ``allow_overflow`` also those that overflow."""
        fit = self.map(lambda rules: usable(rules, allow_bounded))
        return fit if allow_overflow else fit.map(lambda rules: RuleSet.of(r for r in rules if not r.overflow))


def load_file(path: Path) -> RuleSet:
    """The rules of one file."""
    try:
        text = read_text(path, most=MAXIMAL_BYTES)
    except UsageError as error:
        raise RuleError(str(error)) from None
    except ValueError as error:
        raise RuleError(f"{path}:1:1: is no text in UTF-8: {error}") from None
    return _parsed(text, str(path))


@lru_cache(maxsize=64)
def _parsed(text: str, name: str) -> RuleSet:
    """Consecutive runs in one process read the same files."""
    return RuleSet.of(with_promises(stated(text, name), text, name))


def stated(text: str, name: str) -> tuple[Rule, ...]:
    """The rules of a text that anyone may have written; `RuleError` for whatever is none, with the place in ``name``.

    Terms of more than `DEEPEST` levels are none: they are walked through by recursion all over.
    """
    try:
        rules = parse_rules(text, name)
    except RecursionError:
        raise RuleError(f"{name}:{_deep_line(text)}:1: {_TOO_DEEP}") from None
    except ValueError as error:  # Python reads no number of thousands of digits
        raise RuleError(f"{name}:1:1: cannot be read: {error}") from None
    for rule in rules:
        if levels(rule) > DEEPEST:
            raise RuleError(f"{name}:{rule.line}:1: rule {rule.name}: {_TOO_DEEP}")
        picks = math.prod(len(one.menu) for one in rule.choices)
        if picks > MOST_PICKS:
            words = f"its choices have {picks:,} values together: at most {MOST_PICKS:,} are tried at a match"
            raise RuleError(f"{name}:{rule.line}:1: rule {rule.name}: {words}")
    return rules


def _deep_line(text: str) -> int:
    """The line of the first rule that cannot be read for its depth; the first of all where none can by itself."""
    lines = text.splitlines(keepends=True)
    places = accumulate(map(len, lines), initial=0)
    starts = [place for place, line in zip(places, lines, strict=False) if line.split()[:1] == ["rule"]]
    for start, end in pairwise((*starts, len(text))):
        try:
            parse_rules(text[start:end])
        except RecursionError:
            return text.count("\n", 0, start) + 1
        except RuleError:
            continue
    return 1


def levels(rule: Rule) -> int:
    """How deep the deepest term, condition or size of a rule is nested, local names looked through."""
    clauses = (*rule.declarations, *rule.conditions, *rule.choices)
    return max(*(_levels_of_side(side) for side in (rule.left, rule.right)), *(_levels(c, {}) for c in clauses), 0)


def _levels_of_side(side: Side) -> int:
    known: dict[str, int] = {}
    for name, term in side.lets:
        known[name] = _levels(term, known)
    return max(_levels(term, known) for term in side.outputs)


def _levels(whole: object, known: Mapping[str, int]) -> int:
    """Level by level; ``known`` are the levels that local names stand for."""
    depth, deepest = 0, 0
    level = [whole]
    while level:
        depth += 1
        named = (known.get(one.name, 0) for one in level if isinstance(one, Variable))
        deepest = max(deepest, depth, depth - 1 + max(named, default=0))
        level = [part for one in level for part in _parts(one)]
    return deepest


def _parts(whole: object) -> tuple[object, ...]:
    match whole:
        case Application(_, arguments, attributes):
            return (*arguments, *(value for _, value in attributes))
        case Binary(_, left, right) | Comparison(left, _, right):
            return (left, right)
        case Call(_, parts) | Listing(parts) | Product(parts) | Declaration(_, parts) | Membership(_, parts):
            return tuple(parts)
        case _:
            return ()


def load(files: Sequence[Path] | None = None, only: Iterable[str] = (), disable: Iterable[str] = ()) -> Library:
    """The library with the status of its rules; ``files`` (may be none) replace the search rules.

    ``only`` and ``disable`` name rules.
    Raises `RuleError` for a file that cannot be read, `UsageError` for a name that no rule has.
    """
    home = rules_directory()
    canonical, cleanup = load_file(home / CANONICAL), load_file(home / CLEANUP)
    if files is None:
        special = NEVER | {CANONICAL, CLEANUP, GENERATED}
        files = sorted(p for p in home.glob("*.rules") if p.name not in special)
    library = _stamped(tuple(load_file(Path(path)) for path in files), canonical, cleanup, load_lock())
    only, disable = list(only), list(disable)
    require_names([*only, *disable], library.all())
    if only:
        library = replace(library, search=library.search.only(only))
    return library.map(lambda rules: rules.without(disable))


@lru_cache(maxsize=8)
def _stamped(search: tuple[RuleSet, ...], canonical: RuleSet, cleanup: RuleSet, lock: Lock) -> Library:
    """Consecutive runs in one process have the same rules."""
    every = RuleSet.of(rule for rules in search for rule in rules)
    return Library(lock.stamped(every), lock.stamped(canonical), lock.stamped(cleanup))


@lru_cache(maxsize=8)
def _union(library: Library) -> RuleSet:
    return library.search | library.canonical | library.cleanup


def load_library(files: Sequence[Path] | None = None, only: Iterable[str] = (), disable: Iterable[str] = ()) -> RuleSet:
    """Every rule that ``load`` finds, as one set."""
    return load(files, only, disable).all()


def require_names(names: Iterable[str], rules: Iterable[Rule]) -> None:
    """`UsageError` for a name that none of the rules has."""
    known = [r.name for r in rules]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`superopt rules list` names them all"
            raise UsageError(f"there is no rule {name!r}: {hint}")
