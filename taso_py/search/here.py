"""Rules that are written where they stand: nothing is on record of them, so each is proved there before it is used."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from taso_py.rules.rule import Rule, SiteProver
from taso_py.search.matcher import Matcher, matcher


def matcher_here(rule: Rule) -> Matcher:
    """The matcher of a rule that is used only where it is proved."""
    return matcher(replace(rule, patterns=(), at_site=_proofs()))


@lru_cache(maxsize=1)
def _proofs() -> SiteProver:
    from taso_py.prove.sites import SiteProofs  # and with it Z3, which reports and most searches never need

    return SiteProofs()
