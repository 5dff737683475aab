"""Every reader of files, as a function of one file that either returns or raises."""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

import taso_py
from scripts.audit.certificates.subjects import HONEST, MODELS, own_digest
from scripts.audit.reading import protos, seeds, texts
from taso_py.backend.pool import WorkerPool
from taso_py.certificate import document
from taso_py.certificate.certify import certify
from taso_py.cli import superopt
from taso_py.cost.cache import Cache
from taso_py.files import load_arrays
from taso_py.generate.checkpoint import Checkpoint
from taso_py.onnx_io.load import load
from taso_py.options.spelling import spelling_as_command_line
from taso_py.prove.verdict import Proved, Unknown, Verdict
from taso_py.rules.coverage import DEFINED
from taso_py.rules.library import load_file, load_library
from taso_py.rules.lock import load_lock
from taso_py.rules.parser import parse_rules
from taso_py.rules.rule import Rule
from taso_py.run.derive import laws

Mutate = Callable[[bytes, Random, Sequence[bytes]], bytes]
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Begun:
    """A reader that is ready: what it begins from, and the function of a file."""

    seeds: list[bytes]
    read: Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Ground:
    """What a reader is given to begin with: a folder for its files, and one with further models."""

    folder: Path
    extra: Path | None


@dataclass(frozen=True, slots=True)
class Target:
    """One reader; ``begin`` makes it ready."""

    name: str
    begin: Callable[[Ground], Begun]
    mutate: Mutate
    file: str = "input"
    """What the file is called that it reads."""
    _: KW_ONLY
    share: float = 1.0
    """How much of the time it gets, beside the others."""
    patience_s: float = 5.0
    """Seconds of processor time that it may take."""
    memory: int | None = GIB
    """Bytes that it may take; None where its worker processes would take part."""


# ---- models ----------------------------------------------------------------------------------------------------------


def _model(ground: Ground) -> Begun:
    (ground.folder / seeds.WEIGHTS).write_bytes(np.arange(64, dtype=np.float32).tobytes())

    def read(path: Path) -> None:
        loaded = load(path)
        loaded.sizes_of(dict.fromkeys(loaded.ids, (2, 2, 2)))
        assert loaded.unsupported is not None or loaded.original is not None
        load(path.read_bytes())

    return Begun(seeds.models(ground.extra), read)


def _inspected(ground: Ground) -> Begun:
    """What `superopt inspect` and `superopt diff` make of a model, as text."""
    begun = _model(ground)
    other = ground.folder / "other.onnx"
    other.write_bytes(begun.seeds[0])

    def read(path: Path) -> None:
        _command("inspect", str(path))
        _command("diff", str(path), str(other))

    return Begun(begun.seeds, read)


def _optimised(ground: Ground) -> Begun:
    """A whole run without timing, and what is written of it."""
    begun = _model(replace(ground, extra=None))  # what is given may take ONNX Runtime minutes

    def read(path: Path) -> None:
        cache = ground.folder / "cache.sqlite"
        result = taso_py.optimize(path, race=False, cache=cache, time_budget_s=3).save(
            ground.folder / "out.onnx", force=True
        )
        result.save_certificate(ground.folder / "c.json", force=True)
        result.save_decisions(ground.folder / "d.json", force=True)
        result.report()

    return Begun(begun.seeds, read)


# ---- rules and proofs ------------------------------------------------------------------------------------------------


def _rules(_: Ground) -> Begun:
    lock = load_lock()

    def read(path: Path) -> None:
        found = lock.stamped(load_file(path))
        for rule in found:
            assert parse_rules(rule.text(), "again"), "a rule that was read is written so that it can be read"

    return Begun(seeds.rules(), read)


def _used_rules(ground: Ground) -> Begun:
    """A run with the rules of a file, which are proved for it."""
    model = ground.folder / "model.onnx"
    model.write_bytes(MODELS["siblings"]().SerializeToString())

    def read(path: Path) -> None:
        taso_py.optimize(model, race=False, cache=ground.folder / "cache.sqlite", time_budget_s=3, rules=(path,))

    return Begun(seeds.rules(), read)


def _lock(_: Ground) -> Begun:
    library = list(load_library())

    def read(path: Path) -> None:
        lock = load_lock(path)
        for rule in library[:3]:
            lock.stamped([rule])
        lock.text()

    return Begun(seeds.locks(), read)


