"""Each function of `taso_py.api` does what its command does, and neither prints nor exits."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import taso_py
from scripts.bench.networks import nasrnn
from taso_py import api, errors, options
from taso_py.cli import main
from taso_py.options.field import OptionRecord, declared
from taso_py.options.spelling import spelling_as_command_line
from taso_py.progress import SilentProgress
from taso_py.report.comparison import comparison_json
from taso_py.report.eps import offers_json
from taso_py.report.rules import rule_json, rules_json
from taso_py.stop import StopFlag
from tests.cli.test_cli_options import COMMANDS
from tests.conftest import ROOT, tiny_network
from tests.helpers.judging import DOUBLE, FALSE

MEASURED = re.compile(r"(_s|_ms|seconds|sha256)$|^(speedup|output|runs)$")
"""Fields of a JSON object that differ from run to run, or between a function and its command."""


def settled(text: str) -> Any:
    """A JSON text without what is measured."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: kept(v) for k, v in value.items() if not MEASURED.search(k)}
        return [kept(v) for v in value] if isinstance(value, list) else value

    return kept(json.loads(text))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models and rules in which commands run, and a cache of its own."""
    other = tiny_network()
    other.graph.initializer[0].raw_data = bytes(len(other.graph.initializer[0].raw_data))
    onnx.save(tiny_network(), tmp_path / "a.onnx")
    onnx.save(other, tmp_path / "b.onnx")
    (tmp_path / "own.rules").write_text(DOUBLE + "rule negative: Neg(Neg(x)) => x\n")
    (tmp_path / "false.rules").write_text(FALSE)
    (tmp_path / "goal.rules").write_text("rule four: Neg(Neg(Neg(Neg(x)))) => x\n" + FALSE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_CACHE", str(tmp_path / "cache.sqlite"))
    return tmp_path


@dataclass(frozen=True)
class Twin:
    """A call, and the command line that does the same."""

    call: Callable[[], str]
    arguments: str
    code: int = 0


def certified() -> str:
    """What `superopt certify --json` says, as far as the function knows it."""
    result = taso_py.optimize("a.onnx", race=False).save("o.onnx", force=True)
    result.save_certificate("c.json", force=True)
    found = taso_py.certify("a.onnx", "o.onnx", "c.json", seed=3)
    return json.dumps({"steps": found.steps, "weights": found.weights, "inputs": found.inputs})


TWINS = {
    "optimize": Twin(lambda: taso_py.optimize("a.onnx", race=False).to_json(), "optimize a.onnx --no-race --dry-run"),
    "optimize, other options": Twin(
        lambda: taso_py.optimize(Path("a.onnx"), options.Options(race=False), rules=[], seed=2).to_json(),
        "optimize a.onnx --no-race --dry-run --rules none --seed 2",
    ),
    "certify": Twin(certified, "certify a.onnx o.onnx c.json --seed 3"),
    "check": Twin(
        lambda: comparison_json(Path("a.onnx"), Path("a.onnx"), api.check("a.onnx", "a.onnx", threads=1)),
        "check a.onnx a.onnx --threads 1",
    ),
    "check, different models": Twin(
        lambda: comparison_json(Path("a.onnx"), Path("b.onnx"), api.check("a.onnx", "b.onnx", seed=3)),
        "check a.onnx b.onnx --seed 3",
        code=1,
    ),
    "bench": Twin(
        lambda: taso_py.bench(["a.onnx", "b.onnx"], rounds=2, block_s=0.01, threads=1).to_json(),
        "bench a.onnx b.onnx --rounds 2 --block 0.01 --threads 1",
    ),
    "diff": Twin(lambda: api.diff("a.onnx", "b.onnx").to_json(), "diff a.onnx b.onnx"),
    "eps": Twin(lambda: offers_json(taso_py.eps(ep_python=["no/python"])), "eps --ep-python no/python"),
    "inspect": Twin(lambda: taso_py.inspect("a.onnx").to_json(), "inspect a.onnx"),
    "verify": Twin(lambda: taso_py.verify(["own.rules"], jobs=1).to_json(), "verify own.rules --jobs 1"),
    "verify, a false law": Twin(lambda: taso_py.verify(["false.rules"]).to_json(), "verify false.rules", code=1),
    "generate": Twin(
        lambda: api.generate(set_name="taso", ops=["relu"], max_operators=2, workers=1).to_json(),
        "generate --set taso --ops relu --max-operators 2 --workers 1",
    ),
    "rules list": Twin(lambda: rules_json(api.list_rules(rules=["own.rules"])), "rules list --rules own.rules"),
    "rules show": Twin(
        lambda: rule_json(api.find_rule("double", rules=["own.rules"]), None), "rules show double --rules own.rules"
    ),
    "rules derive": Twin(
        lambda: taso_py.derive(["goal.rules"], rules=["own.rules"]).to_json(),
        "rules derive --goal goal.rules --from own.rules",
        code=1,
    ),
    "rules rank": Twin(
        lambda: taso_py.rank(["a.onnx"], rules=[], time_budget_s=5).to_json(),
        "rules rank a.onnx --rules none --time-budget 5",
    ),
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_a_function_finds_what_its_command_finds_and_prints_nothing(
    twin: Twin, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    known = {path.name for path in place.iterdir()}
    by_function = settled(twin.call())
    assert capfd.readouterr() == ("", "")
    written = {path.name for path in place.iterdir()} - known
    assert written <= {"cache.sqlite", "proofs.sqlite", "o.onnx", "c.json"}
    assert main([*twin.arguments.split(), "--json"]) == twin.code
    by_command = settled(capfd.readouterr().out)
    assert by_function
    if "certify" in twin.arguments:
        assert by_function == {name: by_command[name] for name in by_function}
    else:
        assert by_function == by_command


def test_the_cache_is_opened_where_the_command_looks(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with api.open_cache(cache="cache.sqlite") as cache:
        stats = cache.show()
    assert main(["cache", "show", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["entries"] == stats.entries
    assert Path(told["path"]).samefile(stats.path or "")


FAILURES: dict[str, tuple[Callable[[], Any], str, type[errors.SuperoptError]]] = {
    "no model": (lambda: taso_py.inspect("no.onnx"), "inspect no.onnx", errors.ModelError),
    "no model to check": (lambda: api.check("a.onnx", "no.onnx"), "check a.onnx no.onnx", errors.ModelError),
    "no model to time": (lambda: taso_py.bench(["no.onnx"]), "bench no.onnx", errors.ModelError),
    "no model to rank": (lambda: taso_py.rank(["no.onnx"]), "rules rank no.onnx", errors.ModelError),
    "no model to optimise": (lambda: taso_py.optimize("no.onnx"), "optimize no.onnx", errors.ModelError),
    "no such input": (
        lambda: taso_py.inspect("a.onnx", shapes={"q": 1}),
        "inspect a.onnx --shape q=1",
        errors.UsageError,
    ),
    "no model to compare": (lambda: api.diff("a.onnx", "no.onnx"), "diff a.onnx no.onnx", errors.ModelError),
    "no such rule": (lambda: api.find_rule("dubble"), "rules show dubble", errors.UsageError),
    "no such rule to verify": (
        lambda: taso_py.verify(["own.rules"], only=["dubble"]),
        "verify own.rules --only dubble",
        errors.UsageError,
    ),
    "no such file": (lambda: taso_py.verify(["no.rules"]), "verify no.rules", errors.RuleError),
    "no such set": (lambda: api.generate(set_name="nope"), "generate --set nope", errors.UsageError),
    "no checkpoint": (lambda: api.generate(resume=True), "generate --resume", errors.UsageError),
    "anew and update": (lambda: taso_py.verify(anew=True, update=True), "verify --anew --update", errors.UsageError),
    "no goals in it": (
        lambda: taso_py.derive(["no.json"]),
        "rules derive --goal no.json",
        errors.UsageError,
    ),
    "no certificate": (
        lambda: taso_py.certify("a.onnx", "a.onnx", "no.json"),
        "certify a.onnx a.onnx no.json",
        errors.UsageError,
    ),
    "no such provider": (
        lambda: api.check("a.onnx", "a.onnx", ep="nonsense"),
        "check a.onnx a.onnx --ep nonsense",
        errors.RuntimeMissingError,
    ),
    "no proof": (
        lambda: api.proof_of(api.find_rule("wrong", rules=["false.rules"]).rule),
        "rules show wrong --rules false.rules --obligations",
        errors.UnprovedError,
    ),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("call", "arguments", "kind"), FAILURES.values(), ids=FAILURES)
def test_a_function_raises_what_its_command_says(
    call: Callable[[], Any], arguments: str, kind: type[errors.SuperoptError], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert "--" not in str(caught.value)
    with spelling_as_command_line(), pytest.raises(kind) as told:
        call()
    assert capfd.readouterr() == ("", "")
    assert main(arguments.split()) == kind.exit_code
    assert capfd.readouterr() == ("", f"superopt: error: {told.value}\n")


@pytest.mark.usefixtures("place")
def test_findings_become_errors_on_demand() -> None:
    with pytest.raises(errors.UnprovedError, match="wrong"):
        taso_py.verify(["false.rules"]).require_expected()
    derivation = taso_py.derive(["goal.rules"], rules=["own.rules"])
    assert derivation.missing == ("wrong",)
    with pytest.raises(errors.UnprovedError, match="wrong"):
        derivation.require_all()


def test_models_may_be_in_memory(place: Path) -> None:
    proto = onnx.load(place / "a.onnx")
    assert api.check(proto, place / "a.onnx", threads=1).passed
    assert taso_py.bench([proto, "b.onnx"], rounds=2, block_s=0.01).models == ("model", "b.onnx")
    by_file, by_proto = taso_py.inspect("a.onnx"), taso_py.inspect(proto)
    assert (by_proto.flops, by_proto.operators, by_proto.input) == (by_file.flops, by_file.operators, None)


def test_rules_are_saved_on_demand(place: Path) -> None:
    found = api.generate(set_name="taso", ops=["relu"], max_operators=1, workers=1)
    assert found.output is None
    assert found.save("g.rules").output == Path("g.rules")
    assert (place / "g.rules").read_text() == found.rules_text()
    with pytest.raises(errors.OutputError, match="exists already"):
        found.save("g.rules")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: taso_py.optimize(3),
            "model=3: must be a file name, an onnx.ModelProto, an onnx_ir.Model, or the bytes",
        ),
        (lambda: api.check("a.onnx", None), "model=None: must be a file name"),
        (lambda: taso_py.bench("a.onnx"), "models='a.onnx': must be a list"),
        (lambda: taso_py.bench([]), "models=[]: must name at least one"),
        (lambda: taso_py.bench(["a.onnx"], rounds=1), "rounds=1: must be at least 2"),
        (lambda: taso_py.bench(["a.onnx"], block_s=float("nan")), "block_s=nan: must be a finite number"),
        (lambda: taso_py.rank("a.onnx"), "models='a.onnx': must be a list"),
        (lambda: taso_py.rank([3]), "model=3: must be a file name"),
        (
            lambda: taso_py.optimize("a.onnx", progress=3),
            "progress=3: must be a function of one taso_py.Progress",
        ),
        (lambda: taso_py.optimize("a.onnx", progress=SilentProgress), "progress=<class"),
        (lambda: taso_py.optimize("a.onnx", progress=print, shapes={"x": "1,3"}), "shapes={'x': '1,3'}: must be"),
        (lambda: taso_py.rank(["a.onnx"], seed=1), "there is no option 'seed'"),
        (lambda: taso_py.verify("own.rules"), "files='own.rules': must be a list"),
        (lambda: taso_py.verify([b"own.rules"]), "files=b'own.rules': must be file names"),
        (lambda: taso_py.verify(["own.rules"], update=True), "update=True puts rules of the library on record"),
        (lambda: taso_py.verify(jobs=0), "jobs=0: must be at least 1"),
        (lambda: taso_py.derive([]), "goals=[]: must name at least one"),
        (lambda: taso_py.derive("goal.rules"), "goals='goal.rules': must be a list"),
        (lambda: taso_py.derive(["goal.rules"], states=0), "states=0: must be at least 1"),
        (lambda: taso_py.certify("a.onnx", "a.onnx", 3), "certificate=3: must be file names"),
        (
            lambda: taso_py.certify("a.onnx", "a.onnx", "c.json", freeze_initializers=1),
            "freeze_initializers=1: must be",
        ),
        (lambda: taso_py.inspect("a.onnx", options.Options), "options=<class"),
        (lambda: taso_py.inspect("a.onnx", alpha=1), "there is no option 'alpha'"),
        (lambda: api.generate(max_operators=7), "max_operators=7: must be at least 1 and at most 6"),
        (lambda: api.generate(executor="threads"), "executor='threads': must be one of 'processes', 'ray'"),
        (lambda: api.generate(ops="MatMul"), "ops='MatMul': must be a list"),
        (lambda: api.list_rules(rules="own.rules"), "rules='own.rules': must be a list"),
        (lambda: api.open_cache(cache=3), "cache=3: must be a file name, or None"),
    ],
)
@pytest.mark.usefixtures("place")
def test_wrong_arguments_are_usage_errors_of_one_line(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(errors.UsageError) as caught:
        call()
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_flag_that_is_set_later_ends_the_search() -> None:
    stop = StopFlag()

    class Stopping(SilentProgress):
        def phase(self, name: str, total: int | None = None) -> None:
            if name == "search":
                stop.set()

    result = taso_py.optimize(nasrnn(steps=2, hidden=16), stop=stop, progress=Stopping(), time_budget_s=60)
    assert result.stop_reason == "interrupted"


@pytest.mark.usefixtures("place")
def test_arrays_are_read_from_files() -> None:
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    assert api.check("a.onnx", "a.onnx", inputs={"x": "x.npy"}).passed
    with pytest.raises(errors.UsageError, match=r"inputs\[.x.\]=no\.npy"):
        api.check("a.onnx", "a.onnx", inputs={"x": "no.npy"})


# ---- docs/api.md -----------------------------------------------------------------------------------------------------


def rows() -> Iterator[Sequence[str]]:
    """The rows of the table of commands."""
    for line in (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `superopt "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_every_command_with_its_function_options_and_result() -> None:
    commands, functions = set(), set()
    for command, calls, record, results in rows():
        words = command.strip("`").split()[1:]
        commands.add(" ".join(word for word in words if word.islower()))
        names = re.findall(r"`(\w+)\(", calls)
        returned = re.findall(r"`([^`]+)`", results)
        functions |= set(names)
        for name, result in zip(names, returned, strict=True):
            function = getattr(api, name)
            assert function.__annotations__["return"] == result
            if name != "proof_of":
                assert function.__annotations__["options"] == f"{record.strip('`')} | None"
            required = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
            assert (
                f"`{name}({', '.join(required[:-1] if name != 'proof_of' else required)})`" in calls or name == "verify"
            )
    assert functions == set(api.__all__)
    of_the_command_line = {"config", "completion", "schema"}
    whole = {name for name in COMMANDS if not name.startswith("cache ")} - of_the_command_line
    assert commands == whole | {"cache"}


def test_what_is_called_otherwise_on_the_command_line_is_listed() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for kind in {inspect.get_annotations(getattr(api, name)).get("options") for name in api.__all__} - {None}:
        record: type[OptionRecord] = getattr(options, kind.split()[0])
        for one in declared(record):
            if one.flag.name != f"--{one.name.replace('_', '-')}":
                assert f"`{one.name}`" in text or f"`{one.name}` of" in text
                assert f"`{one.flag.name}`" in text


def test_no_name_of_the_package_is_both_a_function_and_a_package() -> None:
    for name in ("check", "generate"):
        assert inspect.ismodule(getattr(taso_py, name))
        assert name not in taso_py.__all__
    for name in set(taso_py.__all__) & set(api.__all__):
        assert getattr(taso_py, name) is getattr(api, name)
        assert not (ROOT / "taso_py" / name).exists()
