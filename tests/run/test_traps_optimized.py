"""The models that fool other tools come out of the whole pipeline computing what they did, and keep their contract."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from taso_py.backend.pool import WorkerPool
from taso_py.errors import ModelError
from taso_py.onnx_io.contract import check_contract
from taso_py.options import Apply, Options
from taso_py.progress import SilentProgress
from taso_py.run import pipeline
from taso_py.stop import StopFlag
from tests.helpers.onnx_io_models import session
from tests.helpers.traps import TRAPS


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool() as workers:
        yield workers


def optimized(name: str, apply: Apply, pool: WorkerPool) -> pipeline.Result:
    options = Options(race=False, strict=True, apply=apply)
    return pipeline.optimize(TRAPS[name].build(), options, progress=SilentProgress(), stop=StopFlag(), pool=pool)


@pytest.mark.parametrize("apply", ["best", "all"])
@pytest.mark.parametrize("name", [name for name, trap in TRAPS.items() if trap.runs])
def test_a_trap_is_optimised_without_harm(name: str, apply: Apply, pool: WorkerPool) -> None:
    trap = TRAPS[name]
    original = trap.build()
    result = optimized(name, apply, pool)
    assert result.rejected == ()
    assert check_contract(original, result.model) == []
    if trap.random:
        return
    before, after = session(original)(trap.feeds()), session(result.model)(trap.feeds())
    for wanted, given in zip(before, after, strict=True):
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(given, wanted)
            continue
        finite = np.abs(wanted[np.isfinite(wanted)])
        np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-4 * float(finite.max(initial=0.0)))


@pytest.mark.parametrize("name", [name for name, trap in TRAPS.items() if not trap.runs])
def test_a_model_that_onnx_runtime_refuses_is_an_error_in_one_line(name: str, pool: WorkerPool) -> None:
    with pytest.raises(ModelError) as caught:
        optimized(name, "best", pool)
    assert "\n" not in str(caught.value)
