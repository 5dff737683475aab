"""The worker's side of `superopt eps`: which providers this ONNX Runtime has, plugins included."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import onnxruntime as ort

from taso_py.backend.protocol import Device, Offer

_PLUGIN = "onnxruntime-ep-"
"""How distributions of plugin providers are called."""


def load_library(path: str) -> None:
    """Load a library of providers, under the name of its file; raises whatever ONNX Runtime does."""
    if not hasattr(ort, "register_execution_provider_library"):
        raise RuntimeError(f"ONNX Runtime {ort.__version__} knows no plugin libraries: install 1.23 or newer")
    ort.register_execution_provider_library(Path(path).stem, path)


def devices_of(provider: str) -> list[Any]:
    """The devices that a provider offers, as ONNX Runtime has them."""
    if not hasattr(ort, "get_ep_devices"):
        return []
    return [one for one in ort.get_ep_devices() if one.ep_name == provider]


def offer() -> Offer:
    """What is built in, the devices of whatever is loaded, and the plugins that could be."""
    found, broken = _installed_plugins()
    devices = tuple(map(_device, ort.get_ep_devices())) if hasattr(ort, "get_ep_devices") else ()
    return Offer(tuple(ort.get_available_providers()), devices, tuple(found), tuple(broken))


def _device(one: Any) -> Device:
    metadata_ = dict(one.ep_metadata)
    vendor = str(one.device.vendor or one.ep_vendor or "")
    return Device(str(one.ep_name), str(one.device.type).rpartition(".")[2], vendor, metadata_.get("version"))


def _installed_plugins() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(library, provider) of the packages that bring one, which say both by convention; and those that do not."""
    from importlib import metadata  # takes longer than all the rest of this module, and workers hardly ever need it

    found, broken = [], []
    for one in metadata.distributions():
        name = str(one.metadata["Name"] or "").lower()
        if not name.startswith(_PLUGIN):
            continue
        try:
            package = import_module(name.replace("-", "_"))
            found.append((str(package.get_library_path()), str(package.get_ep_name())))
        except Exception as error:  # noqa: BLE001 - somebody else's package
            broken.append((name, " ".join(str(error).split())[:300] or type(error).__name__))
    return found, broken
