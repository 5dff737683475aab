"""How ONNX Runtime's sessions run, and where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from taso_py.options.field import OptionRecord, Range, option, record, reworded
from taso_py.options.providers import CPU_PROVIDER, provider_name
from taso_py.options.spelling import spelled
from taso_py.options.text import demand, parse_ep_options

OrtLevel = Literal["all", "layout", "extended", "basic", "disable"]
LEVELS = get_args(OrtLevel)
MOST_THREADS = 4096
"""More than any machine has CPUs; ONNX Runtime starts as many as it is told to."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


@record
class SessionOptions(OptionRecord):
    """How ONNX Runtime's sessions run."""

    ep: str = option(
        "--ep",
        "cpu",
        "Execution provider, as superopt eps lists them; optimize: also several, as in cpu,openvino, or auto for all.",
        group="ONNX Runtime",
        completes="providers",
    )
    ep_options: Mapping[str, str] = option(
        "--ep-option",
        _NOTHING,
        "Provider option (repeatable).",
        metavar="K=V",
        parse=parse_ep_options,
        group="ONNX Runtime",
    )
    threads: int | None = option(
        "--threads",
        None,
        "Threads per session; default: the CPUs this process may use.",
        within=Range(least=1, most=MOST_THREADS),
        group="ONNX Runtime",
    )
    """None: the CPUs that this process may use."""
    ort_level: OrtLevel = option(
        "--ort-level", "all", "ONNX Runtime's own graph optimisation level.", group="ONNX Runtime"
    )
    ep_python: tuple[Path, ...] = option(
        "--ep-python",
        (),
        "Python of another environment, whose ONNX Runtime has the provider (repeatable).",
        metavar="PATH",
        group="ONNX Runtime",
        per_run=True,
    )
    """Interpreters with numpy and one ONNX Runtime: the provider runs in the first that has it; (): in our own."""
    ep_library: Path | None = option(
        "--ep-library",
        None,
        "Library of a plugin provider, to be loaded first.",
        metavar="FILE",
        group="ONNX Runtime",
        per_run=True,
    )
    """Neither this nor an interpreter is for a settings file: whoever lays one into a folder must not run code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        demand(bool(self.ep), f"{spelled('ep')} is empty: name an execution provider, for example cpu")

    @property
    def is_race(self) -> bool:
        """Whether several providers are to be raced: a list, or auto for all that are usable."""
        return "," in self.ep or self.ep.lower() == "auto"

    @property
    def is_default_session(self) -> bool:
        """Whether ONNX Runtime makes the same sessions by default, but for their threads: on our own CPU provider."""
        own = not self.ep_python and self.ep_library is None
        return own and self.provider == CPU_PROVIDER and self.ort_level == "all"

    @property
    def provider(self) -> str:
        """`ep` as ONNX Runtime names it: cpu -> CPUExecutionProvider; a full name stays as it is."""
        return provider_name(self.ep)


@record
class EpsOptions(OptionRecord):
    """The options of `eps` and `conform`."""

    ep_python: tuple[Path, ...] = reworded(
        SessionOptions, "ep_python", "Python of another environment to look into as well (repeatable)."
    )
    ep_library: Path | None = reworded(SessionOptions, "ep_library", "Library of a plugin provider to look into.")
    ep_options: Mapping[str, str] = reworded(SessionOptions, "ep_options", "Provider option for --test (repeatable).")
    threads: int | None = reworded(
        SessionOptions, "threads", "Threads per session in --test; default: the CPUs this process may use."
    )
