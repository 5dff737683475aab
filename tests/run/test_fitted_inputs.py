"""Every command runs a model at the sizes and inputs that `optimize` finds for it by trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.parser
import pytest
import superopt

from scripts.audit.dynamic_models import dynamic_model
from taso_py.backend.pool import WorkerPool
from taso_py.backend.protocol import WorkerConfig
from taso_py.certificate.numeric import Inputs, mixed_feeds, require_agreement
from taso_py.check.check import Checker
from taso_py.check.facts import read_facts
from taso_py.check.shapes import resolve_shapes
from taso_py.errors import CertificateError, ModelError
from taso_py.options import Options
from taso_py.progress import SilentProgress
from taso_py.providers.contenders import contenders
from taso_py.run import placing
from taso_py.run.run import Clock
from taso_py.run.subject import prepare

_FLATTENED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, d] x) => (float[N, 4] y) <float one = {FACTOR}>
{ to = Constant <value_ints = [-1, 4]> () t = Constant <value_ints = [5, 4]> ()
  w = ConstantOfShape <value = float[1] {0.5}> (t) m = MatMul (x, w) r = Reshape (m, to) y = Mul (r, one) }"""
"""It runs where d is 5, which nobody says."""


def refusing(factor: int = 1) -> onnx.ModelProto:
    return onnx.parser.parse_model(_FLATTENED.replace("FACTOR", str(factor)))


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool() as lent:
        yield lent


@pytest.fixture
def two_layers(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(dynamic_model("two layers"), path)
    return path


def test_bench_times_at_sizes_that_fit(two_layers: Path) -> None:
    timed = superopt.bench([two_layers, two_layers], rounds=2, block_s=0.01)
    assert dict(timed.shapes) == {"x": (1, 20)}
    with pytest.raises(ModelError):
        superopt.bench([two_layers], shapes={"x": (1, 19)}, rounds=2, block_s=0.01)


def test_a_profile_is_of_sizes_that_fit(two_layers: Path) -> None:
    told = superopt.inspect(two_layers, profile=True)
    assert told.shapes == {"x": (1, 20)}
    assert told.profile is not None
    assert told.profile.operators
    with pytest.raises(ModelError, match="give values that it takes"):
        superopt.inspect(two_layers, profile=True, shapes={"x": (1, 19)})


def test_a_certificate_is_judged_by_more_draws_at_sizes_that_fit(pool: WorkerPool) -> None:
    runs = require_agreement(refusing(), refusing(), Inputs(), pool)
    with Checker(refusing().SerializeToString(), WorkerConfig()) as checker:
        assert runs == len(checker.check(refusing().SerializeToString()).cases) + 3
        assert dict(checker.fit().sizes)["d"] == 5
    with pytest.raises(CertificateError, match="do not agree"):
        require_agreement(refusing(), refusing(3), Inputs(), pool)


def test_a_scale_stays_one_in_further_draws() -> None:
    """As a number of any kind it would be refused, and the draw would show nothing."""
    facts = read_facts(dynamic_model("scale factors"))
    (scale,) = (spec for spec in facts.inputs if spec.role is not None)
    feeds = mixed_feeds(facts.inputs, resolve_shapes(facts.inputs, {}), Inputs(), 0)
    assert (feeds[scale.name] > 0).all()


def test_providers_are_raced_at_sizes_that_fit(two_layers: Path) -> None:
    options = Options(time_budget_s=20, threads=1)
    setting = prepare(two_layers, options)
    raced = placing._raced(contenders(options).all, setting, Clock(20), SilentProgress())
    assert len(raced.places) == len(raced.record) == 1
    assert raced.record[0].failure is None