def _mutated_lock(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Lines are changed; most often the digest is made to fit."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    lines[at] = texts.mutated_json(lines[at], random, others)
    found = b"\n".join(lines)
    return seeds.refitted_lock(found) if random.random() < 0.8 else found


def _substitutions(_: Ground) -> Begun:
    return Begun(seeds.substitutions(), laws)


# ---- certificates and decisions --------------------------------------------------------------------------------------


def _believing(known: frozenset[str], rule: Rule) -> Verdict:
    return Proved(patterns=DEFINED) if rule.id in known else Unknown("it is not in the library")


def _certificate(ground: Ground, *, only_read: bool) -> Begun:
    """A certificate beside the two models that it is for; digests are not looked at, as a forger makes them fit."""
    cases = [one.case(ground.folder) for one in HONEST if one.name in ("siblings apply=best", "convnet apply=best")]
    known = frozenset(rule.id for rule in load_library())
    pool = WorkerPool()
    places = {}
    for number, case in enumerate(cases):
        files = tuple(ground.folder / f"{kind}{number}.onnx" for kind in ("original", "optimised"))
        for file, model in zip(files, (case.original, case.optimised), strict=True):
            file.write_bytes(model.SerializeToString(deterministic=True))
        places[json.dumps(case.document["original"])] = files

    def read(path: Path) -> None:
        found, _ = document.read(path)
        found.to_json()
        files = places.get(json.dumps(asdict(found.original)))
        if files is not None and not only_read:
            certify(*files, path, freeze_initializers=False, prover=partial(_believing, known), pool=pool)

    return Begun([json.dumps(case.document).encode() for case in cases], read)


def _mutated_certificate(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Values are changed; most often the certificate's own digest is made to fit."""
    made = texts.mutated_json(data, random, others)
    try:
        found = json.loads(made)
        return texts.written(found | {"sha256": own_digest(found)}) if random.random() < 0.8 else made
    except (ValueError, TypeError, AttributeError, RecursionError):
        return made


def _decisions(ground: Ground, *, only_read: bool) -> Begun:
    models, found = {}, []
    for name in ("siblings", "convnet"):
        model, record = ground.folder / f"{name}.onnx", ground.folder / f"{name}.json"
        model.write_bytes(MODELS[name]().SerializeToString(deterministic=True))
        result = taso_py.optimize(model, race=False, cache=ground.folder / "cache.sqlite").save(
            ground.folder / "r.onnx", force=True
        )
        result.save_decisions(record)
        found.append(record.read_bytes())
        models[document.read_decisions(record).original.sha256] = model

    def read(path: Path) -> None:
        decisions = document.read_decisions(path)
        decisions.to_json()
        if not only_read:
            taso_py.apply(models.get(decisions.original.sha256, model), path, partial=len(decisions.steps) % 2 == 0)

    return Begun(found, read)


# ---- everything else -------------------------------------------------------------------------------------------------


def _command(*arguments: str) -> None:
    """One command of `superopt` in this process; what it raises is raised."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        spelling_as_command_line(),
        superopt.make_context("superopt", list(arguments)) as context,
    ):
        superopt.invoke(context)


def _settings(_: Ground) -> Begun:
    return Begun(seeds.settings(), lambda path: _command("config", "--config", str(path)))


def _cache(ground: Ground) -> Begun:
    def read(path: Path) -> None:
        _command("cache", "show", "--cache", str(path))
        with Cache(path) as cache:
            for one in cache.get_many([f"key{k}" for k in range(9)]).values():
                math.fsum((one.before, one.after, one.noise, one.samples, one.created))
            cache.put_many({})
            cache.export(ground.folder / "export.jsonl")
        for left in ground.folder.glob(f"{path.name}*"):
            left.unlink()

    return Begun(seeds.databases(ground.folder), read)


def _import(ground: Ground) -> Begun:
    def read(path: Path) -> None:
        with Cache(ground.folder / "into.sqlite") as cache:
            cache.import_(path)
            cache.clear()

    return Begun(seeds.exports(), read)


def _checkpoint(_: Ground) -> Begun:
    def read(path: Path) -> None:
        found = Checkpoint(path.parent)
        for look in (found.get, found.get_array):
            with contextlib.suppress(taso_py.errors.UsageError):
                look("settings")
        found.begin({"set": "small", "ops": ("Add",)}, resume=True)

    return Begun(seeds.steps(), read)


def _mutated_step(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """What a step holds is changed; most often its digest is made to fit."""
    content = texts.mutated_json(data.partition(b"\n")[2], random, others)
    return seeds.step(content) if random.random() < 0.8 else texts.broken_bytes(data, random)


def _array(_: Ground) -> Begun:
    return Begun(seeds.arrays(), lambda path: load_arrays({"x": path}))


def _bytes(data: bytes, random: Random, _: Sequence[bytes]) -> bytes:
    return texts.broken_bytes(data, random)


TARGETS = {
    target.name: target
    for target in (
        Target("model", _model, protos.mutated, "model.onnx", share=5),
        Target("inspect", _inspected, protos.mutated, "model.onnx", share=3),
        Target("optimize", _optimised, protos.mutated, "model.onnx", share=6, patience_s=60, memory=None),
        Target("rules", _rules, texts.mutated_text, "mine.rules", share=3),
        Target("used-rules", _used_rules, texts.mutated_text, "mine.rules", share=2, patience_s=60, memory=None),
        Target("lock", _lock, _mutated_lock),
        Target("substitutions", _substitutions, texts.mutated_json, "rules.json"),
        Target("certificate", partial(_certificate, only_read=True), _mutated_certificate),
        Target("certify", partial(_certificate, only_read=False), _mutated_certificate, share=2),
        Target("decisions", partial(_decisions, only_read=True), texts.mutated_json),
        Target("apply", partial(_decisions, only_read=False), texts.mutated_json, share=2, patience_s=30, memory=None),
        Target("settings", _settings, texts.mutated_text, "superopt.toml"),
        Target("cache", _cache, _bytes, "regions.sqlite"),
        Target("import", _import, texts.mutated_json),
        Target("checkpoint", _checkpoint, _mutated_step, "settings.step", share=0.5),
        Target("array", _array, _bytes, "x.npy", share=0.5),
    )
}
