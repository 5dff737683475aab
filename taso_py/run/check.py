"""Do two models compute the same: the whole of `superopt check`."""

from __future__ import annotations

from taso_py.check.check import check_models
from taso_py.check.report import CheckReport
from taso_py.check.tolerance import Closeness
from taso_py.files import load_arrays
from taso_py.options import CheckOptions
from taso_py.providers.choosing import worker_config
from taso_py.run.subject import Model, reference, require_runnable


def check(first: Model, second: Model, options: CheckOptions) -> CheckReport:
    """The second model against the first, on generated or given inputs."""
    require_runnable(first, second)
    return check_models(
        reference(first),
        reference(second),
        worker_config(options),
        workloads=(options.shapes,) if options.shapes else (),
        overrides=load_arrays(options.inputs),
        seed=options.seed,
        closeness=Closeness.of(options.rtol, options.atol),
    )
