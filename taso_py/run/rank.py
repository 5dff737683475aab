"""Which rules pay by themselves: the whole of `superopt rules rank`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from taso_py.backend.pool import lent
from taso_py.errors import UsageError, WorkerTimeoutError
from taso_py.options import RankOptions
from taso_py.options.spelling import spelled
from taso_py.progress import Progress
from taso_py.report.ranking import Ranking, ranked
from taso_py.run.original import time_original
from taso_py.run.run import PATIENCE_S, SEARCH_SHARE, Clock, Run, whole_budget
from taso_py.run.searching import single_gains
from taso_py.run.subject import Model, prepare, require_runnable
from taso_py.run.usable import ProofsTooLateError, chosen_rules, usable_rules
from taso_py.stop import StopFlag


def rank(models: Sequence[Model], options: RankOptions, *, progress: Progress, stop: StopFlag) -> Ranking:
    """Which rules pay on ``models`` by themselves; each has the whole time budget; after a stop, those so far."""
    require_runnable(*models)
    gains: dict[str, Mapping[str, float]] = {}
    for place, model in enumerate(models):
        name = str(model) if isinstance(model, Path) else f"models[{place}]"
        progress.log("info", name)
        gains[name] = _single_gains(model, options, progress, stop)
        if stop:
            break
    return ranked(gains)


def _single_gains(source: Model, chosen: RankOptions, progress: Progress, stop: StopFlag) -> Mapping[str, float]:
    options = chosen.of_one_model()
    clock = Clock(options.time_budget_s / SEARCH_SHARE)
    progress.phase("load")
    library, setting = chosen_rules(options), prepare(source, options)
    try:
        library = usable_rules(library, options, progress, clock.at(SEARCH_SHARE)).library
    except ProofsTooLateError as error:
        budget = whole_budget(4 * error.needed_s)
        raise UsageError(f"{error}: use {spelled('time_budget_s', f'{budget:g}')} or more") from None
    if setting.loaded.unsupported is not None:
        return {}
    with lent(None, setting.config) as worker:
        try:
            original = time_original(worker, setting, options)
        except WorkerTimeoutError:
            return {}
        run = Run(
            source=source, options=options, setting=original.setting, library=library, worker=worker, clock=clock,
            progress=progress, stop=stop, baseline=original.seconds,
        )  # fmt: skip
        with closing(run), worker.keeping_to(clock.at(SEARCH_SHARE) + PATIENCE_S):
            return single_gains(run)
