"""A look at a wall clock is found wherever it stands; clocks that only go forward are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.audit.clocks import LISTED, looks, main
from tests.conftest import ROOT

WALL = {
    "a call": "import time\ndef f():\n    return time.time()\n",
    "handed on": "import time\nclock = time.time_ns\n",
    "a name of its own": "from time import time as monotonic\n",
    "a date": "from datetime import UTC, datetime\ndef f():\n    return datetime.now(UTC)\n",
    "in full": "import datetime\nx = datetime.datetime.now()\n",
    "in a method": "import datetime\nclass A:\n    def f(self):\n        return datetime.date.today()\n",
}


@pytest.mark.parametrize("text", WALL.values(), ids=WALL)
def test_a_wall_clock_is_found(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "late.py"
    file.write_text(text)
    assert main([str(tmp_path)]) == 1
    assert f"{file}:" in capsys.readouterr().out


def test_what_only_goes_forward_is_none(tmp_path: Path) -> None:
    file = tmp_path / "early.py"
    file.write_text("import time\nfrom time import monotonic\na = time.monotonic() + time.perf_counter()\n")
    assert main([str(file)]) == 0


def test_every_listed_place_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in dict(LISTED):
        with monkeypatch.context() as patch:
            patch.setattr("scripts.audit.clocks.LISTED", {k: v for k, v in LISTED.items() if k != place})
            assert list(looks(ROOT / "taso_py" / place[0], place[0])), place
