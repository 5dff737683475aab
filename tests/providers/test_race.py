"""The race of providers: who may take part, who wins, and that a fault of one costs the others nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from taso_py.backend.delays import ran_s
from taso_py.backend.protocol import CPU, ModelRef, WorkerConfig
from taso_py.check.check import Checker
from taso_py.errors import ModelError, RuntimeMissingError, UsageError
from taso_py.options import Options
from taso_py.providers.contenders import contenders
from taso_py.providers.race import Entrant, ProviderRace
from tests.conftest import tiny_network
from tests.helpers.interpreters import STUB, described_as, stub_provider, wrapped_python

MODEL = ModelRef("tiny", tiny_network().SerializeToString())
FEEDS = [{"x": np.ones((1, 3, 8, 8), np.float32)}]
OWN = WorkerConfig()


def stub_config(python: Path) -> WorkerConfig:
    return WorkerConfig(STUB, python=str(python))


@pytest.fixture
def checker() -> Iterator[Checker]:
    with Checker(MODEL, OWN) as found:
        yield found


def scripted(monkeypatch: pytest.MonkeyPatch, seconds: Mapping[str, Callable[[int], float]], idle: float = 0.0) -> None:
    """Blocks take as long as a test says, by provider and the number of its block."""
    blocks: dict[str, int] = {}

    def timed(self: ProviderRace, one: Entrant, alive: object, block_s: float) -> tuple[float | None, float]:
        number = blocks[one.config.ep] = blocks.get(one.config.ep, 0) + 1
        return seconds[one.config.ep](number), idle

    monkeypatch.setattr(ProviderRace, "_timed", timed)


def test_ratios_are_of_one_round_and_the_first_is_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checker: Checker
) -> None:
    scripted(monkeypatch, {CPU: lambda n: 3.0 * n, STUB: lambda n: 2.0 * n})
    with ProviderRace([OWN, stub_config(stub_provider(tmp_path))], MODEL, FEEDS, patience_s=60) as race:
        race.admit(checker)
        race.time(4, deadline=time.monotonic() + 60)
        base, other = race.record()
    assert (base.speedup, base.rounds, base.failure) == (1.0, 4, None)
    assert (other.speedup, other.speedup_low, other.speedup_high, other.rounds) == (1.5, 1.5, 1.5, 4)
    assert other.ep == STUB
    assert other.python == str(tmp_path / "python")


def test_each_may_run_a_model_of_its_own_and_a_damaged_one_costs_itself_alone() -> None:
    twice = tiny_network()
    twice.graph.node[-1].output[0] = "half"
    twice.graph.node.append(onnx.helper.make_node("Add", ["half", "half"], [twice.graph.output[0].name]))
    models = [MODEL, ModelRef("twice", twice.SerializeToString()), ModelRef("damaged", b"no model")]
    with ProviderRace([OWN] * 3, MODEL, FEEDS, patience_s=60, models=models) as race:
        race.admit()
        base, other, damaged = race.entrants
        assert base.handle is not None
        assert other.handle is not None
        (single,) = base.worker.run(base.handle, FEEDS[0]).values()
        (double,) = other.worker.run(other.handle, FEEDS[0]).values()
        race.time(2, deadline=time.monotonic() + 60)
    np.testing.assert_allclose(double, 2 * single, rtol=1e-6)
    assert base.seconds.keys() == other.seconds.keys()
    assert "damaged" in (damaged.failure or "")


def test_rounds_in_which_an_idle_pool_spins_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checker: Checker
) -> None:
    scripted(monkeypatch, {CPU: lambda n: 1.0, STUB: lambda n: 1.0}, idle=0.9)
    with ProviderRace([OWN, stub_config(stub_provider(tmp_path))], MODEL, FEEDS, patience_s=60) as race:
        race.admit(checker)
        race.time(3, deadline=time.monotonic() + 60)
        assert [one.rounds for one in race.record()] == [0, 0]
        assert race.interval(race.entrants[1]) is None
        assert all((one.failure or "").startswith("not timed: ") for one in race.record())


FAULTS: dict[str, tuple[dict[str, str], str]] = {
    "NaN": ({"after": "return [np.full_like(one, np.nan) for one in outputs]"}, "NaN or infinite"),
    "half precision": (
        {"after": "return [one.astype(np.float16).astype(np.float32) for one in outputs]"},
        "is not lossless",
    ),
    "wrong values of this model": (
        {"after": "return [-one if one.ndim == 4 and one.shape[1] == 4 else one for one in outputs]"},
        "other values than ONNX Runtime's CPU provider: output 'y'",
    ),
    "NaN in this model alone": (
        {"after": "return [one * np.nan if one.ndim == 4 and one.shape[1] == 4 else one for one in outputs]"},
        "other values than ONNX Runtime's CPU provider: output 'y'",
    ),
    "refuses a node": ({"before": "raise ValueError('Stub: Conv is not supported')"}, "Conv is not supported"),
    "crashes": ({"before": "os.kill(os.getpid(), signal.SIGSEGV)"}, "worker died (SIGSEGV)"),
    "hangs": ({"before": "time.sleep(600)"}, "did not answer open within"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_the_provider_and_nothing_else(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checker: Checker
) -> None:
    monkeypatch.setattr("taso_py.providers.lossless.PROBE_S", 60.0 if fault != "hangs" else 1.0)
    scripted(monkeypatch, {CPU: lambda n: 1.0})
    stub, says = FAULTS[fault]
    with ProviderRace([OWN, stub_config(stub_provider(tmp_path, **stub))], MODEL, FEEDS, patience_s=60) as race:
        race.admit(checker)
        race.time(2, deadline=time.monotonic() + 60)
        base, other = race.record()
        assert race.entrants[0].worker.info().pid > 0
    assert base.failure is None
    assert says in (other.failure or "")
    assert "\n" not in (other.failure or "")
    assert (other.speedup, other.rounds) == (None, 0)


def test_one_that_fails_while_it_is_timed_is_dropped(tmp_path: Path, checker: Checker) -> None:
    after = "self.count = getattr(self, 'count', 0) + (outputs[0].ndim == 4)\n"
    after += "        if self.count > 90: raise ValueError('Stub: out of memory')\n        return outputs"
    with ProviderRace([OWN, stub_config(stub_provider(tmp_path, after=after))], MODEL, FEEDS, patience_s=60) as race:
        race.admit(checker)
        race.time(3, deadline=time.monotonic() + 60)
        assert "out of memory" in (race.record()[1].failure or "")


def test_a_baseline_that_fails_is_an_error() -> None:
    with (
        ProviderRace([OWN], ModelRef("damaged", b"no model"), FEEDS, patience_s=60) as race,
        pytest.raises(ModelError, match="damaged"),
    ):
        race.admit()


def test_waiting_workers_leave_the_cpus_alone(tmp_path: Path, checker: Checker) -> None:
    """What a waiting worker ran is measured; that it is little is for the race to say, not for a test."""
    with ProviderRace([OWN, stub_config(stub_provider(tmp_path))], MODEL, FEEDS, patience_s=60) as race:
        race.admit(checker)
        pids = [one.worker.info().pid for one in race.entrants]
        assert all(ran_s(pid) > 0 for pid in pids)
        race.time(1, deadline=time.monotonic() + 60)
        assert all(one.idle >= 0 for one in race.entrants)
    assert ran_s(2**30) == 0.0


def test_each_provider_runs_in_our_own_environment_or_the_first_that_has_it(tmp_path: Path) -> None:
    plain, own = tmp_path / "plain", tmp_path / "own"
    plain.mkdir()
    own.mkdir()
    pythons = (wrapped_python(plain, "unused", ""), stub_provider(own))
    found = contenders(Options(ep="cpu, Stub,CPU", ep_python=pythons))
    assert [(one.config.ep, one.config.python) for one in found.all] == [(CPU, None), (STUB, str(pythons[1]))]
    everything = contenders(Options(ep="auto", ep_python=(tmp_path / "absent", *pythons)))
    places = {one.config.ep: one.config.python for one in everything.all}
    assert everything.all[0].config == WorkerConfig(threads=everything.all[0].config.threads)
    assert places[STUB] == str(pythons[1])
    assert "AzureExecutionProvider" not in places
    assert ["there is no such file" in text for text in everything.left_out] == [True]


@pytest.mark.parametrize(
    ("fields", "kind", "says"),
    [
        ({"ep": "cpu,nonsense"}, RuntimeMissingError, "nonsenseExecutionProvider is not here"),
        ({"ep": "auto", "ep_options": {"a": "b"}}, UsageError, "ep_options is for one provider"),
        ({"ep": "auto", "ep_library": Path("x.so")}, UsageError, "ep_library is for one provider"),
        ({"ep": "cpu,openvino", "race": False}, UsageError, "needs the race"),
        ({"ep": ", ,"}, UsageError, "names no provider"),
    ],
)
def test_what_cannot_be_raced_is_one_line(fields: dict[str, object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        contenders(Options(**fields))


def test_a_list_needs_environments_that_answer(tmp_path: Path) -> None:
    old = described_as(tmp_path, '{"version": [3, 9, 2], "distributions": [], "lacking": []}')
    with pytest.raises(RuntimeMissingError, match=r"is Python 3\.9\.2"):
        contenders(Options(ep="cpu,Stub", ep_python=(old,)))
