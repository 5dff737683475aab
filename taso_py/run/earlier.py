"""What runs like this one found: taken instead of a search, and written down for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from taso_py.certificate.record import Trail
from taso_py.onnx_io.ours import Key
from taso_py.result import ReasonCode, Result
from taso_py.run.candidates import Candidate
from taso_py.run.recall import Recall, Recalled
from taso_py.run.run import SEARCH_SHARE, Run
from taso_py.run.searching import cache_of, environment, start_of
from taso_py.search.state import Found, State, StopReason
from taso_py.search.watch import OutOfTime, Watch
from taso_py.version import VERSION

_SETTLED: frozenset[ReasonCode] = frozenset({"nothing matched", "nothing faster", "lost the race", "not confirmed"})
"""Reasons for no result that another run would have, too."""


def recalled(job: Run) -> Recalled | None:
    """What an earlier run like this one found, its moves made again; None where nothing is remembered of one."""
    if not _concerns(job):
        return None
    job.begin("search")
    with suppress(OutOfTime):
        begin = partial(start_of, job, (), Watch(job.stopped, job.deadline(SEARCH_SHARE)))
        return _recall(job).recalled(begin, job.start_cost, job.roofline)
    return None


def remember(job: Run, found: Found, checked: Sequence[Candidate], result: Result) -> None:
    """For the next run: what was found, unless chance or a wrong rule had a part in what came of it.

    Nor where nothing came of a search that did not come to its end: the machine may have been busy.

    What once improved a model, and then no more, is forgotten: the next run searches anew.
    """
    if not _concerns(job) or job.stop or result.rejected:
        return
    improved = result.reason is None
    if job.recalled is not None:
        if job.recalled.improved and not improved:
            _recall(job).forget()
    elif result.reason is None or (result.reason.code in _SETTLED and found.reason is not StopReason.TIME):
        _recall(job).note(found, _fastest(checked, result), job.start_cost, improved=improved)


def _fastest(checked: Sequence[Candidate], result: Result) -> list[State]:
    """The winner, else the candidate that came closest: the others lost to it, and need not be raced again."""
    if isinstance(result.evidence, Trail) and result.evidence.table is not None:
        return [one.state for one in checked if one.state.table is result.evidence.table]
    told = zip(checked, result.raced, strict=False)
    order = sorted(told, key=lambda pair: -(pair[1].speedup or 0.0))
    return [candidate.state for candidate, _ in order[:1]]


def _concerns(job: Run) -> bool:
    return job.options.race and job.options.apply != "all"


def _recall(job: Run) -> Recall:
    sizes = ",".join(f"{name}={size}" for name, size in sorted(job.setting.sizes.items()))
    return Recall(
        cache_of(job), {**job.identity, Key.VERSION: VERSION, "environment": environment(job), "sizes": sizes}
    )
