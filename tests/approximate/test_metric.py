"""The user's own metric: a number, or one line that says why there is none."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest

from taso_py.approximate import metric as metrics
from taso_py.approximate.metric import Metric, MetricError
from taso_py.errors import TooLateError, UsageError

Y = {"y": np.array([[1.0, 2.0, 3.0]], dtype=np.float32)}
TOP1 = "def f(expected, found):\n    return float((expected['y'].argmax(-1) != found['y'].argmax(-1)).mean())\n"


def metric(folder: Path, text: str, name: str = "f") -> Metric:
    file = folder / "metric.py"
    file.write_text(f"import numpy as np\n{text}")
    return Metric.of(f"{file}:{name}")


def test_its_number_is_the_error(tmp_path: Path) -> None:
    found = metric(tmp_path, TOP1)
    assert found.error(Y, Y) == 0
    assert found.error(Y, {"y": Y["y"][:, ::-1]}) == 1


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        ("np.float32(0.25)", 0.25),
        ("np.array(2)", 2.0),
        ("-3", 0.0),
        ("float('nan')", math.inf),
        ("float('-inf')", math.inf),
    ],
)
def test_what_counts_as_a_number(tmp_path: Path, returned: str, error: float) -> None:
    assert metric(tmp_path, f"def f(expected, found): return {returned}").error(Y, Y) == error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(expected, found): return 'x'", "returned 'x', which is no number"),
        ("def f(expected, found): return None", "which is no number"),
        ("def f(expected, found): return True", "which is no number"),
        ("def f(expected, found): return expected['z']", "raised KeyError"),
        ("def g(): pass", "no function f"),
        ("1 / 0", "ZeroDivisionError while it was imported"),
        ("def f(: pass", "SyntaxError while it was imported"),
        ("import os\ndef f(expected, found): os._exit(3)", "process died"),
    ],
)
def test_what_gives_no_number_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MetricError, match=words) as caught:
        metric(tmp_path, text).error(Y, Y)
    assert "\n" not in str(caught.value)


def test_no_call_is_waited_for_beyond_the_time_there_is(tmp_path: Path) -> None:
    slow = metric(tmp_path, "import time\ndef f(expected, found): time.sleep(600)")
    with pytest.raises(TooLateError, match="no time is left"):
        slow.error(Y, Y, until=time.monotonic() + 1)


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CALL_S", 1.0)
    with pytest.raises(MetricError, match="longer than 1 s"):
        metric(tmp_path, "import time\ndef f(expected, found): time.sleep(600)").error(Y, Y)


def test_a_file_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        Metric.of(f"{tmp_path / 'absent.py'}:f")


def test_what_it_prints_does_no_harm(tmp_path: Path) -> None:
    assert metric(tmp_path, "def f(expected, found): print('x' * 10000); return 0.5").error(Y, Y) == 0.5
