"""ONNX superoptimizer: proved rewrites, searched by cost, checked and measured in ONNX Runtime."""

from __future__ import annotations

from taso_py.api import certify, optimize
from taso_py.options import Options
from taso_py.result import Result, RuleReport
from taso_py.version import VERSION

__all__ = ["Options", "Result", "RuleReport", "__version__", "certify", "optimize"]

__version__ = VERSION
