"""`superopt` as a pass of Microsoft Olive; docs/integrations.md shows a workflow that uses it.

Olive knows a pass by its package configuration: `taso_py.integrations.olive_package` makes one with this pass in it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.pass_config import PassConfigParam, PassParamDefault
from pydantic import model_validator

from taso_py import api
from taso_py.errors import SuperoptError, UsageError
from taso_py.options import Options, chosen
from taso_py.options.field import declared
from taso_py.report.content import sentence
from taso_py.result import Result

__all__ = ["SuperOpt"]

# Olive gives level and format to the loggers below its own alone.
_logger = logging.getLogger("olive.superopt")

_CERTIFICATE = "certificate"
_FINDING = (
    *("improved", "speedup", "speedup_low", "speedup_high", "max_rel_error", "reason"),
    *("ep", "threads", "cpu", "gpu", "ort_version"),
)
"""The fields of a result that the model's attribute has."""


class SuperOpt(Pass):  # type: ignore[misc]  # Olive ships no type information
    """Find a faster model that computes the same function, check it and measure it.

    Its parameters are the fields of `taso_py.Options`, each with its default, and ``certificate``. Without ``ep`` the
    execution provider is that of Olive's accelerator. What was found is in the attribute ``superopt`` of the model.
    """

    @staticmethod
    def is_accelerator_agnostic(accelerator_spec: Any) -> bool:  # noqa: ARG004 - Olive's interface
        """False: a result of one accelerator says nothing of another, so Olive must not reuse it."""
        return False

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, PassConfigParam]:  # noqa: ARG003 - the same
        """All None, which stands for the default: `taso_py.options` alone declares defaults, types and ranges."""
        parameters = {
            one.name: PassConfigParam(type_=Any, default_value=None, description=one.flag.help)
            for one in declared(Options)
        }
        words = "Write every step to the result beside the model, for superopt certify."
        return parameters | {_CERTIFICATE: PassConfigParam(type_=bool, default_value=False, description=words)}

    @classmethod
    def _validators(cls) -> dict[str, Any]:
        return {"validate_options": model_validator(mode="before")(_require_meant)}

    def _run_for_config(self, model: ONNXModelHandler, config: Any, output_model_path: str) -> ONNXModelHandler:
        if not isinstance(model, ONNXModelHandler):
            raise TypeError(f"superopt rewrites ONNX models, not {type(model).__name__}: put OnnxConversion first")
        fields = _fields(config.model_dump())
        if provider := self.accelerator_spec.execution_provider:
            fields.setdefault("ep", str(provider))
        target = Path(resolve_onnx_path(output_model_path, Path(model.model_path).name))
        try:
            found = api.optimize(model.model_path, Options(**fields)).save(target, force=True)
            certificate = target.with_suffix(".certificate.json") if config.certificate and found.changed else None
            if certificate is not None:
                found.save_certificate(certificate, force=True)
        except SuperoptError as error:
            # Of an OlivePassError Olive makes a run without a model, keeps that in its cache, and exits with 0.
            raise ValueError(str(error)) from error
        for note in found.notes:
            _logger.warning("%s", note)
        _logger.info("%s", sentence(found))
        return _handler(model, found, target, certificate)


def _require_meant(cls: type, values: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - pydantic goes by its name
    """Refuse names that no option has (Olive would ignore them) and values that no option can hold."""
    try:
        chosen(Options, None, _fields(values))
    except UsageError as error:
        raise ValueError(str(error)) from error
    return values


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration of the pass says of `Options`, without what it leaves to the default."""
    left_out = (None, PassParamDefault.DEFAULT_VALUE, PassParamDefault.DEFAULT_VALUE.value)
    return {name: value for name, value in values.items() if name != _CERTIFICATE and value not in left_out}


def _handler(model: ONNXModelHandler, found: Result, target: Path, certificate: Path | None) -> ONNXModelHandler:
    """The written model as Olive passes it on: settings of the one that came in, the finding as an attribute."""
    kept, every = model.model_attributes or {}, found.to_dict()
    finding = {name: every[name] for name in _FINDING}
    attributes = kept | {"superopt": finding | {"rules": [rule.name for rule in found.rules]}}
    handler = ONNXModelHandler(
        model_path=target,
        inference_settings=model.inference_settings,
        use_ort_extensions=model.use_ort_extensions,
        model_attributes=attributes,
    )
    beside = [path for path in target.parent.iterdir() if path not in (target, certificate)]
    if beside or certificate is not None:
        handler.change_model_path_to_dir()
    if certificate is not None:
        attributes["additional_files"] = sorted([*kept.get("additional_files", []), str(certificate)])
    return handler
