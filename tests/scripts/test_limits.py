"""What is too large is found, and what is just small enough is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.audit.limits import FILE_LINES, FUNCTION_LINES, POSITIONAL, main, too_large


def function(lines: int) -> str:
    return "def long() -> None:\n" + "    pass\n" * (lines - 1)


def dataclass(fields: int, *, decorator: str = "@dataclass(frozen=True)", first: str = "") -> str:
    return f"{decorator}\nclass Wide:\n{first}" + "".join(f"    f{k}: int\n" for k in range(fields))


LARGE = {
    "a file": "pass\n" * (FILE_LINES + 1),
    "a function": function(FUNCTION_LINES + 1),
    "a method": "class Some:\n" + "".join(f"    {line}\n" for line in function(FUNCTION_LINES + 1).splitlines()),
    "a function in another one": "async " + function(2) + "    def inner():\n" + "        pass\n" * FUNCTION_LINES,
    "a dataclass": dataclass(POSITIONAL + 1),
    "a bare decorator": dataclass(POSITIONAL + 1, decorator="@dataclass"),
}
SMALL = {
    "a file": "pass\n" * FILE_LINES,
    "a function": function(FUNCTION_LINES),
    "a dataclass": dataclass(POSITIONAL),
    "by keyword": dataclass(POSITIONAL + 1, decorator="@dataclass(slots=True, kw_only=True)"),
    "by keyword from one on": dataclass(POSITIONAL + 1, first="    _: KW_ONLY\n"),
    "no field": dataclass(POSITIONAL, first="    a: ClassVar[int] = 1\n    b: int = field(init=False)\n"),
    "no dataclass": dataclass(POSITIONAL + 1, decorator="@final"),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_an_offender_is_found(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large.py"
    file.write_text(text)
    assert list(too_large(file))
    assert main([str(tmp_path)]) == 1
    assert f"{file}:" in capsys.readouterr().out


@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL)
def test_what_keeps_its_limit_is_not(text: str, tmp_path: Path) -> None:
    file = tmp_path / "small.py"
    file.write_text(text)
    assert main([str(file)]) == 0
