"""A sample of what `scripts/audit/readers.py` tries in full: every reader answers damaged input."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from scripts.audit.readers import audit, report
from scripts.audit.reading import protos, seeds, texts
from scripts.audit.reading.running import Job
from scripts.audit.reading.targets import Begun, Ground, Target
from taso_py.errors import UsageError
from taso_py.onnx_io.load import load

SAMPLE = ("model", "lock", "settings")


def job(folder: Path, **fields: object) -> Job:
    return Job(**{"target": "", "folder": str(folder), "seconds": 0.0, "seed": 1} | fields)


@pytest.mark.slow
def test_every_reader_answers_a_sample(tmp_path: Path) -> None:
    outcomes = audit(dict.fromkeys(SAMPLE, 1.0), job(tmp_path))
    assert not any(outcome.findings for outcome in outcomes), report(outcomes)
    assert all(outcome.executions > 1 and outcome.returned for outcome in outcomes), report(outcomes)


def test_a_seed_gives_the_same_inputs() -> None:
    models = seeds.models()
    for mutate, given in (
        (protos.mutated, models),
        (texts.mutated_text, seeds.rules()),
        (texts.mutated_json, seeds.exports()),
    ):
        runs = [[mutate(given[0], random.Random(number), given) for number in range(20)] for _ in range(2)]
        assert runs[0] == runs[1]
        assert len(set(runs[0])) > 10


def test_seeds_are_sound(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    (tmp_path / seeds.WEIGHTS).write_bytes(bytes(256))
    for data in seeds.models():
        path.write_bytes(data)
        assert load(path).unsupported in {None, "it uses graph.sparse_initializer, which onnx-ir does not carry"}


def _misbehave(path: Path) -> None:
    match path.read_bytes():
        case b"dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"raises":
            raise KeyError
        case b"never ends":
            while True:
                pass
        case b"takes all":
            bytearray(2**31)
        case b"refuses":
            raise UsageError("no")


def _begin(_: Ground) -> Begun:
    return Begun([b"refuses"], _misbehave)


MISBEHAVING = Target("misbehaving", _begin, lambda *given: b"", patience_s=0.2)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("dies", "it died of SIGSEGV"),
        ("raises", "KeyError at"),
        ("never ends", "TooSlowError at"),
        ("takes all", "MemoryError at"),
        ("refuses", None),
    ],
)
def test_what_is_wrong_is_found(data: str, fault: str | None, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text(data)
    name = f"{__name__}:MISBEHAVING"
    (outcome,) = audit({name: 1.0}, job(tmp_path / "run", replay=str(given)))
    assert [one.fault.startswith(fault or "") for one in outcome.findings] == ([] if fault is None else [True])


def test_a_target_begins_again_in_its_folder(tmp_path: Path) -> None:
    """What has had its slice of time goes on in another process."""
    first, again = (seeds.databases(tmp_path) for _ in range(2))
    assert [len(one) for one in first] == [len(one) for one in again]
