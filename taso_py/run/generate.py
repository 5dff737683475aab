"""Discovering rules: the whole of `superopt generate` but the file that it writes."""

from __future__ import annotations

import time
from dataclasses import asdict

from taso_py.backend.runtime import available_threads, require_runtime
from taso_py.generate.checkpoint import Checkpoint
from taso_py.generate.job import Generation, Settings
from taso_py.generate.tasks import Space
from taso_py.options import GenerateOptions
from taso_py.progress import Progress
from taso_py.report.generation import Generated
from taso_py.version import VERSION


def generate(options: GenerateOptions, progress: Progress) -> Generated:
    """Enumerates terms, and keeps the proved laws between them from which all others follow."""
    start = time.perf_counter()
    require_runtime()
    settings = Settings(Space(options.set_name, options.ops, options.max_operators), options.steps)
    kept = Checkpoint(options.checkpoint)
    kept.begin({**asdict(settings), "version": VERSION}, resume=options.resume)
    job = Generation(
        settings,
        options.workers or available_threads(),
        kept,
        progress=progress,
        force=options.force,
        memory_limit=options.memory_limit_gb,
        ray=options.address if options.executor == "ray" else None,
    )
    rules = job.run()
    return Generated(
        settings=settings,
        rules=rules,
        figures=job.figures,
        undecided=tuple(job.unknown),
        seconds=time.perf_counter() - start,
    )
