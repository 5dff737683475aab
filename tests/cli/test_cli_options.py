"""Options: the text forms parse to what they say, and what cannot be meant is refused in one line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from taso_py.api import OptionFields, options_from
from taso_py.errors import UsageError
from taso_py.options import (
    Delivery,
    Options,
    parse_ep_options,
    parse_inputs,
    parse_rules,
    parse_shapes,
    parse_workload,
)


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
        (parse_inputs, ["x=missing.npy"], "no file missing.npy"),
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


@pytest.mark.parametrize(
    ("field", "value", "option"),
    [
        ("ep", "", "--ep"),
        ("threads", 0, "--threads"),
        ("ort_level", "max", "--ort-level"),
        ("cost", "guess", "--cost"),
        ("objective", "size", "--objective"),
        ("apply", "none", "--apply"),
        ("alpha", 0.99, "--alpha"),
        ("alpha", float("nan"), "--alpha"),
        ("time_budget_s", -1.0, "--time-budget"),
        ("time_budget_s", float("inf"), "--time-budget"),
        ("min_gain", -0.1, "--min-gain"),
        ("min_gain", 1.0, "--min-gain"),
        ("seed", -1, "--seed"),
    ],
)
def test_options_refuse_values_that_cannot_be_meant(field: str, value: Any, option: str) -> None:
    with pytest.raises(UsageError, match=option):
        Options(**{field: value})


def test_options_refuse_contradictions() -> None:
    with pytest.raises(UsageError, match="fold_conv"):
        Options(only=("fold_conv",), disable=("fold_conv",))
    with pytest.raises(UsageError, match="--workload"):
        Options(shapes={"x": (1,)}, workloads=({"x": (2,)},))


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"min_speedup": 0.0}, "--min-speedup"),
        ({"min_speedup": float("nan")}, "--min-speedup"),
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


def test_the_api_offers_every_option_by_its_name() -> None:
    assert set(get_type_hints(OptionFields)) == {field.name for field in dataclasses.fields(Options)}


def test_the_api_takes_plain_values() -> None:
    options = options_from({"shapes": {"batch": 4, "x": [1, 3]}, "rules": ["a.rules"], "cache": "c.sqlite"})
    assert dict(options.shapes) == {"batch": (4,), "x": (1, 3)}
    assert options.rules == (Path("a.rules"),)
    assert options.cache == Path("c.sqlite")
    assert options_from({}) == Options()
