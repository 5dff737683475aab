"""Options: the text forms parse to what they say, and what cannot be meant is refused in one line."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np
import pytest

from taso_py import api, options
from taso_py.cli import main, superopt
from taso_py.cli.command import Command
from taso_py.cli.shared import FieldOption, takes
from taso_py.errors import UsageError
from taso_py.options import LONG_S, BenchOptions, CheckOptions, Delivery, Options
from taso_py.options.field import Declared, OptionRecord, chosen, declared
from taso_py.options.text import parse_ep_options, parse_inputs, parse_rules, parse_shapes, parse_workload
from tests.conftest import cli_environment


def test_shapes_of_inputs_and_symbols() -> None:
    assert dict(parse_shapes(["x=1,3,224,224", "batch=1"])) == {"x": (1, 3, 224, 224), "batch": (1,)}


def test_a_tensor_name_may_hold_equals_commas_and_colons() -> None:
    assert dict(parse_shapes(["a=b,c:0=7,8"])) == {"a=b,c:0": (7, 8)}


def test_workload_holds_several_inputs() -> None:
    assert dict(parse_workload("a=1,128; b=1,64;")) == {"a": (1, 128), "b": (1, 64)}


def test_ep_option_values_may_hold_equals() -> None:
    assert dict(parse_ep_options(["load_config={a=b}", "id=0"])) == {"load_config": "{a=b}", "id": "0"}


def test_inputs_are_npy_files_that_exist(tmp_path: Path) -> None:
    (tmp_path / "ids.npy").touch()
    assert dict(parse_inputs([f"ids={tmp_path / 'ids.npy'}"])) == {"ids": tmp_path / "ids.npy"}


def test_rules_default_none_and_files(tmp_path: Path) -> None:
    file = tmp_path / "my.rules"
    file.touch()
    assert parse_rules([]) is None
    assert parse_rules(["none"]) == ()
    assert parse_rules([str(file)]) == (file,)


@pytest.mark.parametrize(
    ("parse", "texts", "named"),
    [
        (parse_shapes, ["x"], "'x'"),
        (parse_shapes, ["x="], "'x='"),
        (parse_shapes, ["=1,2"], "'=1,2'"),
        (parse_shapes, ["x=1,a"], "'x=1,a'"),
        (parse_shapes, ["x=1,-2"], "'x=1,-2'"),
        (parse_shapes, ["x=1,,2"], "'x=1,,2'"),
        (parse_shapes, ["x=1", "x=2"], "'x' twice"),
        (parse_workload, " ; ", "names no input"),
        (parse_workload, "a=1;a=2", "'a' twice"),
        (parse_ep_options, ["device_id"], "'device_id'"),
        (parse_ep_options, ["a=1", "a=2"], "'a' twice"),
        (parse_inputs, ["x=missing.npy"], "missing.npy: there is no such file"),
        (parse_inputs, ["x=data.txt"], ".npy"),
        (parse_rules, ["missing.rules"], "missing.rules"),
        (parse_rules, ["none", "some.rules"], "none"),
    ],
)
def test_malformed_texts_are_refused(parse: Any, texts: Any, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(texts)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_input_named_twice_is_refused(tmp_path: Path) -> None:
    text = f"x={tmp_path / 'x.npy'}"
    (tmp_path / "x.npy").touch()
    with pytest.raises(UsageError, match="'x' twice"):
        parse_inputs([text, text])


OUT_OF_RANGE = [
    ("threads", 0, "--threads"),
    ("alpha", 0.99, "--alpha"),
    ("alpha", float("nan"), "--alpha"),
    ("time_budget_s", -1.0, "--time-budget"),
    ("time_budget_s", 0.0, "--time-budget"),
    ("time_budget_s", float("inf"), "--time-budget"),
    ("min_gain", -0.1, "--min-gain"),
    ("min_gain", 1.0, "--min-gain"),
    ("seed", -1, "--seed"),
    ("ort_level", "max", "--ort-level"),
    ("cost", "guess", "--cost"),
    ("objective", "size", "--objective"),
    ("apply", "none", "--apply"),
]


@pytest.mark.parametrize(("field", "value", "option"), [*OUT_OF_RANGE, ("ep", "", "--ep")])
def test_options_refuse_values_that_cannot_be_meant(field: str, value: Any, option: str) -> None:
    with pytest.raises(UsageError, match="^ep is empty" if field == "ep" else rf"^{field}={value!r}: must be "):
        Options(**{field: value})


@pytest.mark.parametrize(("field", "value", "option"), [*OUT_OF_RANGE, ("ep", "", "--ep")])
def test_the_command_line_refuses_them_in_its_own_words(
    field: str, value: Any, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", "model.onnx", option, str(value)]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert str(value) in error
    assert error.count("\n") == 1


def test_options_refuse_contradictions() -> None:
    with pytest.raises(UsageError, match="fold_conv"):
        Options(only=("fold_conv",), disable=("fold_conv",))
    with pytest.raises(UsageError, match="workloads"):
        Options(shapes={"x": (1,)}, workloads=({"x": (2,)},))


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"min_speedup": 0.0}, "min_speedup=0.0: must be more than 0"),
        ({"min_speedup": float("nan")}, "min_speedup=nan: must be a finite number"),
        ({"dry_run": True, "certificate": "c.json"}, "--dry-run"),
        ({"report": Path("report.pdf")}, "report.pdf"),
        ({"quiet": True, "verbosity": 1}, "-q and -v"),
    ],
)
def test_delivery_refuses_values_that_cannot_be_meant(fields: dict[str, Any], option: str) -> None:
    with pytest.raises(UsageError, match=option):
        Delivery(**fields)


def test_a_minimum_speedup_needs_the_race() -> None:
    with pytest.raises(UsageError, match="--no-race"):
        Delivery(min_speedup=1.1).require_compatible(Options(race=False))


def test_default_target_lies_beside_the_model() -> None:
    assert Delivery().target(Path("nets/a.b.onnx")) == Path("nets/a.b.superopt.onnx")
    assert Delivery(output=Path("out.onnx")).target(Path("nets/a.onnx")) == Path("out.onnx")


# ---- what is derived from the fields ---------------------------------------------------------------------------------

COMMANDS: dict[str, click.Command] = {
    name: command
    for group, prefix in ((superopt, ""), *((g, f"{n} ") for n, g in superopt.commands.items()))
    if isinstance(group, click.Group)
    for name, command in ((prefix + inner, one) for inner, one in group.commands.items())
    if not isinstance(command, click.Group)
}
RECORDS = [
    kind
    for kind in vars(options).values()
    if isinstance(kind, type) and issubclass(kind, OptionRecord) and kind is not OptionRecord
]


def options_of(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_option_of_every_command_is_a_field(command: click.Command) -> None:
    for one in options_of(command):
        assert isinstance(one, FieldOption), one.name
        field = one.field
        assert one.name == field.name
        assert tuple(one.opts) == field.flag.spellings
        assert one.help == field.flag.help
        assert one.envvar == field.flag.environment
    flags = [flag for one in options_of(command) for flag in one.opts]
    assert len(flags) == len(set(flags))


def test_the_options_of_optimize_are_the_fields_of_its_records() -> None:
    names = [one.name for one in options_of(COMMANDS["optimize"])]
    kinds = (Options, Delivery, options.GeneralOptions)
    assert names == [field.name for kind in kinds for field in dataclasses.fields(kind)]


@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_a_record_is_an_option(kind: type[OptionRecord]) -> None:
    assert [one.name for one in declared(kind)] == [field.name for field in dataclasses.fields(kind)]
    for one in declared(kind):
        assert one.flag.help.endswith((".", "%.")), one.name
        assert one.flag.name.startswith("--")
        assert getattr(kind(), one.name) == one.held(one.default, called=one.name) == one.default


def test_a_field_of_several_records_is_declared_in_one_class() -> None:
    """But for its help, and a comparison's longer time budget: spelling, range and default are the first's."""
    home: dict[str, Declared] = {}
    for kind in RECORDS:
        for one in declared(kind):
            if one.name in kind.__annotations__ and one.name not in {"rules", "output", "force"}:
                known = home.setdefault(one.name, one)
                same = dataclasses.replace(one.flag, help=known.flag.help, variable=known.flag.variable)
                longer = one.name == "time_budget_s" and kind in (CheckOptions, BenchOptions)
                default = LONG_S if longer else known.default
                assert (one.hint, one.default, same) == (known.hint, default, known.flag), one.name


def received(command: click.Command, kinds: dict[str, type[OptionRecord]]) -> Callable[..., dict[str, Any]]:
    """A command with the same options that gives back what its function would be called with."""

    @click.command(cls=Command)
    @takes(**kinds)
    def told(**records: Any) -> dict[str, Any]:
        return records

    assert [one.name for one in told.params] == [one.name for one in options_of(command)]
    return lambda *arguments: told.main(list(arguments), standalone_mode=False)


PAIRS: dict[str, dict[str, type[OptionRecord]]] = {
    "optimize": {"options": Options, "delivery": Delivery},
    "check": {"options": options.CheckOptions, "display": options.Display},
    "bench": {"options": options.BenchOptions, "display": options.Display},
    "inspect": {"options": options.InspectOptions, "display": options.Display},
    "verify": {"options": options.VerifyOptions, "display": options.VerifyDisplay},
    "generate": {"options": options.GenerateOptions, "delivery": options.GenerateDelivery},
    "certify": {"options": options.CertifyOptions, "display": options.Display},
    "rules list": {"options": options.RuleOptions, "display": options.Display},
    "rules show": {"options": options.RuleOptions, "shown": options.ShowOptions},
    "rules derive": {"goals": options.DeriveGoals, "options": options.DeriveOptions, "display": options.Display},
    "rules rank": {"options": options.RankOptions, "display": options.Display},
    "cache show": {"options": options.CacheOptions, "display": options.Display},
}
CHANGED = [
    (name, role, field) for name, kinds in PAIRS.items() for role, kind in kinds.items() for field in declared(kind)
]


@dataclass(frozen=True)
class Said:
    """A text for an option, and the value that it must become."""

    text: str
    value: Any


def said(field: Declared, folder: Path) -> Said:
    """A value that is not the default, as text and as the field holds it."""
    for name in ("x.npy", "my.rules"):
        (folder / name).touch()
    special = {
        "shapes": Said("n=3", {"n": (3,)}),
        "workloads": Said("n=3;x=1,2", ({"n": (3,), "x": (1, 2)},)),
        "inputs": Said(f"x={folder / 'x.npy'}", {"x": folder / "x.npy"}),
        "ep_options": Said("a=b", {"a": "b"}),
        "rules": Said(str(folder / "my.rules"), (folder / "my.rules",)),
        "ops": Said("a,b", ("a", "b")),
        "report": Said("r.json", Path("r.json")),
        "junit": Said("r.xml", Path("r.xml")),
        "min_gain": Said("0.5", 0.5),
        "error_budget": Said("rel=0.5", 0.5),
        "metric": Said("m.py:f", "m.py:f"),
        "gate": Said("min-speedup=2,max-rel-error=1e-4", {"min-speedup": 2, "max-rel-error": 1e-4}),
    }
    if field.name in special:
        return special[field.name]
    if field.kind is bool:
        return Said("1", not field.default)
    if field.kind in (int, float):
        return Said("2", 2)
    if field.kind in (str, Path):
        return Said("word", field.kind("word"))
    inner = get_args(field.kind)
    if inner[-1] is Ellipsis:
        return Said("word", (inner[0]("word"),))
    return Said(inner[-1], inner[-1])


@pytest.mark.parametrize(
    ("name", "role", "field"), CHANGED, ids=lambda x: x.name if isinstance(x, Declared) else str(x)
)
@pytest.mark.parametrize("by", ["flag", "variable"])
def test_flag_and_variable_of_every_option_reach_the_command(
    name: str, role: str, field: Declared, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = received(COMMANDS[name], PAIRS[name])
    given = said(field, tmp_path)
    budget = ["--error-budget", "rel=0.1"]
    with_it = {"resume": ["--checkpoint", "folder"], "calibration": budget, "metric": budget}
    goals = name == "rules derive" and field.name != "goals"
    further = ["--goal", "g.rules"] if goals else with_it.get(field.name, [])
    if by == "flag":
        plain = field.kind is bool or field.flag.count
        times = 2 if field.flag.count else 1
        texts = [field.flag.name] * times if plain else [field.flag.name, given.text]
        found = command(*texts, *further)
    elif field.flag.environment is None:
        return
    else:
        monkeypatch.setenv(field.flag.environment, given.text)
        found = command(*further)
    assert getattr(found[role], field.name) == given.value
    assert given.value != field.default


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "rules derive"])
def test_without_options_a_command_has_the_library_s_defaults(name: str) -> None:
    assert received(COMMANDS[name], PAIRS[name])() == {role: kind() for role, kind in PAIRS[name].items()}


def test_options_are_declared_without_loading_anything_heavy() -> None:
    heavy = {"click", "numpy", "onnx", "onnx_ir", "rich", "z3", "lark", "onnxruntime"}
    program = f"import sys, taso_py.options; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], env=cli_environment(), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


# ---- Python values ---------------------------------------------------------------------------------------------------


def test_plain_values_become_what_the_fields_hold() -> None:
    found = Options(
        shapes={"batch": 4, "x": [1, 3], "y": np.zeros((2, 5)).shape},
        workloads=None,
        rules=["a.rules"],
        only=["a"],
        cache="c.sqlite",
        seed=np.int64(3),
        alpha=2,
    )
    assert dict(found.shapes) == {"batch": (4,), "x": (1, 3), "y": (2, 5)}
    assert (found.workloads, found.rules, found.only) == ((), (Path("a.rules"),), ("a",))
    assert (found.cache, found.seed, found.alpha) == (Path("c.sqlite"), 3, 2.0)
    assert isinstance(found.alpha, float)
    assert Options(workloads=[{"n": 3}]).workloads == ({"n": (3,)},)
    assert Options(shapes=None) == Options()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"threads": "2"}, "threads='2': must be a whole number, or None"),
        ({"threads": True}, "threads=True: must be a whole number, or None"),
        ({"threads": 1.5}, "threads=1.5: must be a whole number, or None"),
        ({"alpha": "1"}, "alpha='1': must be a number"),
        ({"alpha": 10**400}, "alpha=1000000000"),
        ({"race": "no"}, "race='no': must be True or False"),
        ({"race": 0}, "race=0: must be True or False"),
        ({"ep": 7}, "ep=7: must be a text"),
        ({"ort_level": 99}, "ort_level=99: must be one of 'all', 'layout', 'extended', 'basic', 'disable'"),
        ({"ort_level": ["all"]}, "ort_level=['all']: must be one of"),
        ({"only": "relu"}, "only='relu': must be a list, each a text"),
        ({"only": [1]}, "only=[1]: must be a list, each a text"),
        ({"rules": "my.rules"}, "rules='my.rules': must be a list, each a file name, or None"),
        ({"cache": 3}, "cache=3: must be a file name, or None"),
        ({"shapes": [1, 2]}, "shapes=[1, 2]: must be a mapping from names, each to a size or a list of sizes"),
        ({"shapes": {"x": "1,2"}}, "shapes={'x': '1,2'}: must be a mapping"),
        ({"shapes": {"x": [1, None]}}, "shapes={'x': [1, None]}: must be a mapping"),
        ({"shapes": {"x": True}}, "shapes={'x': True}: must be a mapping"),
        ({"shapes": {1: 2}}, "shapes={1: 2}: must be a mapping"),
        ({"shapes": {"x": -1}}, "shapes['x']=(-1,): sizes must be at least 0"),
        ({"workloads": [{"x": [2, -1]}]}, "workloads: x=(2, -1): sizes must be at least 0"),
        ({"workloads": {"x": 1}}, "workloads={'x': 1}: must be a list, each a mapping"),
        ({"inputs": {"x": [0.0]}}, "inputs={'x': [0.0]}: must be a mapping from names, each to a file name or"),
        ({"tme_budget_s": 3}, "there is no option 'tme_budget_s': did you mean 'time_budget_s'?"),
        ({"color": 3}, "there is no option 'color': there are ep, ep_options, threads"),
        ({"seed": -1, "options": "cpu"}, "options='cpu': must be Options of taso_py.options, or left out"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_value_of_another_kind_is_one_clear_error(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        api.optimize("model.onnx", **fields)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_fields_count_more_than_the_record_beside_them() -> None:
    assert chosen(Options, Options(seed=1, threads=2), {"seed": 3}) == Options(seed=3, threads=2)
    assert chosen(Options, None, {}) == Options()
    assert chosen(options.CheckOptions, Options(seed=4), {}).seed == 4
    with pytest.raises(UsageError, match="must be Options of"):
        chosen(Options, options.CheckOptions(), {})  # type: ignore[type-var]


def test_options_print_and_compare_as_plain_values() -> None:
    assert Options(shapes={"x": [1]}) == Options(shapes={"x": (1,)}) != Options(shapes={"x": (1,)}, seed=1)
    assert json.dumps({name: str(value) for name, value in vars(Options()).items()})
