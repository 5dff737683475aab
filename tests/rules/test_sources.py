"""The trusted sources: which files they are, and that a change to any of them voids the proofs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.audit.mutation.store import Store
from taso_py.rules.sources import EXCLUDED, sources_digest, trusted_files
from tests.conftest import ROOT

TRUSTED = """
graph: __init__.py ordering.py sizes.py substitution.py table.py types.py
ops: __init__.py activations.py algebra.py comparison.py constants.py convolution.py einsum.py elementwise.py expand.py
    gather.py layout.py linear.py lookup.py meaning.py normalization.py numeric.py operator.py padding.py pool.py
    products.py reading.py reduce.py regroup.py reshape.py resize.py rows.py sampling.py slicing.py space.py targets.py
    windows.py
prove: __init__.py prover.py sites.py verdict.py verify.py
prove/expansion: __init__.py atoms.py canonical.py compare.py elements.py instance.py instances.py judge.py making.py
    maxima.py menus.py picks.py points.py polynomials.py rule_text.py
prove/kernel: __init__.py arithmetic.py attempt.py congruence.py definedness.py demands.py encoding.py equality.py
    evident.py facts.py forms.py maxima.py normal.py obligations.py places.py reals.py simplify.py squares.py values.py
prove/trials: __init__.py admission.py adversary.py classes.py dtypes.py evaluation.py extremes.py inclusion.py
    intervals.py magnitude.py marks.py refute.py runs.py vacuity.py witness.py
prove/typings: __init__.py attributes.py choices.py conditions.py declared.py positions.py reach.py schema.py shapes.py
    site.py
rules: __init__.py alpha.py axes.py build.py coverage.py drawing.py element_types.py functions.py grammar.lark
    instance.py instances.py menus.py parser.py predicates.py printer.py roles.py rounding.py rule.py signs.py
    sources.py term.py unify.py
"""
"""Every file that a proof rests on.  Whoever adds, moves or removes one changes this list, and a reviewer sees it."""


def listed() -> Iterator[str]:
    for line in TRUSTED.replace("\n    ", " ").strip().splitlines():
        folder, _, names = line.partition(":")
        yield from (f"{folder}/{name}" for name in names.split())


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    return shutil.copytree(ROOT / "taso_py", tmp_path / "taso_py", ignore=shutil.ignore_patterns("__pycache__"))


def digest(package: Path) -> str:
    sources_digest.cache_clear()
    return sources_digest(package)


def test_these_files_are_trusted() -> None:
    assert trusted_files() == tuple(sorted(listed()))


def test_every_exclusion_names_a_file_and_a_reason() -> None:
    assert all((ROOT / "taso_py" / name).exists() and reason for name, reason in EXCLUDED.items())
    assert not EXCLUDED.keys() & set(trusted_files())


@pytest.mark.parametrize("folder", ["prove", "ops", "graph", "rules"])
def test_a_file_in_a_new_folder_counts(folder: str, package: Path) -> None:
    before = digest(package)
    added = package / folder / "obligations" / "deeper" / "typing.py"
    added.parent.mkdir(parents=True)
    added.write_text("ANSWER = 41\n")
    with_it = digest(package)
    added.write_text("ANSWER = 42\n")
    assert len({before, with_it, digest(package)}) == 3


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("ops/elementwise.py", True),
        ("prove/verdict.py", True),
        ("prove/verify.py", True),
        ("graph/sizes.py", True),
        ("rules/unify.py", True),
        ("rules/predicates.py", True),
        ("rules/printer.py", True),
        ("rules/grammar.lark", True),
        ("rules/sources.py", True),
        ("prove/kernel/facts.py", True),
        ("prove/typings/schema.py", True),
        ("prove/batch.py", False),
        ("rules/taso/reader.py", False),
        ("rules/lock.py", False),
        ("search/matcher.py", False),
        ("search/demands.py", False),
    ],
)
def test_a_change_to_a_trusted_file_counts(file: str, counts: bool, package: Path) -> None:
    before = digest(package)
    (package / file).write_text((package / file).read_text() + "\n// changed\n")
    assert (digest(package) != before) == counts


def test_a_file_that_is_moved_or_removed_counts(package: Path) -> None:
    before = digest(package)
    (package / "prove" / "kernel" / "facts.py").rename(package / "prove" / "kernel" / "known.py")
    moved = digest(package)
    (package / "prove" / "kernel" / "known.py").unlink()
    assert len({before, moved, digest(package)}) == 3


def test_the_ends_of_lines_do_not_count(package: Path) -> None:
    before = digest(package)
    file = package / "prove" / "kernel" / "facts.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert digest(package) == before


def test_findings_about_mutants_hold_for_the_same_sources() -> None:
    assert Store(None, "prover").marks["proof"] == f"prover {sources_digest()[:12]}"
